//! The tokenizer from GGUF metadata.

use candle_core::quantized::gguf_file::Value;

use super::metadata::{Metadata, integer};
use crate::{LoadError, TokenizerSource};

/// Keys of tokens that end a generation: end of sequence, of turn, of message.
const ENDS: [&str; 3] = [
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
];

pub(super) fn read(metadata: &Metadata<'_>, vocab: usize) -> Result<(TokenizerSource, Vec<u32>), LoadError> {
    let text = |key: &str| metadata.text_or_none(key);
    let id = |key: &str| metadata.id_or_none(key);
    let missing = |key: &str| LoadError::config(key, "it is missing");
    let tokens = metadata.list("tokenizer.ggml.tokens", string)?;
    if tokens.is_empty() || tokens.len() > vocab {
        let problem = format!("{} tokens for an embedding of {vocab} rows", tokens.len());
        return Err(LoadError::config("tokenizer.ggml.tokens", problem));
    }
    let source = TokenizerSource::Gguf {
        model: text("tokenizer.ggml.model").ok_or_else(|| missing("tokenizer.ggml.model"))?,
        pre: text("tokenizer.ggml.pre").unwrap_or_else(|| "default".to_owned()),
        token_types: metadata.list("tokenizer.ggml.token_type", kind)?,
        merges: metadata.list("tokenizer.ggml.merges", string)?,
        scores: metadata.list("tokenizer.ggml.scores", float)?,
        bos: id("tokenizer.ggml.bos_token_id")?,
        eos: id("tokenizer.ggml.eos_token_id")?,
        unk: id("tokenizer.ggml.unknown_token_id")?,
        pad: id("tokenizer.ggml.padding_token_id")?,
        add_bos: metadata.flag_or_none("tokenizer.ggml.add_bos_token")?,
        add_space_prefix: metadata.flag_or_none("tokenizer.ggml.add_space_prefix")?,
        chat_template: text("tokenizer.chat_template"),
        tokens,
    };
    let mut ends = Vec::new();
    for key in ENDS {
        ends.extend(id(key)?.filter(|id| (*id as usize) < vocab && !ends.contains(id)));
    }
    Ok((source, ends))
}

fn string(value: &Value) -> Option<String> {
    value.to_string().ok().cloned()
}

fn kind(value: &Value) -> Option<i32> {
    integer(value).and_then(|kind| i32::try_from(kind).ok())
}

fn float(value: &Value) -> Option<f32> {
    value.to_f32().ok()
}
