//! Tokens and where they stand.

use std::fmt;

/// An id in the model's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub u32);

/// An absolute position in a sequence, counted in tokens from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u32);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `len` consecutive positions from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// First position.
    pub start: u32,
    /// Number of positions.
    pub len: u32,
}

impl Span {
    /// One past the last position.
    pub fn end(self) -> u32 {
        self.start + self.len
    }

    /// Whether `position` lies inside.
    pub fn contains(self, position: Position) -> bool {
        (self.start..self.end()).contains(&position.0)
    }

    /// The positions of the span in ascending order.
    pub fn positions(self) -> impl DoubleEndedIterator<Item = Position> + ExactSizeIterator {
        (self.start..self.end()).map(Position)
    }

    /// Joins ascending positions into maximal spans.
    pub fn runs(positions: impl IntoIterator<Item = Position>) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for Position(p) in positions {
            match runs.last_mut() {
                Some(run) if run.end() == p => run.len += 1,
                _ => runs.push(Self { start: p, len: 1 }),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours_and_split_at_gaps() {
        let runs = Span::runs([3, 4, 5, 9, 11, 12].map(Position));
        let pairs: Vec<_> = runs.iter().map(|r| (r.start, r.len)).collect();
        assert_eq!(pairs, [(3, 3), (9, 1), (11, 2)]);
    }
}
