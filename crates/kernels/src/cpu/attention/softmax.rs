//! The running softmax of a tile's queries.
//!
//! After every page a query knows the largest logit so far and the sum of `exp(logit - largest)`. When a page
//! raises the maximum, what was summed before is scaled once. A page of which a row sees nothing changes
//! nothing. The sum over a page is one chain in each of eight lanes, then a tree over the lanes.

use super::PAGE_TOKENS;
use super::scores::{Scores, Seen};
use super::values::Values;
use crate::cpu::lanes::{LANES, Lanes, exp};
use crate::cpu::tile::WIDTH;

/// Largest logit and sum of weights of every query.
pub struct Softmax {
    max: Vec<f32>,
    sum: Vec<f32>,
}

impl Softmax {
    pub fn new(queries: usize) -> Self {
        Self {
            max: vec![f32::NEG_INFINITY; queries],
            sum: vec![0.0; queries],
        }
    }

    /// The sum of a query's weights; zero if it saw nothing.
    pub fn sum(&self, query: usize) -> f32 {
        self.sum[query]
    }

    /// The logarithm of the sum of `exp(logit)`; minus infinity if the query saw nothing.
    pub fn log_sum(&self, query: usize) -> f32 {
        self.max[query] + self.sum[query].ln()
    }

    /// Turns the page's logits into weights relative to the maximum so far, zero where a row does not see, and
    /// scales `values` where the maximum has risen.
    #[inline(always)]
    pub fn weigh<L: Lanes>(&mut self, scores: &mut Scores<'_>, seen: &Seen, values: &mut Values<'_>) {
        let group = self.max.len() / scores.visible.len();
        for (query, logits) in scores.logits.chunks_exact_mut(PAGE_TOKENS).enumerate() {
            let (visible, logits) = (scores.visible[query / group], &mut logits[..seen.panels * WIDTH]);
            if visible == 0 {
                logits.fill(0.0);
                continue;
            }
            let (logits, _) = logits.as_chunks_mut::<LANES>();
            let max = hide::<L>(logits, visible);
            if max > self.max[query] {
                let factor = exp(L::splat(self.max[query] - max));
                values.scale::<L>(query, factor);
                self.sum[query] *= factor.to_array()[0];
                self.max[query] = max;
            }
            self.sum[query] += weights::<L>(logits, self.max[query]);
        }
    }
}

/// Sets what is not visible to minus infinity and returns the largest logit.
#[inline(always)]
fn hide<L: Lanes>(logits: &mut [[f32; LANES]], visible: u64) -> f32 {
    let hidden = L::splat(f32::NEG_INFINITY);
    let mut max = hidden;
    for (i, logits) in logits.iter_mut().enumerate() {
        let bits = (visible >> (i * LANES)) as u8;
        let mut shown = L::from_array(logits);
        if bits != u8::MAX {
            shown = L::select(bits, shown, hidden);
            *logits = shown.to_array();
        }
        max = shown.max(max);
    }
    max.largest()
}

/// Replaces logits by `exp(logit - max)` and returns the sum.
#[inline(always)]
fn weights<L: Lanes>(logits: &mut [[f32; LANES]], max: f32) -> f32 {
    // Only NaN and minus infinity are left to see if the maximum is minus infinity: the first stays NaN, the
    // second weighs nothing.
    let max = L::splat(if max == f32::NEG_INFINITY { 0.0 } else { max });
    let mut sum = L::zero();
    for logits in logits {
        let weight = exp(L::from_array(logits).sub(max));
        *logits = weight.to_array();
        sum = sum.add(weight);
    }
    sum.sum()
}
