//! Speed of the CPU kernels in the shapes of a small model (SmolLM2-135M: 576 wide, 1536 inner, 9 heads on 3).
//!
//! `cargo run --release -p medley-kernels --example speed [threads]`

use std::time::Instant;

use medley_kernels::cpu::attention::{Attention, PartView, PoolShape, Positions};
use medley_kernels::cpu::matrix::Matrix;
use medley_kernels::cpu::ops;
use medley_kernels::cpu::pool::Threads;
use medley_kernels::cpu::rope::{RopeLayout, RopeScaling, RopeTable};

const HEADS: usize = 9;
const KV_HEADS: usize = 3;
const HEAD_DIM: usize = 64;

fn main() {
    let threads = Threads::new(std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0));
    println!("{} threads", threads.count());
    println!("empty section: {:.2} us", best(|| threads.run(8, &|_| {})) * 1e6);
    for (n, k) in [(576, 576), (1536, 576), (576, 1536), (49152, 576)] {
        for rows in [1, 4, 32, 256, 2048] {
            if n * rows <= 4096 * 2048 {
                product(n, k, rows, &threads);
            }
        }
    }
    for (rows, context) in [(2080, 2080), (32, 2080), (1, 2048)] {
        attention(rows, context, &threads);
    }
    rowwise(2048, &threads);
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

/// The last `rows` rows of a causal sequence.
fn attention(rows: usize, context: usize, threads: &Threads) {
    let pages: Vec<u32> = (0..context.div_ceil(64) as u32).collect();
    let shape = PoolShape {
        pages: pages.len(),
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
    };
    let mut rng = fastrand::Rng::with_seed(0);
    let mut random = |len: usize| (0..len).map(|_| rng.f32() - 0.5).collect::<Vec<f32>>();
    let (pool, queries) = (random(shape.len()), random(rows * HEADS * HEAD_DIM));
    let rope = RopeTable::new(HEAD_DIM, 10_000.0, RopeLayout::Halves, RopeScaling::None, 4096);
    let part = PartView {
        pages: &pages,
        len: context,
        positions: Positions::From(0),
        turn: 0,
        hidden: None,
    };
    let positions: Vec<u32> = (context - rows..context).map(|p| p as u32).collect();
    let call = Attention {
        shape,
        pool: &pool,
        heads: HEADS,
        scale: 0.125,
        rope: &rope,
        queries: &queries,
        positions: &positions,
        sequence: &vec![0; rows],
        sequences: &[vec![part]],
    };
    let mut out = vec![0.0; queries.len()];
    let seconds = best(|| call.run(&mut out, None, threads));
    let pairs: usize = positions.iter().map(|&p| p as usize + 1).sum();
    let flop = (4 * HEAD_DIM * HEADS * pairs) as f64 / seconds / 1e9;
    println!(
        "attention, {rows} rows at {context}: {flop:.1} GFLOP/s, {:.3} ms",
        seconds * 1e3
    );
}

fn rowwise(rows: usize, threads: &Threads) {
    let (width, inner) = (576, 1536);
    let (x, weight) = (vec![0.5; rows * width], vec![1.0; width]);
    let mut out = vec![0.0; rows * width];
    let seconds = best(|| ops::rms_norm(&x, &weight, 1e-5, &mut out, threads));
    println!("rms_norm, {rows} rows: {:.3} ms", seconds * 1e3);
    let gate_up = vec![0.5; rows * 2 * inner];
    let mut gated = vec![0.0; rows * inner];
    let seconds = best(|| ops::silu_mul(&gate_up, &mut gated, inner, threads));
    println!("silu_mul, {rows} rows: {:.3} ms", seconds * 1e3);
    let rope = RopeTable::new(
        HEAD_DIM,
        10_000.0,
        RopeLayout::Interleaved,
        RopeScaling::None,
        4096,
    );
    let positions: Vec<u32> = (0..rows as u32).collect();
    let seconds = best(|| rope.rotate_rows(&mut out, HEAD_DIM, &positions, threads));
    println!("rotation, {rows} rows: {:.3} ms", seconds * 1e3);
}
