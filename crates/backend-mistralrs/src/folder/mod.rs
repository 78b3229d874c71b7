//! Models from a folder: `config.json`, `*.safetensors`, `tokenizer.json`.

mod builder;
mod config;
mod index;
mod packed;
mod positions;
mod rope;
mod tensors;
mod tokenizer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use index::shard_names;
pub(crate) use tensors::FolderTensors;

use crate::config::Config;
use crate::{LoadError, TokenizerSource};
use config::RawConfig;
use index::SafetensorsIndex;

/// A folder whose configuration is read and whose weight files hold together.
pub(crate) struct Folder {
    path: PathBuf,
    raw: RawConfig,
    index: Arc<SafetensorsIndex>,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        std::fs::read_dir(path).map_err(LoadError::read(path))?;
        let raw = RawConfig::read(&path.join("config.json"))?;
        let index = Arc::new(SafetensorsIndex::open(path)?);
        Ok(Self {
            path: path.to_owned(),
            raw,
            index,
        })
    }

    /// The decoder's shape. `limit` is the longest sequence that will run.
    pub fn config(&self, limit: Option<usize>) -> Result<Config, LoadError> {
        self.raw.config(limit)
    }

    /// Tokens that end a generation.
    pub fn eos_tokens(&self, vocab: usize) -> Result<Vec<u32>, LoadError> {
        let generation = tokenizer::text_beside(&self.path, "generation_config.json")?;
        let stated = tokenizer::eos_tokens(generation.as_deref())?;
        let mut tokens = stated.unwrap_or_else(|| self.raw.eos_token_id.ids());
        tokens.retain(|&token| (token as usize) < vocab);
        Ok(tokens)
    }

    pub fn quantisation(&self) -> String {
        match &self.raw.quantization_config {
            Some(quantised) => quantised.name().to_owned(),
            None => self.index.most_common_dtype(),
        }
    }

    /// Parameters of all tensors; a shared embedding is stored, and counts, once.
    pub fn parameters(&self) -> u64 {
        self.index.elements()
    }

    /// The files that decide the model's results, in a fixed order.
    pub fn files(&self) -> Vec<&Path> {
        std::iter::once(self.raw.path.as_path())
            .chain(self.index.files())
            .collect()
    }

    pub fn tokenizer(&self) -> Result<TokenizerSource, LoadError> {
        tokenizer::read(&self.path)
    }

    /// The tensors, to be read once.
    pub fn into_tensors(self, config: &Config) -> Result<FolderTensors, LoadError> {
        FolderTensors::new(self.index, self.raw, config)
    }
}
