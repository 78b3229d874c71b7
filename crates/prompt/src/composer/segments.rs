//! Builds a list of segments that has one form for one content: no two text segments side by side, none empty.

use medley_kv::{Document, Segment, TokenId};

/// The segments so far.
#[derive(Default)]
pub(super) struct Segments {
    done: Vec<Segment>,
    text: Vec<TokenId>,
}

impl Segments {
    /// Adds fresh text.
    pub(super) fn text(&mut self, tokens: &[TokenId]) {
        self.text.extend_from_slice(tokens);
    }

    /// Adds a document; it may be empty.
    pub(super) fn document(&mut self, document: Document) {
        self.close_text();
        self.done.push(Segment::Document(document));
    }

    /// All segments in order.
    pub(super) fn finish(mut self) -> Vec<Segment> {
        self.close_text();
        self.done
    }

    fn close_text(&mut self) {
        if !self.text.is_empty() {
            self.done
                .push(Segment::Text(std::mem::take(&mut self.text).into()));
        }
    }
}
