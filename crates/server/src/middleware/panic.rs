//! The safety net: a bug in a handler costs its request, not the connection.

use std::panic::AssertUnwindSafe;

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;

use crate::{error::ApiError, request_id::RequestId};

/// Middleware: answers 500 if the handler panicked. The panic itself was printed by the hook.
pub(crate) async fn catch(id: RequestId, request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(request_id = %id, "a handler panicked");
            ApiError::Server(id).into_response()
        }
    }
}
