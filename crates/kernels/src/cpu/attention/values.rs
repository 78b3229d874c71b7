//! Weighted sums of values.
//!
//! Every element is one chain of fused multiply-adds over slots. A weight of zero adds nothing to a chain as long
//! as the value is finite; where one is not, and some row does not see it, rows go slot by slot over what they
//! see.

use super::scores::{Scores, Seen};
use super::{Attention, PAGE_TOKENS};
use crate::cpu::lanes::{LANES, Lanes};
use crate::cpu::tile::{Operands, WIDTH, tile_rows};

/// Sums of a tile's queries.
pub struct Values<'a> {
    call: &'a Attention<'a>,
    kv_head: usize,
    /// Elements of a head, filled up to whole panels.
    width: usize,
    /// `[query, width]`
    sums: Vec<f32>,
    /// A page's values `[64, width]`, if heads have to be filled up.
    wide: Vec<f32>,
}

impl<'a> Values<'a> {
    pub fn new(call: &'a Attention<'a>, kv_head: usize, queries: usize) -> Self {
        let dim = call.shape.head_dim;
        let width = dim.next_multiple_of(WIDTH);
        let wide = if width == dim {
            Vec::new()
        } else {
            vec![0.0; PAGE_TOKENS * width]
        };
        Self {
            call,
            kv_head,
            width,
            sums: vec![0.0; queries * width],
            wide,
        }
    }

    /// Multiplies a query's sums by a factor.
    #[inline(always)]
    pub fn scale<L: Lanes>(&mut self, query: usize, factor: L) {
        let (sums, _) = self.sums[query * self.width..(query + 1) * self.width].as_chunks_mut();
        sums.iter_mut()
            .for_each(|sums| *sums = L::from_array(sums).mul(factor).to_array());
    }

    /// Adds a page's values, weighted by what `scores.logits` has become.
    #[inline(always)]
    pub fn add<L: Lanes>(&mut self, scores: &Scores<'_>, seen: &Seen, page: u32) {
        let dim = self.call.shape.head_dim;
        let mut values = &self.call.pool[self.call.shape.values(page, self.kv_head)];
        if self.width != dim {
            for (wide, values) in self
                .wide
                .chunks_exact_mut(self.width)
                .zip(values.chunks_exact(dim))
            {
                wide[..dim].copy_from_slice(values);
            }
            values = &self.wide;
        }
        let values = &values[..seen.slots * self.width];
        if seen.all || finite::<L>(values) {
            multiply::<L>(&mut self.sums, self.width, &scores.logits, values);
        } else {
            one_by_one::<L>(&mut self.sums, self.width, scores, values);
        }
    }

    /// A query's sums divided by the sum of its weights; zeros if it saw nothing.
    pub fn mean(&self, query: usize, sum: f32, out: &mut [f32]) {
        let sums = &self.sums[query * self.width..];
        let divisor = if sum == 0.0 { 1.0 } else { sum };
        out.iter_mut().zip(sums).for_each(|(out, x)| *out = x / divisor);
    }
}

#[inline(always)]
fn multiply<L: Lanes>(sums: &mut [f32], width: usize, weights: &[f32], values: &[f32]) {
    let operands = Operands {
        k: values.len() / width,
        a: weights.as_ptr(),
        a_stride: PAGE_TOKENS,
        b: values.as_ptr(),
        b_stride: width,
        panel_stride: WIDTH,
        c: sums.as_mut_ptr(),
        c_stride: width,
        resume: true,
    };
    // SAFETY: `sums` is [queries, width], `weights` [queries, 64], `values` [at most 64, width].
    unsafe { tile_rows::<L>(sums.len() / width, width / WIDTH, operands) }
}

/// As `multiply`, without touching what a row does not see.
#[inline(always)]
fn one_by_one<L: Lanes>(sums: &mut [f32], width: usize, scores: &Scores<'_>, values: &[f32]) {
    let queries = sums
        .chunks_exact_mut(width)
        .zip(scores.logits.chunks_exact(PAGE_TOKENS));
    let group = queries.len() / scores.visible.len();
    for (query, (sums, weights)) in queries.enumerate() {
        let (sums, _) = sums.as_chunks_mut::<LANES>();
        for (slot, values) in values.chunks_exact(width).enumerate() {
            if scores.visible[query / group] >> slot & 1 == 1 {
                let (weight, (values, _)) = (L::splat(weights[slot]), values.as_chunks::<LANES>());
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum = weight.fma(L::from_array(values), L::from_array(sum)).to_array();
                }
            }
        }
    }
}

/// Whether no value is infinite or NaN: `x · 0` is zero for all others.
#[inline(always)]
fn finite<L: Lanes>(values: &[f32]) -> bool {
    let (values, _) = values.as_chunks::<LANES>();
    let sum = values
        .iter()
        .fold(L::zero(), |sum, v| L::from_array(v).fma(L::zero(), sum));
    sum.sum() == 0.0
}
