//! Splits a prompt at a separator: the way in which LMCache's clients mark documents inside a plain prompt.
//!
//! Text is split at the separator's text, token ids at the separator's tokens, from the left and without overlap.
//! The separators stay in the prompt between the pieces.

use medley_kv::TokenId;

use crate::{Specials, Tokenizer};

/// A separator as text and as tokens.
pub(super) struct Separator {
    text: String,
    tokens: Vec<TokenId>,
}

impl Separator {
    /// None if `text` has no tokens.
    pub(super) fn new(tokenizer: &Tokenizer, text: &str) -> Option<Self> {
        let tokens = tokenizer.encode(text, Specials::AsText);
        (!text.is_empty() && !tokens.is_empty()).then(|| Self {
            text: text.to_owned(),
            tokens,
        })
    }

    /// What stands between two pieces.
    pub(super) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The pieces of `text`; one if the separator does not occur.
    pub(super) fn split_text<'t>(&self, text: &'t str) -> Vec<&'t str> {
        text.split(&self.text).collect()
    }

    /// The pieces of `tokens`; one if the separator does not occur.
    pub(super) fn split_tokens<'t>(&self, tokens: &'t [TokenId]) -> Vec<&'t [TokenId]> {
        let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
        while at < tokens.len() {
            if tokens[at..].starts_with(&self.tokens) {
                pieces.push(&tokens[start..at]);
                at += self.tokens.len();
                start = at;
            } else {
                at += 1;
            }
        }
        pieces.push(&tokens[start..]);
        pieces
    }
}
