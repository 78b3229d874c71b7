//! `GET /health` and `GET /ready`: whether requests are taken.

use axum::{Json, extract::State};
use medley_openai::{ErrorResponse, Health};

use crate::{AppState, error::ApiError, readiness::Phase};

/// Whether requests are taken.
#[utoipa::path(
    get,
    path = "/health",
    tag = "operations",
    responses(
        (status = 200, description = "Requests are taken", body = Health),
        (status = 503, description = "`loading`, `shutting_down` or `engine_failed`", body = ErrorResponse),
    ),
)]
pub(crate) async fn health(State(state): State<AppState>) -> Result<Json<Health>, ApiError> {
    let failed = state
        .readiness()
        .engine()
        .is_some_and(|e| e.generate.gauges().failed);
    match state.readiness().phase() {
        Phase::Ready if failed => Err(ApiError::EngineFailed),
        Phase::Ready => Ok(Json(Health { status: "ready" })),
        phase => Err(ApiError::not_ready(phase)),
    }
}

/// The same as `/health`.
#[utoipa::path(
    get,
    path = "/ready",
    tag = "operations",
    responses(
        (status = 200, description = "Requests are taken", body = Health),
        (status = 503, description = "`loading`, `shutting_down` or `engine_failed`", body = ErrorResponse),
    ),
)]
pub(crate) async fn ready(state: State<AppState>) -> Result<Json<Health>, ApiError> {
    health(state).await
}
