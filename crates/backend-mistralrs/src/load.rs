//! From a source to a model that runs.

use std::path::Path;

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

/// Loads a model. Files of the hub are downloaded once and kept in the hub's cache.
pub fn load(source: &ModelSource, options: &LoadOptions) -> Result<Loaded, LoadError> {
    let local;
    let source = match source {
        ModelSource::Hub { id, file } => {
            local = hub::fetch(id, file.as_deref(), options)?;
            &local
        }
        local => local,
    };
    match source {
        ModelSource::Gguf(path) => load_gguf(path, options),
        ModelSource::Folder(path) => load_folder(path, options),
        ModelSource::Hub { id, .. } => Err(LoadError::Repository {
            id: id.clone(),
            problem: "it was not resolved to files".to_owned(),
        }),
    }
}

/// What a format says beside its tensors.
struct Description {
    config: Config,
    name: String,
    quantisation: String,
    parameters: u64,
    fingerprint: [u8; 32],
    eos_tokens: Vec<u32>,
}

fn load_gguf(path: &Path, options: &LoadOptions) -> Result<Loaded, LoadError> {
    let mut gguf = Gguf::open(path)?;
    let config = gguf.config(options.max_model_len)?;
    let (tokenizer, eos_tokens) = gguf.tokenizer(config.vocab)?;
    let description = Description {
        config,
        name: gguf.name().unwrap_or_else(|| stem(path)),
        quantisation: gguf.quantisation(),
        parameters: gguf.parameters(),
        fingerprint: fingerprint([path])?,
        eos_tokens,
    };
    finish(description, &mut gguf.into_tensors(), tokenizer, options)
}

fn load_folder(path: &Path, options: &LoadOptions) -> Result<Loaded, LoadError> {
    let folder = Folder::open(path)?;
    let config = folder.config(options.max_model_len)?;
    let description = Description {
        eos_tokens: folder.eos_tokens(config.vocab)?,
        config,
        name: stem(path),
        quantisation: folder.quantisation(),
        parameters: folder.parameters(),
        fingerprint: fingerprint(folder.files())?,
    };
    let tokenizer = folder.tokenizer()?;
    let mut tensors = folder.into_tensors(&description.config)?;
    finish(description, &mut tensors, tokenizer, options)
}

fn finish(
    description: Description,
    tensors: &mut dyn Tensors,
    tokenizer: TokenizerSource,
    options: &LoadOptions,
) -> Result<Loaded, LoadError> {
    let Description {
        config,
        name,
        quantisation,
        parameters,
        fingerprint,
        eos_tokens,
    } = description;
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
        name,
        architecture: config.architecture,
        context_length: length,
        vocab: config.vocab,
        parameters,
        weights_bytes: 0,
        quantisation,
        fingerprint,
        rope: config.rope.describe(),
        recipe: String::new(),
        eos_tokens,
    };
    let started = start(config, tensors, length, options, &report)?;
    (info.weights_bytes, info.recipe) = (started.weights_bytes, started.recipe);
    let backend = started.backend;
    tracing::info!(model = %info.name, parameters, pages = backend.pages(), recipe = %info.recipe, "loaded");
    Ok(Loaded {
        backend,
        info,
        tokenizer,
    })
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
        ComputeDevice::Cuda(ordinal) => start_cuda(ordinal, config, tensors, length, options, report),
    }
}

#[cfg(feature = "cuda")]
fn start_cuda(
    ordinal: usize,
    config: Config,
    tensors: &mut dyn Tensors,
    length: usize,
    options: &LoadOptions,
    report: &dyn Fn(Progress),
) -> Result<Started, LoadError> {
    let origin = crate::cuda::Origin::Tensors(tensors, report);
    let backend = crate::CudaBackend::new(ordinal, config, origin, options.pool, length)?;
    Ok(Started {
        weights_bytes: backend.weights_bytes(),
        recipe: backend.recipe(),
        backend: Box::new(backend),
    })
}

#[cfg(not(feature = "cuda"))]
fn start_cuda(
    ordinal: usize,
    _config: Config,
    _tensors: &mut dyn Tensors,
    _length: usize,
    _options: &LoadOptions,
    _report: &dyn Fn(Progress),
) -> Result<Started, LoadError> {
    Err(LoadError::Device(format!(
        "this build has no CUDA, so device {ordinal} can't be used; build with `--features cuda`"
    )))
}

/// Changes whenever a result may differ in its last bits.
const CPU_RECIPE: &str = "cpu f32 v1";

fn stem(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}
