//! The partition of a prompt's positions into regions.
//!
//! Regions are consecutive and cover the prompt exactly, by construction: each starts where the one before it
//! ends. Neighbouring text segments make one region; empty text makes none; an empty document keeps its region,
//! so that documents keep their indices.

use medley_kv::{Document, Position, Prompt, Segment, Span, TokenId};

/// A document where it stands in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentRegion {
    /// Place among the prompt's documents.
    pub index: usize,
    /// Its positions; may be empty.
    pub span: Span,
    /// Length of the anchor that it is computed behind, in tokens: the position of its first token there.
    pub anchor_len: usize,
    /// Everything before it in the prompt is exactly its anchor, so its canonical KV is what a full prefill would
    /// compute. It costs no budget and is never selected. This is a property of the tokens and not of what is
    /// cached.
    pub exact: bool,
}

/// A stretch of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Text that belongs to this prompt alone; never empty.
    Text(Span),
    /// A document.
    Document(DocumentRegion),
}

impl Region {
    /// Its positions.
    pub fn span(&self) -> Span {
        match self {
            Self::Text(span) => *span,
            Self::Document(document) => document.span,
        }
    }
}

/// The partition of a prompt's positions into regions, and the row that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    regions: Vec<Region>,
    question: Position,
    len: u32,
}

impl Layout {
    /// Partitions `prompt`.
    pub fn new(prompt: &Prompt) -> Self {
        let mut builder = Builder {
            regions: Vec::new(),
            before: Vec::with_capacity(prompt.len()),
            documents: 0,
        };
        prompt.segments().iter().for_each(|segment| builder.push(segment));
        let len = builder.before.len() as u32;
        Self {
            regions: builder.regions,
            question: Position(prompt.question() as u32),
            len,
        }
    }

    /// The regions in order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The prompt's length in tokens; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a prompt is never empty")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The documents in order.
    pub fn documents(&self) -> impl Iterator<Item = &DocumentRegion> {
        self.regions.iter().filter_map(|region| match region {
            Region::Document(document) => Some(document),
            Region::Text(_) => None,
        })
    }

    /// Tokens of all documents, exact ones included.
    pub fn document_tokens(&self) -> usize {
        self.documents().map(|document| document.span.len as usize).sum()
    }

    /// The text before the first document, where every position is exact. Empty if the prompt starts with a
    /// document, the whole prompt if it has none.
    pub fn lead(&self) -> Span {
        match self.regions.first() {
            Some(Region::Text(span)) => *span,
            _ => Span { start: 0, len: 0 },
        }
    }

    /// The text positions behind the first document, ascending.
    pub fn text_after_lead(&self) -> impl Iterator<Item = Position> {
        let lead = self.lead();
        let texts = self.regions.iter().filter_map(|region| match region {
            Region::Text(span) => Some(*span),
            Region::Document(_) => None,
        });
        texts.filter(move |span| *span != lead).flat_map(Span::positions)
    }

    /// The question row.
    pub fn question(&self) -> Position {
        self.question
    }

    /// The prompt's last position; always a row.
    pub fn last(&self) -> Position {
        Position(self.len - 1)
    }

    /// The document that `position` lies in.
    pub fn document_at(&self, position: Position) -> Option<&DocumentRegion> {
        self.documents().find(|document| document.span.contains(position))
    }
}

/// A partition in the making: `before` holds the tokens of all regions so far.
struct Builder {
    regions: Vec<Region>,
    before: Vec<TokenId>,
    documents: usize,
}

impl Builder {
    fn push(&mut self, segment: &Segment) {
        let span = Span {
            start: self.before.len() as u32,
            len: segment.tokens().len() as u32,
        };
        match segment {
            Segment::Text(_) => self.push_text(span),
            Segment::Document(document) => self.push_document(document, span),
        }
        self.before.extend_from_slice(segment.tokens());
    }

    fn push_text(&mut self, span: Span) {
        match self.regions.last_mut() {
            _ if span.len == 0 => {}
            Some(Region::Text(text)) => text.len += span.len,
            _ => self.regions.push(Region::Text(span)),
        }
    }

