//! What the kernels should compute, as plainly as it can be written: one row at a time, `f64`, no blocking, no
//! threads. Tests of this and other crates compare with it. Fast it is not.

mod attention;

pub use attention::{attention, masses};

use crate::cpu::rope::{RopeLayout, RopeTable};

/// `x · Wᵀ`: `x: [rows, k]`, `weight: [n, k]`, result `[rows, n]`.
pub fn multiply(x: &[f32], weight: &[f32], n: usize, k: usize) -> Vec<f32> {
    let dot = |x: &[f32], w: &[f32]| {
        x.iter()
            .zip(w)
            .map(|(x, w)| f64::from(*x) * f64::from(*w))
            .sum::<f64>() as f32
    };
    let outputs = |x| (0..n).map(move |j| dot(x, &weight[j * k..(j + 1) * k]));
    x.chunks_exact(k).flat_map(outputs).collect()
}

/// `x / sqrt(mean(x²) + eps) · weight` for every row of `weight.len()`.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let norm = |x: &[f32]| {
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / x.len() as f64;
        1.0 / (mean + f64::from(eps)).sqrt()
    };
    let row = |x: &[f32]| {
        let inverse = norm(x);
        let scaled = x
            .iter()
            .zip(weight)
            .map(|(x, w)| (f64::from(*x) * inverse * f64::from(*w)) as f32);
        scaled.collect::<Vec<_>>()
    };
    x.chunks_exact(weight.len()).flat_map(row).collect()
}

/// `silu(gate) · up`: `gate_up: [rows, gate | up, inner]`, result `[rows, inner]`.
pub fn silu_mul(gate_up: &[f32], inner: usize) -> Vec<f32> {
    let silu = |g: f64| g / (1.0 + (-g).exp());
    let row = |row: &[f32]| {
        let pairs = row[..inner].iter().zip(&row[inner..]);
        pairs
            .map(|(g, up)| (silu(f64::from(*g)) * f64::from(*up)) as f32)
            .collect::<Vec<_>>()
    };
    gate_up.chunks_exact(2 * inner).flat_map(row).collect()
}

/// `head` turned by `position`, in `f64` from the table's frequencies.
pub fn rotate(rope: &RopeTable, head: &[f32], position: i64) -> Vec<f64> {
    let mut turned: Vec<f64> = head.iter().map(|&x| f64::from(x)).collect();
    let pairs = rope.frequencies().len();
    for (i, frequency) in rope.frequencies().iter().enumerate() {
        let (a, b) = match rope.layout() {
            RopeLayout::Interleaved => (2 * i, 2 * i + 1),
            RopeLayout::Halves => (i, i + pairs),
        };
        let (sin, cos) = (frequency * position as f64).sin_cos();
        let (x, y) = (turned[a], turned[b]);
        turned[a] = x * cos - y * sin;
        turned[b] = x * sin + y * cos;
    }
    turned
}
