//! Attention of rows over the parts of their sequences.
//!
//! A row sees the slots of its sequence's parts that are not hidden and whose position is at most its own. Sums
//! over keys run part by part in the given order, page by page, slot by slot: this order, and where pages begin,
//! is all that a row's bits depend on. Slots that a row does not see add nothing, whether they are skipped or
//! weighed with zero, and whatever stands in them, infinities and NaN included, never reaches the row.
//!
//! Rows of a sequence are taken together in tiles, all query heads of one head of keys at a time ([`tiles`]), so
//! that keys and values are read once a tile. For a tile, [`scores`] makes a page's logits, [`softmax`] turns
//! them into weights and keeps each row's running maximum and sum, [`values`] adds up the values. Logits of more
//! than one page are never in memory. [`masses`] adds up weights instead of values.

mod layout;
mod masses;
mod scores;
mod softmax;
mod tiles;
mod values;
mod view;

use super::disjoint::Disjoint;
use super::lanes::dispatch;
use super::pool::Threads;
use super::rope::RopeTable;
pub use layout::{PoolShape, write_rows};
pub use masses::MassRow;
pub use view::{PAGE_TOKENS, PartView, Positions};

/// Rows and what they attend to, in one layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Shape of the pool.
    pub shape: PoolShape,
    /// The layer's keys and values: see [`PoolShape`].
    pub pool: &'a [f32],
    /// Query heads: a multiple of the pool's heads. Query head `h` reads pool head `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Factor on logits: `1/sqrt(head_dim)`, times [`RopeTable::magnitude`] squared.
    pub scale: f32,
    /// Turns queries back for parts with an offset.
    pub rope: &'a RopeTable,
    /// `[rows, heads, head_dim]`, rotated at the rows' positions.
    pub queries: &'a [f32],
    /// Absolute position of every row.
    pub positions: &'a [u32],
    /// Index into `sequences` for every row.
    pub sequence: &'a [u32],
    /// The parts of every sequence, in the order that sums run over them.
    pub sequences: &'a [Vec<PartView<'a>>],
}

impl Attention<'_> {
    /// Writes `out: [rows, heads, head_dim]` and, if asked, the log-sum-exp of the scaled logits that each head
    /// sees, `lse: [rows, heads]`. A row that sees nothing gets zeros and an `lse` of minus infinity.
    pub fn run(&self, out: &mut [f32], lse: Option<&mut [f32]>, threads: &Threads) {
        self.check();
        assert_eq!(out.len(), self.queries.len(), "out is not like queries");
        let rows = self.positions.len() * self.heads;
        assert!(
            lse.as_ref().is_none_or(|lse| lse.len() == rows),
            "lse is not [rows, heads]"
        );
        let (out, lse) = (Disjoint::new(out), lse.map(Disjoint::new));
        let tiles = tiles::of_rows(self);
        let tasks = tiles.len() * self.shape.kv_heads;
        threads.run(tasks, &|task| {
            // Late rows see most: they come first, so that the last tasks are short ones.
            let task = tasks - 1 - task;
            let (tile, kv_head) = (task / self.shape.kv_heads, task % self.shape.kv_heads);
            dispatch(tiles::Tile {
                call: self,
                rows: &tiles[tile],
                kv_head,
                out: &out,
                lse: lse.as_ref(),
            });
        });
    }

    /// Adds `round(weight · exp(s - lse) · 2³²)`, summed over the heads of `row`, to `masses[slot]` for every slot
    /// of part `part` that the row sees. `s` is the scaled logit and `lse: [heads]` the row's log-sum-exp from
    /// [`Attention::run`].
    pub fn masses(&self, row: usize, weight: f32, lse: &[f32], part: usize, masses: &mut [u64]) {
        masses::add(self, &[MassRow { row, weight, lse }], part, 0, masses);
    }

    /// [`Attention::masses`] for many rows of one sequence at once.
    pub fn masses_of_rows(&self, rows: &[MassRow<'_>], part: usize, masses: &mut [u64], threads: &Threads) {
        let pages = masses.len().div_ceil(PAGE_TOKENS);
        let chunk = pages.div_ceil(threads.count() * 4).max(1);
        let (len, masses) = (masses.len(), Disjoint::new(masses));
        threads.run(pages.div_ceil(chunk), &|task| {
            let slots = task * chunk * PAGE_TOKENS..len.min((task + 1) * chunk * PAGE_TOKENS);
            // SAFETY: every page belongs to one task.
            masses::add(self, rows, part, task * chunk, unsafe { masses.part(slots) });
        });
    }

    /// Query heads that share a head of keys.
    fn group(&self) -> usize {
        self.heads / self.shape.kv_heads
    }

    fn check(&self) {
        let (rows, width) = (self.positions.len(), self.heads * self.shape.head_dim);
        assert_eq!(
            self.pool.len(),
            self.shape.len(),
            "the pool does not have its shape"
        );
        assert!(
            self.heads.is_multiple_of(self.shape.kv_heads),
            "heads do not share keys evenly"
        );
        assert_eq!(
            self.queries.len(),
            rows * width,
            "queries are not [rows, heads, head_dim]"
        );
        assert_eq!(self.sequence.len(), rows, "not one sequence a row");
    }
}
