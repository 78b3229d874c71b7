//! The tokenizer files beside the weights.

use std::path::Path;

use serde::Deserialize;

use super::config::TokenIds;
use crate::{LoadError, TokenizerSource};

#[derive(Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<TokenIds>,
}

pub(super) fn read(folder: &Path) -> Result<TokenizerSource, LoadError> {
    let tokenizer = folder.join("tokenizer.json");
    if !tokenizer.is_file() {
        return Err(LoadError::Incomplete {
            folder: folder.to_owned(),
            missing: "tokenizer.json".to_owned(),
        });
    }
    Ok(TokenizerSource::Json {
        tokenizer,
        config: text_beside(folder, "tokenizer_config.json")?,
        chat_template: text_beside(folder, "chat_template.jinja")?,
    })
}

/// The text of a file that may be absent.
pub(super) fn text_beside(folder: &Path, name: &str) -> Result<Option<String>, LoadError> {
    let path = folder.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LoadError::read(path)(error)),
    }
}

/// The ending tokens that `generation_config.json` states, if it states any.
pub(super) fn eos_tokens(generation: Option<&str>) -> Result<Option<Vec<u32>>, LoadError> {
    let Some(text) = generation else { return Ok(None) };
    let parsed: GenerationConfig =
        serde_json::from_str(text).map_err(|error| LoadError::config("generation_config.json", error))?;
    Ok(parsed.eos_token_id.map(|ids| ids.ids()))
}
