//! Parts: what a sequence's rows attend to.

use std::sync::Arc;

use medley_kv::{PAGE_TOKENS, PageId, Position};

/// Slots of a part that its sequence does not see: one bit a slot, a `u64` a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Vec<u64>);

impl Mask {
    /// A mask over `slots` slots that hides none.
    pub fn none(slots: usize) -> Self {
        Self(vec![0; slots.div_ceil(PAGE_TOKENS)])
    }

    /// Hides a slot.
    pub fn hide(&mut self, slot: usize) {
        self.0[slot / PAGE_TOKENS] |= 1 << (slot % PAGE_TOKENS);
    }

    /// Whether a slot is hidden.
    pub fn hides(&self, slot: usize) -> bool {
        self.0[slot / PAGE_TOKENS] >> (slot % PAGE_TOKENS) & 1 == 1
    }

    /// The words, one a page; bit `i` is slot `i` of the page.
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

/// What a part's slots are to its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Slot `i` holds position `i`; keys are rotated there. Exact KV.
    Prefix,
    /// One occurrence of a document. Slot `i` holds position `start + i`, but its key is rotated at `local + i`
    /// (`local` is the anchor's length): the query is turned back by `start - local` first. May be negative.
    Document {
        /// Absolute position of the document's first token in this sequence.
        start: Position,
        /// Position at which the first token's key was rotated.
        local: Position,
        /// Slots that this sequence has repaired.
        hidden: Mask,
    },
    /// Private slots in any order: slot `i` holds position `positions[i]`; keys are rotated there.
    Overlay {
        /// Absolute position of every slot in use.
        positions: Vec<Position>,
    },
}

/// Pages that a sequence's rows attend to. The order of a sequence's parts is part of the numerical recipe: sums
/// over keys run part by part, page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Pages, the last one possibly not full.
    pub pages: Arc<[PageId]>,
    /// Slots in use, those that rows of this batch fill included.
    pub len: usize,
    /// What the slots are.
    pub kind: PartKind,
}

impl Part {
    /// Absolute position of slot `slot`.
    pub fn position(&self, slot: usize) -> Position {
        match &self.kind {
            PartKind::Prefix => Position(slot as u32),
            PartKind::Document { start, .. } => Position(start.0 + slot as u32),
            PartKind::Overlay { positions } => positions[slot],
        }
    }

    /// Whether slot `slot` is visible to a row at `row`.
    pub fn visible(&self, slot: usize, row: Position) -> bool {
        let hidden = matches!(&self.kind, PartKind::Document { hidden, .. } if hidden.hides(slot));
        !hidden && self.position(slot) <= row
    }
}
