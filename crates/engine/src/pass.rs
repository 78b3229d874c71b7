//! A pass: ascending rows of the overlay, run over as many steps as it takes.
//!
//! Splitting changes nothing: a row sees only positions up to its own, and those ran before it or with it. Every piece
//! attends to the same parts, in which slots of rows that have not run yet lie behind everything that runs.

use medley_backend::{Depth, Deviation, ProbeRow, Scores};
use medley_blend::Observed;
use medley_kv::{Position, TokenId};

use crate::{
    chunk::{Chunk, ChunkRow, Results, Wanted},
    holdings::Holdings,
};

/// What a pass is for.
enum Purpose {
    /// Attention of some rows to the documents; `None` for rows that are not observed. A hop asks what lies in
    /// *other* documents: a token's own surroundings would take all the mass.
    Probe {
        weights: Vec<Option<f32>>,
        hop: bool,
        scores: Scores,
    },
    /// Distance of recomputed keys at a layer from the canonical ones.
    Compare { layer: usize, values: Vec<f32> },
    /// The final pass, or its first part: rows up to the question. The last row of the prompt continues it.
    Repair { ends: bool },
}

/// Rows to run over the canonical documents, in ascending order. Row `i` goes to overlay slot `i`.
pub(crate) struct Pass {
    rows: Vec<Position>,
    /// Document positions among the rows: their canonical slots are hidden.
    hidden: Vec<Position>,
    done: usize,
    /// Rows that decide how sums are cut: those that run one after the other, whatever had run before.
    length: usize,
    purpose: Purpose,
}

impl Pass {
    /// Observes some of `rows`. Rows behind the last observed one are left out.
    pub(crate) fn probe(
        mut rows: Vec<Position>,
        hidden: Vec<Position>,
        observed: &Observed,
        question: Position,
    ) -> Self {
        let weight_of = |position: Position| match observed {
            Observed::Question => (position == question).then_some(1.0),
            Observed::Rows(rows) => rows.iter().find(|(p, _)| *p == position).map(|(_, w)| *w),
        };
        let mut weights: Vec<_> = rows.iter().map(|&p| weight_of(p)).collect();
        let end = weights
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        rows.truncate(end);
        weights.truncate(end);
        let hop = matches!(observed, Observed::Rows(_));
        Self::new(
            rows,
            hidden,
            Purpose::Probe {
                weights,
                hop,
                scores: Scores::default(),
            },
        )
    }

    /// Compares the keys of the document rows among `rows` at `layer`.
    pub(crate) fn compare(rows: Vec<Position>, hidden: Vec<Position>, layer: usize) -> Self {
        Self::new(
            rows,
            hidden,
            Purpose::Compare {
                layer,
                values: Vec::new(),
            },
        )
    }

    /// The final pass, up to the prompt's last row if it `ends` there.
    pub(crate) fn repair(rows: Vec<Position>, hidden: Vec<Position>, ends: bool) -> Self {
        Self::new(rows, hidden, Purpose::Repair { ends })
    }

    /// What follows when the first `done` of `rows` have run: the rest of the prompt.
    pub(crate) fn rest(rows: Vec<Position>, hidden: Vec<Position>, done: usize) -> Self {
        let length = rows.len() - done;
        Self {
            done,
            length,
            ..Self::repair(rows, hidden, true)
        }
    }

    /// The last of `rows`, which is the last of `length` that ran one after the other, is run again.
    pub(crate) fn repeat_last(rows: Vec<Position>, hidden: Vec<Position>, length: usize) -> Self {
        Self {
            done: rows.len().saturating_sub(1),
            length,
            ..Self::repair(rows, hidden, true)
        }
    }

    fn new(rows: Vec<Position>, hidden: Vec<Position>, purpose: Purpose) -> Self {
        debug_assert!(rows.is_sorted() && hidden.is_sorted());
        Self {
            length: rows.len(),
            rows,
            hidden,
            done: 0,
            purpose,
        }
    }

