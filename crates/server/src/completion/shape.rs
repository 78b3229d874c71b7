//! What the answer is to look like and what each choice may do: a request without its prompt, checked.

use std::sync::Arc;

use medley_generate::{ModelCard, Sampling};
use medley_kv::{BlendOptions, TokenId};
use medley_openai::CompletionRequest;

use super::{blend, limits::within, sampling, unsupported};
use crate::{Quality, ServerConfig, error::ApiError};

/// Tokens that are generated if the request does not say.
const DEFAULT_MAX_TOKENS: u64 = 16;
/// Most completions of one prompt.
const MOST_CHOICES: u32 = 128;
/// Most alternatives reported with a token.
const MOST_LOGPROBS: u32 = 5;
/// Longest cache salt, in characters.
const LONGEST_SALT: usize = 1024;

/// A request without its prompt.
pub(crate) struct Shape {
    /// Completions a prompt.
    pub(super) n: usize,
    /// Tokens to generate at most, before the clamp to the room left; 0 only with `echo`.
    pub(super) max_tokens: usize,
    /// Whether texts begin with the prompt.
    pub(super) echo: bool,
    /// Alternatives to report with each token.
    pub(super) logprobs: Option<u8>,
    /// What the stream carries, if one is asked for.
    pub(crate) stream: Option<StreamShape>,
    pub(super) sampling: Sampling,
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
        Ok(Self {
            n,
            max_tokens: max_tokens(request)?,
            echo: request.echo == Some(true),
            logprobs: logprobs(request)?,
            stream: stream(request)?,
            sampling: sampling::sampling(request)?,
            stop: sampling::stop_strings(request.stop.as_ref())?,
            stop_tokens: sampling::stop_tokens(request, card)?,
            blend: blend::options(request.blend, config, quality)?,
            cache_salt: cache_salt(request)?,
        })
    }

    /// Whether the prompt is run for its account alone and what it generates is thrown away.
    pub(super) fn discards_output(&self) -> bool {
        self.max_tokens == 0
    }
}

fn choices(request: &CompletionRequest) -> Result<usize, ApiError> {
    within("n", request.n, 1..=MOST_CHOICES)?;
    let n = request.n.unwrap_or(1);
    match request.best_of {
        Some(best_of) if best_of < n => Err(ApiError::invalid(
            "best_of",
            format!("`best_of` must be at least `n`, {n}, not {best_of}"),
        )),
        Some(best_of) if best_of > n => {
            let message = "this server does not support `best_of` above `n` yet: omit it or send `n`";
            Err(ApiError::unsupported("best_of", message))
        }
        _ => Ok(n as usize),
    }
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
    if request.logprobs.is_some() && request.echo == Some(true) {
        let message = "this server does not support `logprobs` with `echo` yet: omit one of them";
        return Err(ApiError::unsupported("logprobs", message));
    }
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
