//! How much attention rows pay to each slot of a part.
//!
//! Every term is rounded to an integer before it is added: the sum is the same in any order.

use super::scores::Scores;
use super::tiles::TILE_QUERIES;
use super::{Attention, PAGE_TOKENS};
use crate::cpu::lanes::{Kernel, LANES, Lanes, dispatch, exp};

/// The integer that stands for a mass of one.
const ONE: f64 = (1u64 << 32) as f64;

/// A row whose attention is added up.
#[derive(Clone, Copy, Debug)]
pub struct MassRow<'a> {
    /// Index of the row.
    pub row: usize,
    /// Factor on its attention.
    pub weight: f32,
    /// `[heads]`: the row's log-sum-exp over everything it sees.
    pub lse: &'a [f32],
}

/// Adds to `masses`, whose first element is the first slot of page `first` of the part, up to its end.
pub fn add(call: &Attention<'_>, rows: &[MassRow<'_>], part: usize, first: usize, masses: &mut [u64]) {
    call.check();
    let tile = (TILE_QUERIES / call.group()).max(1);
    for rows in rows.chunks(tile) {
        for kv_head in 0..call.shape.kv_heads {
            dispatch(Masses {
                call,
                rows,
                kv_head,
                part,
                first,
                masses,
            });
        }
    }
}

struct Masses<'a> {
    call: &'a Attention<'a>,
    rows: &'a [MassRow<'a>],
    kv_head: usize,
    part: usize,
    first: usize,
    masses: &'a mut [u64],
}

impl Kernel for Masses<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let rows: Vec<usize> = self.rows.iter().map(|row| row.row).collect();
        let sequence = self.call.sequence[rows[0]];
        assert!(
            rows.iter().all(|&row| self.call.sequence[row] == sequence),
            "rows of several sequences"
        );
        let part = &self.call.sequences[sequence as usize][self.part];
        let mut scores = Scores::new(self.call, &rows, self.kv_head);
        for (page, masses) in self.masses.chunks_mut(PAGE_TOKENS).enumerate() {
            if scores.page::<L>(part, self.first + page).is_some() {
                add_page::<L>(self.call, self.rows, self.kv_head, &scores, masses);
            }
        }
    }
}

#[inline(always)]
fn add_page<L: Lanes>(
    call: &Attention<'_>,
    rows: &[MassRow<'_>],
    kv_head: usize,
    scores: &Scores<'_>,
    masses: &mut [u64],
) {
    let group = call.group();
    for (query, logits) in scores.logits.chunks_exact(PAGE_TOKENS).enumerate() {
        let (row, visible) = (&rows[query / group], scores.visible[query / group]);
        let lse = L::splat(row.lse[kv_head * group + query % group]);
        let eights = masses
            .chunks_mut(LANES)
            .zip(logits.as_chunks::<LANES>().0)
            .enumerate();
        for (i, (masses, logits)) in eights {
            let bits = (visible >> (i * LANES)) as u8;
            if bits != 0 {
                let shares = L::select(bits, exp(L::from_array(logits).sub(lse)), L::zero());
                let terms = shares.to_array().map(|share| term(row.weight, share));
                masses
                    .iter_mut()
                    .zip(terms)
                    .for_each(|(mass, term)| *mass += term);
            }
        }
    }
}

/// `weight · share` as an integer; nothing for NaN.
#[inline(always)]
fn term(weight: f32, share: f32) -> u64 {
    (f64::from(weight) * f64::from(share) * ONE).round() as u64
}
