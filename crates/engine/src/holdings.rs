//! What a sequence holds in the page pool, and the parts that its rows attend to.
//!
//! Three kinds, always in this order: the exact prefix (shared pages, then private ones), the documents' shared
//! pages, and the private overlay. The order is part of the numerical recipe.

use std::sync::Arc;

use medley_backend::{Mask, Part, PartKind};
use medley_kv::{PAGE_TOKENS, PageId, Position, SlotId, Span};
use medley_store::{DocumentLease, Page, PrefixLease};

use crate::stem::{Last, Stem};

/// A document where it stands in the prompt.
#[derive(Clone)]
pub(crate) struct Occurrence {
    pub span: Span,
    /// Length of the anchor: where the document's keys are rotated from.
    pub anchor_len: usize,
    /// `None` until the document is there, and for an empty one.
    pub lease: Option<DocumentLease>,
}

/// Pages and leases of one sequence.
pub(crate) struct Holdings {
    shared: Vec<PrefixLease>,
    /// Pages behind the leased ones that other choices of the prompt hold too.
    common: Vec<Arc<Page>>,
    own: Vec<Page>,
    prefix_pages: Arc<[PageId]>,
    /// Tokens that the exact prefix holds.
    pub prefix_len: usize,
    pub documents: Vec<Occurrence>,
    /// Its first pages may be held by other choices too.
    overlay: Vec<Arc<Page>>,
    overlay_pages: Arc<[PageId]>,
    /// Position of every overlay slot in use.
    pub overlay_positions: Vec<Position>,
}

impl Holdings {
    /// A sequence that continues `stem` on pages of its own.
    pub(crate) fn on(stem: Stem, own: Vec<Page>, overlay: Vec<Page>) -> Self {
        let overlay = stem.overlay.into_iter().chain(overlay.into_iter().map(Arc::new));
        let mut holdings = Self {
            shared: stem.shared,
            common: stem.common,
            own,
            prefix_pages: Arc::new([]),
            prefix_len: stem.prefix_len,
            documents: stem.documents,
            overlay: overlay.collect(),
            overlay_pages: Arc::new([]),
            overlay_positions: Vec::new(),
        };
        holdings.list_prefix();
        holdings.list_overlay();
        holdings
    }

    fn list_prefix(&mut self) {
        let shared = self.shared.iter().map(PrefixLease::page);
        let common = self.common.iter().map(|page| page.id());
        let own = self.own.iter().map(Page::id);
        self.prefix_pages = shared.chain(common).chain(own).collect();
    }

    fn list_overlay(&mut self) {
        self.overlay_pages = self.overlay.iter().map(|page| page.id()).collect();
    }

    /// What other choices share of a prompt whose last row has run in the prefix, and the page of that row.
    pub(crate) fn stem_of_prefix(&mut self) -> (Stem, Last) {
        let len = self.prefix_len - 1;
        let full = len / PAGE_TOKENS;
        let last = match self.shared.get(full) {
            Some(lease) => Last::Leased(lease.clone()),
            None => Last::Common(self.give_common(1).remove(0)),
        };
        let stem = Stem {
            shared: self.shared[..full].to_vec(),
            common: Vec::new(),
            documents: self.documents.clone(),
            overlay: Vec::new(),
            prefix_len: len,
        };
        (stem, last)
    }

    /// The same of a prompt whose last row has run in the overlay, as its slot `rows - 1`.
    pub(crate) fn stem_of_overlay(&mut self, rows: usize) -> (Stem, Last) {
        let full = (rows - 1) / PAGE_TOKENS;
        let common = self.give_common(self.own.len());
        let stem = Stem {
            shared: self.shared.clone(),
            common,
            documents: self.documents.clone(),
            overlay: self.overlay[..full].to_vec(),
            prefix_len: self.prefix_len,
        };
        (stem, Last::Common(self.overlay[full].clone()))
    }

    /// Lets others hold the first `count` of the prefix's own pages too.
    fn give_common(&mut self, count: usize) -> Vec<Arc<Page>> {
        let given: Vec<_> = self.own.drain(..count).map(Arc::new).collect();
        self.common.extend(given.iter().cloned());
        given
    }

