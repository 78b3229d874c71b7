//! Failures and the one table that maps them to HTTP.
//!
//! A message may repeat names and numbers that the client sent, shortened, but never its texts at length, and never
//! anything of the server's inside. Details of a 500 are logged where it arises, under the request's id.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use medley_kv::PAGE_TOKENS;
use medley_openai::{ErrorObject, ErrorResponse};
use medley_prompt::ComposeError;

use crate::request_id::RequestId;

/// Why a request got no answer, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The body is not JSON.
    #[error("{message}")]
    Json { message: String, param: Option<String> },
    /// The body is JSON, and something in it is not what belongs there.
    #[error("{message}")]
    Shape {
        code: &'static str,
        message: String,
        param: Option<String>,
    },
    /// The body broke off.
    #[error("the request's body could not be read")]
    UnreadableBody,
    /// A parameter has a value that it can't have.
    #[error("{message}")]
    Invalid { param: String, message: String },
    /// The same of a chat request, whose messages are its prompt.
    #[error(transparent)]
    OfChat(Box<Self>),
    /// The model has no chat template.
    #[error(
        "the model has no chat template that this server can use: have it started with `--chat-template`, or send a \
         prompt to /v1/completions"
    )]
    NoChatTemplate,
    /// A parameter is missing.
    #[error("missing parameter `{0}`")]
    Missing(&'static str),
    /// A parameter, or a value of it, that this server can't honour.
    #[error("{message}")]
    Unsupported { param: &'static str, message: String },
    /// The prompt can't be put together.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// The prompt does not fit into the context.
    #[error(
        "the server's context holds {context} tokens (`max_model_len`), prompt {prompt} has {tokens} and at least one is \
         generated{documents}"
    )]
    ContextLength {
        prompt: usize,
        tokens: usize,
        context: usize,
        documents: String,
    },
    /// A text is so long that its tokens need not be counted.
    #[error(
        "the server's context holds {context} tokens (`max_model_len`), `{param}` with what stands in front of it has at \
         least {least} tokens and at least one is generated"
    )]
    NeverFits {
        param: String,
        least: usize,
        context: usize,
    },
    /// The request does not fit into the KV pool; `param` is what would have to be less.
    #[error(
        "{what} need KV memory for {} tokens, each part counted in whole pages of {PAGE_TOKENS}, and the server has memory \
         for {}: {instead}, or have the server started with a larger `--host-cache-size` (on a GPU `--gpu-memory-utilization`)",
        needed * PAGE_TOKENS,
        pages * PAGE_TOKENS
    )]
    KvCapacity {
        needed: usize,
        pages: usize,
        param: &'static str,
        what: &'static str,
        instead: &'static str,
    },
    /// A reference to a document that is not there.
    #[error(
        "documents[{0}] refers to a stored document, and there are none in this version: send its text, which is reused \
         from the second time on"
    )]
    DocumentNotFound(usize),
    /// A key is wanted and there is none.
    #[error("this server wants an API key: send `Authorization: Bearer KEY`")]
    NoKey,
    /// Nobody's key.
    #[error("the API key is unknown to this server")]
    WrongKey,
    /// No such model.
    #[error("the model `{0}` does not exist")]
    ModelNotFound(String),
    /// No such path, and what to do instead.
    #[error("{0}")]
    UnknownPath(&'static str),
    /// The path has no such method.
    #[error("this path does not take this method")]
    Method,
    /// Too long a body.
    #[error("the request's body is longer than {0} bytes")]
    BodyTooLarge(usize),
    /// The body did not arrive in time.
    #[error("the request's body did not arrive within {} seconds", .0.as_secs_f64())]
    BodyTimeout(Duration),
    /// The answer took too long.
    #[error("the answer took longer than {} seconds", .0.as_secs_f64())]
    AnswerTimeout(Duration),
    /// A body of another type.
    #[error("the body must be JSON: send `content-type: application/json`")]
    MediaType,
    /// Too many requests wait.
    #[error("too many requests are waiting, try again later")]
    QueueFull,
    /// The engine or the server itself failed.
    #[error("the server failed to answer; request id {0}")]
    Server(RequestId),
    /// The engine has died.
    #[error("the engine has failed: the server must be restarted")]
    EngineFailed,
    /// The model is not loaded yet.
    #[error("the model is loading")]
    Loading,
    /// No new requests.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// How a failure looks on the wire.
struct Row {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
}

const REQUEST: &str = "invalid_request_error";
const RATE_LIMIT: &str = "rate_limit_error";
const SERVER: &str = "server_error";

/// Seconds after which a refused request may try again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// How a request is to say who it is.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");

impl ApiError {
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            param: param.into(),
            message: message.into(),
        }
    }

    pub(crate) fn unsupported(param: &'static str, message: impl Into<String>) -> Self {
        Self::Unsupported {
            param,
            message: message.into(),
        }
    }

    /// The failure of a chat request.
    pub(crate) fn of_chat(self) -> Self {
        Self::OfChat(Box::new(self))
    }

    pub(crate) fn model_not_found(name: &str) -> Self {
        Self::ModelNotFound(shorten(name, 200))
    }

    fn row(&self) -> Row {
        let (status, kind, code) = match self {
            Self::OfChat(error) => return error.row(),
            Self::NoChatTemplate => (StatusCode::BAD_REQUEST, REQUEST, "no_chat_template"),
            Self::Json { .. } => (StatusCode::BAD_REQUEST, REQUEST, "json_parse_error"),
            Self::Shape { code, .. } => (StatusCode::BAD_REQUEST, REQUEST, *code),
            Self::UnreadableBody => (StatusCode::BAD_REQUEST, REQUEST, "unreadable_body"),
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, REQUEST, "invalid_value"),
            Self::Missing(_) => (StatusCode::BAD_REQUEST, REQUEST, "missing_required_parameter"),
            Self::Unsupported { .. } => (StatusCode::BAD_REQUEST, REQUEST, "unsupported_parameter"),
            Self::Compose(error) => (
                StatusCode::BAD_REQUEST,
                REQUEST,
                error.code().unwrap_or("invalid_value"),
            ),
            Self::ContextLength { .. } | Self::NeverFits { .. } => {
                (StatusCode::BAD_REQUEST, REQUEST, "context_length_exceeded")
            }
            Self::KvCapacity { .. } => (StatusCode::BAD_REQUEST, REQUEST, "kv_capacity_exceeded"),
            Self::DocumentNotFound(_) => (StatusCode::BAD_REQUEST, REQUEST, "document_not_found"),
            Self::NoKey | Self::WrongKey => (StatusCode::UNAUTHORIZED, REQUEST, "invalid_api_key"),
            Self::ModelNotFound(_) => (StatusCode::NOT_FOUND, REQUEST, "model_not_found"),
            Self::UnknownPath(_) => (StatusCode::NOT_FOUND, REQUEST, "not_found"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, REQUEST, "method_not_allowed"),
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, REQUEST, "request_too_large"),
            Self::BodyTimeout(_) => (StatusCode::REQUEST_TIMEOUT, REQUEST, "request_timeout"),
            Self::AnswerTimeout(_) => (StatusCode::GATEWAY_TIMEOUT, SERVER, "answer_timeout"),
            Self::MediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                REQUEST,
                "unsupported_media_type",
            ),
            Self::QueueFull => (StatusCode::TOO_MANY_REQUESTS, RATE_LIMIT, "rate_limit_exceeded"),
            Self::Server(_) => (StatusCode::INTERNAL_SERVER_ERROR, SERVER, "server_error"),
            Self::EngineFailed => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "engine_failed"),
            Self::Loading => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "loading"),
            Self::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "shutting_down"),
        };
        Row { status, kind, code }
    }

    fn param(&self) -> Option<String> {
        match self {
            Self::OfChat(error) => error.param().map(|param| match param.as_str() {
                "prompt" => "messages".to_owned(),
                _ => param,
            }),
            Self::Json { param, .. } | Self::Shape { param, .. } => param.clone(),
            Self::Invalid { param, .. } | Self::NeverFits { param, .. } => Some(param.clone()),
            Self::Missing(param) | Self::Unsupported { param, .. } | Self::KvCapacity { param, .. } => {
                Some((*param).to_owned())
            }
            Self::Compose(error) => Some(error.param().to_owned()),
            Self::ContextLength { .. } => Some("prompt".to_owned()),
            Self::DocumentNotFound(index) => Some(format!("documents[{index}].id")),
            Self::ModelNotFound(_) => Some("model".to_owned()),
            _ => None,
        }
    }

    /// The label under which a refused generation request is counted, if it was refused for the server's state or
    /// size and not for a mistake in it.
    fn rejection(&self) -> Option<&'static str> {
        match self {
            Self::OfChat(error) => error.rejection(),
            Self::QueueFull => Some("queue_full"),
            Self::EngineFailed => Some("engine_failed"),
            Self::Loading => Some("loading"),
            Self::ShuttingDown => Some("shutting_down"),
            Self::ContextLength { .. } | Self::NeverFits { .. } => Some("context_length"),
            Self::KvCapacity { .. } => Some("kv_capacity"),
            Self::BodyTooLarge(_) => Some("body_too_large"),
            _ => None,
        }
    }

    /// The failure as clients see it.
    pub(crate) fn body(&self) -> ErrorResponse {
        let Row { kind, code, .. } = self.row();
        ErrorResponse {
            error: ErrorObject {
                message: self.to_string(),
                kind,
                param: self.param(),
                code: Some(code),
            },
        }
    }
}

/// Rides on a failed response for the access log and the metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) rejection: Option<&'static str>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Row { status, code, .. } = self.row();
        let mut response = (status, Json(self.body())).into_response();
        if matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, BEARER);
        }
        response.extensions_mut().insert(Failure {
            code,
            rejection: self.rejection(),
        });
        response
    }
}

/// At most `chars` characters of `text`, with an ellipsis if some were cut.
pub(crate) fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shorten("äöü", 2), "äö…");
        assert_eq!(shorten("äöü", 3), "äöü");
    }
}
