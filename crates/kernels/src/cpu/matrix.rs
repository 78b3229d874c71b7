//! Products with weight matrices.
//!
//! Weights are packed once into panels of 16 outputs, so that a product streams them: once for a few rows, which
//! is as fast as memory, and from the cache for many. There is one numerical path for all numbers of rows.

use std::ops::Range;

use super::disjoint::Disjoint;
use super::lanes::{Kernel, Lanes, dispatch};
use super::pool::Threads;
use super::tile::{HEIGHT, Operands, WIDTH, heights, tile};

/// Rows that a task takes through the weights: their stretch of `k` stays in the second-level cache.
const BLOCK_ROWS: usize = 16 * HEIGHT;
/// Terms of a stretch of `k`: a panel's stretch stays in the first-level cache.
const BLOCK_TERMS: usize = 320;
/// Tasks a thread, so that one that is late leaves little to wait for.
const TASKS_A_THREAD: usize = 4;

/// A weight matrix `[n outputs, k inputs]`, packed as `[panel, k, 16]`, the last panel filled up with zeros.
#[derive(Clone, Debug)]
pub struct Matrix {
    panels: Vec<f32>,
    n: usize,
    k: usize,
}

impl Matrix {
    /// Packs `weight`, row-major `[n, k]`.
    pub fn pack(weight: &[f32], n: usize, k: usize) -> Self {
        assert_eq!(weight.len(), n * k, "weight is not [{n}, {k}]");
        let mut panels = vec![0.0; n.div_ceil(WIDTH) * WIDTH * k];
        for (output, row) in weight.chunks_exact(k.max(1)).enumerate() {
            let panel = &mut panels[output / WIDTH * WIDTH * k..];
            row.iter()
                .enumerate()
                .for_each(|(i, &w)| panel[i * WIDTH + output % WIDTH] = w);
        }
        Self { panels, n, k }
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.k
    }

    /// Memory of the packed weights.
    pub fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }

    /// `out = x · Wᵀ`, `x: [rows, k]`, `out: [rows, n]`. Every element is one chain of fused multiply-adds over
    /// `k` ascending, from zero.
    pub fn multiply(&self, x: &[f32], rows: usize, out: &mut [f32], threads: &Threads) {
        assert_eq!(x.len(), rows * self.k, "x is not [{rows}, {}]", self.k);
        assert_eq!(out.len(), rows * self.n, "out is not [{rows}, {}]", self.n);
        let out = Disjoint::new(out);
        let panels = self.n.div_ceil(WIDTH);
        let blocks = rows.div_ceil(BLOCK_ROWS);
        let height = rows.div_ceil(blocks.max(1)).next_multiple_of(HEIGHT);
        let chunk = panels_a_task(panels, blocks, threads);
        let chunks = panels.div_ceil(chunk);
        threads.run(blocks * chunks, &|task| {
            let (block, first) = (task / chunks, task % chunks * chunk);
            dispatch(Block {
                matrix: self,
                x,
                rows: block * height..rows.min((block + 1) * height),
                panels: first..panels.min(first + chunk),
                out: &out,
            });
        });
    }
}

/// Panels a task: all of them where there are rows enough for every thread.
fn panels_a_task(panels: usize, blocks: usize, threads: &Threads) -> usize {
    let tasks = if threads.count() == 1 {
        1
    } else {
        threads.count() * TASKS_A_THREAD
    };
    panels.div_ceil(tasks.div_ceil(blocks.max(1))).next_multiple_of(4)
}

/// A task: some rows times some panels.
struct Block<'a> {
    matrix: &'a Matrix,
    x: &'a [f32],
    rows: Range<usize>,
    panels: Range<usize>,
    out: &'a Disjoint<'a, f32>,
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let k = self.matrix.k;
        let few = self.rows.len() <= HEIGHT;
        let stretches = if few { 1 } else { k.div_ceil(BLOCK_TERMS) };
        let stretch = k.div_ceil(stretches.max(1)).max(1);
        let whole = self.panels.start..self.panels.end.min(self.matrix.n / WIDTH);
        // With few rows nothing is read twice, and wide tiles read several panels at once.
        let step = if few { whole.len().max(1) } else { 1 };
        // The first stretch may be empty (k = 0): it still writes zeros.
        for first in (0..k.max(1)).step_by(stretch) {
            let terms = first..k.min(first + stretch);
            for panel in whole.clone().step_by(step) {
                self.tiles::<L>(terms.clone(), panel..whole.end.min(panel + step));
            }
            if whole.end < self.panels.end {
                self.ragged::<L>(terms, whole.end);
            }
        }
    }
}

impl Block<'_> {
    /// All rows times whole panels, over a stretch of `k`.
    #[inline(always)]
    fn tiles<L: Lanes>(&self, terms: Range<usize>, panels: Range<usize>) {
        for (row, height) in heights(self.rows.clone()) {
            let c = self.out.address(row * self.matrix.n + panels.start * WIDTH);
            // SAFETY: the rows and the panel's columns are inside the matrices, and this task's alone.
            unsafe {
                tile::<L>(
                    height,
                    panels.len(),
                    self.operands(row, &terms, panels.start, c, self.matrix.n),
                );
            }
        }
    }

    /// All rows times the last panel, of which only some columns exist.
    #[inline(always)]
    fn ragged<L: Lanes>(&self, terms: Range<usize>, panel: usize) {
        let columns = self.matrix.n - panel * WIDTH;
        for (row, height) in heights(self.rows.clone()) {
            let mut sums = [0.0; HEIGHT * WIDTH];
            let kept = |m: usize| {
                let start = (row + m) * self.matrix.n + panel * WIDTH;
                // SAFETY: one row of the panel, which is this task's alone; dropped before the next.
                unsafe { self.out.part(start..start + columns) }
            };
            for (m, sums) in sums.chunks_exact_mut(WIDTH).enumerate().take(height) {
                sums[..columns].copy_from_slice(kept(m));
            }
            // SAFETY: `sums` has room for every row and column of a tile.
            unsafe {
                tile::<L>(
                    height,
                    1,
                    self.operands(row, &terms, panel, sums.as_mut_ptr(), WIDTH),
                );
            }
            for (m, sums) in sums.chunks_exact(WIDTH).enumerate().take(height) {
                kept(m).copy_from_slice(&sums[..columns]);
            }
        }
    }

    #[inline(always)]
    fn operands(
        &self,
        row: usize,
        terms: &Range<usize>,
        panel: usize,
        c: *mut f32,
        c_stride: usize,
    ) -> Operands {
        let k = self.matrix.k;
        Operands {
            k: terms.len(),
            a: self.x[row * k + terms.start..].as_ptr(),
            a_stride: k,
            b: self.matrix.panels[(panel * k + terms.start) * WIDTH..].as_ptr(),
            b_stride: WIDTH,
            panel_stride: k * WIDTH,
            c,
            c_stride,
            resume: terms.start > 0,
        }
    }
}
