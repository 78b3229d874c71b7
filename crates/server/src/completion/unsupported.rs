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
        (
            "presence_penalty",
            differs(request.presence_penalty, 0.0),
            "omit it or send 0",
        ),
        (
            "frequency_penalty",
            differs(request.frequency_penalty, 0.0),
            "omit it or send 0",
        ),
        (
            "repetition_penalty",
            differs(request.repetition_penalty, 1.0),
            "omit it or send 1",
        ),
        (
            "logit_bias",
            request.logit_bias.as_ref().is_some_and(|bias| !bias.is_empty()),
            "omit it or send {}",
        ),
        ("min_p", differs(request.min_p, 0.0), "omit it or send 0"),
        (
            "min_tokens",
            request.min_tokens.is_some_and(|least| least > 0),
            "omit it or send 0",
        ),
        ("prompt_logprobs", request.prompt_logprobs.is_some(), "omit it"),
        (
            "return_token_ids",
            request.return_token_ids == Some(true),
            "omit it or send false",
        ),
        (
            "priority",
            request.priority.is_some_and(|priority| priority != 0),
            "omit it or send 0",
        ),
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
    ];
    match cases.into_iter().find(|(_, given, _)| *given) {
        Some((param, _, instead)) => Err(ApiError::unsupported(
            param,
            format!("this server does not support `{param}` yet: {instead}"),
        )),
        None => Ok(()),
    }
}
