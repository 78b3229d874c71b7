//! The result of a selection.

use std::sync::Arc;

use medley_kv::{Position, Span};

/// The document positions that are recomputed in their context. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs(Arc<[Position]>);

impl Repairs {
    /// From positions in any order.
    pub(crate) fn new(mut positions: Vec<Position>) -> Self {
        positions.sort_unstable();
        positions.dedup();
        Self(positions.into())
    }

    /// All of them, ascending and unique.
    pub fn positions(&self) -> &[Position] {
        &self.0
    }

    /// Those that lie in `span`.
    pub fn in_span(&self, span: Span) -> &[Position] {
        let from = self.0.partition_point(|p| p.0 < span.start);
        let to = self.0.partition_point(|p| p.0 < span.end());
        &self.0[from..to]
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is repaired.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_takes_its_own_positions_only() {
        let repairs = Repairs::new([9, 3, 4, 3, 7].map(Position).to_vec());
        assert_eq!(repairs.positions(), [3, 4, 7, 9].map(Position));
        assert_eq!(repairs.in_span(Span { start: 4, len: 5 }), [4, 7].map(Position));
        assert!(repairs.in_span(Span { start: 5, len: 2 }).is_empty());
        assert!(repairs.in_span(Span { start: 4, len: 0 }).is_empty());
    }
}
