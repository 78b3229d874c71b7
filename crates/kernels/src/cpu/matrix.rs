//! Products with weight matrices.

use super::disjoint::Disjoint;
use super::pool::Threads;

/// Outputs a panel.
const WIDTH: usize = 16;

/// A weight matrix `[n outputs, k inputs]`, packed once: panels of 16 outputs, `[panel, k, 16]`, the last panel
/// filled up with zeros.
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
        threads.run(rows, &|row| {
            let x = &x[row * self.k..(row + 1) * self.k];
            // SAFETY: one row a task.
            let out = unsafe { out.part(row * self.n..(row + 1) * self.n) };
            for (panel, out) in self
                .panels
                .chunks_exact(WIDTH * self.k)
                .zip(out.chunks_mut(WIDTH))
            {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = x
                        .iter()
                        .enumerate()
                        .fold(0.0, |sum, (k, x)| x.mul_add(panel[k * WIDTH + i], sum));
                }
            }
        });
    }
}
