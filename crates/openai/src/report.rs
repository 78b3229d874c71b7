//! The account of reuse that every answer carries.

use serde::Serialize;
use utoipa::ToSchema;

/// The account of one prompt, or in a batch the accounts of all in order.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum MedleyReports {
    /// Of the only prompt.
    One(Box<MedleyReport>),
    /// Of every prompt of a batch.
    Many(Vec<MedleyReport>),
}

/// The account of one prompt.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MedleyReport {
    /// `exact`, `blended`, `off` or `unsupported`, which this version never says.
    pub plan: &'static str,
    /// Why the prompt was not run as asked.
    pub reason: Option<String>,
    /// Share of document tokens to recompute that was in force.
    pub ratio: f32,
    /// Rule in force, `auto` resolved.
    pub strategy: &'static str,
    /// Hops in force.
    pub hops: u8,
    /// Rounds in force.
    pub rounds: u8,
    /// The prompt's tokens by what happened to them.
    pub tokens: MedleyTokens,
    /// Per document, in order.
    pub documents: Vec<MedleyDocument>,
    /// Durations in milliseconds.
    pub timing_ms: MedleyTiming,
}

/// The prompt's tokens by what happened to them. The five sum to `usage.prompt_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct MedleyTokens {
    /// Taken from an exact prefix.
    pub exact_prefix: usize,
    /// Document tokens that were resident before the request, without the repaired ones.
    pub reused: usize,
    /// Document tokens whose KV was made for the request, without the repaired ones.
    pub computed: usize,
    /// Document tokens recomputed in context.
    pub repaired: usize,
    /// All others.
    pub fresh: usize,
}

/// The account of one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MedleyDocument {
    /// Place among the documents.
    pub index: usize,
    /// The client's own name for it.
    pub id: Option<String>,
    /// The name that its content has here.
    pub document_id: String,
    /// Its length.
    pub tokens: usize,
    /// Absolute position of its first token.
    pub offset: usize,
    /// Where its KV came from: `gpu`, `host`, `disk`, `remote` or `computed`; this version never says
    /// `disk` or `remote`.
    pub source: &'static str,
    /// Tokens taken as they were.
    pub reused: usize,
    /// Tokens made for the request.
    pub computed: usize,
    /// Tokens recomputed in context.
    pub repaired: usize,
    /// Which were recomputed, as `[start, length]` in absolute positions; with `"report": "tokens"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired_ranges: Option<Vec<[u32; 2]>>,
}

/// Durations in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct MedleyTiming {
    /// Waiting for admission.
    pub queue: f64,
    /// Waiting for tiers.
    pub load: f64,
    /// Computing missing documents.
    pub compute_documents: f64,
    /// Choosing what to recompute.
    pub probe: f64,
    /// Recomputed and fresh rows up to the first token.
    pub prefill: f64,
}
