//! Who may ask: requests that come with a key, wherever one is asked for.

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::Response,
};

use crate::{AppState, error::ApiError};

/// Routes that are open to everybody. All others, those that are added later and those that are not there included, want
/// a key.
pub(crate) const OPEN: [&str; 7] = [
    "/health",
    "/live",
    "/ready",
    "/metrics",
    "/version",
    "/openapi.json",
    "/docs",
];

/// Middleware: refuses requests without a key, and tells handlers whose key it is.
pub(crate) async fn require(
    State(state): State<AppState>,
    route: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let keys = &state.config().api_keys;
    let open = route.is_some_and(|route| OPEN.contains(&route.as_str()));
    if !keys.is_empty() && !open {
        let key = bearer(request.headers()).ok_or(ApiError::NoKey)?;
        let tenant = keys.tenant(key).ok_or(ApiError::WrongKey)?;
        request.extensions_mut().insert(tenant);
    }
    Ok(next.run(request).await)
}

/// The key in `Authorization: Bearer KEY`; the scheme's case does not matter.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| key.trim_ascii())
        .filter(|key| !key.is_empty())
}
