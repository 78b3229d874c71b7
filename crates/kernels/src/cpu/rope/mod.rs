//! Rotary positions: a pair `(a, b)` of a head at position `p` becomes `(a·cos − b·sin, a·sin + b·cos)` of the
//! angle `p · frequency`.
//!
//! Angles are made in `f64`, tables are `f32`, and a rotation is two products and one sum in `f32`: the same
//! bits for a table entry and for an angle beyond the table. Rotations add up: `R(-p0) R(p) = R(p - p0)`, which
//! is how a query meets keys that were rotated elsewhere. YaRN's magnitude is reported, never applied.
//! Dynamic scalings, whose frequencies depend on the length of the sequence, are not here: they break the sum.

mod scaling;

use std::borrow::Cow;

use super::disjoint::Disjoint;
use super::pool::Threads;
pub use scaling::RopeScaling;

/// Which elements of a head form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// `(2i, 2i + 1)`.
    Interleaved,
    /// `(i, i + dim / 2)`.
    Halves,
}

/// Frequencies and a table of angles.
#[derive(Clone, Debug)]
pub struct RopeTable {
    layout: RopeLayout,
    frequencies: Vec<f64>,
    scaling: RopeScaling,
    /// `[position, cos | sin, pair]`
    table: Vec<f32>,
}

/// Cosines, then sines, of one position: `[2, pairs]`; the sine's sign is separate.
pub(crate) struct Turn<'a> {
    angles: Cow<'a, [f32]>,
    back: bool,
}

impl RopeTable {
    /// A table for the first `dim` elements of every head, `dim` even. `theta` is the base: pair `i` turns by
    /// `theta^(-2i/dim)` a position, before `scaling`. Positions below `max_position` are tabulated; others work
    /// too, slowly.
    pub fn new(
        dim: usize,
        theta: f64,
        layout: RopeLayout,
        scaling: RopeScaling,
        max_position: usize,
    ) -> Self {
        assert!(
            dim > 0 && dim.is_multiple_of(2),
            "rotary dimension {dim} is not even"
        );
        let frequencies = scaling.frequencies(dim, theta);
        let table = (0..max_position)
            .flat_map(|p| angles(&frequencies, p as u64))
            .collect();
        Self {
            layout,
            scaling,
            frequencies,
            table,
        }
    }

    /// Turns `head` forward by `position`, or back when it is negative. Elements beyond the rotary dimension
    /// stay.
    pub fn rotate(&self, head: &mut [f32], position: i64) {
        self.apply(&self.turn(position), head);
    }

    /// Turns every head of every row of `x: [rows, heads, head_dim]` forward by the row's position.
    pub fn rotate_rows(&self, x: &mut [f32], head_dim: usize, positions: &[u32], threads: &Threads) {
        let width = x.len() / positions.len().max(1);
        assert_eq!(width * positions.len(), x.len(), "rows of unequal length");
        assert!(
            width.is_multiple_of(head_dim),
            "rows of {width} are not heads of {head_dim}"
        );
        let x = Disjoint::new(x);
        let chunk = super::ops::rows_a_task(positions.len(), width, threads);
        let tasks: Vec<_> = positions.chunks(chunk).collect();
        threads.run(tasks.len(), &|task| {
            for (i, &position) in tasks[task].iter().enumerate() {
                let row = task * chunk + i;
                // SAFETY: every row belongs to one task.
                let heads = unsafe { x.part(row * width..(row + 1) * width) };
                let turn = self.turn(i64::from(position));
                heads
                    .chunks_exact_mut(head_dim)
                    .for_each(|head| self.apply(&turn, head));
            }
        });
    }

    /// What attention logits are to be multiplied by, as its square: YaRN scales queries and keys by the
    /// magnitude; here the caller multiplies the attention's scale by `magnitude²`, once, and keys get none.
    pub fn magnitude(&self) -> f32 {
        self.scaling.magnitude()
    }

    /// Which elements form pairs.
    pub fn layout(&self) -> RopeLayout {
        self.layout
    }

    /// Radians a position, for every pair, scaling included.
    pub fn frequencies(&self) -> &[f64] {
        &self.frequencies
    }

    pub(crate) fn turn(&self, position: i64) -> Turn<'_> {
        let width = 2 * self.frequencies.len();
        let distance = position.unsigned_abs();
        let start = usize::try_from(distance)
            .unwrap_or(usize::MAX)
            .saturating_mul(width);
        let angles = match self.table.get(start..start.saturating_add(width)) {
            Some(angles) => Cow::Borrowed(angles),
            None => Cow::Owned(angles(&self.frequencies, distance).collect()),
        };
        Turn {
            angles,
            back: position < 0,
        }
    }

    pub(crate) fn apply(&self, turn: &Turn<'_>, head: &mut [f32]) {
        let pairs = self.frequencies.len();
        let (cos, sin) = turn.angles.split_at(pairs);
        let sign = if turn.back { -1.0 } else { 1.0 };
        let angles = cos.iter().zip(sin);
        let rotate = |a: &mut f32, b: &mut f32, cos: f32, sin: f32| {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        };
        let head = &mut head[..2 * pairs];
        match self.layout {
            RopeLayout::Interleaved => {
                let pairs = head.chunks_exact_mut(2).zip(angles);
                pairs.for_each(|(pair, (&cos, &sin))| {
                    let [a, b] = pair else { return };
                    rotate(a, b, cos, sign * sin);
                });
            }
            RopeLayout::Halves => {
                let (a, b) = head.split_at_mut(pairs);
                let pairs = a.iter_mut().zip(b).zip(angles);
                pairs.for_each(|((a, b), (&cos, &sin))| rotate(a, b, cos, sign * sin));
            }
        }
    }
}

/// Cosines, then sines, at one position.
fn angles(frequencies: &[f64], position: u64) -> impl Iterator<Item = f32> {
    let angle = move |frequency: &f64| frequency * position as f64;
    let cos = frequencies.iter().map(move |f| angle(f).cos() as f32);
    cos.chain(frequencies.iter().map(move |f| angle(f).sin() as f32))
}
