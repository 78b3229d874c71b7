//! Engines to test and how to ask them.

mod asking;
mod fake;
mod real;
mod server;

pub use asking::{Answer, Ask, ask, ask_all, collect, try_ask};
pub use fake::{Engines, document, document_behind, text, words};
pub use real::{SECOND, SMALL, fetched, small_model};
pub use server::{SEPARATOR, Server};
