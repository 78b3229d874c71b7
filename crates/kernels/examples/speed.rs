//! Speed of the CPU kernels in the shapes of a small model (SmolLM2-135M: 576 wide, 1536 inner, 9 heads on 3).
//!
//! `cargo run --release -p medley-kernels --example speed [threads]`

use std::time::Instant;

use medley_kernels::cpu::matrix::Matrix;
use medley_kernels::cpu::pool::Threads;

fn main() {
    let threads = Threads::new(std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0));
    println!("{} threads", threads.count());
    for (n, k) in [(576, 576), (1536, 576), (576, 1536), (49152, 576)] {
        for rows in [1, 4, 32, 256, 2048] {
            if n * rows <= 4096 * 2048 {
                product(n, k, rows, &threads);
            }
        }
    }
}

/// Fastest of some runs, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed().as_secs_f64() < 0.3 {
        let once = Instant::now();
        work();
        best = best.min(once.elapsed().as_secs_f64());
    }
    best
}

/// A product with matrices that together exceed every cache, as a model's do.
fn product(n: usize, k: usize, rows: usize, threads: &Threads) {
    let matrix = Matrix::pack(&vec![0.5; n * k], n, k);
    let matrices = vec![matrix; (128usize << 20).div_ceil(n * k * 4)];
    let x = vec![0.25; rows * k];
    let mut out = vec![0.0; rows * n];
    let mut turn = 0;
    let seconds = best(|| {
        turn += 1;
        matrices[turn % matrices.len()].multiply(&x, rows, &mut out, threads);
    });
    let flop = 2.0 * (n * k * rows) as f64 / seconds / 1e9;
    let bytes = matrices[0].bytes() as f64 / seconds / 1e9;
    println!("{n:>6} x {k:<5} rows {rows:>5}: {flop:>7.1} GFLOP/s, weights {bytes:>6.1} GB/s");
}
