//! The pages of a prompt that has run, as further choices share them.
//!
//! Full pages are shared. The page of the prompt's last row is copied for each choice, which writes behind that row.
//!
//! **Invariant:** nobody writes a shared page, and whoever else holds the page to copy writes behind the last row only;
//! so it can be copied at any time, and every page is free once the last choice that holds it has ended.

use std::sync::Arc;

use medley_kv::{PAGE_TOKENS, PageId, pages_for};
use medley_store::{Page, PrefixLease};

use crate::holdings::{Holdings, Occurrence};

/// What a sequence finds ready.
#[derive(Clone)]
pub(crate) struct Stem {
    pub shared: Vec<PrefixLease>,
    /// Pages of the prefix behind the leased ones.
    pub common: Vec<Arc<Page>>,
    pub documents: Vec<Occurrence>,
    /// Full pages of the overlay.
    pub overlay: Vec<Arc<Page>>,
    /// Tokens that the exact prefix holds.
    pub prefix_len: usize,
}

/// The page of a prompt's last row.
#[derive(Clone)]
pub(crate) enum Last {
    Leased(PrefixLease),
    Common(Arc<Page>),
}

/// A page to copy before the rows of a sequence run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub from: PageId,
    pub to: PageId,
}

impl Last {
    fn id(&self) -> PageId {
        match self {
            Self::Leased(lease) => lease.page(),
            Self::Common(page) => page.id(),
        }
    }
}

/// A stem with the page that has to be copied.
pub(crate) struct Cut {
    stem: Stem,
    last: Last,
    /// Slots of the part that the last row stands in, up to that row.
    slots: usize,
    /// Whether that part is the overlay.
    in_overlay: bool,
}

impl Cut {
    /// The cut behind the last row of a prompt that has run: in the overlay, of which it takes `rows` slots, or in the
    /// prefix if there are none.
    pub(crate) fn behind(holdings: &mut Holdings, rows: usize) -> Self {
        let slots = if rows > 0 { rows } else { holdings.prefix_len };
        let (stem, last) = match rows {
            0 => holdings.stem_of_prefix(),
            rows => holdings.stem_of_overlay(rows),
        };
        Self {
            stem,
            last,
            slots,
            in_overlay: rows > 0,
        }
    }

    /// Pages of its own that a choice of up to `generated` tokens takes; at least one.
    pub(crate) fn pages_needed(&self, generated: usize) -> usize {
        branch_pages(self.slots, generated)
    }

    /// What a choice holds that goes on in `pages`, and what has to be copied.
    pub(crate) fn branch(&self, pages: Vec<Page>) -> (Holdings, Copy) {
        let copy = Copy {
            from: self.last.id(),
            to: pages[0].id(),
        };
        let (own, overlay) = match self.in_overlay {
            true => (Vec::new(), pages),
            false => (pages, Vec::new()),
        };
        (Holdings::on(self.stem.clone(), own, overlay), copy)
    }
}

/// Pages that a choice takes for itself behind `slots` slots of a prompt, the page to copy included.
pub(crate) fn branch_pages(slots: usize, generated: usize) -> usize {
    pages_for(slots + generated) - (slots - 1) / PAGE_TOKENS
}
