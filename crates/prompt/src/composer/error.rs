//! Why a composer can't be built, and why a request can't be composed.

/// A configuration that the model's tokenizer can't carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposerError {
    /// Documents must stand behind a token, and the vocabulary has neither BOS nor any control token.
    #[error("the vocabulary has neither a BOS token nor any control token for documents to stand behind")]
    NoLeadingToken,
    /// A separator without tokens would be everywhere.
    #[error("the separator has no tokens")]
    EmptySeparator,
}

/// A request that can't be composed. Never contains the request's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// There is nothing to continue.
    #[error("the prompt is empty")]
    EmptyPrompt {
        /// Where the prompt stands in the request.
        param: String,
    },
    /// A token id that the model doesn't have.
    #[error("{param}: token id {token} is outside the vocabulary of {vocab_size} tokens")]
    TokenOutsideVocabulary {
        /// Where the id stands in the request.
        param: String,
        /// The id.
        token: u32,
        /// Ids are below this.
        vocab_size: usize,
    },
    /// The prompt contains the separator, so it has documents of its own, and `documents` is there too.
    #[error("the prompt contains the blend separator, which can't be combined with `documents`")]
    SeparatorWithDocuments {
        /// Where the prompt stands in the request.
        param: String,
    },
}

impl ComposeError {
    /// Where the fault stands in the request, such as `documents[2].token_ids[1]`.
    pub fn param(&self) -> &str {
        match self {
            Self::EmptyPrompt { param }
            | Self::TokenOutsideVocabulary { param, .. }
            | Self::SeparatorWithDocuments { param } => param,
        }
    }

    /// A name for this fault that clients can rely on, where a mere `param` doesn't say enough.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::EmptyPrompt { .. } | Self::TokenOutsideVocabulary { .. } => None,
            Self::SeparatorWithDocuments { .. } => Some("separator_with_documents"),
        }
    }
}
