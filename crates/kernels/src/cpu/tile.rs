//! The product of a few rows with a few columns, held in registers: the heart of matrices and of attention.
//!
//! Every element is one chain of fused multiply-adds over `k` ascending, whatever the tile's shape; a chain may
//! rest in memory between two calls. So shapes can be chosen freely for speed.

use std::ops::Range;

use super::lanes::{LANES, Lanes};

/// Columns of a panel.
pub const WIDTH: usize = 2 * LANES;
/// Most rows of a tile: 6 × 16 sums fill twelve of sixteen registers.
pub const HEIGHT: usize = 6;

/// Operands of a tile: `a: [rows, k]`, `b: [k, columns]` in panels of 16 columns, `c: [rows, columns]`.
#[derive(Clone, Copy)]
pub struct Operands {
    /// Terms of each chain.
    pub k: usize,
    /// First element of `a`, whose rows are `a_stride` apart and contiguous in `k`.
    pub a: *const f32,
    /// Distance of two rows of `a`.
    pub a_stride: usize,
    /// First element of `b`; 16 columns are contiguous.
    pub b: *const f32,
    /// Distance of two terms in `b`.
    pub b_stride: usize,
    /// Distance of two panels in `b`.
    pub panel_stride: usize,
    /// First element of `c`, whose rows are contiguous.
    pub c: *mut f32,
    /// Distance of two rows of `c`.
    pub c_stride: usize,
    /// Whether chains go on from what `c` holds; otherwise they begin at zero.
    pub resume: bool,
}

/// `c (+)= a · b` for `rows` rows (at most [`HEIGHT`]) and `panels` panels.
///
/// # Safety
/// All elements that the operands name must be readable, and those of `c` writable by this thread alone.
#[inline(always)]
pub unsafe fn tile<L: Lanes>(rows: usize, panels: usize, at: Operands) {
    // SAFETY: the caller's promise, for every number of rows.
    unsafe {
        match rows {
            0 => {}
            1 => row_of_tiles::<L, 1, 8>(panels, at),
            2 => row_of_tiles::<L, 2, 4>(panels, at),
            3 => row_of_tiles::<L, 3, 4>(panels, at),
            4 => row_of_tiles::<L, 4, 2>(panels, at),
            5 => row_of_tiles::<L, 5, 2>(panels, at),
            _ => row_of_tiles::<L, 6, 2>(panels, at),
        }
    }
}

/// [`tile`] for any number of rows, in tiles of almost equal height.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub unsafe fn tile_rows<L: Lanes>(rows: usize, panels: usize, at: Operands) {
    for (row, height) in heights(0..rows) {
        let (a, c) = (
            at.a.wrapping_add(row * at.a_stride),
            at.c.wrapping_add(row * at.c_stride),
        );
        // SAFETY: the caller's promise.
        unsafe { tile::<L>(height, panels, Operands { a, c, ..at }) }
    }
}

/// Splits rows into tiles of almost equal height: `(first row, height)`.
#[inline(always)]
pub fn heights(rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let mut left = rows.len().div_ceil(HEIGHT);
    let mut next = rows.start;
    std::iter::from_fn(move || {
        let height = (rows.end - next).div_ceil(left.max(1));
        (left, next) = (left.saturating_sub(1), next + height);
        (height > 0).then_some((next - height, height))
    })
}

/// `V` vectors at a time while there are so many, then panel by panel.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn row_of_tiles<L: Lanes, const M: usize, const V: usize>(panels: usize, at: Operands) {
    let mut panel = 0;
    // SAFETY: the caller's promise; both loops stay below `panels`.
    unsafe {
        while panel + V / 2 <= panels {
            registers::<L, M, V>(from_panel(at, panel));
            panel += V / 2;
        }
        while panel < panels {
            registers::<L, M, 2>(from_panel(at, panel));
            panel += 1;
        }
    }
}

#[inline(always)]
fn from_panel(at: Operands, panel: usize) -> Operands {
    let b = at.b.wrapping_add(panel * at.panel_stride);
    Operands {
        b,
        c: at.c.wrapping_add(panel * WIDTH),
        ..at
    }
}

/// One tile of `M` rows and `V` vectors.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn registers<L: Lanes, const M: usize, const V: usize>(at: Operands) {
    let mut sums = [[L::zero(); V]; M];
    // SAFETY: the caller's promise: `M` rows, `V / 2` panels, `k` terms.
    unsafe {
        if at.resume {
            for (m, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = L::load(at.c.add(m * at.c_stride + v * LANES));
                }
            }
        }
        for k in 0..at.k {
            let mut b = [L::zero(); V];
            for (v, b) in b.iter_mut().enumerate() {
                *b = L::load(at.b.add(k * at.b_stride + v / 2 * at.panel_stride + v % 2 * LANES));
            }
            for (m, sums) in sums.iter_mut().enumerate() {
                let a = L::splat(*at.a.add(m * at.a_stride + k));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = a.fma(b, *sum);
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                sum.store(at.c.add(m * at.c_stride + v * LANES));
            }
        }
    }
}
