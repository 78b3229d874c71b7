//! `POST /v1/completions`.

use std::time::Instant;

use axum::{extract::State, response::Response};
use medley_openai::{Completion, CompletionChunk, CompletionRequest, ErrorResponse};

use crate::{
    AppState,
    body::JsonBody,
    completion::{Arrival, Chunks, collect, prepare, stream, submit},
    error::ApiError,
    keys::Tenant,
    request_id::RequestId,
    state::Open,
    turn::in_turn,
};

/// Continues one or more prompts, each behind the same documents.
#[utoipa::path(
    post,
    path = "/v1/completions",
    tag = "generation",
    operation_id = "createCompletion",
    request_body = CompletionRequest,
    responses(
        (
            status = 200,
            description = "The completions, or with `stream` their chunks as server-sent events up to `[DONE]`",
            content((Completion = "application/json"), (CompletionChunk = "text/event-stream")),
            headers(
                ("x-medley-plan" = String, description = "`exact`, `blended`, `off` or `unsupported`"),
                ("x-medley-exact-prefix-tokens" = u64, description = "Prompt tokens taken from an exact prefix"),
                ("x-medley-reused-tokens" = u64, description = "Tokens of documents that were resident before, or that were found blended"),
                ("x-medley-computed-tokens" = u64, description = "Document tokens made for this request"),
                ("x-medley-repaired-tokens" = u64, description = "Document tokens recomputed in context"),
                ("x-medley-fresh-tokens" = u64, description = "All other prompt tokens"),
            ),
        ),
        (status = 400, description = "The request is at fault; `param` and `code` say where", body = ErrorResponse),
        (status = 404, description = "`model_not_found`", body = ErrorResponse),
        (status = 408, description = "The body did not arrive in time", body = ErrorResponse),
        (status = 413, description = "The body is too long", body = ErrorResponse),
        (status = 415, description = "The body is not JSON", body = ErrorResponse),
        (status = 429, description = "The queue is full", body = ErrorResponse),
        (status = 500, description = "The engine failed", body = ErrorResponse),
        (status = 503, description = "`loading` or `shutting_down`", body = ErrorResponse),
        (status = 504, description = "The answer took too long", body = ErrorResponse),
    ),
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    id: RequestId,
    tenant: Tenant,
    _: Open,
    JsonBody(request): JsonBody<CompletionRequest>,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let (engine, in_flight) = state.admit()?;
    let preparing = {
        let (state, engine) = (state.clone(), engine.clone());
        move || prepare(request, &state, &engine)
    };
    let prepared = in_turn(&state, &id, preparing).await?;
    let mut answer = submit(
        prepared,
        &state,
        &engine,
        Arrival {
            id,
            at: arrived,
            tenant,
        },
    )?;
    let tokenizer = engine.composer.tokenizer();
    if !answer.is_stream() {
        return collect(answer, tokenizer).await;
    }
    answer.planned().await?;
    Ok(stream(
        Chunks::new(answer),
        tokenizer.clone(),
        in_flight,
        state.config().keep_alive,
    ))
}
