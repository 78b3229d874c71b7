//! From a source to a model that runs.

use std::path::{Path, PathBuf};

use medley_backend::Backend;

use crate::config::Config;
use crate::cpu::pages_within;
use crate::decoder::Decoder;
use crate::fingerprint::fingerprint;
use crate::folder::Folder;
use crate::gguf::Gguf;
use crate::tensors::Tensors;
use crate::{
    ComputeDevice, CpuBackend, LoadError, LoadOptions, ModelInfo, ModelSource, Progress, TokenizerSource, hub,
};

/// A model that runs, what is known of it, and its tokenizer.
pub struct Loaded {
    /// Runs rows.
    pub backend: Box<dyn Backend>,
    /// What is known of the model.
    pub info: ModelInfo,
    /// Its tokenizer, as plain data.
    pub tokenizer: TokenizerSource,
}

/// A model whose files hold together and whose numbers are known. Its weights are still to be read.
pub struct Opened {
    config: Config,
    name: String,
    quantisation: String,
    parameters: u64,
    eos_tokens: Vec<u32>,
    /// The files that decide the model's results, in a fixed order.
    files: Vec<PathBuf>,
    tensors: Box<dyn Tensors>,
    tokenizer: TokenizerSource,
}

/// Opens a model. Files of the hub are downloaded once and kept in the hub's cache.
pub fn open(source: &ModelSource, options: &LoadOptions) -> Result<Opened, LoadError> {
    let local;
    let source = match source {
        ModelSource::Hub { id, file } => {
            local = hub::fetch(id, file.as_deref(), options)?;
            &local
        }
        local => local,
    };
    match source {
        ModelSource::Gguf(path) => open_gguf(path, options),
        ModelSource::Folder(path) => open_folder(path, options),
        ModelSource::Hub { id, .. } => Err(LoadError::Repository {
            id: id.clone(),
            problem: "it was not resolved to files".to_owned(),
        }),
    }
}

/// Opens a model and reads its weights.
pub fn load(source: &ModelSource, options: &LoadOptions) -> Result<Loaded, LoadError> {
    open(source, options)?.load(options)
}

fn open_gguf(path: &Path, options: &LoadOptions) -> Result<Opened, LoadError> {
    let mut gguf = Gguf::open(path)?;
    let config = gguf.config(options.max_model_len)?;
    let (tokenizer, eos_tokens) = gguf.tokenizer(config.vocab)?;
    Ok(Opened {
        config,
        name: gguf.name().unwrap_or_else(|| stem(path)),
        quantisation: gguf.quantisation(),
        parameters: gguf.parameters(),
        eos_tokens,
        files: vec![path.to_owned()],
        tensors: Box::new(gguf.into_tensors()),
        tokenizer,
    })
}

fn open_folder(path: &Path, options: &LoadOptions) -> Result<Opened, LoadError> {
    let folder = Folder::open(path)?;
    let config = folder.config(options.max_model_len)?;
    Ok(Opened {
        name: stem(path),
        quantisation: folder.quantisation(),
        parameters: folder.parameters(),
        eos_tokens: folder.eos_tokens(config.vocab)?,
        files: folder.files().into_iter().map(Path::to_owned).collect(),
        tokenizer: folder.tokenizer()?,
        tensors: Box::new(folder.into_tensors(&config)?),
        config,
    })
}

impl Opened {
    /// Longest sequence that the model was made for, in tokens.
    pub fn context_length(&self) -> usize {
        self.config.context
    }

    /// Decoder layers.
    pub fn layers(&self) -> usize {
        self.config.layers
    }

    /// Reads the weights.
    pub fn load(mut self, options: &LoadOptions) -> Result<Loaded, LoadError> {
        let config = self.config;
        let length = options
            .max_model_len
            .map_or(config.context, |limit| limit.min(config.context));
        let report = |progress| {
            options
                .progress
                .iter()
                .for_each(|told: &crate::ProgressFn| told(Progress::clone(&progress)));
        };
        let mut info = ModelInfo {
            name: self.name,
            architecture: config.architecture,
            context_length: length,
            vocab: config.vocab,
            parameters: self.parameters,
            weights_bytes: 0,
            quantisation: self.quantisation,
            fingerprint: fingerprint(self.files.iter().map(PathBuf::as_path))?,
            rope: config.rope.describe(),
            recipe: String::new(),
            eos_tokens: self.eos_tokens,
        };
        let started = start(config, &mut *self.tensors, length, options, &report)?;
        (info.weights_bytes, info.recipe) = (started.weights_bytes, started.recipe);
        let backend = started.backend;
        tracing::info!(
            model = %info.name,
            parameters = info.parameters,
            pages = backend.pages(),
            recipe = %info.recipe,
            "loaded"
        );
        Ok(Loaded {
            backend,
            info,
            tokenizer: self.tokenizer,
        })
    }
}

/// A backend, and what can be said of it only now.
struct Started {
    backend: Box<dyn Backend>,
    weights_bytes: u64,
    recipe: String,
}

fn start(
    config: Config,
    tensors: &mut dyn Tensors,
    length: usize,
    options: &LoadOptions,
    report: &dyn Fn(Progress),
) -> Result<Started, LoadError> {
    match options.device {
        ComputeDevice::Cpu => {
            let pages = pages_within(options.pool, &config)?;
            let decoder = Decoder::read(config, tensors, length, report)?;
            Ok(Started {
                weights_bytes: decoder.bytes(),
                recipe: CPU_RECIPE.to_owned(),
                backend: Box::new(CpuBackend::new(decoder, pages, options.threads)?),
            })
        }
        #[cfg(feature = "cuda")]
        ComputeDevice::Cuda(ordinal) => {
            let origin = crate::cuda::Origin::Tensors(tensors, report);
            let backend = crate::CudaBackend::new(ordinal, config, origin, options.pool, length)?;
            Ok(Started {
                weights_bytes: backend.weights_bytes(),
                recipe: backend.recipe(),
                backend: Box::new(backend),
            })
        }
        #[cfg(not(feature = "cuda"))]
        ComputeDevice::Cuda(ordinal) => Err(no_cuda(ordinal)),
    }
}

/// What a build without CUDA says of CUDA device `ordinal`.
#[cfg(not(feature = "cuda"))]
pub(crate) fn no_cuda(ordinal: usize) -> LoadError {
    LoadError::Device(format!(
        "this build has no CUDA, so device {ordinal} can't be used; build with `--features cuda`"
    ))
}

/// Changes whenever a result may differ in its last bits.
const CPU_RECIPE: &str = "cpu f32 v1";

fn stem(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}
