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
    /// The leading token and a passage that has nothing to do with any document, in lower case for documents without
    /// capitals.
    Neutral,
    /// The leading token and this text.
    Text(String),
}

/// About 60 tokens of plain prose, cased and punctuated as documents are.
const NEUTRAL: &str = "The Danube rises in the Black Forest of southern Germany and flows east for about 2,850 \
kilometres to the Black Sea. It passes through or along ten countries, and four capitals stand on its banks: \
Vienna, Bratislava, Budapest and Belgrade.\n\n";

/// An anchor as tokens of a model.
pub(super) enum Ground {
    /// The same for all documents.
    Fixed(Arc<[TokenId]>),
    /// One for documents with capitals, one for those without.
    InStyle {
        cased: Arc<[TokenId]>,
        lower: Arc<[TokenId]>,
    },
}

impl Ground {
    /// The anchor in tokens. Control tokens that the text spells stay text.
    pub fn new(anchor: &Anchor, tokenizer: &Tokenizer, leading: TokenId) -> Self {
        match anchor {
            Anchor::Bos => Self::Fixed([leading].into()),
            Anchor::Neutral => Self::InStyle {
                cased: behind(tokenizer, leading, NEUTRAL),
                lower: behind(tokenizer, leading, &NEUTRAL.to_lowercase()),
            },
            Anchor::Text(text) => Self::Fixed(behind(tokenizer, leading, text)),
        }
    }

    /// What a document of these tokens stands behind.
    pub fn of(&self, tokenizer: &Tokenizer, document: &[TokenId]) -> Arc<[TokenId]> {
        match self {
            Self::Fixed(tokens) => Arc::clone(tokens),
            Self::InStyle { cased, lower } => {
                let capitals = tokenizer.decode(document).chars().any(char::is_uppercase);
                Arc::clone(if capitals { cased } else { lower })
            }
        }
    }
}

/// The leading token and `text`.
pub(super) fn behind(tokenizer: &Tokenizer, leading: TokenId, text: &str) -> Arc<[TokenId]> {
    let text = tokenizer.encode(text, Specials::AsText);
    std::iter::once(leading).chain(text).collect()
}
