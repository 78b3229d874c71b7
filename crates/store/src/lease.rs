//! Entries and the leases on them.
//!
//! An entry owns its pages and never changes. The residency holds an entry by one reference, every lease by one
//! more: an entry is leased exactly when somebody else than the residency refers to it. New references are made
//! from leases or by the residency's owner only, so for the owner "not leased" can't become false by itself.

use std::{fmt, sync::Arc};

use medley_kv::{DocumentKey, PAGE_TOKENS, PageId, PrefixKey, TokenId};

use crate::Page;

/// A document's canonical KV.
pub(crate) struct DocumentEntry {
    pub key: DocumentKey,
    pub anchor: Arc<[TokenId]>,
    pub tokens: Arc<[TokenId]>,
    pub ids: Arc<[PageId]>,
    /// Held for their `Drop`.
    pub pages: Vec<Page>,
}

/// One full page of exact KV, behind all pages before it.
pub(crate) struct PrefixEntry {
    /// Of everything from the start of the sequence to the end of this page.
    pub key: PrefixKey,
    /// The tokens of this page.
    pub tokens: [TokenId; PAGE_TOKENS],
    pub page: Page,
}

/// Whether anybody but the residency, which holds one reference, refers to an entry.
pub(crate) fn leased<T>(entry: &Arc<T>) -> bool {
    Arc::strong_count(entry) > 1
}

/// Keeps a document's pages in place. Cheap to clone; all clones together are what the document waits for.
#[derive(Clone)]
pub struct DocumentLease(pub(crate) Arc<DocumentEntry>);

impl DocumentLease {
    /// The document's key.
    pub fn key(&self) -> DocumentKey {
        self.0.key
    }

    /// Its pages in order; what they hold must not be written.
    pub fn pages(&self) -> Arc<[PageId]> {
        Arc::clone(&self.0.ids)
    }

    /// Its tokens.
    pub fn tokens(&self) -> &Arc<[TokenId]> {
        &self.0.tokens
    }

    /// What it was computed behind.
    pub fn anchor(&self) -> &Arc<[TokenId]> {
        &self.0.anchor
    }
}

impl fmt::Debug for DocumentLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DocumentLease")
            .field(&self.0.key)
            .field(&self.0.ids)
            .finish()
    }
}

/// Keeps one page of a prefix in place. Cheap to clone.
#[derive(Clone)]
pub struct PrefixLease(pub(crate) Arc<PrefixEntry>);

impl PrefixLease {
    /// The page; what it holds must not be written.
    pub fn page(&self) -> PageId {
        self.0.page.id()
    }

    /// The key of everything up to the end of this page.
    pub fn key(&self) -> PrefixKey {
        self.0.key
    }
}

impl fmt::Debug for PrefixLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrefixLease")
            .field(&self.0.key)
            .field(&self.page())
            .finish()
    }
}
