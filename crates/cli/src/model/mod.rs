//! From the configuration to a running engine.

mod source;
mod start;
mod text;
mod vocabulary;

pub use source::{Choice, choose};
pub use start::start;
