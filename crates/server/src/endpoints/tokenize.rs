//! `POST /tokenize`: the tokens of a text, as a plain prompt would have them.

use axum::{Json, extract::State};
use medley_openai::{ErrorResponse, TokenizeRequest, Tokenized};

use crate::{
    AppState, Engine, body::JsonBody, error::ApiError, request_id::RequestId, state::Open, turn::in_turn,
};

/// The tokens of a text, as a plain prompt would have them.
#[utoipa::path(
    post,
    path = "/tokenize",
    tag = "tokens",
    request_body = TokenizeRequest,
    responses(
        (status = 200, description = "The tokens", body = Tokenized),
        (status = 400, description = "The request is at fault; `param` and `code` say where", body = ErrorResponse),
        (status = 404, description = "`model_not_found`", body = ErrorResponse),
        (status = 408, description = "The body did not arrive in time", body = ErrorResponse),
        (status = 413, description = "The body is too long", body = ErrorResponse),
        (status = 415, description = "The body is not JSON", body = ErrorResponse),
        (status = 503, description = "`loading` or `shutting_down`", body = ErrorResponse),
    ),
)]
pub(crate) async fn tokenize(
    State(state): State<AppState>,
    id: RequestId,
    _: Open,
    JsonBody(request): JsonBody<TokenizeRequest>,
) -> Result<Json<Tokenized>, ApiError> {
    let (engine, _in_flight) = state.admit()?;
    state.resolve_model(request.model.as_deref())?;
    in_turn(&state, &id, move || tokens(&request, &engine))
        .await
        .map(Json)
}

/// The same as `/tokenize`.
#[utoipa::path(
    post,
    path = "/v1/tokenize",
    tag = "tokens",
    request_body = TokenizeRequest,
    responses(
        (status = 200, description = "The tokens", body = Tokenized),
        (status = 400, description = "The request is at fault; `param` and `code` say where", body = ErrorResponse),
        (status = 404, description = "`model_not_found`", body = ErrorResponse),
        (status = 408, description = "The body did not arrive in time", body = ErrorResponse),
        (status = 413, description = "The body is too long", body = ErrorResponse),
        (status = 415, description = "The body is not JSON", body = ErrorResponse),
        (status = 503, description = "`loading` or `shutting_down`", body = ErrorResponse),
    ),
)]
pub(crate) async fn under_v1(
    state: State<AppState>,
    id: RequestId,
    open: Open,
    body: JsonBody<TokenizeRequest>,
) -> Result<Json<Tokenized>, ApiError> {
    tokenize(state, id, open, body).await
}

fn tokens(request: &TokenizeRequest, engine: &Engine) -> Result<Tokenized, ApiError> {
    let tokenizer = engine.composer.tokenizer();
    let text = text(request)?;
    let tokens = tokenizer.encode_prompt(text, request.add_special_tokens.unwrap_or(true));
    let spelling = |_: bool| {
        let texts = tokens.iter().map(|token| tokenizer.token_text(*token).to_owned());
        texts.collect()
    };
    Ok(Tokenized {
        count: tokens.len(),
        max_model_len: engine.generate.model().max_model_len,
        token_strs: request.return_token_strs.filter(|wanted| *wanted).map(spelling),
        tokens: tokens.into_iter().map(|token| token.0).collect(),
    })
}

/// What is to be tokenised: a text, not a conversation.
fn text(request: &TokenizeRequest) -> Result<&str, ApiError> {
    if request.messages.is_some() {
        let message = "this server does not tokenise `messages` yet: send `prompt`, written in the model's chat template";
        return Err(ApiError::unsupported("messages", message));
    }
    request.prompt.as_deref().ok_or(ApiError::Missing("prompt"))
}
