//! What every handler can reach.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};

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
}

impl AppState {
    /// The state of a server whose engine is or will be in `readiness`.
    pub fn new(config: ServerConfig, readiness: Readiness) -> Self {
        let metrics = Arc::new(Metrics::new(&config));
        Self(Arc::new(Inner {
            config,
            readiness,
            metrics,
        }))
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
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

/// A generation request that was let in. Extracted ahead of the body, so that a server that takes no requests does
/// not read them either.
pub(crate) struct Admitted {
    pub(crate) engine: Engine,
    pub(crate) in_flight: InFlight,
}

impl FromRequestParts<AppState> for Admitted {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let (engine, in_flight) = state.readiness().admit().map_err(ApiError::not_ready)?;
        Ok(Self { engine, in_flight })
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
