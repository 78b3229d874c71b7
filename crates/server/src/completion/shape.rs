//! What the answer is to look like and what each choice may do: a request without its prompt, checked.

use std::sync::Arc;

use medley_generate::{Adjustments, ModelCard, Sampling};
use medley_kv::{BlendOptions, TokenId};
use medley_openai::CompletionRequest;

use super::{adjustments, blend, limits::within, sampling, unsupported};
use crate::{Quality, ServerConfig, error::ApiError};

/// Tokens that are generated if the request does not say.
const DEFAULT_MAX_TOKENS: u64 = 16;
/// Most completions of one prompt.
const MOST_CHOICES: u32 = 128;
/// Most alternatives reported with a token.
const MOST_LOGPROBS: u32 = 5;
/// Most completions of one prompt to choose from.
const MOST_CANDIDATES: u32 = 20;
/// Longest cache salt, in characters.
const LONGEST_SALT: usize = 1024;

/// A request without its prompt.
pub(crate) struct Shape {
    /// Completions of a prompt that are returned.
    pub(super) n: usize,
    /// Completions of a prompt that are generated; at least as many.
    pub(super) best_of: usize,
    /// Tokens to generate at most, before the clamp to the room left; 0 only with `echo`.
    pub(super) max_tokens: usize,
    /// Whether texts begin with the prompt.
    pub(super) echo: bool,
    /// Alternatives to report with each token.
    pub(super) logprobs: Option<u8>,
    /// Whether choices carry the ids of their tokens.
    pub(super) return_token_ids: bool,
    /// What the stream carries, if one is asked for.
    pub(crate) stream: Option<StreamShape>,
    pub(super) sampling: Sampling,
    pub(super) adjustments: Adjustments,
    /// Lower goes first.
    pub(super) precedence: i64,
    pub(super) stop: Vec<String>,
    pub(super) stop_tokens: Arc<[TokenId]>,
    pub(super) blend: BlendOptions,
    pub(super) cache_salt: Option<String>,
}

/// What a stream carries besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamShape {
    /// A last chunk with the usage.
    pub(super) usage: bool,
    /// The usage so far in every chunk.
    pub(super) continuous: bool,
}

impl Shape {
    /// Checks everything that does not depend on the prompt.
    pub(super) fn new(
        request: &CompletionRequest,
        card: &ModelCard,
        config: &ServerConfig,
        quality: &Quality,
    ) -> Result<Self, ApiError> {
        unsupported::refuse(request)?;
        let n = choices(request)?;
        let max_tokens = max_tokens(request)?;
        Ok(Self {
            n: n as usize,
            best_of: best_of(request, n)?,
            max_tokens,
            echo: request.echo == Some(true),
            logprobs: logprobs(request)?,
            return_token_ids: request.return_token_ids == Some(true),
            stream: stream(request)?,
            sampling: sampling::sampling(request)?,
            adjustments: adjustments::adjustments(request, card, max_tokens)?,
            precedence: request.priority.unwrap_or(0),
            stop: sampling::stop_strings(request.stop.as_ref())?,
            stop_tokens: sampling::stop_tokens(request, card)?,
            blend: blend::options(request.blend, config, quality)?,
            cache_salt: cache_salt(request)?,
        })
    }

    /// What multiplies the prompts.
    pub(super) fn factor(&self) -> &'static str {
        match self.best_of > self.n {
            true => "best_of",
            false => "n",
        }
    }

    /// The parameter to change where there are too many choices.
    pub(super) fn multiplier(&self) -> &'static str {
        match self.best_of {
            1 => "prompt",
            _ => self.factor(),
        }
    }

    /// Alternatives to report with each token of the prompt: where it is shown and log-probabilities are.
    pub(super) fn prompt_logprobs(&self) -> Option<u8> {
        self.logprobs.filter(|_| self.echo)
    }

    /// Alternatives that the engine is to report: the best completions are found by their log-probabilities.
    pub(super) fn generated_logprobs(&self) -> Option<u8> {
        self.logprobs.or((self.best_of > self.n).then_some(0))
    }

    /// Whether the prompt is run for its account alone and what it generates is thrown away.
    pub(super) fn discards_output(&self) -> bool {
        self.max_tokens == 0
    }
}

fn choices(request: &CompletionRequest) -> Result<u32, ApiError> {
    within("n", request.n, 1..=MOST_CHOICES)?;
    Ok(request.n.unwrap_or(1))
}

/// `best_of` equal to `n` says nothing, however many these are.
fn best_of(request: &CompletionRequest, n: u32) -> Result<usize, ApiError> {
    let best_of = request.best_of.unwrap_or(n);
    if best_of != n {
        within("best_of", request.best_of, 1..=MOST_CANDIDATES)?;
    }
    if best_of < n {
        let message = format!("`best_of` must be at least `n`, {n}, not {best_of}");
        return Err(ApiError::invalid("best_of", message));
    }
    if best_of > n && request.stream == Some(true) {
        let message =
            "the best of several completions are known at the end: `best_of` above `n` goes without `stream`";
        return Err(ApiError::invalid("best_of", message));
    }
    Ok(best_of as usize)
}

fn max_tokens(request: &CompletionRequest) -> Result<usize, ApiError> {
    let max_tokens = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    if max_tokens == 0 && request.echo != Some(true) {
        return Err(ApiError::invalid(
            "max_tokens",
            "`max_tokens` must be at least 1 without `echo`",
        ));
    }
    Ok(usize::try_from(max_tokens).unwrap_or(usize::MAX))
}

fn logprobs(request: &CompletionRequest) -> Result<Option<u8>, ApiError> {
    within("logprobs", request.logprobs, 0..=MOST_LOGPROBS)?;
    Ok(request.logprobs.and_then(|k| u8::try_from(k).ok()))
}

fn stream(request: &CompletionRequest) -> Result<Option<StreamShape>, ApiError> {
    match (request.stream == Some(true), request.stream_options) {
        (false, Some(_)) => Err(ApiError::invalid(
            "stream_options",
            "`stream_options` goes with `stream: true` only",
        )),
        (false, None) => Ok(None),
        (true, options) => {
            let options = options.unwrap_or_default();
            let usage = options.include_usage == Some(true);
            let continuous = usage && options.continuous_usage_stats == Some(true);
            Ok(Some(StreamShape { usage, continuous }))
        }
    }
}

fn cache_salt(request: &CompletionRequest) -> Result<Option<String>, ApiError> {
    match request.cache_salt.as_ref().map(|salt| salt.chars().count()) {
        Some(length) if !(1..=LONGEST_SALT).contains(&length) => {
            let message = format!("`cache_salt` must have 1 to {LONGEST_SALT} characters, not {length}");
            Err(ApiError::invalid("cache_salt", message))
        }
        _ => Ok(request.cache_salt.clone()),
    }
}
