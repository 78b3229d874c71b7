//! What a chat request shares with completions, and what it can't ask.

use medley_generate::ModelCard;
use medley_openai::{ChatRequest, CompletionRequest};

use super::super::{limits::within, shape::Shape};
use crate::{Quality, ServerConfig, error::ApiError};

/// Most alternatives reported with a token.
const MOST_LOGPROBS: u32 = 20;

/// Everything of a request but its conversation, checked.
pub(super) fn shape(
    request: &ChatRequest,
    card: &ModelCard,
    config: &ServerConfig,
    quality: &Quality,
) -> Result<Shape, ApiError> {
    refuse(request)?;
    let max_tokens = max_tokens(request)?;
    let logprobs = logprobs(request)?;
    let shape = Shape::new(&as_completion(request, max_tokens), card, config, quality)?;
    if shape.n > config.max_choices {
        let message = format!("`n` may be {} at most, not {}", config.max_choices, shape.n);
        return Err(ApiError::invalid("n", message));
    }
    Ok(Shape {
        max_tokens,
        logprobs,
        ..shape
    })
}

/// Without a limit there is the room behind the prompt.
fn max_tokens(request: &ChatRequest) -> Result<usize, ApiError> {
    let (param, asked) = match (request.max_completion_tokens, request.max_tokens) {
        (Some(one), Some(other)) if one != other => {
            let message = "`max_tokens` is another name of `max_completion_tokens`: send one of them";
            return Err(ApiError::invalid("max_tokens", message));
        }
        (Some(asked), _) => ("max_completion_tokens", Some(asked)),
        (None, asked) => ("max_tokens", asked),
    };
    within(param, asked, 1..=u64::MAX)?;
    Ok(asked.map_or(usize::MAX, |asked| usize::try_from(asked).unwrap_or(usize::MAX)))
}

fn logprobs(request: &ChatRequest) -> Result<Option<u8>, ApiError> {
    within("top_logprobs", request.top_logprobs, 0..=MOST_LOGPROBS)?;
    let top = request.top_logprobs.unwrap_or(0);
    match request.logprobs {
        Some(true) => Ok(u8::try_from(top).ok()),
        _ if top > 0 => Err(ApiError::invalid(
            "top_logprobs",
            "`top_logprobs` goes with `logprobs: true` only",
        )),
        _ => Ok(None),
    }
}

/// Refuses what chat has not, whose value is not the one that changes nothing.
fn refuse(request: &ChatRequest) -> Result<(), ApiError> {
    let is_any = |value: &Option<serde_json::Value>, names: &[&str]| {
        value
            .as_ref()
            .is_none_or(|value| value.as_str().is_some_and(|name| names.contains(&name)))
    };
    let cases = [
        (
            "instructions",
            request.instructions.is_none(),
            "chat has no `instructions`: send them as the system message",
        ),
        (
            "echo",
            request.echo != Some(true),
            "chat has no `echo`: omit it or send false",
        ),
        (
            "chat_template",
            request.chat_template.is_none(),
            "a request brings no template: have the server started with `--chat-template`",
        ),
        (
            "return_token_ids",
            request.return_token_ids != Some(true),
            "chat answers carry no token ids: omit it or send false",
        ),
        (
            "functions",
            request.functions.is_none(),
            "`functions` are `tools` today: send those",
        ),
        (
            "function_call",
            is_any(&request.function_call, &["none", "auto"]),
            "`function_call` is `tool_choice` today: send that",
        ),
        (
            "modalities",
            request
                .modalities
                .iter()
                .flatten()
                .all(|modality| modality == "text"),
            "this server answers in text: omit it or send [\"text\"]",
        ),
    ];
    match cases.into_iter().find(|(_, fine, _)| !fine) {
        Some((param, _, message)) => Err(ApiError::unsupported(param, message)),
        None => Ok(()),
    }
}

/// What both endpoints take under the same names.
fn as_completion(request: &ChatRequest, max_tokens: usize) -> CompletionRequest {
    CompletionRequest {
        max_tokens: Some(max_tokens as u64),
        blend: request.blend,
        cache_salt: request.cache_salt.clone(),
        n: request.n,
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        seed: request.seed,
        stop: request.stop.clone(),
        stop_token_ids: request.stop_token_ids.clone(),
        ignore_eos: request.ignore_eos,
        stream: request.stream,
        stream_options: request.stream_options,
        presence_penalty: request.presence_penalty,
        frequency_penalty: request.frequency_penalty,
        repetition_penalty: request.repetition_penalty,
        logit_bias: request.logit_bias.clone(),
        min_p: request.min_p,
        min_tokens: request.min_tokens,
        prompt_logprobs: request.prompt_logprobs,
        return_token_ids: request.return_token_ids,
        priority: request.priority,
        response_format: request.response_format.clone(),
        structured_outputs: request.structured_outputs.clone(),
        guided_json: request.guided_json.clone(),
        guided_regex: request.guided_regex.clone(),
        guided_choice: request.guided_choice.clone(),
        guided_grammar: request.guided_grammar.clone(),
        truncate_prompt_tokens: request.truncate_prompt_tokens,
        allowed_token_ids: request.allowed_token_ids.clone(),
        bad_words: request.bad_words.clone(),
        use_beam_search: request.use_beam_search,
        length_penalty: request.length_penalty,
        include_stop_str_in_output: request.include_stop_str_in_output,
        ..CompletionRequest::default()
    }
}
