//! The request of `POST /v1/completions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{BlendParam, DocumentParam, PromptParam, StopParam, object};

/// A request for completions. Unknown fields are ignored, except inside `blend` and documents; `null` is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionRequest {
    /// A served name or `default`; absent, the served model.
    pub model: Option<String>,
    /// What to continue.
    #[schema(required = true)]
    pub prompt: Option<PromptParam>,
    /// Text in front of the documents.
    pub instructions: Option<String>,
    /// Documents between the instructions and the prompt; shared by all prompts of a batch.
    pub documents: Option<Vec<DocumentParam>>,
    /// How the documents are reused.
    #[serde(default, deserialize_with = "object::optional")]
    pub blend: Option<BlendParam>,
    /// Subdivides the cache: nothing is shared across different salts.
    #[schema(min_length = 1, max_length = 1024)]
    pub cache_salt: Option<String>,
    /// Whether the prompt begins with the model's BOS token. Default true.
    pub add_special_tokens: Option<bool>,

    /// Tokens to generate at most; what does not fit behind the prompt is cut off, with `finish_reason: length`.
    /// Default 16; 0 only with `echo`.
    pub max_tokens: Option<u64>,
    /// Completions per prompt. Default 1.
    #[schema(minimum = 1, maximum = 128)]
    pub n: Option<u32>,
    /// Completions to generate per prompt, of which the `n` with the greatest mean log-probability are returned, best
    /// first. At least `n`, the default; more only without `stream`. `usage` counts all.
    #[schema(minimum = 1, maximum = 20)]
    pub best_of: Option<u32>,
    /// 0 is greedy. Default 1.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Default 1.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// The most probable tokens to choose from; 0 or -1 for all.
    #[schema(minimum = -1)]
    pub top_k: Option<i64>,
    /// Least probability of a token as a share of the most probable one's. Default 0.
    #[schema(minimum = 0, maximum = 1)]
    pub min_p: Option<f64>,
    /// Subtracted from the logits of tokens that were generated. Default 0.
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f64>,
    /// Subtracted from a token's logit for every time that it was generated. Default 0.
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f64>,
    /// Makes tokens of the prompt and the text less probable above 1, more probable below. Default 1.
    #[schema(exclusive_minimum = 0)]
    pub repetition_penalty: Option<f64>,
    /// Added to the logits of tokens, from -100 to 100; the keys are token ids.
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// Same seed, same output. Completion i of the request takes seed + i.
    pub seed: Option<i64>,
    /// At most four strings, of at most 4096 bytes each, that end the text; they are no part of it.
    pub stop: Option<StopParam>,
    /// Tokens that end the text.
    pub stop_token_ids: Option<Vec<u32>>,
    /// Whether the model's end-of-text tokens do not end the text. Default false.
    pub ignore_eos: Option<bool>,
    /// Tokens before which neither a stop token nor a stop string ends the text; at most `max_tokens`. Default 0.
    pub min_tokens: Option<u64>,
    /// Whether the text begins with the rendered prompt. Default false.
    pub echo: Option<bool>,
    /// Most probable tokens to report with each token. With `echo` also with those of the prompt, which is then run as a
    /// plain prefill from its first token on.
    #[schema(minimum = 0, maximum = 5)]
    pub logprobs: Option<u32>,
    /// Whether choices carry the ids of their tokens. Default false.
    pub return_token_ids: Option<bool>,
    /// Of the requests that wait, those with the lowest number go first, and equal ones in the order in which they came.
    /// Default 0.
    pub priority: Option<i64>,
    /// Whether the answer is a stream of server-sent events. Default false.
    pub stream: Option<bool>,
    /// Only with `stream`.
    #[serde(default, deserialize_with = "object::optional")]
    pub stream_options: Option<StreamOptions>,

    /// Not supported.
    pub suffix: Option<String>,
    /// Not supported.
    pub prompt_logprobs: Option<i64>,
    /// Only `{"type": "text"}`.
    #[schema(value_type = Option<Object>)]
    pub response_format: Option<serde_json::Value>,
    /// Not supported.
    #[schema(value_type = Option<Object>)]
    pub structured_outputs: Option<serde_json::Value>,
    /// Not supported.
    #[schema(value_type = Option<Object>)]
    pub guided_json: Option<serde_json::Value>,
    /// Not supported.
    pub guided_regex: Option<serde_json::Value>,
    /// Not supported.
    pub guided_choice: Option<serde_json::Value>,
    /// Not supported.
    pub guided_grammar: Option<serde_json::Value>,
    /// Not supported: `max_tokens` says it here.
    pub max_completion_tokens: Option<u64>,
    /// Not supported.
    pub truncate_prompt_tokens: Option<i64>,
    /// Not supported.
    pub allowed_token_ids: Option<Vec<u32>>,
    /// Only empty.
    pub bad_words: Option<Vec<String>>,
    /// Only false.
    pub use_beam_search: Option<bool>,
    /// Only 1.
    pub length_penalty: Option<f64>,
    /// Only false.
    pub include_stop_str_in_output: Option<bool>,
}

/// What a stream carries besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Whether a last chunk carries `usage` and `medley`.
    pub include_usage: Option<bool>,
    /// With `include_usage`: whether every chunk carries the usage so far.
    pub continuous_usage_stats: Option<bool>,
}
