//! How far one answer is from another: as distributions and as words.
//!
//! Pure numbers and text. It knows no requests and runs nothing: whoever measures brings both answers.

mod divergence;
mod words;

pub use divergence::Divergence;
pub use words::{f1, normalise};
