//! Batches of rows and what comes back.

use medley_kv::{PageId, Position, SlotId, TokenId};

use crate::{BackendError, Draw, Part, PartKind};

/// What a sequence's rows attend to, and the pass that they are a piece of.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// In the order that sums run over them.
    pub parts: Vec<Part>,
    /// Rows of the whole pass, however many of them are in this batch. The order of a row's sums may depend on it and on
    /// the parts, which are then the same for every piece of the pass. [`ANY_LENGTH`] if it must depend on neither: where
    /// a piece of the pass may be resident already, and parts grow from piece to piece.
    pub pass_rows: usize,
}

/// Rows of a pass of which any piece may have run before: a prefix, a document.
pub const ANY_LENGTH: usize = usize::MAX;

impl Sequence {
    /// Rows of a pass of any length against these parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Self {
            parts,
            pass_rows: ANY_LENGTH,
        }
    }
}

/// One token to compute. Its query and key are rotated at `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index into [`Batch::sequences`].
    pub sequence: usize,
    /// The token.
    pub token: TokenId,
    /// Absolute position in the sequence.
    pub position: Position,
    /// Where its keys and values go. A slot of one of the sequence's parts.
    pub slot: SlotId,
}

/// A row whose attention a probe adds up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeRow {
    /// Index into [`Batch::rows`].
    pub row: usize,
    /// Factor on its attention, 0 to 1.
    pub weight: f32,
    /// A part (index into the sequence's parts) whose tokens this row does not score.
    pub except: Option<usize>,
}

/// Asks how much attention some rows of one sequence pay to every document token:
/// `Σ_rows Σ_layers Σ_heads weight · exp(s - lse)`, `s` the scaled logit and `lse` its log-sum-exp over all
/// visible parts. Each term is rounded to a multiple of 2⁻³² and summed as an integer, so that the result does
/// not depend on the order or grouping of the terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Index into [`Batch::sequences`]; the sequence of every row.
    pub sequence: usize,
    /// The rows.
    pub rows: Vec<ProbeRow>,
}

/// A row whose key at layer [`Depth::Keys`] is compared with the key that stands in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// Index into [`Batch::rows`].
    pub row: usize,
    /// The slot that holds the reference.
    pub reference: SlotId,
    /// Position at which the reference is rotated.
    pub rotated_at: Position,
}

/// How far the rows run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Through all layers.
    #[default]
    Full,
    /// Up to the keys of this layer, which are compared and not written; the layers below run in full.
    Keys(usize),
}

/// Work for one call.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Sequences that the rows belong to.
    pub sequences: Vec<Sequence>,
    /// Rows, in any order; no two of them share a slot.
    pub rows: Vec<Row>,
    /// Rows (indices) whose next-token logits are wanted. Needs [`Depth::Full`].
    pub logits: Vec<usize>,
    /// Next tokens that are wanted without their logits. Needs [`Depth::Full`].
    pub draws: Vec<Draw>,
    /// Attention to add up. Needs [`Depth::Full`].
    pub probes: Vec<Probe>,
    /// Keys to compare. Needs [`Depth::Keys`].
    pub deviations: Vec<Deviation>,
    /// How far the rows run.
    pub depth: Depth,
}

/// Attention mass in multiples of 2⁻³², per part of the probed sequence and slot; empty for parts that are no
/// documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scores(pub Vec<Vec<u64>>);

impl Scores {
    /// The factor that turns a mass into its integer.
    pub const ONE: f64 = (1u64 << 32) as f64;

    /// A mass of zero for each slot of each part that is a document.
    pub fn zeros(parts: &[Part]) -> Self {
        let zeros = |part: &Part| match part.kind {
            PartKind::Document { .. } => vec![0; part.len],
            PartKind::Prefix | PartKind::Overlay { .. } => Vec::new(),
        };
        Self(parts.iter().map(zeros).collect())
    }

    /// Adds another part of the same probe.
    pub fn add(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0 = other.0.clone();
            return;
        }
        let slots = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        slots.for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// What a call returns, in the order of what was asked.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Next-token logits, one vector of [`crate::Backend::vocab`] for each index of [`Batch::logits`].
    pub logits: Vec<Vec<f32>>,
    /// The next token ([`crate::draw`]) for each of [`Batch::draws`].
    pub drawn: Vec<TokenId>,
    /// For each of [`Batch::probes`].
    pub scores: Vec<Scores>,
    /// Squared distance over all key/value heads, for each of [`Batch::deviations`].
    pub deviations: Vec<f32>,
}

