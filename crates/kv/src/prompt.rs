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

    /// The segments up to and with the question row, neighbouring texts as one; `None` unless there are documents and that
    /// row is text behind all of them. Blended KV up to that row depends on nothing else of the prompt.
    pub fn asked(&self) -> Option<Vec<Segment>> {
        let mut asked: Vec<Segment> = Vec::new();
        let mut text: Vec<TokenId> = Vec::new();
        let mut left = self.question + 1;
        for segment in &self.segments {
            match segment {
                Segment::Text(tokens) => {
                    let taken = left.min(tokens.len());
                    text.extend_from_slice(&tokens[..taken]);
                    left -= taken;
                }
                Segment::Document(document) => {
                    left = left.checked_sub(document.tokens.len()).filter(|&left| left > 0)?;
                    if !text.is_empty() {
                        asked.push(Segment::Text(std::mem::take(&mut text).into()));
                    }
                    asked.push(segment.clone());
                }
            }
        }
        let behind_documents = asked
            .iter()
            .any(|segment| matches!(segment, Segment::Document(_)));
        asked.push(Segment::Text(text.into()));
        behind_documents.then_some(asked)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ids: &[u32]) -> Segment {
        Segment::Text(ids.iter().copied().map(TokenId).collect())
    }

    fn document(ids: &[u32]) -> Segment {
        Segment::Document(Document {
            name: None,
            tokens: ids.iter().copied().map(TokenId).collect(),
            anchor: [TokenId(1)].into(),
        })
    }

    fn asked(segments: Vec<Segment>, question: usize) -> Option<Vec<Segment>> {
        Prompt::with_question(segments, question)
            .expect("a prompt")
            .asked()
    }

    #[test]
    fn what_is_asked_ends_with_the_question_and_does_not_depend_on_how_texts_are_cut() {
        let expected = Some(vec![text(&[1, 2]), document(&[3, 4]), text(&[5, 6])]);
        let whole = vec![text(&[1, 2]), document(&[3, 4]), text(&[5, 6])];
        assert_eq!(asked(whole.clone(), 5), expected);
        let longer = vec![
            text(&[1]),
            text(&[2]),
            document(&[3, 4]),
            text(&[5]),
            text(&[6, 7]),
            text(&[8]),
        ];
        assert_eq!(asked(longer, 5), expected);
        assert_eq!(
            asked(whole, 4),
            Some(vec![text(&[1, 2]), document(&[3, 4]), text(&[5])])
        );
    }

    #[test]
    fn nothing_is_asked_of_documents_that_the_question_does_not_follow() {
        assert_eq!(asked(vec![text(&[1, 2])], 1), None);
        let between = vec![document(&[1, 2]), text(&[3]), document(&[4]), text(&[5])];
        assert_eq!(asked(between.clone(), 2), None);
        assert_eq!(asked(between.clone(), 3), None);
        assert!(asked(between, 4).is_some());
        assert_eq!(asked(vec![text(&[1]), document(&[2, 3])], 2), None);
        // Even one without tokens may get some in another prompt.
        assert_eq!(asked(vec![document(&[1]), text(&[2]), document(&[])], 1), None);
    }
}
