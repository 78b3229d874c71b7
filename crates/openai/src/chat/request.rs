//! The request of `POST /v1/chat/completions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ChatMessage;
use crate::{BlendParam, DocumentParam, StopParam, StreamOptions, object};

/// A request for the next message of a conversation. Unknown fields are ignored, except inside `blend` and documents;
/// `null` is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// A served name or `default`; absent, the served model.
    pub model: Option<String>,
    /// The conversation so far.
    #[serde(default, deserialize_with = "object::optional_list")]
    #[schema(required = true)]
    pub messages: Option<Vec<ChatMessage>>,
    /// Documents before the last user message's text, or where the model's chat template puts documents.
    pub documents: Option<Vec<DocumentParam>>,
    /// How the documents are reused.
    #[serde(default, deserialize_with = "object::optional")]
    pub blend: Option<BlendParam>,
    /// Subdivides the cache: nothing is shared across different salts.
    #[schema(min_length = 1, max_length = 1024)]
    pub cache_salt: Option<String>,

    /// Variables of the chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<serde_json::Map<String, serde_json::Value>>,
    /// Whether the prompt ends with what an answer begins behind. Default true, false with `continue_final_message`.
    pub add_generation_prompt: Option<bool>,
    /// Whether the last message is continued instead of answered. Default false.
    pub continue_final_message: Option<bool>,
    /// How much a model that takes it from its template thinks.
    pub reasoning_effort: Option<String>,
    /// Functions that the model may call.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<serde_json::Value>>,
    /// `auto`, which is the default with `tools`, or `none`.
    #[schema(value_type = Option<Object>)]
    pub tool_choice: Option<serde_json::Value>,
    /// Whether there may be several calls in an answer. Default true.
    pub parallel_tool_calls: Option<bool>,

    /// Another name of `max_completion_tokens`.
    pub max_tokens: Option<u64>,
    /// Tokens to generate at most; what does not fit behind the prompt is cut off, with `finish_reason: length`.
    /// Default: the room left.
    #[schema(minimum = 1)]
    pub max_completion_tokens: Option<u64>,
    /// Answers. Default 1.
    #[schema(minimum = 1, maximum = 128)]
    pub n: Option<u32>,
    /// 0 is greedy. Default 1.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Default 1.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// The most probable tokens to choose from; 0 or -1 for all.
    #[schema(minimum = -1)]
    pub top_k: Option<i64>,
    /// Same seed, same output. Answer i of the request takes seed + i.
    pub seed: Option<i64>,
    /// At most four strings, of at most 4096 bytes each, that end the text; they are no part of it.
    pub stop: Option<StopParam>,
    /// Tokens that end the text.
    pub stop_token_ids: Option<Vec<u32>>,
    /// Whether the model's end-of-text tokens do not end the text. Default false.
    pub ignore_eos: Option<bool>,
    /// Whether tokens are reported with their log-probabilities. Default false.
    pub logprobs: Option<bool>,
    /// Most probable tokens to report with each token; only with `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<u32>,
    /// Whether the answer is a stream of server-sent events. Default false.
    pub stream: Option<bool>,
    /// Only with `stream`.
    #[serde(default, deserialize_with = "object::optional")]
    pub stream_options: Option<StreamOptions>,

    /// As in completions.
    pub presence_penalty: Option<f64>,
    /// As in completions.
    pub frequency_penalty: Option<f64>,
    /// As in completions.
    pub repetition_penalty: Option<f64>,
    /// As in completions.
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// As in completions.
    pub min_p: Option<f64>,
    /// As in completions.
    pub min_tokens: Option<u64>,
    /// As in completions.
    pub prompt_logprobs: Option<i64>,
    /// As in completions.
    pub return_token_ids: Option<bool>,
    /// As in completions.
    pub priority: Option<i64>,
    /// As in completions.
    #[schema(value_type = Option<Object>)]
    pub response_format: Option<serde_json::Value>,
    /// As in completions.
    #[schema(value_type = Option<Object>)]
    pub structured_outputs: Option<serde_json::Value>,
    /// As in completions.
    #[schema(value_type = Option<Object>)]
    pub guided_json: Option<serde_json::Value>,
    /// As in completions.
    pub guided_regex: Option<serde_json::Value>,
    /// As in completions.
    pub guided_choice: Option<serde_json::Value>,
    /// As in completions.
    pub guided_grammar: Option<serde_json::Value>,
    /// As in completions.
    pub truncate_prompt_tokens: Option<i64>,
    /// As in completions.
    pub allowed_token_ids: Option<Vec<u32>>,
    /// As in completions.
    pub bad_words: Option<Vec<String>>,
    /// As in completions.
    pub use_beam_search: Option<bool>,
    /// As in completions.
    pub length_penalty: Option<f64>,
    /// As in completions.
    pub include_stop_str_in_output: Option<bool>,

    /// Not in chat: the first message says it.
    pub instructions: Option<String>,
    /// Only false.
    pub echo: Option<bool>,
    /// Not supported: the server is started with a template.
    pub chat_template: Option<String>,
    /// Not supported: `tools` says it.
    #[schema(value_type = Option<Vec<Object>>)]
    pub functions: Option<serde_json::Value>,
    /// Only `none` or `auto`: `tool_choice` says it.
    #[schema(value_type = Option<Object>)]
    pub function_call: Option<serde_json::Value>,
    /// Only `["text"]`.
    pub modalities: Option<Vec<String>>,
}
