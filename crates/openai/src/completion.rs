//! The answers of `POST /v1/completions`.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{MedleyReports, Usage};

/// Completions of all prompts of a request.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Completion {
    /// `cmpl-…`
    pub id: String,
    /// `text_completion`
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// All completions of the first prompt, then those of the second, and so on.
    pub choices: Vec<CompletionChoice>,
    /// Tokens of the request.
    pub usage: Usage,
    /// What was reused, computed and recomputed.
    pub medley: MedleyReports,
}

/// One event of a stream. All chunks of a stream share `id`, `created` and `model`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CompletionChunk {
    /// `cmpl-…`
    pub id: String,
    /// `text_completion`
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// What is new; empty in the last chunk of `include_usage`.
    pub choices: Vec<CompletionChoice>,
    /// Only with `include_usage`: `null` up to the last chunk, unless continuous.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    pub usage: Option<Option<Usage>>,
    /// Only in the last chunk of `include_usage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medley: Option<MedleyReports>,
}

/// One completion, or in a stream what is new of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct CompletionChoice {
    /// Its place: prompt index times `n`, plus the completion's index.
    pub index: usize,
    /// The text.
    pub text: String,
    /// Log-probabilities, if asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why the text ended; `null` while it has not.
    pub finish_reason: Option<FinishReason>,
    /// With `return_token_ids`: the tokens of the prompt, documents included; in a stream only in a choice's first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// With `return_token_ids`: the generated tokens, also those without a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// Log-probabilities of the text's tokens, with `echo` those of the prompt first; the four lists run in parallel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct CompletionLogprobs {
    /// The tokens' texts; `bytes:\xe2\x80` for a token that is no whole text.
    pub tokens: Vec<String>,
    /// Their natural log-probabilities; `null` for the first token of a prompt.
    pub token_logprobs: Vec<Option<f32>>,
    /// The most probable tokens in each place, the one that stands there always among them; `null` for the first
    /// token of a prompt.
    pub top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
    /// Where each token begins in the text, in characters.
    pub text_offset: Vec<usize>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// A stop string, a stop token or the end of the text.
    Stop,
    /// The limit of tokens or the context.
    Length,
}
