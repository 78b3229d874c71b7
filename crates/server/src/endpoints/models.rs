//! `GET /v1/models` and `GET /v1/models/{*id}`.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use medley_generate::ModelCard;
use medley_openai::{ErrorResponse, ModelBlending, ModelList, ModelObject};

use crate::{AppState, error::ApiError};

/// The names under which the model is served.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "models",
    responses(
        (status = 200, description = "The served names", body = ModelList),
        (status = 503, description = "`loading`", body = ErrorResponse),
    ),
)]
pub(crate) async fn list(State(state): State<AppState>) -> Result<Json<ModelList>, ApiError> {
    let card = card(&state)?;
    let data = state
        .config()
        .served_names
        .iter()
        .map(|name| object(name.clone(), card))
        .collect();
    Ok(Json(ModelList { object: "list", data }))
}

/// One served name. The id may contain slashes.
#[utoipa::path(
    get,
    path = "/v1/models/{*id}",
    tag = "models",
    params(("id" = String, Path, description = "A served name or `default`")),
    responses(
        (status = 200, description = "The model", body = ModelObject),
        (status = 404, description = "`model_not_found`", body = ErrorResponse),
        (status = 503, description = "`loading`", body = ErrorResponse),
    ),
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelObject>, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::UnknownPath("nothing is at this path"))?;
    let name = state.resolve_model(Some(&id))?;
    Ok(Json(object(name, card(&state)?)))
}

fn card(state: &AppState) -> Result<&ModelCard, ApiError> {
    let engine = state.readiness().engine().ok_or(ApiError::Loading)?;
    Ok(engine.generate.model())
}

fn object(id: String, card: &ModelCard) -> ModelObject {
    ModelObject {
        id,
        object: "model",
        created: card.created,
        owned_by: "medley",
        max_model_len: card.max_model_len,
        medley: ModelBlending {
            blends: card.unsupported.is_none(),
            reason: card.unsupported.clone(),
        },
    }
}
