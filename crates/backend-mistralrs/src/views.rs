//! Parts as the kernels read them: plain numbers instead of typed ids.

use medley_backend::{Batch, Part, PartKind};
use medley_kernels::cpu::attention::{PartView, Positions};

/// The numbers of every part of every sequence; views borrow from it.
pub(crate) struct PartNumbers<'a> {
    sequences: Vec<Vec<Numbers<'a>>>,
}

struct Numbers<'a> {
    part: &'a Part,
    pages: Vec<u32>,
    /// Positions of an overlay's slots.
    positions: Vec<u32>,
}

impl<'a> PartNumbers<'a> {
    pub fn new(batch: &'a Batch) -> Self {
        let sequences = batch.sequences.iter();
        Self {
            sequences: sequences
                .map(|s| s.parts.iter().map(Numbers::new).collect())
                .collect(),
        }
    }

    /// For every sequence the views of its parts, in their order.
    pub fn views(&self) -> Vec<Vec<PartView<'_>>> {
        self.sequences
            .iter()
            .map(|parts| parts.iter().map(Numbers::view).collect())
            .collect()
    }
}

impl<'a> Numbers<'a> {
    fn new(part: &'a Part) -> Self {
        let pages = part.pages.iter().map(|page| page.0).collect();
        let positions = match &part.kind {
            PartKind::Overlay { positions } => positions[..part.len].iter().map(|p| p.0).collect(),
            PartKind::Prefix | PartKind::Document { .. } => Vec::new(),
        };
        Self {
            part,
            pages,
            positions,
        }
    }

    fn view(&self) -> PartView<'_> {
        let (positions, turn, hidden) = match &self.part.kind {
            PartKind::Prefix => (Positions::From(0), 0, None),
            PartKind::Document { start, local, hidden } => (
                Positions::From(start.0),
                i64::from(start.0) - i64::from(local.0),
                Some(hidden.words()),
            ),
            PartKind::Overlay { .. } => (Positions::List(&self.positions), 0, None),
        };
        PartView {
            pages: &self.pages,
            len: self.part.len,
            positions,
            turn,
            hidden,
        }
    }
}
