//! What can be repaired, and what must be.
//!
//! Candidates are the positions of documents that are not exact, ascending. The question row splits them: those
//! up to it are chosen by what it and its past tell; those behind it have a budget of their own, so that they
//! can't change the choice among the others.

use medley_kv::{Position, Ratio, Span};

use crate::Layout;

/// One candidate: a token of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub position: Position,
    /// Index of its document among the prompt's documents.
    pub document: usize,
    /// Its place in the document.
    pub token: usize,
}

/// One side of the question row: candidates, which of them are chosen, and how many may be.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    candidates: Vec<Candidate>,
    chosen: Vec<bool>,
    /// Candidates that may yet be chosen.
    room: usize,
}

impl Field {
    /// The candidates of both sides of the question row: up to it, and behind it. Forced positions are chosen from
    /// the start and paid from the budget.
    pub fn split(layout: &Layout, ratio: Ratio) -> (Self, Self) {
        let all = layout.documents().filter(|document| !document.exact);
        let all = all.flat_map(|document| {
            let positions = document.span.positions().enumerate();
            positions.map(|(token, position)| Candidate {
                position,
                document: document.index,
                token,
            })
        });
        let (seen, behind) = all.partition(|candidate| candidate.position <= layout.question());
        let forced = forced(layout);
        (Self::new(seen, &forced, ratio), Self::new(behind, &forced, ratio))
    }

    fn new(candidates: Vec<Candidate>, forced: &[Position], ratio: Ratio) -> Self {
        let chosen: Vec<bool> = candidates
            .iter()
            .map(|candidate| forced.contains(&candidate.position))
            .collect();
        let paid = chosen.iter().filter(|&&chosen| chosen).count();
        let room = ratio.of(candidates.len()).saturating_sub(paid);
        Self {
            candidates,
            chosen,
            room,
        }
    }

    /// Candidates that may yet be chosen.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Whether the budget decides everything: nothing or all that is left is chosen.
    pub fn is_settled(&self) -> bool {
        self.room == 0 || self.room == self.chosen.iter().filter(|&&chosen| !chosen).count()
    }

    /// Which candidates are chosen.
    pub fn chosen(&self) -> &[bool] {
        &self.chosen
    }

    /// Chosen positions, ascending.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        self.candidates
            .iter()
            .zip(&self.chosen)
            .filter(|(_, chosen)| **chosen)
            .map(|(candidate, _)| candidate.position)
    }

    /// Position of a candidate.
    pub fn position(&self, index: usize) -> Position {
        self.candidates[index].position
    }

    /// Chooses candidates that were not chosen before.
    pub fn choose(&mut self, indices: &[usize]) {
        for &index in indices {
            debug_assert!(!self.chosen[index], "candidate {index} is chosen twice");
            self.chosen[index] = true;
        }
        self.room = self.room.saturating_sub(indices.len());
    }

    /// A score for every candidate.
    pub fn scores(&self, score: impl Fn(&Candidate) -> f64) -> Vec<f64> {
        self.candidates.iter().map(score).collect()
    }

    /// Scores that prefer the tokens nearest to the beginnings of their documents. Taking the best `b` is: the
    /// first `h` tokens of every document, with the largest `h` that `b` allows, then token `h` of the documents in
    /// order until `b` is spent.
    pub fn heads(&self) -> Vec<f64> {
        let mut first = Vec::new();
        for candidate in &self.candidates {
            if first.len() <= candidate.document {
                first.resize(candidate.document + 1, candidate.token);
            }
        }
        self.scores(|candidate| -((candidate.token - first[candidate.document]) as f64))
    }

    /// What attention to a candidate counts for, by its place in its document: `(place + 1)^(-1/4)`. The nearer a token
    /// stands to the beginning, the less it saw when its document was computed alone, and the further it is from what it
    /// becomes in the prompt. Measured (table in `crates/bench/README.md`). Two square roots and a division, each rounded
    /// once: the same on every machine.
    pub fn nearness(&self) -> Vec<f64> {
        self.scores(|candidate| ((candidate.token + 1) as f64).sqrt().sqrt().recip())
    }
}

/// Positions that are rows whatever the ratio: the prompt's last one and the question row, if they lie in documents.
pub(crate) fn forced(layout: &Layout) -> Vec<Position> {
    let inside = |position: &Position| layout.document_at(*position).is_some();
    let mut forced: Vec<_> = [layout.question(), layout.last()]
        .into_iter()
        .filter(inside)
        .collect();
    forced.dedup();
    forced
}

/// The value of a candidate in measurements that are kept per document and token.
pub(crate) fn lookup<T: Copy>(per_document: &[Vec<T>], candidate: &Candidate) -> Option<T> {
    per_document
        .get(candidate.document)?
        .get(candidate.token)
        .copied()
}

/// Whether `per_document` has a value for every token of every document that is not exact.
pub(crate) fn complete<T>(per_document: &[Vec<T>], spans: &[(Span, bool)]) -> bool {
    let enough =
        |(values, (span, exact)): (&Vec<T>, &(Span, bool))| *exact || values.len() == span.len as usize;
    per_document.len() == spans.len() && per_document.iter().zip(spans).all(enough)
}
