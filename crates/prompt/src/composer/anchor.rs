//! What documents are computed behind.
//!
//! An anchor gives a document's first tokens something to attend to. It begins with the leading token and is no
//! part of any prompt.

use std::sync::Arc;

use medley_kv::TokenId;

use crate::{Specials, Tokenizer};

/// The configured anchor of documents that bring no context of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// The leading token alone.
    #[default]
    Bos,
    /// The leading token and a passage that has nothing to do with any document.
    Neutral,
    /// The leading token and this text.
    Text(String),
}

/// About 60 tokens of plain prose, cased and punctuated as documents are.
const NEUTRAL: &str = "The Danube rises in the Black Forest of southern Germany and flows east for about 2,850 \
kilometres to the Black Sea. It passes through or along ten countries, and four capitals stand on its banks: \
Vienna, Bratislava, Budapest and Belgrade.\n\n";

impl Anchor {
    /// The anchor's tokens. Control tokens that the text spells stay text.
    pub(super) fn tokens(&self, tokenizer: &Tokenizer, leading: TokenId) -> Arc<[TokenId]> {
        match self {
            Self::Bos => [leading].into(),
            Self::Neutral => behind(tokenizer, leading, NEUTRAL),
            Self::Text(text) => behind(tokenizer, leading, text),
        }
    }
}

/// The leading token and `text`.
pub(super) fn behind(tokenizer: &Tokenizer, leading: TokenId, text: &str) -> Arc<[TokenId]> {
    let text = tokenizer.encode(text, Specials::AsText);
    std::iter::once(leading).chain(text).collect()
}
