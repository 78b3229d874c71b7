//! Text to token ids, token ids to bytes.
//!
//! A [`Tokenizer`] is immutable and shared by reference count. It never adds BOS itself: where BOS stands is a
//! question of the whole prompt.

mod bpe;
mod byte_level;
mod end_of_text;
mod error;
mod gguf;
mod json;
mod sentencepiece;
mod split;
mod vocabulary;

#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use medley_kv::TokenId;

pub use error::TokenizerError;
pub use gguf::GgufVocabulary;

use bpe::Bpe;
use sentencepiece::SentencePiece;
use vocabulary::{Kind, Vocabulary};

#[cfg(test)]
pub(crate) use byte_level::char_of;

/// How the spelling of a control token in a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// As the characters that it consists of: for text that others wrote, such as documents.
    AsText,
    /// As the control token: for prompts and instructions.
    AsTokens,
}

/// A model's tokenizer.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    encoder: Encoder,
    table: Vocabulary,
    end_of_text: Vec<TokenId>,
    named: Named,
}

#[expect(
    clippy::large_enum_variant,
    reason = "there is one for the life of the process"
)]
enum Encoder {
    Bpe(Box<Bpe>),
    SentencePiece(SentencePiece),
}

/// What a file says beside its vocabulary.
struct Named {
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    adds_bos: bool,
    chat_template: Option<String>,
}

impl Tokenizer {
    fn assemble(encoder: Encoder, table: Vocabulary, named: Named) -> Self {
        let end_of_text = end_of_text::tokens(&table, named.eos);
        Self(Arc::new(Inner {
            encoder,
            table,
            end_of_text,
            named,
        }))
    }

    /// The tokens of `text`, without BOS.
    ///
    /// User-defined tokens, which are text, are single tokens in both readings.
    pub fn encode(&self, text: &str, specials: Specials) -> Vec<TokenId> {
        match &self.0.encoder {
            Encoder::Bpe(bpe) => bpe.encode(text, specials),
            Encoder::SentencePiece(pieces) => pieces.encode(text, specials),
        }
    }

    /// The bytes that `token` adds to a text, possibly a part of a UTF-8 character. Empty for control tokens and
    /// for ids outside the vocabulary.
    pub fn token_bytes(&self, token: TokenId) -> &[u8] {
        self.0.table.bytes(token)
    }

    /// The vocabulary's own spelling of `token`, control tokens included; empty for ids outside the vocabulary.
    pub fn token_text(&self, token: TokenId) -> &str {
        self.0.table.text(token)
    }

    /// The text of `tokens`, control tokens left out; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        let bytes: Vec<u8> = tokens
            .iter()
            .flat_map(|token| self.token_bytes(*token))
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Bytes of text that a token stands for at most, counted as texts spell it: a text has at least its bytes divided
    /// by this many tokens. At least 1.
    pub fn longest_token(&self) -> usize {
        self.0.table.longest()
    }

    /// Number of token ids: all are below it.
    pub fn vocab_size(&self) -> usize {
        self.0.table.len()
    }

    /// The spellings of all control tokens.
    pub fn control_tokens(&self) -> impl Iterator<Item = &str> {
        let control = self.0.table.iter().filter(|(_, _, kind)| *kind == Kind::Control);
        control.map(|(_, text, _)| text)
    }

    /// The token that begins a sequence.
    pub fn bos(&self) -> Option<TokenId> {
        self.0.named.bos
    }

    /// Whether the model expects BOS in front of a plain prompt.
    pub fn adds_bos(&self) -> bool {
        self.0.named.adds_bos && self.0.named.bos.is_some()
    }

    /// The tokens that end a text, EOS first.
    pub fn end_of_text(&self) -> &[TokenId] {
        &self.0.end_of_text
    }

    /// The model's chat template.
    pub fn chat_template(&self) -> Option<&str> {
        self.0.named.chat_template.as_deref()
    }

    /// The token that every prompt with documents begins with: BOS, else the token that ends a text, else the
    /// first control token.
    pub(crate) fn leading(&self) -> Option<TokenId> {
        self.bos()
            .or(self.end_of_text().first().copied())
            .or(self.0.table.first_control())
    }
}
