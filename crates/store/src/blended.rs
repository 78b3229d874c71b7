//! Resident blended KV: the overlay of a prompt up to its question row.
//!
//! It is a function of the prompt up to that row and of how it was blended, so that an equal prompt, and one that goes on
//! behind it, find it. Exact look-ups never do: it has keys of its own. Whoever made the pages and whoever goes on from them
//! hold them too; an entry leaves only when nobody does.

use std::{collections::hash_map::Entry, sync::Arc};

use medley_kv::{BlendedKey, Position, Segment};

use crate::{Page, Residency, residency::EntryKey};

/// The overlay of a prompt up to its question row.
#[derive(Clone, Debug)]
pub struct Blended {
    /// Positions of its slots, ascending; the last one is the question row.
    pub rows: Arc<[Position]>,
    /// Those of them that lie in documents.
    pub repaired: Arc<[Position]>,
    /// Its pages. What lies behind the slots means nothing, and whoever made them may write there.
    pub pages: Vec<Arc<Page>>,
}

pub(crate) struct BlendedEntry {
    segments: Vec<Segment>,
    pub blended: Blended,
}

impl BlendedEntry {
    /// Whether somebody else holds one of its pages.
    pub fn in_use(&self) -> bool {
        self.blended.pages.iter().any(|page| Arc::strong_count(page) > 1)
    }
}

impl Residency {
    /// Finds the overlay of the prompt that begins with `segments`.
    pub fn blended(&mut self, key: BlendedKey, segments: &[Segment]) -> Option<Blended> {
        let entry = self.blended.get(&key)?;
        let found = same(&entry.segments, segments).then(|| entry.blended.clone())?;
        self.order.touch(&EntryKey::Blended(key));
        Some(found)
    }

    /// Keeps an overlay, evicting what is not leased as the budget demands; or doesn't, where one is kept under the key
    /// already or the budget can't hold it.
    pub fn keep_blended(&mut self, key: BlendedKey, segments: Vec<Segment>, blended: Blended) {
        let weight = blended.pages.len();
        if self.blended.contains_key(&key) || !self.make_room(weight) {
            return;
        }
        if let Entry::Vacant(vacant) = self.blended.entry(key) {
            vacant.insert(BlendedEntry { segments, blended });
            self.order.insert(EntryKey::Blended(key), weight);
            self.resident_pages += weight;
        }
        self.check_in_debug();
    }

    pub(crate) fn remove_blended(&mut self, key: &BlendedKey) {
        let Some(entry) = self.blended.remove(key) else {
            return;
        };
        debug_assert!(!entry.in_use(), "an overlay in use is evicted");
        self.resident_pages -= entry.blended.pages.len();
    }
}

/// Whether two prompts are the same, whatever their documents are called.
fn same(a: &[Segment], b: &[Segment]) -> bool {
    let equal = |(a, b): (&Segment, &Segment)| match (a, b) {
        (Segment::Text(a), Segment::Text(b)) => a == b,
        (Segment::Document(a), Segment::Document(b)) => a.tokens == b.tokens && a.anchor == b.anchor,
        _ => false,
    };
    a.len() == b.len() && a.iter().zip(b).all(equal)
}

#[cfg(test)]
mod tests {
    use medley_kv::{Namespace, TokenId};

    use super::*;
    use crate::PagePool;

    fn segments(id: u32) -> Vec<Segment> {
        vec![Segment::Text([TokenId(id)].into())]
    }

    fn key(id: u32) -> BlendedKey {
        BlendedKey::new(&Namespace::builder().build(), &segments(id))
    }

    fn overlay(residency: &mut Residency, pages: usize) -> Blended {
        let pages = residency.reserve(pages).expect("room");
        Blended {
            rows: [Position(1)].into(),
            repaired: [].into(),
            pages: pages.into_iter().map(Arc::new).collect(),
        }
    }

    #[test]
    fn an_overlay_is_found_by_its_prompt_and_by_no_other() {
        let mut residency = Residency::new(PagePool::new(10), 8);
        let made = overlay(&mut residency, 2);
        residency.keep_blended(key(1), segments(1), made);
        assert!(residency.blended(key(1), &segments(1)).is_some());
        assert!(residency.blended(key(2), &segments(2)).is_none());
        // A key alone is never trusted.
        assert!(residency.blended(key(1), &segments(2)).is_none());
        assert_eq!(residency.stats().resident_pages, 2);
    }

    #[test]
    fn an_overlay_in_use_stays_and_leaves_when_nobody_holds_it() {
        let mut residency = Residency::new(PagePool::new(4), 4);
        let made = overlay(&mut residency, 3);
        residency.keep_blended(key(1), segments(1), made.clone());
        assert!(residency.reserve(2).is_none());
        residency.evict_all();
        assert_eq!(residency.stats().resident_pages, 3);
        drop(made);
        let held = residency.blended(key(1), &segments(1)).expect("resident");
        assert!(residency.reserve(2).is_none());
        drop(held);
        assert_eq!(residency.reserve(4).map(|pages| pages.len()), Some(4));
        assert!(residency.blended(key(1), &segments(1)).is_none());
        assert_eq!(residency.pool().free(), 4);
    }

    #[test]
    fn what_the_budget_can_not_hold_and_what_is_there_already_is_not_kept() {
        let mut residency = Residency::new(PagePool::new(9), 3);
        let made = overlay(&mut residency, 4);
        residency.keep_blended(key(1), segments(1), made);
        assert_eq!(
            (residency.stats().resident_pages, residency.pool().free()),
            (0, 9)
        );
        let (first, second) = (overlay(&mut residency, 2), overlay(&mut residency, 2));
        residency.keep_blended(key(1), segments(1), first);
        residency.keep_blended(key(1), segments(1), second);
        assert_eq!(
            (residency.stats().resident_pages, residency.pool().free()),
            (2, 7)
        );
    }
}
