//! Decoders, weights and page pools on mistral.rs' crates.
