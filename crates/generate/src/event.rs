//! What comes back.

use medley_kv::{Report, TokenId};
use tokio::sync::mpsc;

/// Events of one request, in order: `Planned`, any number of `Prompt`, any number of `Token`, then `Finished` or `Failed`. `Failed` may
/// come at any time. The stream ends after the last event.
pub type EventStream = mpsc::UnboundedReceiver<Event>;

/// One thing that happened to a request.
#[derive(Clone, Debug)]
pub enum Event {
    /// The prompt's account is final but for the timing.
    Planned(Box<Report>),
    /// Tokens of the prompt, continuing those before; only if their log-probabilities were asked for.
    Prompt(Vec<PromptToken>),
    /// A token was generated.
    Token(TokenEvent),
    /// The text is complete.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// Text held back until it was sure to contain no stop string; ends the text.
        text: String,
        /// The account with its timing.
        report: Box<Report>,
    },
    /// The request could not be completed.
    Failed(GenerateError),
}

/// A token of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptToken {
    /// The token.
    pub token: TokenId,
    /// Its natural log-probability behind the tokens before it; none for the first.
    pub logprob: Option<f32>,
    /// The most probable tokens in its place, best first; empty for the first.
    pub top: Vec<TopLogprob>,
}

/// A generated token.
#[derive(Clone, Debug)]
pub struct TokenEvent {
    /// The token.
    pub token: TokenId,
    /// Text that this token made certain: valid UTF-8, possibly empty, never part of a stop string.
    pub text: String,
    /// Natural log-probability of the token, if asked for.
    pub logprob: Option<f32>,
    /// The most probable tokens, best first, if asked for.
    pub top: Vec<TopLogprob>,
    /// All logits, if captured.
    pub logits: Option<Vec<f32>>,
}

/// An alternative to the token that was generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopLogprob {
    /// The token.
    pub token: TokenId,
    /// Its natural log-probability.
    pub logprob: f32,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// A stop string, a stop token or the end of the text.
    Stop,
    /// The limit of tokens or the context.
    Length,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The device failed; the request may be tried again.
    #[error("the engine failed: {0}")]
    Engine(String),
    /// A background request found no room, or gave it up for others.
    #[error("given up for other requests")]
    Displaced,
    /// The server stopped before the request was complete.
    #[error("shutting down")]
    ShuttingDown,
}
