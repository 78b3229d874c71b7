//! Pages: the unit in which KV memory is handed out.

/// Tokens of a page.
pub const PAGE_TOKENS: usize = 64;

/// A page of the pool: the keys and values of [`PAGE_TOKENS`] tokens in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// The page's slot `offset`, below [`PAGE_TOKENS`].
    pub fn slot(self, offset: usize) -> SlotId {
        debug_assert!(offset < PAGE_TOKENS, "slot {offset} of a page");
        SlotId(self.0 * PAGE_TOKENS as u32 + offset as u32)
    }
}

/// The place of one token's keys and values: `page * PAGE_TOKENS + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

impl SlotId {
    /// Slot `index` of a list of pages.
    pub fn of(pages: &[PageId], index: usize) -> Self {
        pages[index / PAGE_TOKENS].slot(index % PAGE_TOKENS)
    }

    /// The page it lies in.
    pub fn page(self) -> PageId {
        PageId(self.0 / PAGE_TOKENS as u32)
    }

    /// Its place in the page.
    pub fn offset(self) -> usize {
        self.0 as usize % PAGE_TOKENS
    }
}

/// Pages that `tokens` tokens take.
pub fn pages_for(tokens: usize) -> usize {
    tokens.div_ceil(PAGE_TOKENS)
}
