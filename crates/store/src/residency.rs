//! What is resident, and who leaves for whom.
//!
//! Documents, prefix pages and overlays share one budget and one order of eviction, so that whatever is used more keeps its
//! place. Nothing is evicted for a demand that can't be met anyway.

use std::{collections::HashMap, sync::Arc};

use medley_kv::{BlendedKey, DocumentKey, PrefixKey};

use crate::{
    MissCounts, Page, PagePool, ResidencyStats,
    blended::BlendedEntry,
    fifo::Fifo,
    lease::{DocumentEntry, leased},
    prefix::Node,
};

/// A key of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EntryKey {
    Document(DocumentKey),
    Prefix(PrefixKey),
    Blended(BlendedKey),
}

/// The documents, prefixes and overlays that stand in a pool's pages. Belongs to one owner.
pub struct Residency {
    pub(crate) pool: PagePool,
    pub(crate) budget_pages: usize,
    pub(crate) resident_pages: usize,
    pub(crate) documents: HashMap<DocumentKey, Arc<DocumentEntry>>,
    pub(crate) prefixes: HashMap<PrefixKey, Node>,
    pub(crate) blended: HashMap<BlendedKey, BlendedEntry>,
    pub(crate) order: Fifo<EntryKey>,
    pub(crate) misses: MissCounts,
    evictions: u64,
}

impl Residency {
    /// An empty residency whose entries take at most `budget_pages` of `pool`.
    pub fn new(pool: PagePool, budget_pages: usize) -> Self {
        Self {
            pool,
            budget_pages,
            resident_pages: 0,
            documents: HashMap::new(),
            prefixes: HashMap::new(),
            blended: HashMap::new(),
            order: Fifo::new(budget_pages),
            misses: MissCounts::default(),
            evictions: 0,
        }
    }

    /// The pool that its pages come from.
    pub fn pool(&self) -> &PagePool {
        &self.pool
    }

    /// Takes `pages` pages for private use, evicting entries that are not leased as needed. When even evicting all
    /// of them would not do, nothing is evicted and there are none.
    pub fn reserve(&mut self, pages: usize) -> Option<Vec<Page>> {
        loop {
            if let Some(taken) = self.pool.take(pages) {
                self.check_in_debug();
                return Some(taken);
            }
            let lacking = pages.saturating_sub(self.pool.free());
            if lacking > self.evictable_pages() {
                return None;
            }
            // Usually once; again when somebody else has taken what became free.
            while self.pool.free() < pages && self.evict_one() {}
        }
    }

    /// Evicts everything that is not leased.
    pub fn evict_all(&mut self) {
        while self.evict_one() {}
        self.check_in_debug();
    }

    /// What it has and has done. Cheap.
    pub fn stats(&self) -> ResidencyStats {
        ResidencyStats {
            documents: self.documents.len(),
            prefixes: self.prefixes.len(),
            resident_pages: self.resident_pages,
            budget_pages: self.budget_pages,
            evictions: self.evictions,
            misses: self.misses,
        }
    }

    /// Leases on resident entries; looks at all of them.
    pub fn leases(&self) -> usize {
        let documents = self.documents.values().map(Arc::strong_count);
        let prefixes = self.prefixes.values().map(|node| Arc::strong_count(&node.entry));
        documents.chain(prefixes).map(|references| references - 1).sum()
    }

    /// Pages that a new entry could get: what the budget leaves, and what can leave.
    pub(crate) fn attainable_room(&self) -> usize {
        self.budget_pages - self.resident_pages + self.evictable_pages()
    }

    /// Evicts until the budget has room for `pages` more. When that can't be, nothing is evicted.
    pub(crate) fn make_room(&mut self, pages: usize) -> bool {
        let fits = |this: &Self| this.resident_pages + pages <= this.budget_pages;
        if !fits(self) && self.attainable_room() < pages {
            return false;
        }
        while !fits(self) && self.evict_one() {}
        fits(self)
    }

    /// Pages of all entries that can leave one after the other.
    fn evictable_pages(&self) -> usize {
        let free = self.documents.values().filter(|entry| !leased(entry));
        let overlays = self.blended.values().filter(|entry| !entry.in_use());
        let overlays: usize = overlays.map(|entry| entry.blended.pages.len()).sum();
        free.map(|entry| entry.pages.len()).sum::<usize>() + self.evictable_prefixes() + overlays
    }

    fn evict_one(&mut self) -> bool {
        let (documents, prefixes, blended) = (&self.documents, &self.prefixes, &self.blended);
        let may_leave = |key: &EntryKey| match key {
            EntryKey::Document(key) => documents.get(key).is_some_and(|entry| !leased(entry)),
            EntryKey::Prefix(key) => prefixes.get(key).is_some_and(Node::is_free),
            EntryKey::Blended(key) => blended.get(key).is_some_and(|entry| !entry.in_use()),
        };
        let Some(key) = self.order.evict(may_leave) else {
            return false;
        };
        match key {
            EntryKey::Document(key) => self.remove_document(&key),
            EntryKey::Prefix(key) => self.remove_prefix(&key),
            EntryKey::Blended(key) => self.remove_blended(&key),
        }
        self.evictions += 1;
        true
    }

    fn remove_document(&mut self, key: &DocumentKey) {
        let Some(entry) = self.documents.remove(key) else {
            return;
        };
        debug_assert_eq!(Arc::strong_count(&entry), 1, "a document in use is evicted");
        self.resident_pages -= entry.pages.len();
    }
}
