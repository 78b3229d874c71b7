//! Decoders and weights on mistral.rs' crates, and the page pool that they run against.
//!
//! [`load`] turns a [`ModelSource`] (GGUF file, folder of safetensors, hub id) into a [`Loaded`]: a backend, what is
//! known of the model, and its tokenizer as plain data. Every source ends in the same matrices, packed f32 on the CPU and
//! bf16 on CUDA (a feature), so there is one numerical path for each.
//!
//! A file is never trusted: a damaged or unsupported model is a [`LoadError`] that names what is wrong, and
//! models whose attention would be computed wrongly (sliding windows, position tables that depend on the
//! length of the prompt) are refused.
//!
//! This crate knows no text, no requests and no selection rules.

mod architecture;
mod check;
mod config;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
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
#[cfg(feature = "cuda")]
mod random;
mod rope;
mod rows;
mod source;
mod tensors;
mod tokenizer;
mod views;

pub use architecture::Architecture;
pub use cpu::CpuBackend;
#[cfg(feature = "cuda")]
pub use cuda::CudaBackend;
pub use error::LoadError;
pub use info::ModelInfo;
pub use load::{Loaded, Opened, load, open};
pub use options::{ComputeDevice, HubOptions, LoadOptions, PoolSize};
pub use progress::{Progress, ProgressFn, terminal_progress};
#[cfg(feature = "cuda")]
pub use random::{Shape, attention_error, load_random};
pub use source::{ModelSource, UnknownSource};
pub use tokenizer::TokenizerSource;

/// Whether CUDA device `ordinal` can be used, and if not, why.
pub fn check_cuda(ordinal: usize) -> Result<(), LoadError> {
    #[cfg(feature = "cuda")]
    return Ok(medley_kernels::cuda::Device::check(ordinal)?);
    #[cfg(not(feature = "cuda"))]
    Err(load::no_cuda(ordinal))
}
