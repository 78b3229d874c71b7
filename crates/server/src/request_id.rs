//! The id under which a request is logged and returned.

use std::fmt;

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, HeaderName, HeaderValue, request::Parts},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

/// Header of the id, in requests and responses.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The client's `x-request-id` if it is sane, else a made one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    fn of(headers: &HeaderMap) -> Self {
        let given = headers
            .get(X_REQUEST_ID)
            .filter(|value| is_sane(value.as_bytes()));
        Self(given.cloned().unwrap_or_else(made))
    }
}

/// Short, and of characters that can do no harm in a log.
fn is_sane(id: &[u8]) -> bool {
    (1..=128).contains(&id.len())
        && id
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.:/+=@".contains(c))
}

fn made() -> HeaderValue {
    let id = format!("req_{}", Uuid::new_v4().simple());
    HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("req_none"))
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or("req_none"))
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or_else(|| Self::of(&parts.headers)))
    }
}

/// Middleware: gives every request an id and returns it.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_REQUEST_ID, id.0);
    response
}
