//! `GET /docs`: `/openapi.json` for people.

use axum::response::{Html, IntoResponse, Response};

/// The page: it loads nothing but `/openapi.json`.
const PAGE: &str = include_str!("docs.html");

/// What the page may do: its own script and style, and requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'";

/// This interface as a page for people.
#[utoipa::path(
    get,
    path = "/docs",
    tag = "operations",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(crate) async fn docs() -> Response {
    ([("content-security-policy", POLICY)], Html(PAGE)).into_response()
}
