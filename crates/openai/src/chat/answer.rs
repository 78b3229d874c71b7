//! The answers of `POST /v1/chat/completions`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{MedleyReports, Usage};

/// The answers to a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatCompletion {
    /// `chatcmpl-…`
    pub id: String,
    /// `chat.completion`
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// All answers.
    pub choices: Vec<ChatChoice>,
    /// Tokens of the request.
    pub usage: Usage,
    /// What was reused, computed and recomputed.
    pub medley: MedleyReports,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatChoice {
    /// Its place.
    pub index: usize,
    /// The answer.
    pub message: ChatMessageAnswer,
    /// Log-probabilities, if asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: ChatFinishReason,
}

/// The message of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatMessageAnswer {
    /// `assistant`
    pub role: &'static str,
    /// The text; `null` if there are only calls.
    pub content: Option<String>,
    /// Always `null`.
    pub refusal: Option<String>,
    /// What the model thought before, if it thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tools that are to be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallAnswer>,
}

/// A tool that is to be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolCallAnswer {
    /// `call_…`
    pub id: String,
    /// `function`
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What is to be called.
    pub function: FunctionAnswer,
}

/// What is to be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FunctionAnswer {
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// Its arguments as JSON, as the model wrote them: not checked against the tool's schema.
    pub arguments: String,
}

/// One event of a stream. All chunks of a stream share `id`, `created` and `model`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatChunk {
    /// `chatcmpl-…`
    pub id: String,
    /// `chat.completion.chunk`
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// What is new; empty in the last chunk of `include_usage`.
    pub choices: Vec<ChatChunkChoice>,
    /// Only with `include_usage`: `null` up to the last chunk, unless continuous.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    pub usage: Option<Option<Usage>>,
    /// Only in the last chunk of `include_usage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medley: Option<MedleyReports>,
}

/// What is new of one answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ChatChunkChoice {
    /// Its place.
    pub index: usize,
    /// What is new.
    pub delta: ChatDelta,
    /// Log-probabilities of the tokens behind it, if asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why the answer ended; `null` while it has not.
    pub finish_reason: Option<ChatFinishReason>,
}

/// What is new of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ChatDelta {
    /// `assistant`, in the first chunk of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Thoughts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls of tools, each whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
}

/// A call with its place among the calls of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolCallDelta {
    /// Its place.
    pub index: usize,
    /// The call.
    #[serde(flatten)]
    pub call: ToolCallAnswer,
}

/// Log-probabilities of generated tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ChatLogprobs {
    /// Every token.
    pub content: Vec<ChatLogprob>,
    /// Always `null`.
    #[schema(value_type = Option<Vec<ChatLogprob>>)]
    pub refusal: Option<Vec<ChatLogprob>>,
}

/// A generated token.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatLogprob {
    /// Its text; `bytes:\xe2\x80` for a token that is no whole text.
    pub token: String,
    /// Its natural log-probability.
    pub logprob: f32,
    /// Its bytes; `null` for a control token.
    pub bytes: Option<Vec<u8>>,
    /// The most probable tokens in its place, best first.
    pub top_logprobs: Vec<ChatTopLogprob>,
}

/// A probable token.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatTopLogprob {
    /// Its text.
    pub token: String,
    /// Its natural log-probability.
    pub logprob: f32,
    /// Its bytes; `null` for a control token.
    pub bytes: Option<Vec<u8>>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatFinishReason {
    /// A stop string, a stop token or the end of the text.
    Stop,
    /// The limit of tokens or the context.
    Length,
    /// Tools are to be called.
    ToolCalls,
}