/// Checks pages that are to be copied in a pool of this size.
pub fn check_copies(pairs: &[(PageId, PageId)], pages: usize) -> Result<(), BackendError> {
    let fail = |message: String| Err(BackendError::Invalid(message));
    let mut written = std::collections::HashSet::new();
    if let Some((_, to)) = pairs.iter().find(|(_, to)| !written.insert(*to)) {
        return fail(format!("page {} is copied to twice", to.0));
    }
    if let Some((from, _)) = pairs.iter().find(|(from, _)| written.contains(from)) {
        return fail(format!("page {} is both read and written", from.0));
    }
    let mut ids = pairs.iter().flat_map(|&(from, to)| [from, to]);
    match ids.find(|id| id.0 as usize >= pages) {
        Some(id) => fail(format!("page {} of {pages}", id.0)),
        None => Ok(()),
    }
}

impl Batch {
    /// Scores of zero for every probe.
    pub fn empty_scores(&self) -> Vec<Scores> {
        let of = |probe: &Probe| Scores::zeros(&self.sequences[probe.sequence].parts);
        self.probes.iter().map(of).collect()
    }

    /// Checks what every implementation relies on; `pages` is the pool's size, `vocab` the number of token ids.
    pub fn check(&self, pages: usize, vocab: usize) -> Result<(), BackendError> {
        let fail = |message: String| Err(BackendError::Invalid(message));
        for (s, part) in self
            .sequences
            .iter()
            .enumerate()
            .flat_map(|(s, q)| q.parts.iter().map(move |p| (s, p)))
        {
            if part.pages.len() * medley_kv::PAGE_TOKENS < part.len {
                return fail(format!(
                    "sequence {s}: a part of {} slots has {} pages",
                    part.len,
                    part.pages.len()
                ));
            }
            if let Some(page) = part.pages.iter().find(|p| p.0 as usize >= pages) {
                return fail(format!("sequence {s}: page {} of {pages}", page.0));
            }
            let complete = match &part.kind {
                PartKind::Prefix => true,
                PartKind::Document { hidden, .. } => hidden.words().len() >= medley_kv::pages_for(part.len),
                PartKind::Overlay { positions } => positions.len() >= part.len,
            };
            if !complete {
                return fail(format!("sequence {s}: a part lacks positions or mask words"));
            }
        }
        for (i, row) in self.rows.iter().enumerate() {
            if row.sequence >= self.sequences.len() || row.token.0 as usize >= vocab {
                return fail(format!(
                    "row {i}: sequence {} or token {} is out of range",
                    row.sequence, row.token.0
                ));
            }
            if row.slot.page().0 as usize >= pages {
                return fail(format!("row {i}: slot {} is outside the pool", row.slot.0));
            }
        }
        let mut rows = vec![0; self.sequences.len()];
        self.rows.iter().for_each(|row| rows[row.sequence] += 1);
        let mut pieces = self
            .sequences
            .iter()
            .map(|sequence| sequence.pass_rows)
            .zip(rows)
            .enumerate();
        if let Some((s, (whole, rows))) = pieces.find(|(_, (whole, rows))| whole < rows) {
            return fail(format!("sequence {s}: {rows} rows of a pass of {whole}"));
        }
        let mut slots: Vec<_> = self.rows.iter().map(|r| r.slot).collect();
        slots.sort_unstable();
        if let Some(pair) = slots.windows(2).find(|w| w[0] == w[1]) {
            return fail(format!("two rows share slot {}", pair[0].0));
        }
        let fits = match self.depth {
            Depth::Full => self.deviations.is_empty(),
            Depth::Keys(_) => self.logits.is_empty() && self.draws.is_empty() && self.probes.is_empty(),
        };
        if !fits {
            return fail("the depth does not fit what is asked".to_owned());
        }
        let asked = self
            .logits
            .iter()
            .copied()
            .chain(self.draws.iter().map(|draw| draw.row));
        let asked = asked.chain(self.probes.iter().flat_map(|p| p.rows.iter().map(|r| r.row)));
        let mut asked = asked.chain(self.deviations.iter().map(|d| d.row));
        match asked.find(|&row| row >= self.rows.len()) {
            Some(row) => fail(format!(
                "row {row} is asked for, but there are {}",
                self.rows.len()
            )),
            None => Ok(()),
        }
    }
}
