//! `POST /detokenize`: the text of tokens.

use axum::{Json, extract::State};
use medley_kv::TokenId;
use medley_openai::{DetokenizeRequest, Detokenized, ErrorResponse};
use medley_prompt::Tokenizer;

use crate::{AppState, body::JsonBody, error::ApiError, request_id::RequestId, state::Open, turn::in_turn};

/// The text of tokens, from which they would be read again.
#[utoipa::path(
    post,
    path = "/detokenize",
    tag = "tokens",
    request_body = DetokenizeRequest,
    responses(
        (status = 200, description = "The text", body = Detokenized),
        (status = 400, description = "The request is at fault; `param` and `code` say where", body = ErrorResponse),
        (status = 404, description = "`model_not_found`", body = ErrorResponse),
        (status = 408, description = "The body did not arrive in time", body = ErrorResponse),
        (status = 413, description = "The body is too long", body = ErrorResponse),
        (status = 415, description = "The body is not JSON", body = ErrorResponse),
        (status = 503, description = "`loading` or `shutting_down`", body = ErrorResponse),
    ),
)]
pub(crate) async fn detokenize(
    State(state): State<AppState>,
    id: RequestId,
    _: Open,
    JsonBody(request): JsonBody<DetokenizeRequest>,
) -> Result<Json<Detokenized>, ApiError> {
    let (engine, _in_flight) = state.admit()?;
    state.resolve_model(request.model.as_deref())?;
    let ids = request.tokens.ok_or(ApiError::Missing("tokens"))?;
    let text = move || text(&ids, engine.composer.tokenizer());
    in_turn(&state, &id, text).await.map(Json)
}

/// The same as `/detokenize`.
#[utoipa::path(
    post,
    path = "/v1/detokenize",
    tag = "tokens",
    request_body = DetokenizeRequest,
    responses(
        (status = 200, description = "The text", body = Detokenized),
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
    body: JsonBody<DetokenizeRequest>,
) -> Result<Json<Detokenized>, ApiError> {
    detokenize(state, id, open, body).await
}

fn text(ids: &[u32], tokenizer: &Tokenizer) -> Result<Detokenized, ApiError> {
    let size = tokenizer.vocab_size();
    if let Some(index) = ids.iter().position(|id| *id as usize >= size) {
        let message = format!(
            "token id {} is outside the vocabulary of {size} tokens",
            ids[index]
        );
        return Err(ApiError::invalid(format!("tokens[{index}]"), message));
    }
    let tokens: Vec<TokenId> = ids.iter().copied().map(TokenId).collect();
    let prompt = tokenizer.spell(&tokens);
    Ok(Detokenized { prompt })
}
