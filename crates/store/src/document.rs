//! Resident documents.

use std::{collections::hash_map::Entry, sync::Arc};

use medley_kv::{DocumentKey, TokenId};

use crate::{DocumentLease, Page, Residency, lease::DocumentEntry, residency::EntryKey};

/// Why a document was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// Never kept, or forgotten since.
    #[error("the document is not resident")]
    Absent,
    /// It was resident and had to leave.
    #[error("the document was evicted")]
    Evicted,
    /// Another document stands under its key.
    #[error("another document has the same key")]
    Mismatch,
}

impl DocumentEntry {
    fn is(&self, anchor: &[TokenId], tokens: &[TokenId]) -> bool {
        self.anchor[..] == *anchor && self.tokens[..] == *tokens
    }
}

impl Residency {
    /// Finds the document with these tokens, computed behind this anchor.
    pub fn document(
        &mut self,
        key: DocumentKey,
        anchor: &[TokenId],
        tokens: &[TokenId],
    ) -> Result<DocumentLease, Miss> {
        let found = self.documents.get(&key);
        let miss = match found {
            Some(entry) if entry.is(anchor, tokens) => {
                self.order.touch(&EntryKey::Document(key));
                return Ok(DocumentLease(Arc::clone(entry)));
            }
            Some(_) => Miss::Mismatch,
            None if self.order.was_evicted(&EntryKey::Document(key)) => Miss::Evicted,
            None => Miss::Absent,
        };
        self.count_miss(miss);
        Err(miss)
    }

    /// The same for somebody who is not to count: neither as a use nor as a miss.
    pub fn peek_document(
        &self,
        key: DocumentKey,
        anchor: &[TokenId],
        tokens: &[TokenId],
    ) -> Option<DocumentLease> {
        let entry = self.documents.get(&key).filter(|entry| entry.is(anchor, tokens));
        entry.map(|entry| DocumentLease(Arc::clone(entry)))
    }

    fn count_miss(&mut self, miss: Miss) {
        let misses = &mut self.misses;
        *match miss {
            Miss::Absent => &mut misses.absent,
            Miss::Evicted => &mut misses.evicted,
            Miss::Mismatch => &mut misses.mismatch,
        } += 1;
    }

    /// Keeps a document that has been computed into `pages`, evicting others that are not leased as the budget
    /// demands.
    ///
    /// When the same document is resident already, the lease is on that one and `pages` are freed: both hold the
    /// same bits. When the budget can't hold the document, when its key belongs to another one, or when it has no
    /// pages, the lease is the only thing that keeps it.
    pub fn keep_document(
        &mut self,
        key: DocumentKey,
        anchor: Arc<[TokenId]>,
        tokens: Arc<[TokenId]>,
        pages: Vec<Page>,
    ) -> DocumentLease {
        if let Some(resident) = self
            .documents
            .get(&key)
            .filter(|entry| entry.is(&anchor, &tokens))
        {
            return DocumentLease(Arc::clone(resident));
        }
        let weight = pages.len();
        let ids = pages.iter().map(Page::id).collect();
        let entry = Arc::new(DocumentEntry {
            key,
            anchor,
            tokens,
            ids,
            pages,
        });
        let keep = weight > 0 && !self.documents.contains_key(&key) && self.make_room(weight);
        if let (true, Entry::Vacant(vacant)) = (keep, self.documents.entry(key)) {
            vacant.insert(Arc::clone(&entry));
            self.order.insert(EntryKey::Document(key), weight);
            self.resident_pages += weight;
        }
        self.check_in_debug();
        DocumentLease(entry)
    }
}
