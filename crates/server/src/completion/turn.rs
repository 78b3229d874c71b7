//! Preparing requests, which takes time and is not for every thread.

use crate::{AppState, error::ApiError, request_id::RequestId};

/// Runs `prepare` when it is this request's turn, where blocking is allowed: megabytes are tokenised, not on a thread
/// that other requests' tokens pass through.
pub(crate) async fn in_turn<T: Send + 'static>(
    state: &AppState,
    id: &RequestId,
    prepare: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let turn = state.turn().await?;
    let preparing = tokio::task::spawn_blocking(move || {
        // Held to the end even if nobody waits for it any more: it is the threads that are counted.
        let _turn = turn;
        prepare()
    });
    preparing.await.map_err(|_| {
        // What a panic says may quote the prompt.
        tracing::error!(request_id = %id, "a request could not be prepared");
        ApiError::Server(id.clone())
    })?
}
