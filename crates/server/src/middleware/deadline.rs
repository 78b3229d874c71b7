//! How long an answer may take.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::timeout;

use crate::{AppState, error::ApiError};

/// Middleware: gives a request up whose answer, or of a stream the beginning, takes longer than the configured time. What
/// it had running is cancelled as if its client had gone.
pub(crate) async fn limit(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let Some(time) = state.config().request_timeout else {
        return next.run(request).await;
    };
    match timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::AnswerTimeout(time).into_response(),
    }
}
