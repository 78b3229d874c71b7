//! `GET /openapi.json`: this interface, described.

use axum::{
    Extension,
    body::Bytes,
    http::header,
    response::{IntoResponse, Response},
};

/// The description, encoded once.
#[derive(Clone)]
pub(crate) struct Document(pub(crate) Bytes);

/// This description.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json")),
)]
pub(crate) async fn openapi(Extension(Document(json)): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
