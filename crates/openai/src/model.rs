//! Models and the state of the server.

use serde::Serialize;
use utoipa::ToSchema;

/// The served names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelList {
    /// `list`
    pub object: &'static str,
    /// One entry a name.
    pub data: Vec<ModelObject>,
}

/// A served name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelObject {
    /// The name.
    pub id: String,
    /// `model`
    pub object: &'static str,
    /// Unix time in seconds at which the server came up.
    pub created: u64,
    /// `medley`
    pub owned_by: &'static str,
    /// Tokens of prompt and answer together.
    pub max_model_len: usize,
    /// Whether documents are reused.
    pub medley: ModelBlending,
}

/// Whether a model blends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelBlending {
    /// Whether documents are reused at any position.
    pub blends: bool,
    /// If not, why.
    pub reason: Option<String>,
}

/// The state of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    /// `ready`, or of `/live` `live`.
    pub status: &'static str,
}

/// The version of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Version {
    /// Semantic version.
    pub version: &'static str,
}
