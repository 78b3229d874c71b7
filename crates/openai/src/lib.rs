//! Wire types of the HTTP interface and their schema.
//!
//! What a request may look like and what an answer looks like, as serde and utoipa types. Parsing here decides shape
//! alone: which JSON types stand where. What the values mean, which of them are allowed and what follows from them is
//! the server's. No type here knows tokens, prompts or HTTP. Every optional request field takes `null` for absent.

mod blend;
mod chat;
mod completion;
mod document;
mod error;
mod model;
mod name;
mod object;
mod prompt;
mod ratio;
mod report;
mod request;
mod stop;
mod string_or_list;
mod string_or_map;
mod tokenizer;
mod usage;

pub use blend::{BlendModeParam, BlendParam, ReportParam, StrategyParam};
pub use chat::{
    ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta, ChatFinishReason, ChatLogprob,
    ChatLogprobs, ChatMessage, ChatMessageAnswer, ChatRequest, ChatTopLogprob, ContentParam, ContentPart,
    ContentSource, ContentSourceObject, FunctionAnswer, FunctionCallParam, MedleyPart, RoleParam, TextBlocks,
    ToolCallAnswer, ToolCallDelta, ToolCallParam,
};
pub use completion::{Completion, CompletionChoice, CompletionChunk, CompletionLogprobs, FinishReason};
pub use document::{DocumentData, DocumentFields, DocumentObject, DocumentParam, Ignored};
pub use error::{ErrorObject, ErrorResponse};
pub use model::{Health, ModelBlending, ModelList, ModelObject, Version};
pub use object::Object;
pub use prompt::PromptParam;
pub use ratio::{AutoParam, RatioParam};
pub use report::{MedleyDocument, MedleyReport, MedleyReports, MedleyTiming, MedleyTokens};
pub use request::{CompletionRequest, StreamOptions};
pub use stop::StopParam;
pub use tokenizer::{AddedToken, DetokenizeRequest, Detokenized, TokenizeRequest, Tokenized, TokenizerInfo};
pub use usage::{PromptTokensDetails, Usage};
