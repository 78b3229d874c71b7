//! A prompt as the engine sees it: tokens in segments, documents kept as documents.

use std::sync::Arc;

use crate::TokenId;

/// A document of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The client's own name for it, returned in reports.
    pub name: Option<String>,
    /// Its tokens, tokenised alone. May be empty.
    pub tokens: Arc<[TokenId]>,
    /// What it is computed behind: the configured anchor, or BOS and a context given with it. Not part of the
    /// prompt. Never empty.
    pub anchor: Arc<[TokenId]>,
}

/// A stretch of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text that belongs to this prompt alone.
    Text(Arc<[TokenId]>),
    /// A document whose KV may be reused.
    Document(Document),
}

impl Segment {
    /// The tokens that the segment adds to the prompt.
    pub fn tokens(&self) -> &[TokenId] {
        match self {
            Self::Text(tokens) => tokens,
            Self::Document(document) => &document.tokens,
        }
    }
}

/// A prompt that can't be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// No token at all.
    #[error("the prompt is empty")]
    Empty,
    /// A document without an anchor has no position 0 to stand behind.
    #[error("document {0} has an empty anchor")]
    NoAnchor(usize),
    /// The question row lies outside the prompt.
    #[error("the question row {0} is outside the prompt")]
    Question(usize),
}

/// A non-empty list of segments, and the row that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    segments: Vec<Segment>,
    question: usize,
    len: usize,
}

impl Prompt {
    /// A prompt whose question row is its last token.
    pub fn new(segments: Vec<Segment>) -> Result<Self, PromptError> {
        let len: usize = segments.iter().map(|s| s.tokens().len()).sum();
        Self::with_question(segments, len.saturating_sub(1))
    }

    /// A prompt whose question row is the token at `question`: the last token before the answer to the text that
    /// follows the documents. Which rows are repaired may depend only on tokens up to it.
    pub fn with_question(segments: Vec<Segment>, question: usize) -> Result<Self, PromptError> {
        let len = segments.iter().map(|s| s.tokens().len()).sum();
        if len == 0 {
            return Err(PromptError::Empty);
        }
        if question >= len {
            return Err(PromptError::Question(question));
        }
        let anchors = segments.iter().filter_map(|s| match s {
            Segment::Document(d) => Some(&d.anchor),
            Segment::Text(_) => None,
        });
        if let Some(index) = anchors.enumerate().find_map(|(i, a)| a.is_empty().then_some(i)) {
            return Err(PromptError::NoAnchor(index));
        }
        Ok(Self {
            segments,
            question,
            len,
        })
    }

    /// The segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The documents in order.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.segments.iter().filter_map(|s| match s {
            Segment::Document(d) => Some(d),
            Segment::Text(_) => None,
        })
    }

    /// Absolute position of the question row.
    pub fn question(&self) -> usize {
        self.question
    }

    /// Number of tokens; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a prompt is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// All tokens in order, documents included.
    pub fn tokens(&self) -> Vec<TokenId> {
        self.segments
            .iter()
            .flat_map(|s| s.tokens().iter().copied())
            .collect()
    }
}
