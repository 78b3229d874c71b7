//! Token counts in OpenAI's shape.

use serde::Serialize;
use utoipa::ToSchema;

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Usage {
    /// Tokens of the prompts, each counted once whatever `n`.
    pub prompt_tokens: usize,
    /// Tokens generated over all choices.
    pub completion_tokens: usize,
    /// Their sum.
    pub total_tokens: usize,
    /// What happened to the prompt's tokens.
    pub prompt_tokens_details: PromptTokensDetails,
}

/// What happened to the prompt's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Taken from an exact prefix or from a resident document.
    pub cached_tokens: usize,
    /// Document tokens recomputed in context.
    pub repaired_tokens: usize,
    /// Document tokens whose KV was made for this request.
    pub computed_tokens: usize,
}
