//! What a request asks of blending.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RatioParam;

/// Blending of one request; what is absent takes the server's default. Other keys are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlendParam {
    /// How documents are treated.
    pub mode: Option<BlendModeParam>,
    /// Share of the document tokens that is recomputed in context.
    pub recompute_ratio: Option<RatioParam>,
    /// The rule that chooses which document tokens are recomputed.
    pub strategy: Option<StrategyParam>,
    /// Further hops of `auto` and `query`; other strategies have none.
    #[schema(minimum = 0, maximum = 8)]
    pub hops: Option<u8>,
    /// Rounds of `auto` and `query`; other strategies have one.
    #[schema(minimum = 1, maximum = 8)]
    pub rounds: Option<u8>,
    /// The layer whose keys `deviation` compares.
    #[schema(minimum = 1)]
    pub check_layer: Option<u32>,
    /// Detail of the report.
    pub report: Option<ReportParam>,
}

/// How documents are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlendModeParam {
    /// Reuse and repair.
    Auto,
    /// Plain prefill; only exact prefixes are reused.
    Exact,
    /// Plain prefill; nothing is reused and nothing is stored.
    Off,
}

/// The rule that chooses which document tokens are recomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StrategyParam {
    /// What measures best at the ratio for its cost: in this version `query`.
    Auto,
    /// The first tokens of every document.
    Heads,
    /// Largest key deviation at a check layer.
    Deviation,
    /// What the question attends to most.
    Query,
}

/// Detail of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReportParam {
    /// Counts per request and per document.
    Summary,
    /// Also the repaired ranges of every document.
    Tokens,
}
