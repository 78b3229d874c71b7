//! `GET /metrics`.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use medley_openai::ErrorResponse;

use crate::{AppState, error::ApiError, request_id::RequestId};

/// Metrics in Prometheus' text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "Prometheus text format", body = String, content_type = "text/plain"),
        (status = 500, description = "The metrics could not be encoded", body = ErrorResponse),
    ),
)]
pub(crate) async fn metrics(State(state): State<AppState>, id: RequestId) -> Result<Response, ApiError> {
    let gauges = state.readiness().engine().map(|engine| engine.generate.gauges());
    match state.metrics().render(gauges.as_ref()) {
        Ok(text) => Ok((
            [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            text,
        )
            .into_response()),
        Err(error) => {
            tracing::error!(request_id = %id, error = %error, "metrics can't be encoded");
            Err(ApiError::Server(id))
        }
    }
}
