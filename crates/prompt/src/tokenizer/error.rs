//! Why a tokenizer can't be built.

/// A vocabulary or tokenizer file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// `tokenizer.ggml.model` is neither byte-level BPE nor SentencePiece.
    #[error("unknown tokenizer model {0:?}: expected gpt2 or llama")]
    UnknownModel(String),
    /// `tokenizer.ggml.pre` names a way to split words that is not known here.
    #[error("unknown pre-tokenizer {pre:?}: expected one of {supported}")]
    UnknownPre {
        /// The name in the file.
        pre: String,
        /// The accepted names, comma-separated.
        supported: &'static str,
    },
    /// A vocabulary without tokens.
    #[error("the vocabulary has no tokens")]
    NoTokens,
    /// A list that must have one entry per token has another length.
    #[error("{found} {what} for {expected} tokens")]
    WrongLength {
        /// What is listed.
        what: &'static str,
        /// Number of tokens.
        expected: usize,
        /// Length of the list.
        found: usize,
    },
    /// A named token, such as BOS, that is outside the vocabulary.
    #[error("the {name} token {id} is outside the vocabulary of {len} tokens")]
    NamedTokenOutside {
        /// Its name.
        name: &'static str,
        /// Its id.
        id: u32,
        /// Number of tokens.
        len: usize,
    },
    /// A SentencePiece vocabulary that can't spell every byte.
    #[error("the vocabulary has no token for the byte 0x{0:02X}")]
    MissingByte(u8),
    /// A `tokenizer.json` of a kind that is not supported.
    #[error("the tokenizer file is not supported: {0}")]
    Unsupported(&'static str),
    /// A `tokenizer.json` that can't be read.
    #[error("the tokenizer file can't be read")]
    Json(#[source] serde_json::Error),
    /// A `tokenizer_config.json` that can't be read.
    #[error("the tokenizer configuration can't be read")]
    Config(#[source] serde_json::Error),
    /// The tokenizer library refused the vocabulary.
    #[error("the tokenizer can't be built")]
    Library(#[source] tokenizers::Error),
}
