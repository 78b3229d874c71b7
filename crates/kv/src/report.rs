//! What was reused, computed, repaired and fresh: the account that every answer carries.

use crate::{Ratio, Span, Strategy};

/// How the prompt was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Plain causal prefill, exact prefixes reused.
    Exact,
    /// Documents reused and repaired.
    Blended,
    /// Plain causal prefill, nothing reused or stored.
    Off,
    /// The model can't blend.
    Unsupported,
}

impl Plan {
    /// The name as it stands in responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Blended => "blended",
            Self::Off => "off",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Where a document's canonical KV came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Resident in GPU pages.
    Gpu,
    /// Resident in host memory.
    Host,
    /// Loaded from the local disk.
    Disk,
    /// Loaded from a remote store.
    Remote,
    /// Made for this request.
    Computed,
}

impl Source {
    /// The name as it stands in responses and metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Host => "host",
            Self::Disk => "disk",
            Self::Remote => "remote",
            Self::Computed => "computed",
        }
    }
}

/// The prompt's tokens by what happened to them. The five sum to the prompt's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Taken from an exact prefix.
    pub exact_prefix: usize,
    /// Document tokens whose KV was resident before the request, without the repaired ones.
    pub reused: usize,
    /// Document tokens whose canonical KV was made for the request, without the repaired ones.
    pub computed: usize,
    /// Document tokens recomputed in their context.
    pub repaired: usize,
    /// Everything else: rows of this prompt alone.
    pub fresh: usize,
}

impl TokenCounts {
    /// The prompt's length.
    pub fn total(&self) -> usize {
        self.exact_prefix + self.reused + self.computed + self.repaired + self.fresh
    }
}

/// The account of one document of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentReport {
    /// Place among the prompt's documents.
    pub index: usize,
    /// The client's own name for it.
    pub name: Option<String>,
    /// `doc_…`
    pub document_id: String,
    /// Its length.
    pub tokens: usize,
    /// Absolute position of its first token.
    pub offset: usize,
    /// Where its KV came from.
    pub source: Source,
    /// As in [`TokenCounts`], for this document.
    pub reused: usize,
    /// As in [`TokenCounts`], for this document.
    pub computed: usize,
    /// As in [`TokenCounts`], for this document.
    pub repaired: usize,
    /// Absolute ranges that were repaired, in ascending order.
    pub repaired_ranges: Vec<Span>,
}

/// Durations of a request's phases, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// From submission to admission.
    pub queue: f64,
    /// Waiting for tiers.
    pub load: f64,
    /// Computing missing documents.
    pub compute_documents: f64,
    /// Probing which tokens to repair.
    pub probe: f64,
    /// Repaired and fresh rows up to the first token.
    pub prefill: f64,
}

/// The account of one prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How the prompt was run.
    pub plan: Plan,
    /// Why it was not run as asked.
    pub reason: Option<String>,
    /// Ratio in force.
    pub ratio: Ratio,
    /// Rule in force, `auto` resolved.
    pub strategy: Strategy,
    /// Hops in force.
    pub hops: u8,
    /// Rounds in force.
    pub rounds: u8,
    /// The prompt's tokens by what happened to them.
    pub tokens: TokenCounts,
    /// Rows that the selection and the final pass run behind the prefix, as whole ones: a row that stops at the keys
    /// of layer `l` of `n` counts `l/n`. 0 unless the prompt is blended.
    pub rows: usize,
    /// Per document.
    pub documents: Vec<DocumentReport>,
    /// Durations.
    pub timing: Timing,
}
