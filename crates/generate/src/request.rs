//! What is asked.

use std::sync::Arc;

use medley_kv::{BlendOptions, Prompt, TokenId};

use crate::Witness;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Smallest set of tokens with at least this probability; 1 keeps all.
    pub top_p: f32,
    /// The most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Same seed, same output. Without one, a random seed is drawn.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            seed: None,
        }
    }
}

/// What is changed about logits before a token is chosen from them. The default changes nothing.
///
/// Reported log-probabilities and captured logits are those of the model, before any change.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustments {
    /// Added to the logits of these tokens; each token once, all of the vocabulary.
    pub bias: Arc<[(TokenId, f32)]>,
    /// Divides positive logits of tokens that the prompt or the text holds and multiplies negative ones; 1 changes
    /// nothing.
    pub repetition_penalty: f32,
    /// Subtracted from a token's logit for every time that it was generated.
    pub frequency_penalty: f32,
    /// Subtracted from the logit of every token that was generated.
    pub presence_penalty: f32,
    /// Least probability of a token as a share of the most probable one's; 0 keeps all.
    pub min_p: f32,
    /// Tokens before which neither a stop token nor a stop string ends the text.
    pub min_tokens: usize,
}

impl Default for Adjustments {
    fn default() -> Self {
        Self {
            bias: Arc::new([]),
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            min_p: 0.0,
            min_tokens: 0,
        }
    }
}

/// What measurements want besides text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    /// The full logits of every generated token come with its event.
    pub logits: bool,
    /// These tokens are fed instead of the sampled ones, after which the request finishes.
    pub forced: Option<Arc<[TokenId]>>,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Somebody waits for the answer.
    #[default]
    Normal,
    /// Runs while nothing else runs or waits, takes no place in the queue, takes free pages only and leaves nothing
    /// resident. It fails with [`crate::GenerateError::Displaced`] where that can't be.
    Background,
}

/// The bytes that each token adds to a text.
pub trait TokenText: Send + Sync {
    /// Bytes of the token; empty for control tokens and unknown ids. Not necessarily whole UTF-8 sequences.
    fn bytes(&self, token: TokenId) -> &[u8];
}

/// A prepared request for one continuation of one prompt.
#[derive(Clone)]
pub struct Request {
    /// The prompt, not longer than the model's context.
    pub prompt: Prompt,
    /// Blending, every default resolved.
    pub blend: BlendOptions,
    /// Subdivides the tenant's cache; nothing is shared across different salts.
    pub cache_salt: Option<String>,
    /// Sampling.
    pub sampling: Sampling,
    /// What is changed about logits.
    pub adjustments: Adjustments,
    /// Tokens to generate at most; at least 1.
    pub max_tokens: usize,
    /// Strings that end the text. They are not part of it. None is empty.
    pub stop: Vec<String>,
    /// Tokens that end the text, the model's end-of-text tokens included if they are to be honoured.
    pub stop_tokens: Arc<[TokenId]>,
    /// Most probable tokens to report with each token; `None` reports no log-probabilities.
    pub logprobs: Option<u8>,
    /// Most probable tokens to report with each token of the prompt. `None` reports nothing; else the prompt is run as
    /// a plain prefill from its first token on.
    pub prompt_logprobs: Option<u8>,
    /// Measurements.
    pub capture: Capture,
    /// Who goes first.
    pub priority: Priority,
    /// Among those that wait, lower goes first; equal ones go in the order in which they came.
    pub precedence: i64,
    /// Who else learns of the answer.
    pub witness: Option<Arc<dyn Witness>>,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests wait as may wait.
    #[error("the queue is full")]
    QueueFull,
    /// More requests at once than can ever run and wait.
    #[error("{requests} choices at once are more than the {most} that may run and wait")]
    TooMany {
        /// Requests submitted together.
        requests: usize,
        /// As many may run and wait.
        most: usize,
    },
    /// The prompt and one token are more than the model's context.
    #[error("the prompt has {tokens} tokens, the context holds {context}")]
    PromptTooLong {
        /// Prompt tokens.
        tokens: usize,
        /// The context.
        context: usize,
    },
    /// The request needs more KV pages than the pool has.
    #[error("the request needs {needed} KV pages, the pool has {pages}")]
    TooLarge {
        /// Pages needed.
        needed: usize,
        /// Pages there are.
        pages: usize,
    },
    /// A token that the model has no logit for.
    #[error("token {token} is outside the model's vocabulary of {vocab}")]
    TokenOutsideVocabulary {
        /// The token.
        token: u32,
        /// Tokens below this exist.
        vocab: usize,
    },
    /// A document and what it is computed behind are more than the model's context.
    #[error("document {index} and its context have {tokens} tokens, the model's context holds {context}")]
    DocumentTooLong {
        /// Place among the prompt's documents.
        index: usize,
        /// Tokens of the document and its anchor.
        tokens: usize,
        /// The model's context.
        context: usize,
    },
    /// The check layer of `deviation` is no layer of the model behind the first.
    #[error("the check layer must be from 1 to {last}, not {layer}")]
    CheckLayer {
        /// The layer asked for.
        layer: u32,
        /// The model's last layer.
        last: u32,
    },
    /// No new requests are taken.
    #[error("shutting down")]
    ShuttingDown,
}
