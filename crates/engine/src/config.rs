//! What the engine is told at its start.

use std::sync::Arc;

use medley_kv::{Namespace, Source, TokenId};

/// Limits and identities of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Tokens of prompt and answer together.
    pub max_model_len: usize,
    /// Requests that run at once.
    pub max_sequences: usize,
    /// Requests that wait at most; more are refused.
    pub max_queue: usize,
    /// Rows of a step while nothing is being streamed.
    pub step_rows: usize,
    /// Rows of a step beside running streams: bounds the time between their tokens.
    pub mixed_step_rows: usize,
    /// Pages that resident documents and prefixes may take together.
    pub resident_pages: usize,
    /// Everything that decides a KV entry's bits besides tokens and tenant.
    pub namespace: Namespace,
    /// What a resident document's source is called: pages in host memory or on the device.
    pub resident_source: Source,
    /// Tokens that end a text.
    pub end_of_text: Arc<[TokenId]>,
    /// Why the model does not blend; documents are then prefilled.
    pub unsupported: Option<String>,
}
