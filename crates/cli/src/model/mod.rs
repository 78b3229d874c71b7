//! From the configuration to a running engine.

mod source;
mod start;
mod text;

pub use source::{Choice, choose};
pub use start::start;
