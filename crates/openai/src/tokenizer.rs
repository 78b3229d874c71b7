//! Requests and answers of the tokenizer endpoints, as vLLM has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A text to tokenise. Unknown fields are ignored; `null` is absent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema)]
pub struct TokenizeRequest {
    /// A served name or `default`; absent, the served model.
    pub model: Option<String>,
    /// The text.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// Not supported.
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Option<serde_json::Value>,
    /// Whether the tokens begin with the model's BOS token, if it expects one. Default true.
    pub add_special_tokens: Option<bool>,
    /// Whether the answer has the vocabulary's spelling of each token. Default false.
    pub return_token_strs: Option<bool>,
}

/// The tokens of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Tokenized {
    /// Number of tokens.
    pub count: usize,
    /// Tokens of prompt and answer together.
    pub max_model_len: usize,
    /// Their ids.
    pub tokens: Vec<u32>,
    /// Their spelling in the vocabulary, if it was asked for.
    pub token_strs: Option<Vec<String>>,
}

/// Tokens to turn into a text. Unknown fields are ignored; `null` is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
pub struct DetokenizeRequest {
    /// A served name or `default`; absent, the served model.
    pub model: Option<String>,
    /// Token ids.
    #[schema(required = true)]
    pub tokens: Option<Vec<u32>>,
}

/// The text of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Detokenized {
    /// The text, control tokens spelled; bytes that are not UTF-8 became U+FFFD.
    pub prompt: String,
}

/// What the model's tokenizer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TokenizerInfo {
    /// The class that reads such a vocabulary in Transformers.
    pub tokenizer_class: String,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Tokens of prompt and answer together.
    pub model_max_length: usize,
    /// Whether a plain prompt begins with BOS.
    pub add_bos_token: bool,
    /// The token that begins a sequence.
    pub bos_token: Option<String>,
    /// Its id.
    pub bos_token_id: Option<u32>,
    /// The token that ends a text.
    pub eos_token: Option<String>,
    /// Its id.
    pub eos_token_id: Option<u32>,
    /// All tokens that end a text.
    pub eos_token_ids: Vec<u32>,
    /// The control tokens by id.
    #[schema(value_type = BTreeMap<String, AddedToken>)]
    pub added_tokens_decoder: BTreeMap<u32, AddedToken>,
    /// The chat template, if the model has one.
    pub chat_template: Option<String>,
}

/// A token with a meaning of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AddedToken {
    /// Its spelling.
    pub content: String,
    /// Whether it is a control token: true.
    pub special: bool,
}
