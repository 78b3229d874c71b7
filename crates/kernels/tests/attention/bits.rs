//! The same bits, however the work is cut.

use medley_kernels::cpu::pool::Threads;

use super::scene::Scene;

const SHAPES: [(usize, usize, usize); 4] = [(3, 3, 64), (2, 7, 64), (2, 1, 128), (1, 3, 20)];

fn scenes() -> impl Iterator<Item = (u64, Scene)> {
    (100..116).map(|seed| {
        let (kv_heads, group, head_dim) = SHAPES[seed as usize % SHAPES.len()];
        (seed, Scene::new(seed, kv_heads, group, head_dim, 130))
    })
}

#[test]
fn a_row_has_the_same_bits_alone_among_others_and_in_any_order() {
    let threads = Threads::new(2);
    for (seed, scene) in scenes() {
        let whole = scene.run(&threads);
        let mut rng = fastrand::Rng::with_seed(seed);
        for size in [1, 2, 5, 33, 129] {
            let mut rows: Vec<usize> = (0..scene.rows()).collect();
            rng.shuffle(&mut rows);
            let some = scene.only(&rows[..size]);
            let result = some.run(&threads);
            for (i, &row) in rows[..size].iter().enumerate() {
                assert!(
                    some.row(i, &result) == scene.row(row, &whole),
                    "seed {seed}: row {row} of {size}"
                );
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_with_any_number_of_threads() {
    for (seed, scene) in scenes() {
        let one = scene.run(&Threads::new(1));
        assert!(
            [2, 3, 7].iter().all(|&n| scene.run(&Threads::new(n)) == one),
            "seed {seed}"
        );
    }
}

#[test]
fn a_part_cut_at_a_page_s_end_gives_the_same_bits() {
    let threads = Threads::new(2);
    for (seed, scene) in scenes() {
        let whole = scene.run(&threads);
        let mut cut = scene.clone();
        for parts in &mut cut.parts {
            let len = parts[0].len;
            if len <= 64 {
                continue;
            }
            let first = &mut parts[0];
            let mut rest = first.clone();
            rest.pages = first.pages.split_off(1);
            (first.len, rest.len, rest.from) = (64, len - 64, first.from + 64);
            parts.insert(1, rest);
        }
        assert!(cut.run(&threads) == whole, "seed {seed}");
    }
}

#[test]
fn parts_and_pages_of_which_a_row_sees_nothing_leave_its_bits() {
    let threads = Threads::new(2);
    for (seed, scene) in scenes() {
        let whole = scene.run(&threads);
        let mut more = scene.clone();
        for parts in &mut more.parts {
            let mut later = parts[0].clone();
            later.from = 1000;
            parts.insert(0, later.clone());
            later.from = 0;
            later.hidden = Some(vec![u64::MAX; later.pages.len()]);
            parts.insert(2, later.clone());
            later.hidden = None;
            later.list = Some(vec![950; later.len]);
            parts.push(later);
        }
        assert!(more.run(&threads) == whole, "seed {seed}");
    }
}
