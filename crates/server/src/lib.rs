//! The OpenAI-compatible HTTP server.
//!
//! [`router`] is the server as a service over an [`AppState`]; [`serve`] binds it to a socket and drains it on
//! shutdown. A [`Readiness`] connects it to an engine, now or when its model is loaded.
//!
//! A request goes: middleware → body (`body`) → checks, documents and tokens (`completion::prepare`) → one engine
//! request a choice (`completion::submit`) → one JSON object or a stream. Failures of every step are one type with one
//! table (`error`). This crate knows models only as [`medley_generate::Generate`] and tokens only through
//! [`medley_prompt::Composer`]; it reads no environment and no files.

mod body;
mod completion;
mod config;
mod connections;
mod endpoints;
mod error;
mod keys;
mod metrics;
mod middleware;
mod openapi;
mod quality;
mod readiness;
mod request_id;
mod router;
mod serve;
mod state;
mod turn;

pub use config::{CorsOrigins, ServerConfig};
pub use keys::ApiKeys;
pub use quality::{Gate, Quality};
pub use readiness::{Engine, Phase, Readiness};
pub use router::router;
pub use serve::{Patience, serve};
pub use state::AppState;
