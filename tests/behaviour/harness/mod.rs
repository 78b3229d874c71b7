//! Engines to test and how to ask them.

mod asking;
mod fake;
mod real;
mod server;

pub use asking::{Answer, Ask, PATIENCE, RULES, ask, ask_all, collect, distance, live, settle, try_ask};
pub use fake::{Engines, Through, document, document_behind, text, words};
#[cfg(feature = "cuda")]
pub use real::model_on;
pub use real::{SECOND, SMALL, fetched, loaded, others, small_model, small_model_with_words, with_words};
pub use server::{SEPARATOR, Server, at_once, config};
