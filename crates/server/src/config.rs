//! What the server can be told.

use std::{thread::available_parallelism, time::Duration};

use axum::http::HeaderValue;
use medley_kv::{BlendOptions, Source};

use crate::ApiKeys;

/// The configuration of the server, validated by whoever builds it.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Names under which the model answers; the first is its own. `default` always answers too.
    pub served_names: Vec<String>,
    /// Bytes that a request's body may have.
    pub body_limit: usize,
    /// Time that a request's body may take to arrive.
    pub body_timeout: Duration,
    /// Time that an answer may take, or of a stream its beginning; for ever if none.
    pub request_timeout: Option<Duration>,
    /// The keys that requests must come with.
    pub api_keys: ApiKeys,
    /// Requests that are tokenised at once; others wait for their turn.
    pub max_preparing: usize,
    /// Documents that a request may carry.
    pub max_documents: usize,
    /// Prompts × `n` that a request may ask for.
    pub max_choices: usize,
    /// What a request's `blend` leaves open.
    pub blend_defaults: BlendOptions,
    /// Whether the ratio of those is what the model needs instead of their number.
    pub auto_ratio: bool,
    /// The tier in which resident documents live; the label of its metrics.
    pub resident_tier: Source,
    /// Whose pages may call from a browser.
    pub cors: CorsOrigins,
    /// Silence after which a stream carries a comment, so that proxies keep it open.
    pub keep_alive: Duration,
}

impl ServerConfig {
    /// The defaults, for a model of this name.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            served_names: vec![model.into()],
            body_limit: 32 << 20,
            body_timeout: Duration::from_secs(30),
            request_timeout: None,
            api_keys: ApiKeys::default(),
            max_preparing: available_parallelism().map_or(1, usize::from),
            max_documents: 512,
            max_choices: 128,
            blend_defaults: BlendOptions::default(),
            auto_ratio: false,
            resident_tier: Source::Host,
            cors: CorsOrigins::Any,
            keep_alive: Duration::from_secs(15),
        }
    }

    /// The model's own name: what answers say when a request named none, and the label of metrics.
    pub(crate) fn model_name(&self) -> &str {
        self.served_names.first().map_or(DEFAULT_MODEL, String::as_str)
    }
}

/// The name that every server answers to.
pub(crate) const DEFAULT_MODEL: &str = "default";

/// Whose pages may call from a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Everybody's.
    Any,
    /// Those of these origins.
    List(Vec<HeaderValue>),
}
