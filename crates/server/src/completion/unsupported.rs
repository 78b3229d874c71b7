//! Parameters that would change the text and that this server does not honour yet: refused, never ignored.

use medley_openai::CompletionRequest;

use crate::error::ApiError;

/// Refuses every such parameter whose value is not the one that changes nothing.
pub(super) fn refuse(request: &CompletionRequest) -> Result<(), ApiError> {
    let differs = |value: Option<f64>, neutral: f64| value.is_some_and(|value| value != neutral);
    let text_only =
        |format: &serde_json::Value| format.get("type").and_then(|kind| kind.as_str()) == Some("text");
    let cases = [
        ("suffix", request.suffix.is_some(), "omit it"),
        ("prompt_logprobs", request.prompt_logprobs.is_some(), "omit it"),
        (
            "response_format",
            request
                .response_format
                .as_ref()
                .is_some_and(|format| !text_only(format)),
            "omit it or send {\"type\": \"text\"}",
        ),
        (
            "structured_outputs",
            request.structured_outputs.is_some(),
            "omit it",
        ),
        ("guided_json", request.guided_json.is_some(), "omit it"),
        ("guided_regex", request.guided_regex.is_some(), "omit it"),
        ("guided_choice", request.guided_choice.is_some(), "omit it"),
        ("guided_grammar", request.guided_grammar.is_some(), "omit it"),
        (
            "max_completion_tokens",
            request.max_completion_tokens.is_some(),
            "send `max_tokens`",
        ),
        (
            "truncate_prompt_tokens",
            request.truncate_prompt_tokens.is_some(),
            "omit it",
        ),
        (
            "allowed_token_ids",
            request.allowed_token_ids.is_some(),
            "omit it",
        ),
        (
            "bad_words",
            request.bad_words.as_ref().is_some_and(|words| !words.is_empty()),
            "omit it or send []",
        ),
        (
            "use_beam_search",
            request.use_beam_search == Some(true),
            "omit it or send false",
        ),
        (
            "length_penalty",
            differs(request.length_penalty, 1.0),
            "omit it or send 1",
        ),
        (
            "include_stop_str_in_output",
            request.include_stop_str_in_output == Some(true),
            "omit it or send false",
        ),
    ];
    match cases.into_iter().find(|(_, given, _)| *given) {
        Some((param, _, instead)) => Err(ApiError::unsupported(
            param,
            format!("this server does not support `{param}` yet: {instead}"),
        )),
        None => Ok(()),
    }
}
