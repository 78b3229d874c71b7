//! Why a model could not be loaded. Every variant names the file, key or tensor, and refusals say what is
//! supported instead.

use std::path::PathBuf;

/// A model that can't be served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be opened or read.
    #[error("can't read {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A folder lacks a file that a model needs.
    #[error("{folder} is no model folder: {missing} is missing")]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// The file, or a description of the alternatives.
        missing: String,
    },
    /// The file's structure is broken.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What contradicts the format.
        what: String,
    },
    /// The file ends before the data that its header promises.
    #[error("{path} is truncated: {tensor} ends at byte {needed}, the file has {found}")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The first tensor that is cut.
        tensor: String,
        /// Bytes that the file must have for it.
        needed: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// No decoder for this architecture.
    #[error("architecture {found:?} is not supported; supported are {supported}")]
    Architecture {
        /// As the model calls it.
        found: String,
        /// Names of those that are.
        supported: String,
    },
    /// The model needs something that the decoders don't do.
    #[error("{feature} is not supported; supported: {supported}")]
    Unsupported {
        /// What the model asks for, with the key that says so.
        feature: String,
        /// What would work.
        supported: String,
    },
    /// A configuration value is missing or impossible.
    #[error("bad model configuration: {key}: {problem}")]
    Config {
        /// The key.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// A tensor that the architecture needs is absent.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// Its name in the file.
        name: String,
    },
    /// A tensor has another shape than the configuration implies.
    #[error("tensor {name} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Its name in the file.
        name: String,
        /// From the configuration.
        expected: Vec<usize>,
        /// In the file.
        found: Vec<usize>,
    },
    /// A tensor's data could not be decoded.
    #[error("can't decode tensor {name}")]
    Tensor {
        /// Its name in the file.
        name: String,
        /// Why.
        #[source]
        source: candle_core::Error,
    },
    /// A file could not be had from the model hub.
    #[error("can't get {file} of {id} from the model hub, and it is not in the cache at {cache}")]
    Hub {
        /// The repository.
        id: String,
        /// The file, or what was asked of the repository.
        file: String,
        /// Where cached files would be.
        cache: PathBuf,
        /// Why.
        #[source]
        source: Box<hf_hub::api::sync::ApiError>,
    },
    /// A hub repository holds no files of a known kind, or several and the id does not say which.
    #[error("{id}: {problem}")]
    Repository {
        /// The repository.
        id: String,
        /// What is missing or ambiguous.
        problem: String,
    },
    /// The device can't be used as asked.
    #[error("the device: {0}")]
    Device(String),
    /// The CUDA device or one of its libraries can't be used.
    #[cfg(feature = "cuda")]
    #[error("the CUDA device can't be used")]
    Cuda(#[source] medley_kernels::cuda::CudaError),
    /// The page pool can't be made as asked.
    #[error("the page pool: {0}")]
    Pool(String),
}

impl LoadError {
    /// Whether the device is what can't be used, and not the model.
    pub fn concerns_device(&self) -> bool {
        match self {
            Self::Device(_) => true,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => true,
            _ => false,
        }
    }

    pub(crate) fn config(key: impl Into<String>, problem: impl ToString) -> Self {
        Self::Config {
            key: key.into(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn unsupported(feature: impl Into<String>, supported: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
            supported: supported.into(),
        }
    }

    /// Wraps an I/O error with its file.
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }

    /// Wraps a decoding error with its tensor.
    pub(crate) fn tensor(name: &str) -> impl FnOnce(candle_core::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Tensor { name, source }
    }
}
