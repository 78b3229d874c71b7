//! The tokenizer that a model brings, as the composer and the engine want it.

use std::path::Path;

use anyhow::{Context, Result};
use medley_backend_mistralrs::TokenizerSource;
use medley_generate::TokenText;
use medley_kv::TokenId;
use medley_prompt::{GgufVocabulary, Tokenizer};

/// The bytes of tokens, for the engine.
pub struct Bytes(pub Tokenizer);

impl TokenText for Bytes {
    fn bytes(&self, token: TokenId) -> &[u8] {
        self.0.token_bytes(token)
    }
}

/// The chat template that stands in a file of its own, which goes before the tokenizer's.
pub fn chat_template(source: &TokenizerSource) -> Option<String> {
    match source {
        TokenizerSource::Json { chat_template, .. } => chat_template.clone(),
        TokenizerSource::Gguf { .. } => None,
    }
}

/// Builds the tokenizer.
pub fn tokenizer(source: TokenizerSource) -> Result<Tokenizer> {
    match source {
        TokenizerSource::Json {
            tokenizer, config, ..
        } => from_json(&tokenizer, config.as_deref()),
        TokenizerSource::Gguf {
            model,
            pre,
            tokens,
            token_types,
            merges,
            scores,
            bos,
            eos,
            unk,
            pad,
            add_bos,
            add_space_prefix,
            chat_template,
        } => Ok(Tokenizer::from_gguf(GgufVocabulary {
            model,
            pre,
            tokens,
            token_types,
            merges,
            scores,
            bos,
            eos,
            unknown: unk,
            padding: pad,
            add_bos,
            add_space_prefix,
            chat_template,
        })?),
    }
}

fn from_json(path: &Path, config: Option<&str>) -> Result<Tokenizer> {
    let shown = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(shown)?;
    Tokenizer::from_json(&bytes, config).with_context(shown)
}