    /// Further rows, as there is room. `wanted` of the last row of the final pass.
    pub(crate) fn offer(
        &self,
        room: usize,
        tokens: &[TokenId],
        holdings: &Holdings,
        wanted: Wanted,
    ) -> Option<Chunk> {
        let end = self.rows.len().min(self.done + room);
        if self.done == end {
            return None;
        }
        let row = |i: usize| {
            let position = self.rows[i];
            ChunkRow {
                token: tokens[position.0 as usize],
                position,
                slot: holdings.overlay_slot(i),
            }
        };
        let mut chunk = Chunk {
            parts: holdings.parts(holdings.prefix_len, &self.hidden, &self.rows),
            pass_rows: self.length,
            rows: (self.done..end).map(row).collect(),
            ..Chunk::default()
        };
        match &self.purpose {
            Purpose::Probe { weights, hop, .. } => chunk.probe = self.observe(weights, *hop, end, holdings),
            Purpose::Compare { layer, .. } => {
                chunk.depth = Depth::Keys(*layer);
                chunk.deviations = self.references(end, holdings);
            }
            Purpose::Repair { ends } => {
                chunk.wanted = (*ends && end == self.rows.len()).then_some(wanted);
            }
        }
        Some(chunk)
    }

    fn observe(&self, weights: &[Option<f32>], hop: bool, end: usize, holdings: &Holdings) -> Vec<ProbeRow> {
        let parts = holdings.document_parts();
        let own = |p: Position| {
            holdings
                .documents
                .iter()
                .position(|o| o.span.contains(p))
                .and_then(|d| parts[d])
        };
        let except = |i: usize| if hop { own(self.rows[i]) } else { None };
        let row = |i: usize| {
            weights[i].map(|weight| ProbeRow {
                row: i - self.done,
                weight,
                except: except(i),
            })
        };
        (self.done..end).filter_map(row).collect()
    }

    fn references(&self, end: usize, holdings: &Holdings) -> Vec<Deviation> {
        let reference = |i: usize| {
            let position = self.rows[i];
            self.hidden.binary_search(&position).ok()?;
            let (reference, rotated_at) = holdings.document_slot(position)?;
            Some(Deviation {
                row: i - self.done,
                reference,
                rotated_at,
            })
        };
        (self.done..end).filter_map(reference).collect()
    }

    /// Takes what `rows` rows brought.
    pub(crate) fn accept(&mut self, rows: usize, results: &mut Results) {
        self.done += rows;
        match &mut self.purpose {
            Purpose::Probe { scores, .. } => {
                if let Some(more) = &results.scores {
                    scores.add(more);
                }
            }
            Purpose::Compare { values, .. } => values.append(&mut results.deviations),
            Purpose::Repair { .. } => {}
        }
    }

    /// Whether the prompt's last row is among the rows.
    pub(crate) fn ends(&self) -> bool {
        matches!(self.purpose, Purpose::Repair { ends: true })
    }

    /// Whether all rows ran.
    pub(crate) fn complete(&self) -> bool {
        self.done == self.rows.len()
    }

    /// What the pass costs in rows through all of so many layers; a begun row is a row.
    pub(crate) fn whole_rows(&self, layers: usize) -> usize {
        match self.purpose {
            Purpose::Compare { layer, .. } => (self.rows.len() * layer).div_ceil(layers.max(1)),
            Purpose::Probe { .. } | Purpose::Repair { .. } => self.rows.len(),
        }
    }

    /// Rows that are left to run.
    pub(crate) fn left(&self) -> usize {
        self.rows.len() - self.done
    }

    /// All rows.
    pub(crate) fn rows(&self) -> &[Position] {
        &self.rows
    }

    /// Attention masses per document of the prompt, one for each of its tokens.
    pub(crate) fn scores(&self, holdings: &Holdings) -> Vec<Vec<u64>> {
        let Purpose::Probe { scores, .. } = &self.purpose else {
            return Vec::new();
        };
        let of = |(part, occurrence): (Option<usize>, &crate::holdings::Occurrence)| {
            let found = part.and_then(|p| scores.0.get(p)).filter(|s| !s.is_empty());
            found
                .cloned()
                .unwrap_or_else(|| vec![0; occurrence.span.len as usize])
        };
        holdings
            .document_parts()
            .into_iter()
            .zip(&holdings.documents)
            .map(of)
            .collect()
    }

    /// Key deviations per document of the prompt, one for each of its tokens; 0 where none was asked.
    pub(crate) fn deviations(&self, holdings: &Holdings) -> Vec<Vec<f32>> {
        let Purpose::Compare { values, .. } = &self.purpose else {
            return Vec::new();
        };
        let mut per_document: Vec<_> = holdings
            .documents
            .iter()
            .map(|o| vec![0.0; o.span.len as usize])
            .collect();
        for (position, value) in self.hidden.iter().zip(values) {
            if let Some(d) = holdings.documents.iter().position(|o| o.span.contains(*position)) {
                per_document[d][(position.0 - holdings.documents[d].span.start) as usize] = *value;
            }
        }
        per_document
    }
}
