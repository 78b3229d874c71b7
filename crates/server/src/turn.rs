//! Work on tokens that takes long: megabytes are tokenised here, not on a thread that other requests' tokens pass
//! through, and only so many requests' at once.

use crate::{AppState, error::ApiError, request_id::RequestId};

/// Runs `work` where blocking is allowed, once it is this request's turn.
pub(crate) async fn in_turn<T: Send + 'static>(
    state: &AppState,
    id: &RequestId,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let turn = state.turn().await?;
    let working = tokio::task::spawn_blocking(move || {
        // Held to the end even if nobody waits for it any more: it is the threads that are counted.
        let _turn = turn;
        work()
    });
    working.await.map_err(|_| {
        // What a panic says may quote the prompt.
        tracing::error!(request_id = %id, "a request could not be prepared");
        ApiError::Server(id.clone())
    })?
}
