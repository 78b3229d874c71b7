//! The shape of every failure.

use serde::Serialize;
use utoipa::ToSchema;

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorResponse {
    /// What went wrong.
    pub error: ErrorObject,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorObject {
    /// For people.
    pub message: String,
    /// The class of the failure.
    #[serde(rename = "type")]
    #[schema(example = "invalid_request_error")]
    pub kind: &'static str,
    /// Path of the parameter at fault, such as `documents[2].id`.
    pub param: Option<String>,
    /// The failure, for programs.
    #[schema(example = "context_length_exceeded")]
    pub code: Option<&'static str>,
}
