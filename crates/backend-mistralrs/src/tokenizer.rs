//! A model's tokenizer as plain data. Whoever tokenises builds it from this; nothing here encodes text.

use std::path::PathBuf;

/// What a model says about its tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenizerSource {
    /// The metadata of a GGUF file.
    Gguf {
        /// `tokenizer.ggml.model`: the algorithm (`gpt2` is byte-level BPE).
        model: String,
        /// `tokenizer.ggml.pre`: the rule that splits text into words.
        pre: String,
        /// Text of every token id.
        tokens: Vec<String>,
        /// Kind of every token (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte); may be empty.
        token_types: Vec<i32>,
        /// BPE merges in order of rank; may be empty.
        merges: Vec<String>,
        /// Scores of a unigram vocabulary; may be empty.
        scores: Vec<f32>,
        /// Begin-of-sequence token.
        bos: Option<u32>,
        /// End-of-sequence token.
        eos: Option<u32>,
        /// Unknown token.
        unk: Option<u32>,
        /// Padding token.
        pad: Option<u32>,
        /// Whether a prompt begins with the begin-of-sequence token.
        add_bos: Option<bool>,
        /// Whether text gets a space in front.
        add_space_prefix: Option<bool>,
        /// Jinja source of the chat template.
        chat_template: Option<String>,
    },
    /// A `tokenizer.json` and what stands beside it.
    Json {
        /// Path of `tokenizer.json`.
        tokenizer: PathBuf,
        /// Text of `tokenizer_config.json`.
        config: Option<String>,
        /// Text of `chat_template.jinja`, which goes before the template in the configuration.
        chat_template: Option<String>,
    },
}
