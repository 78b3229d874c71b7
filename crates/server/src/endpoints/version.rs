//! `GET /version`.

use axum::Json;
use medley_openai::Version;

/// The server's version.
#[utoipa::path(
    get,
    path = "/version",
    tag = "operations",
    responses((status = 200, description = "The version", body = Version)),
)]
pub(crate) async fn version() -> Json<Version> {
    Json(Version {
        version: env!("CARGO_PKG_VERSION"),
    })
}
