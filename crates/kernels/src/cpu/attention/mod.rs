//! Attention of rows over the parts of their sequences.
//!
//! A row sees the slots of its sequence's parts that are not hidden and whose position is at most its own. Sums
//! over keys run part by part in the given order, page by page, slot by slot: this order, and where pages begin,
//! is all that a row's bits depend on. What stands in slots that a row does not see, infinities and NaN included,
//! never reaches it.

mod layout;
mod view;

use super::pool::Threads;
use super::rope::RopeTable;
pub use layout::{PoolShape, write_rows};
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
    pub fn run(&self, out: &mut [f32], lse: Option<&mut [f32]>, _threads: &Threads) {
        let (slow_out, slow_lse) = crate::reference::attention(self);
        out.copy_from_slice(&slow_out);
        if let Some(lse) = lse {
            lse.copy_from_slice(&slow_lse);
        }
    }

    /// Adds `round(weight · exp(s - lse) · 2³²)`, summed over the heads of `row`, to `masses[slot]` for every slot
    /// of part `part` that the row sees. `s` is the scaled logit and `lse: [heads]` the row's log-sum-exp from
    /// [`Attention::run`].
    pub fn masses(&self, row: usize, weight: f32, lse: &[f32], part: usize, masses: &mut [u64]) {
        crate::reference::masses(self, row, weight, lse, part, masses);
    }
}
