//! Canonical KV: a missing document is computed alone behind its anchor, whoever asked for it.
//!
//! **Invariant:** a computation sees the document's and the anchor's tokens and nothing of the requests that wait
//! for it. Equal documents are computed once, however many requests wait.

use std::sync::Arc;

use medley_backend::{ANY_LENGTH, Depth, Mask, Part, PartKind};
use medley_kv::{DocumentKey, PageId, Position, SlotId, TokenId};
use medley_store::Page;

use crate::chunk::{Chunk, ChunkRow};

/// A document in computation.
pub(crate) struct Computation {
    pub key: DocumentKey,
    pub anchor: Arc<[TokenId]>,
    pub tokens: Arc<[TokenId]>,
    /// Hold the anchor's KV until the document is complete.
    anchor_pages: Vec<Page>,
    pages: Vec<Page>,
    /// Rows that have run, the anchor's first.
    done: usize,
}

impl Computation {
    /// A computation on `pages`, which hold the anchor and then the document; see [`Computation::pages_needed`].
    pub(crate) fn new(
        key: DocumentKey,
        anchor: Arc<[TokenId]>,
        tokens: Arc<[TokenId]>,
        mut pages: Vec<Page>,
    ) -> Self {
        let anchor_pages = pages.drain(..medley_kv::pages_for(anchor.len())).collect();
        Self {
            key,
            anchor,
            tokens,
            anchor_pages,
            pages,
            done: 0,
        }
    }

    /// Pages that a computation takes.
    pub(crate) fn pages_needed(anchor: &[TokenId], tokens: &[TokenId]) -> usize {
        medley_kv::pages_for(anchor.len()) + medley_kv::pages_for(tokens.len())
    }

    /// Further rows, as there is room.
    pub(crate) fn offer(&self, room: usize) -> Option<Chunk> {
        let (a, total) = (self.anchor.len(), self.anchor.len() + self.tokens.len());
        let end = total.min(self.done + room);
        if self.done == end {
            return None;
        }
        let (anchor_ids, ids) = (ids(&self.anchor_pages), ids(&self.pages));
        let row = |i: usize| {
            let (token, slot) = match i.checked_sub(a) {
                None => (self.anchor[i], SlotId::of(&anchor_ids, i)),
                Some(d) => (self.tokens[d], SlotId::of(&ids, d)),
            };
            ChunkRow {
                token,
                position: Position(i as u32),
                slot,
            }
        };
        let rows = (self.done..end).map(row).collect();
        let at = Position(a as u32);
        let len = end.saturating_sub(a);
        let document = PartKind::Document {
            start: at,
            local: at,
            hidden: Mask::none(len),
        };
        let mut parts = vec![Part {
            pages: anchor_ids,
            len: a.min(end),
            kind: PartKind::Prefix,
        }];
        if len > 0 {
            parts.push(Part {
                pages: ids,
                len,
                kind: document,
            });
        }
        Some(Chunk {
            parts,
            pass_rows: ANY_LENGTH,
            rows,
            depth: Depth::Full,
            ..Chunk::default()
        })
    }

    /// Counts rows that ran; whether the document is complete.
    pub(crate) fn accept(&mut self, rows: usize) -> bool {
        self.done += rows;
        self.done == self.anchor.len() + self.tokens.len()
    }

    /// The document's pages.
    pub(crate) fn into_pages(self) -> Vec<Page> {
        self.pages
    }
}

/// The ids of owned pages.
pub(crate) fn ids(pages: &[Page]) -> Arc<[PageId]> {
    pages.iter().map(Page::id).collect()
}
