//! `GET /live`: the process answers.

use axum::Json;
use medley_openai::Health;

/// The process answers, whatever it is doing.
#[utoipa::path(
    get,
    path = "/live",
    tag = "operations",
    responses((status = 200, description = "The process answers", body = Health)),
)]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "live" })
}
