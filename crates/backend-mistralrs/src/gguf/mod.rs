//! Models from one GGUF file.

mod config;
mod guard;
mod metadata;
mod tensors;
mod tokenizer;

use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::Content;

pub(crate) use tensors::GgufTensors;

use crate::config::Config;
use crate::{LoadError, TokenizerSource};
use metadata::Metadata;

/// An opened file whose header holds together.
pub(crate) struct Gguf {
    path: PathBuf,
    file: File,
    content: Content,
}

impl Gguf {
    /// Reads the header and checks that the file holds every tensor that it lists.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let mut file = File::open(path).map_err(LoadError::read(path))?;
        let length = file.metadata().map_err(LoadError::read(path))?.len();
        let mut reader = BufReader::new(&mut file);
        guard::check_header(path, &mut reader, length)?;
        reader.rewind().map_err(LoadError::read(path))?;
        let content = Content::read(&mut reader).map_err(|error| LoadError::Damaged {
            path: path.to_owned(),
            what: error.to_string(),
        })?;
        guard::check_tensors(path, &content, length)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            content,
        })
    }

    fn metadata(&self) -> Result<Metadata<'_>, LoadError> {
        Metadata::new(&self.content.metadata)
    }

    /// The decoder's shape. `limit` is the longest sequence that will run.
    pub fn config(&mut self, limit: Option<usize>) -> Result<Config, LoadError> {
        let factors = tensors::rope_factors(&mut self.file, &self.content)?;
        config::read(&self.metadata()?, &self.content, factors, limit)
    }

    /// The tokenizer and the tokens that end a generation.
    pub fn tokenizer(&self, vocab: usize) -> Result<(TokenizerSource, Vec<u32>), LoadError> {
        tokenizer::read(&self.metadata()?, vocab)
    }

    /// The model's own name.
    pub fn name(&self) -> Option<String> {
        self.metadata().ok()?.text_or_none("general.name")
    }

    /// Name of the quantisation, from the file type or else from the type of most weights.
    pub fn quantisation(&self) -> String {
        config::quantisation(&self.content)
    }

    /// Parameters of all tensors.
    pub fn parameters(&self) -> u64 {
        let sizes = self
            .content
            .tensor_infos
            .iter()
            .filter(|(name, _)| *name != tensors::ROPE_FACTORS);
        sizes.map(|(_, info)| info.shape.elem_count() as u64).sum()
    }

    /// The tensors, to be read once.
    pub fn into_tensors(self) -> GgufTensors {
        GgufTensors::new(self.path, self.file, self.content)
    }
}
