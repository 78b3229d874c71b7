//! How far one answer is from another: as distributions and as words.

mod divergence;
mod words;

pub use divergence::Divergence;
pub use words::{f1, normalise};
