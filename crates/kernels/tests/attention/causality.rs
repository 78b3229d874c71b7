//! What a row does not see never reaches it.

use std::collections::HashSet;

use medley_kernels::cpu::attention::PAGE_TOKENS;
use medley_kernels::cpu::pool::Threads;

use super::scene::{OwnedPart, Scene};

/// The scene with `garbage` in every slot of the pool that the row does not see.
fn spoiled(scene: &Scene, row: usize, garbage: f32) -> Scene {
    let parts = &scene.parts[scene.sequence[row] as usize];
    let seen: HashSet<u32> = parts
        .iter()
        .flat_map(|part| part.seen(scene.positions[row]))
        .collect();
    let mut spoiled = scene.clone();
    for slot in (0..(scene.shape.pages * PAGE_TOKENS) as u32).filter(|slot| !seen.contains(slot)) {
        for head in 0..scene.shape.kv_heads {
            spoiled.pool[scene.shape.key_range(slot, head)].fill(garbage);
            spoiled.pool[scene.shape.value_range(slot, head)].fill(garbage);
        }
    }
    spoiled
}

#[test]
fn a_row_keeps_its_bits_whatever_stands_in_slots_it_does_not_see() {
    let threads = Threads::new(2);
    for (seed, (group, head_dim)) in (200..).zip([(3, 64), (7, 64), (1, 128), (3, 20), (3, 64), (1, 6)]) {
        let scene = Scene::new(seed, 2, group, head_dim, 40);
        let clean = scene.run(&threads);
        for row in 0..scene.rows() {
            for garbage in [f32::NAN, f32::INFINITY, f32::MAX, -1e30] {
                let result = spoiled(&scene, row, garbage).run(&threads);
                let same = scene.row(row, &result) == scene.row(row, &clean);
                assert!(same, "seed {seed}: {garbage} reaches row {row}");
            }
        }
    }
}

/// Rows at every position of a sequence of 150 slots in one part.
fn prefill(list: Option<Vec<u32>>) -> Scene {
    let mut scene = Scene::new(300, 1, 3, 64, 150);
    scene.positions = (0..150).collect();
    scene.sequence.fill(0);
    scene.parts = vec![vec![OwnedPart {
        pages: vec![3, 0, 7],
        len: 150,
        from: 0,
        list,
        turn: 0,
        hidden: None,
    }]];
    scene
}

#[test]
fn a_changed_slot_changes_the_rows_from_its_position_on_and_no_other() {
    let mut shuffled: Vec<u32> = (0..150).collect();
    fastrand::Rng::with_seed(301).shuffle(&mut shuffled);
    for list in [None, Some(shuffled)] {
        let scene = prefill(list);
        let threads = Threads::new(2);
        let before = scene.run(&threads);
        for slot in [0, 1, 63, 64, 100, 149] {
            let part = &scene.parts[0][0];
            let place = part.pages[slot / PAGE_TOKENS] * PAGE_TOKENS as u32 + (slot % PAGE_TOKENS) as u32;
            let mut changed = scene.clone();
            changed.pool[scene.shape.value_range(place, 0)].fill(50.0);
            let after = changed.run(&threads);
            for row in 0..150 {
                let same = scene.row(row, &before).0 == scene.row(row, &after).0;
                assert_eq!(same, (row as u32) < part.position(slot), "row {row}, slot {slot}");
            }
        }
    }
}
