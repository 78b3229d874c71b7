//! What every handler can reach.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use medley_shadow::Outcome;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Engine, Readiness, ServerConfig,
    config::DEFAULT_MODEL,
    error::ApiError,
    metrics::Metrics,
    readiness::{InFlight, Phase},
};

/// Configuration, readiness and metrics. Clones share them.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    config: ServerConfig,
    readiness: Readiness,
    metrics: Arc<Metrics>,
    preparing: Arc<Semaphore>,
}

impl AppState {
    /// The state of a server whose engine is or will be in `readiness`.
    pub fn new(config: ServerConfig, readiness: Readiness) -> Self {
        let metrics = Arc::new(Metrics::new(&config));
        let preparing = Arc::new(Semaphore::new(config.max_preparing.max(1)));
        Self(Arc::new(Inner {
            config,
            readiness,
            metrics,
            preparing,
        }))
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// A turn to tokenise a request. Whoever is dropped while waiting gives up its place.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let turn = Arc::clone(&self.0.preparing).acquire_owned().await;
        // Nobody closes the semaphore.
        turn.map_err(|_| ApiError::ShuttingDown)
    }

    /// Counts a request in whose body has been read, if the server still takes requests.
    pub(crate) fn admit(&self) -> Result<(Engine, InFlight), ApiError> {
        self.readiness().admit().map_err(ApiError::not_ready)
    }

    /// Where the outcomes of shadow checks are counted.
    pub fn shadow_recorder(&self) -> impl Fn(Outcome) + Send + Sync + use<> {
        let metrics = Arc::clone(self.metrics());
        move |outcome| metrics.shadow.record(outcome)
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The name to answer with for a requested one: itself if served, the model's own for `default` and for none.
    pub(crate) fn resolve_model(&self, requested: Option<&str>) -> Result<String, ApiError> {
        let config = self.config();
        match requested {
            Some(name) if config.served_names.iter().any(|served| served == name) => Ok(name.to_owned()),
            None | Some(DEFAULT_MODEL) => Ok(config.model_name().to_owned()),
            Some(name) => Err(ApiError::model_not_found(name)),
        }
    }
}

/// Says that the server takes generation requests. Extracted ahead of the body, so that a server that takes none does
/// not read them either. The request counts as in flight only once [`AppState::admit`] lets it in: an upload that never
/// ends must not hold the server.
pub(crate) struct Open;

impl FromRequestParts<AppState> for Open {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        match state.readiness().phase() {
            Phase::Ready => Ok(Self),
            phase => Err(ApiError::not_ready(phase)),
        }
    }
}

impl ApiError {
    /// Why a server in `phase` answers nothing.
    pub(crate) fn not_ready(phase: Phase) -> Self {
        match phase {
            Phase::Draining => Self::ShuttingDown,
            Phase::Loading | Phase::Ready => Self::Loading,
        }
    }
}
