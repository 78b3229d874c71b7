//! Decoders and weights on mistral.rs' crates, and the page pool that they run against.
//!
//! [`load`] turns a [`ModelSource`] (GGUF file, folder of safetensors, hub id) into a [`Loaded`]: a
//! [`CpuBackend`], what is known of the model, and its tokenizer as plain data. Every source ends in the same
//! packed f32 matrices, so there is one numerical path.
//!
//! A file is never trusted: a damaged or unsupported model is a [`LoadError`] that names what is wrong, and
//! models whose attention would be computed wrongly (sliding windows, position tables that depend on the
//! length of the prompt) are refused.
//!
//! This crate knows no text, no requests and no selection rules.

mod architecture;
mod config;
mod cpu;
mod decoder;
mod embedding;
mod error;
mod fingerprint;
mod folder;
mod gguf;
mod hub;
mod info;
mod load;
mod options;
mod progress;
mod rope;
mod source;
mod tensors;
mod tokenizer;

pub use architecture::Architecture;
pub use cpu::CpuBackend;
pub use error::LoadError;
pub use info::ModelInfo;
pub use load::{Loaded, load};
pub use options::{HubOptions, LoadOptions, PoolSize};
pub use progress::{Progress, ProgressFn, terminal_progress};
pub use source::{ModelSource, UnknownSource};
pub use tokenizer::TokenizerSource;
