//! Work that a sequence or a document offers to one step, and what comes back.

use medley_backend::{Batch, Depth, Deviation, Draw, Outcome, Part, Probe, ProbeRow, Row, Scores, Sequence};
use medley_kv::{Position, SlotId, TokenId};

/// One row of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkRow {
    pub token: TokenId,
    pub position: Position,
    pub slot: SlotId,
}

/// What is wanted of a chunk's last row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// All logits.
    Logits,
    /// A token drawn from them: less to bring from a device.
    Token(Draw),
}

/// What follows a chunk's last row.
#[derive(Debug)]
pub(crate) enum Following {
    /// All logits.
    Logits(Vec<f32>),
    /// The token that was drawn.
    Token(TokenId),
}

/// Rows of one sequence. Row indices inside count from the chunk's first row.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub parts: Vec<Part>,
    /// Rows of the whole pass: see [`Sequence::pass_rows`].
    pub pass_rows: usize,
    pub rows: Vec<ChunkRow>,
    pub depth: Depth,
    /// Rows from the first on whose logits are wanted because a token of the prompt comes next.
    pub scored: usize,
    /// What is wanted of the last row.
    pub wanted: Option<Wanted>,
    pub probe: Vec<ProbeRow>,
    pub deviations: Vec<Deviation>,
}

/// What a chunk brought.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// All logits of every scored row.
    pub scored: Vec<Vec<f32>>,
    pub following: Option<Following>,
    pub scores: Option<Scores>,
    pub deviations: Vec<f32>,
}

/// A batch that remembers whose rows it holds.
pub(crate) struct Assembly<Owner> {
    pub batch: Batch,
    owners: Vec<Share<Owner>>,
}

struct Share<Owner> {
    owner: Owner,
    rows: usize,
    scored: usize,
    wanted: Option<Wanted>,
    probe: bool,
    deviations: usize,
}

impl<Owner> Assembly<Owner> {
    /// An empty batch of this depth.
    pub(crate) fn new(depth: Depth) -> Self {
        Self {
            batch: Batch {
                depth,
                ..Batch::default()
            },
            owners: Vec::new(),
        }
    }

    /// Adds a chunk of the batch's depth.
    pub(crate) fn add(&mut self, owner: Owner, chunk: Chunk) {
        debug_assert_eq!(chunk.depth, self.batch.depth);
        let (sequence, first) = (self.batch.sequences.len(), self.batch.rows.len());
        self.owners.push(Share {
            owner,
            rows: chunk.rows.len(),
            scored: chunk.scored,
            wanted: chunk.wanted,
            probe: !chunk.probe.is_empty(),
            deviations: chunk.deviations.len(),
        });
        self.batch.sequences.push(Sequence {
            parts: chunk.parts,
            pass_rows: chunk.pass_rows,
        });
        let row = |r: ChunkRow| Row {
            sequence,
            token: r.token,
            position: r.position,
            slot: r.slot,
        };
        self.batch.rows.extend(chunk.rows.into_iter().map(row));
        let last = self.batch.rows.len() - 1;
        self.batch.logits.extend(first..first + chunk.scored);
        match chunk.wanted {
            Some(Wanted::Logits) => self.batch.logits.push(last),
            Some(Wanted::Token(draw)) => self.batch.draws.push(Draw { row: last, ..draw }),
            None => {}
        }
        if !chunk.probe.is_empty() {
            let rows = chunk
                .probe
                .into_iter()
                .map(|p| ProbeRow {
                    row: first + p.row,
                    ..p
                })
                .collect();
            self.batch.probes.push(Probe { sequence, rows });
        }
        let shifted = chunk.deviations.into_iter().map(|d| Deviation {
            row: first + d.row,
            ..d
        });
        self.batch.deviations.extend(shifted);
    }

    /// Rows in the batch.
    pub(crate) fn rows(&self) -> usize {
        self.batch.rows.len()
    }

    /// Deals the outcome out: owner, rows that ran, results.
    pub(crate) fn deal(self, outcome: Outcome) -> Vec<(Owner, usize, Results)> {
        let mut logits = outcome.logits.into_iter();
        let mut drawn = outcome.drawn.into_iter().map(Following::Token);
        let mut scores = outcome.scores.into_iter();
        let mut deviations = outcome.deviations.into_iter();
        let deal = |share: Share<Owner>| {
            let results = Results {
                scored: logits.by_ref().take(share.scored).collect(),
                following: share.wanted.and_then(|wanted| match wanted {
                    Wanted::Logits => logits.next().map(Following::Logits),
                    Wanted::Token(_) => drawn.next(),
                }),
                scores: share.probe.then(|| scores.next()).flatten(),
                deviations: deviations.by_ref().take(share.deviations).collect(),
            };
            (share.owner, share.rows, results)
        };
        self.owners.into_iter().map(deal).collect()
    }

    /// Whose rows the batch holds.
    pub(crate) fn owners(self) -> impl Iterator<Item = Owner> {
        self.owners.into_iter().map(|s| s.owner)
    }
}