    fn push_document(&mut self, document: &Document, span: Span) {
        let exact = self.before[..] == document.anchor[..];
        let anchor_len = document.anchor.len();
        self.regions.push(Region::Document(DocumentRegion {
            index: self.documents,
            span,
            anchor_len,
            exact,
        }));
        self.documents += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompts::{document, random, text};

    #[test]
    fn regions_cover_random_prompts_exactly() {
        for seed in 0..300 {
            let prompt = random(seed);
            let layout = Layout::new(&prompt);
            let covered: Vec<_> = layout
                .regions()
                .iter()
                .flat_map(|r| r.span().positions())
                .map(|p| p.0)
                .collect();
            assert_eq!(
                covered,
                (0..prompt.len() as u32).collect::<Vec<_>>(),
                "seed {seed}"
            );
            let tokens = prompt.tokens();
            for (region, document) in layout.documents().zip(prompt.documents()) {
                let span = region.span.start as usize..region.span.end() as usize;
                assert_eq!(tokens[span.clone()], document.tokens[..], "seed {seed}");
                assert_eq!(region.anchor_len, document.anchor.len(), "seed {seed}");
                assert_eq!(
                    region.exact,
                    tokens[..span.start] == document.anchor[..],
                    "seed {seed}"
                );
            }
            let text = layout.lead().len as usize + layout.text_after_lead().count();
            assert_eq!(text + layout.document_tokens(), prompt.len(), "seed {seed}");
        }
    }

    #[test]
    fn a_document_is_exact_behind_exactly_its_own_anchor() {
        let exact = |segments: Vec<Segment>| -> Vec<bool> {
            let prompt = Prompt::new(segments).expect("a prompt");
            Layout::new(&prompt).documents().map(|d| d.exact).collect()
        };
        assert_eq!(exact(vec![text(&[1]), document(&[1], &[5, 6])]), [true]);
        assert_eq!(exact(vec![text(&[1, 2]), document(&[1], &[5, 6])]), [false]);
        assert_eq!(exact(vec![text(&[2]), document(&[1], &[5, 6])]), [false]);
        assert_eq!(exact(vec![document(&[1], &[5, 6])]), [false]);
        assert_eq!(
            exact(vec![
                text(&[1]),
                text(&[2]),
                document(&[1, 2], &[5]),
                document(&[1], &[6])
            ]),
            [true, false]
        );
    }

    #[test]
    fn a_document_computed_behind_all_that_precedes_it_is_exact() {
        let segments = vec![text(&[1]), document(&[1], &[5, 6]), document(&[1, 5, 6], &[7])];
        let layout = Layout::new(&Prompt::new(segments).expect("a prompt"));
        assert!(layout.documents().all(|d| d.exact));
    }

    #[test]
    fn the_lead_is_empty_before_a_document_and_everything_without_one() {
        let lead = |segments: Vec<Segment>| {
            let layout = Layout::new(&Prompt::new(segments).expect("a prompt"));
            (layout.lead(), layout.text_after_lead().count())
        };
        let first = vec![document(&[1], &[5, 6]), text(&[2, 3])];
        assert_eq!(lead(first), (Span { start: 0, len: 0 }, 2));
        assert_eq!(lead(vec![text(&[1]), text(&[2])]), (Span { start: 0, len: 2 }, 0));
    }

    #[test]
    fn neighbouring_texts_join_and_empty_documents_keep_their_index() {
        let segments = vec![
            text(&[]),
            text(&[1]),
            text(&[2]),
            document(&[1], &[]),
            document(&[1], &[3]),
            text(&[4]),
        ];
        let layout = Layout::new(&Prompt::new(segments).expect("a prompt"));
        assert_eq!(layout.lead(), Span { start: 0, len: 2 });
        assert_eq!(
            layout
                .documents()
                .map(|d| (d.index, d.span.len))
                .collect::<Vec<_>>(),
            [(0, 0), (1, 1)]
        );
        assert_eq!(layout.text_after_lead().collect::<Vec<_>>(), [Position(3)]);
    }
}
