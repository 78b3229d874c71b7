//! Elementwise and rowwise operations.

use super::disjoint::Disjoint;
use super::pool::Threads;

/// Elements below which another thread costs more than it brings.
const ELEMENTS_A_TASK: usize = 16 * 1024;

/// `out = x / sqrt(mean(x²) + eps) · weight` for every row of `weight.len()` elements.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32], threads: &Threads) {
    assert_eq!(x.len(), out.len(), "x and out differ");
    let width = weight.len();
    for_rows(out, width, threads, |first, out| {
        for (x, out) in x[first * width..]
            .chunks_exact(width)
            .zip(out.chunks_exact_mut(width))
        {
            let sum: f32 = x.iter().map(|x| x * x).sum();
            let inverse = 1.0 / (sum / width as f32 + eps).sqrt();
            out.iter_mut()
                .zip(x)
                .zip(weight)
                .for_each(|((out, x), w)| *out = x * inverse * w);
        }
    });
}

/// `x += y`
pub fn add(x: &mut [f32], y: &[f32], threads: &Threads) {
    assert_eq!(x.len(), y.len(), "x and y differ");
    for_rows(x, 1, threads, |first, x| {
        x.iter_mut().zip(&y[first..]).for_each(|(x, y)| *x += y)
    });
}

/// `x += bias` for every row of `bias.len()` elements.
pub fn add_bias(x: &mut [f32], bias: &[f32]) {
    assert!(
        x.len().is_multiple_of(bias.len()),
        "x is not rows of {}",
        bias.len()
    );
    for row in x.chunks_exact_mut(bias.len()) {
        row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
    }
}

/// `out = silu(gate) · up`, `silu(g) = g / (1 + exp(-g))`; `gate_up: [rows, gate | up, inner]`,
/// `out: [rows, inner]`.
pub fn silu_mul(gate_up: &[f32], out: &mut [f32], inner: usize, threads: &Threads) {
    assert_eq!(gate_up.len(), 2 * out.len(), "gate_up is not twice out");
    for_rows(out, inner, threads, |first, out| {
        for (gate_up, out) in gate_up[first * 2 * inner..]
            .chunks_exact(2 * inner)
            .zip(out.chunks_exact_mut(inner))
        {
            let (gate, up) = gate_up.split_at(inner);
            out.iter_mut()
                .zip(gate)
                .zip(up)
                .for_each(|((out, g), up)| *out = g / (1.0 + (-g).exp()) * up);
        }
    });
}

/// Rows a task, so that a task is worth a thread.
pub(super) fn rows_a_task(rows: usize, width: usize, threads: &Threads) -> usize {
    let enough = ELEMENTS_A_TASK.div_ceil(width.max(1));
    rows.div_ceil(threads.count() * 4).max(enough).max(1)
}

/// Calls `work` with chunks of `out` and the index of the chunk's first row.
fn for_rows(out: &mut [f32], width: usize, threads: &Threads, work: impl Fn(usize, &mut [f32]) + Sync) {
    assert!(
        out.len().is_multiple_of(width),
        "{} elements are not rows of {width}",
        out.len()
    );
    let rows = out.len() / width;
    let chunk = rows_a_task(rows, width, threads);
    let out = Disjoint::new(out);
    threads.run(rows.div_ceil(chunk), &|task| {
        let (first, last) = (task * chunk, rows.min((task + 1) * chunk));
        // SAFETY: every row belongs to one task.
        work(first, unsafe { out.part(first * width..last * width) });
    });
}
