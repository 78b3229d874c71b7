//! Against the reference.

use medley_kernels::cpu::attention::{Attention, MassRow, PAGE_TOKENS, PoolShape, write_rows};
use medley_kernels::cpu::pool::Threads;
use medley_kernels::reference;

use super::scene::{Scene, random};

/// `(kv_heads, group, head_dim, rows)`
const SHAPES: [(usize, usize, usize, usize); 7] = [
    (1, 1, 64, 1),
    (3, 3, 64, 40),
    (2, 7, 64, 30),
    (1, 3, 128, 65),
    (2, 1, 16, 100),
    (1, 7, 20, 9),
    (2, 3, 6, 35),
];

fn scenes() -> impl Iterator<Item = (u64, Scene)> {
    (0..28).map(|seed| {
        let (kv_heads, group, head_dim, rows) = SHAPES[seed as usize % SHAPES.len()];
        (seed, Scene::new(seed, kv_heads, group, head_dim, rows))
    })
}

fn assert_close(actual: &[f32], expected: &[f32], bound: f32, what: &str) {
    assert_eq!(actual.len(), expected.len());
    for (i, (a, b)) in actual.iter().zip(expected).enumerate() {
        assert!(
            a == b || (a - b).abs() < bound,
            "{what}: element {i} is {a}, not {b}"
        );
    }
}

#[test]
fn rows_of_any_sequences_and_parts_get_what_the_reference_says() {
    let threads = Threads::new(2);
    for (seed, scene) in scenes() {
        let views = scene.views();
        let (out, lse) = reference::attention(&scene.call(&views));
        let (fast_out, fast_lse) = scene.run(&threads);
        assert_close(&fast_out, &out, 2e-5, &format!("seed {seed}, output"));
        assert_close(&fast_lse, &lse, 2e-5, &format!("seed {seed}, log-sum-exp"));
    }
}

#[test]
fn a_row_that_sees_nothing_gets_zeros() {
    let mut scene = Scene::new(5, 2, 3, 64, 4);
    let blind = scene.parts.len() as u32;
    scene.parts.push(Vec::new());
    scene.sequence[2] = blind;
    let result = scene.run(&Threads::new(1));
    let (out, lse) = scene.row(2, &result);
    assert!(out.iter().all(|&x| x == 0.0) && lse.iter().all(|&x| x == f32::NEG_INFINITY));
    scene.sequence[2] = 0;
    scene.parts[0]
        .iter_mut()
        .for_each(|part| part.hidden = Some(vec![u64::MAX; part.pages.len()]));
    let result = scene.run(&Threads::new(1));
    let (out, lse) = scene.row(2, &result);
    assert!(out.iter().all(|&x| x == 0.0) && lse.iter().all(|&x| x == f32::NEG_INFINITY));
}

/// Masses of `rows` (index and weight) on every slot of a part, row by row by `add`.
fn masses(call: &Attention<'_>, lse: &[f32], rows: &[(usize, f32)], part: usize, add: Add) -> Vec<u64> {
    let mut masses = vec![0; call.sequences[0][part].len];
    for &(row, weight) in rows {
        add(
            call,
            row,
            weight,
            &lse[row * call.heads..(row + 1) * call.heads],
            part,
            &mut masses,
        );
    }
    masses
}

type Add = fn(&Attention<'_>, usize, f32, &[f32], usize, &mut [u64]);

fn fast(call: &Attention<'_>, row: usize, weight: f32, lse: &[f32], part: usize, masses: &mut [u64]) {
    call.masses(row, weight, lse, part, masses);
}

#[test]
fn masses_are_the_reference_s_and_the_same_for_rows_together_and_alone() {
    for (seed, mut scene) in scenes() {
        scene.sequence.fill(0);
        let (views, lse) = (scene.views(), scene.run(&Threads::new(1)).1);
        let call = scene.call(&views);
        let rows: Vec<_> = (0..scene.rows())
            .map(|row| (row, 1.0 / (row + 1) as f32))
            .collect();
        for part in 0..views[0].len() {
            let quick = masses(&call, &lse, &rows, part, fast);
            let slow = masses(&call, &lse, &rows, part, reference::masses);
            for (slot, (fast, slow)) in quick.iter().zip(slow).enumerate() {
                let bound = slow / 20_000 + 2000;
                assert!(
                    fast.abs_diff(slow) <= bound,
                    "seed {seed}, part {part}, slot {slot}: {fast}, not {slow}"
                );
            }
            let mut together = vec![0; quick.len()];
            let lse = |row: usize| &lse[row * scene.heads..(row + 1) * scene.heads];
            let rows: Vec<_> = rows
                .iter()
                .map(|&(row, weight)| MassRow {
                    row,
                    weight,
                    lse: lse(row),
                })
                .collect();
            call.masses_of_rows(&rows, part, &mut together, &Threads::new(3));
            assert_eq!(together, quick, "seed {seed}, part {part}");
        }
    }
}

#[test]
fn all_masses_of_a_row_add_up_to_its_heads() {
    let mut scene = Scene::new(11, 3, 3, 64, 12);
    scene.sequence.fill(0);
    let (views, lse) = (scene.views(), scene.run(&Threads::new(1)).1);
    let call = scene.call(&views);
    for row in 0..scene.rows() {
        let parts = (0..views[0].len()).flat_map(|part| masses(&call, &lse, &[(row, 1.0)], part, fast));
        let total = parts.sum::<u64>() as f64 / 2f64.powi(32);
        assert!((total - scene.heads as f64).abs() < 1e-4, "row {row}: {total}");
    }
}

#[test]
fn written_rows_stand_where_the_layout_says() {
    let shape = PoolShape {
        pages: 3,
        kv_heads: 2,
        head_dim: 4,
    };
    let mut rng = fastrand::Rng::with_seed(12);
    let (k, v) = (random(&mut rng, 3 * 8), random(&mut rng, 3 * 8));
    let mut pool = vec![0.0; shape.len()];
    let slots = [5, 64 + 63, 128];
    write_rows(shape, &mut pool, &slots, &k, &v);
    for (row, slot) in slots.into_iter().enumerate() {
        for head in 0..2 {
            let element = |kind: usize, e: usize| {
                let (page, offset) = (slot as usize / PAGE_TOKENS, slot as usize % PAGE_TOKENS);
                pool[((((page * 2 + kind) * 2) + head) * PAGE_TOKENS + offset) * 4 + e]
            };
            for e in 0..4 {
                assert_eq!(element(0, e), k[(row * 2 + head) * 4 + e]);
                assert_eq!(element(1, e), v[(row * 2 + head) * 4 + e]);
            }
            assert_eq!(pool[shape.key_range(slot, head)], k[(row * 2 + head) * 4..][..4]);
            assert_eq!(
                pool[shape.value_range(slot, head)],
                v[(row * 2 + head) * 4..][..4]
            );
        }
    }
    assert_eq!(pool.iter().filter(|&&x| x != 0.0).count(), 2 * 3 * 8);
}
