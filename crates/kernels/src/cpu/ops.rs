//! Elementwise and rowwise operations.
//!
//! Rows that are no multiple of eight are filled up with zeros in a register, so that a last element is computed
//! like every other.

use super::disjoint::Disjoint;
use super::lanes::{Kernel, LANES, Lanes, dispatch, exp, padded};
use super::pool::Threads;

/// Elements below which another thread costs more than it brings.
const ELEMENTS_A_TASK: usize = 16 * 1024;

/// `out = x / sqrt(mean(x²) + eps) · weight` for every row of `weight.len()` elements. The squares' sum is one
/// chain of fused multiply-adds in each of eight lanes, then a tree over the lanes.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32], threads: &Threads) {
    assert_eq!(x.len(), out.len(), "x and out differ");
    let width = weight.len();
    for_rows(out, width, threads, |first, out| {
        let x = &x[first * width..first * width + out.len()];
        dispatch(RmsNorm { x, weight, eps, out });
    });
}

/// `x += y`
pub fn add(x: &mut [f32], y: &[f32], threads: &Threads) {
    assert_eq!(x.len(), y.len(), "x and y differ");
    for_rows(x, 1, threads, |first, x| {
        x.iter_mut().zip(&y[first..]).for_each(|(x, y)| *x += y);
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
        let gate_up = &gate_up[2 * first * inner..2 * (first * inner + out.len())];
        dispatch(SiluMul { gate_up, out, inner });
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
        width > 0 && out.len().is_multiple_of(width),
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

struct RmsNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            let mean = sum_of_squares::<L>(x) / width as f32;
            let inverse = 1.0 / (mean + self.eps).sqrt();
            zip::<L, _>(out, x, self.weight, &Normal(inverse));
        }
    }
}

#[inline(always)]
fn sum_of_squares<L: Lanes>(x: &[f32]) -> f32 {
    let (whole, tail) = x.as_chunks::<LANES>();
    let mut sum = L::zero();
    for x in whole {
        sum = L::from_array(x).fma(L::from_array(x), sum);
    }
    let last = L::from_array(&padded(tail));
    last.fma(last, sum).sum()
}

struct SiluMul<'a> {
    gate_up: &'a [f32],
    out: &'a mut [f32],
    inner: usize,
}

impl Kernel for SiluMul<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let rows = self
            .gate_up
            .chunks_exact(2 * self.inner)
            .zip(self.out.chunks_exact_mut(self.inner));
        for (gate_up, out) in rows {
            let (gate, up) = gate_up.split_at(self.inner);
            zip::<L, _>(out, gate, up, &Gated);
        }
    }
}

/// A function of two elements. A trait and not a closure, because a closure can't be told to be inlined, and what is
/// not inlined is not compiled for the processor's vectors.
trait Elementwise {
    fn of<L: Lanes>(&self, x: L, y: L) -> L;
}

/// `x · factor · weight`
struct Normal(f32);

impl Elementwise for Normal {
    #[inline(always)]
    fn of<L: Lanes>(&self, x: L, weight: L) -> L {
        x.mul(L::splat(self.0)).mul(weight)
    }
}

/// `silu(gate) · up`
struct Gated;

impl Elementwise for Gated {
    #[inline(always)]
    fn of<L: Lanes>(&self, gate: L, up: L) -> L {
        gate.div(L::splat(1.0).add(exp(L::zero().sub(gate)))).mul(up)
    }
}

/// `out = f(x, y)`, eight elements at a time.
#[inline(always)]
fn zip<L: Lanes, F: Elementwise>(out: &mut [f32], x: &[f32], y: &[f32], f: &F) {
    let (out, out_tail) = out.as_chunks_mut::<LANES>();
    let (x, x_tail) = x.as_chunks::<LANES>();
    let (y, y_tail) = y.as_chunks::<LANES>();
    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
        *out = f.of(L::from_array(x), L::from_array(y)).to_array();
    }
    let last = f
        .of(L::from_array(&padded(x_tail)), L::from_array(&padded(y_tail)))
        .to_array();
    out_tail.copy_from_slice(&last[..out_tail.len()]);
}