    /// Slot of the prefix's token at `position`.
    pub(crate) fn prefix_slot(&self, position: usize) -> SlotId {
        SlotId::of(&self.prefix_pages, position)
    }

    /// Slot `index` of the overlay.
    pub(crate) fn overlay_slot(&self, index: usize) -> SlotId {
        SlotId::of(&self.overlay_pages, index)
    }

    /// The document token at `position`: its slot and the position at which its key is rotated.
    pub(crate) fn document_slot(&self, position: Position) -> Option<(SlotId, Position)> {
        let occurrence = self.documents.iter().find(|o| o.span.contains(position))?;
        let index = (position.0 - occurrence.span.start) as usize;
        let slot = SlotId::of(&occurrence.lease.as_ref()?.pages(), index);
        Some((slot, Position((occurrence.anchor_len + index) as u32)))
    }

    /// The parts, with `hidden` document positions (ascending) hidden. The prefix counts `prefix` tokens, the
    /// overlay holds `overlay`.
    pub(crate) fn parts(&self, prefix: usize, hidden: &[Position], overlay: &[Position]) -> Vec<Part> {
        let mut parts = Vec::with_capacity(self.documents.len() + 2);
        if prefix > 0 {
            parts.push(Part {
                pages: self.prefix_pages.clone(),
                len: prefix,
                kind: PartKind::Prefix,
            });
        }
        parts.extend(self.documents.iter().filter_map(|o| document_part(o, hidden)));
        if !overlay.is_empty() {
            let kind = PartKind::Overlay {
                positions: overlay.to_vec(),
            };
            parts.push(Part {
                pages: self.overlay_pages.clone(),
                len: overlay.len(),
                kind,
            });
        }
        parts
    }

    /// Index of every document's part in [`Holdings::parts`]; `None` for a document without tokens.
    pub(crate) fn document_parts(&self) -> Vec<Option<usize>> {
        let mut next = usize::from(self.prefix_len > 0);
        let index = |o: &Occurrence| {
            o.lease.as_ref().map(|_| {
                next += 1;
                next - 1
            })
        };
        self.documents.iter().map(index).collect()
    }

    /// Hands the first `count` pages of the prefix over to be shared; `publish` gets the shared ones and the
    /// private ones to publish and returns leases on all of them.
    pub(crate) fn publish(
        &mut self,
        count: usize,
        publish: impl FnOnce(&[PrefixLease], Vec<Page>) -> Vec<PrefixLease>,
    ) {
        if count <= self.shared.len() {
            return;
        }
        debug_assert!(
            self.common.is_empty(),
            "a prefix is published before it is shared"
        );
        let fresh = self.own.drain(..count - self.shared.len()).collect();
        self.shared = publish(&self.shared, fresh);
        self.list_prefix();
    }

    /// The first pages of the overlay.
    pub(crate) fn first_of_overlay(&self, count: usize) -> Vec<Arc<Page>> {
        self.overlay[..count].to_vec()
    }

    /// Gives back overlay pages beyond `slots` slots.
    pub(crate) fn shrink_overlay(&mut self, slots: usize) {
        let pages = medley_kv::pages_for(slots);
        if pages < self.overlay.len() {
            self.overlay.truncate(pages);
            self.list_overlay();
        }
    }

    /// Leases held.
    pub(crate) fn leases(&self) -> usize {
        self.shared.len() + self.documents.iter().filter(|o| o.lease.is_some()).count()
    }
}

fn document_part(occurrence: &Occurrence, hidden: &[Position]) -> Option<Part> {
    let (lease, span) = (occurrence.lease.as_ref()?, occurrence.span);
    let mut mask = Mask::none(span.len as usize);
    let first = hidden.partition_point(|p| p.0 < span.start);
    let inside = hidden[first..].iter().take_while(|p| p.0 < span.end());
    inside.for_each(|p| mask.hide((p.0 - span.start) as usize));
    let kind = PartKind::Document {
        start: Position(span.start),
        local: Position(occurrence.anchor_len as u32),
        hidden: mask,
    };
    Some(Part {
        pages: lease.pages(),
        len: span.len as usize,
        kind,
    })
}
