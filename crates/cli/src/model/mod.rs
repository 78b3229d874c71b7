//! From the configuration to a running engine.

mod device;
mod dialect;
#[cfg(feature = "cuda")]
mod random;
mod source;
mod start;
mod text;
mod vocabulary;

#[cfg(feature = "cuda")]
pub use device::resolve;
#[cfg(feature = "cuda")]
pub use random::start_random;
pub use source::{Choice, choose};
pub use start::{Running, Serving, start};
