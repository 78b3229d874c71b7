//! What the caller decides about a model.

use std::path::PathBuf;

use crate::ProgressFn;

/// Size of the page pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoolSize {
    /// This many pages of 64 tokens.
    Pages(usize),
    /// As many pages as fit in this many bytes.
    Bytes(u64),
    /// As many pages as fit when this share of a device's memory, 0 to 1, is used for everything together.
    Utilization(f32),
}

/// What computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComputeDevice {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA device, by its number.
    Cuda(usize),
}

/// How the model hub is reached.
#[derive(Clone, Debug, Default)]
pub struct HubOptions {
    /// Overrides the hub's own default cache folder.
    pub cache: Option<PathBuf>,
    /// Overrides the hub's address.
    pub endpoint: Option<String>,
    /// Access token; by default the one that the hub's own tools have stored.
    pub token: Option<String>,
}

/// What the caller decides about a model.
pub struct LoadOptions {
    /// What computes.
    pub device: ComputeDevice,
    /// Memory for keys and values. On the CPU it is committed as pages are first written.
    pub pool: PoolSize,
    /// Threads that compute; `None` takes one for each processor.
    pub threads: Option<usize>,
    /// Longest sequence, in tokens; `None` takes the model's context length.
    pub max_model_len: Option<usize>,
    /// The model hub.
    pub hub: HubOptions,
    /// Is told how far loading has come.
    pub progress: Option<ProgressFn>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            device: ComputeDevice::Cpu,
            pool: PoolSize::Bytes(1 << 30),
            threads: None,
            max_model_len: None,
            hub: HubOptions::default(),
            progress: None,
        }
    }
}
