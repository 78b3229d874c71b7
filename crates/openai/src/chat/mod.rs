//! The types of `POST /v1/chat/completions`.

mod answer;
mod content;
mod message;
mod request;

pub use answer::{
    ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta, ChatFinishReason, ChatLogprob,
    ChatLogprobs, ChatMessageAnswer, ChatTopLogprob, FunctionAnswer, ToolCallAnswer, ToolCallDelta,
};
pub use content::{ContentParam, ContentPart, ContentSource, ContentSourceObject, MedleyPart, TextBlocks};
pub use message::{ChatMessage, FunctionCallParam, RoleParam, ToolCallParam};
pub use request::ChatRequest;
