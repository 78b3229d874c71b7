//! The consistency of a residency, checked after every change in debug builds and by tests.

use std::collections::{HashMap, HashSet};

use medley_kv::{PageId, PrefixKey};

use crate::{Page, Residency};

impl Residency {
    /// Panics unless every page is in exactly one place and all counts agree.
    pub fn check(&self) {
        let free = self.pool.free_pages();
        let mut places: HashSet<PageId> = free.iter().copied().collect();
        assert_eq!(places.len(), free.len(), "a page is free twice");
        let documents = self
            .documents
            .values()
            .flat_map(|entry| entry.pages.iter().map(Page::id));
        let overlays = self.blended.values().flat_map(|entry| &entry.blended.pages);
        let resident = documents
            .chain(self.prefixes.values().map(|node| node.entry.page.id()))
            .chain(overlays.map(|page| page.id()));
        let mut count = 0;
        for id in resident {
            assert!(places.insert(id), "page {} is in two places", id.0);
            count += 1;
        }
        assert_eq!(count, self.resident_pages, "resident pages are miscounted");
        assert!(
            count <= self.budget_pages,
            "{count} pages exceed the budget of {}",
            self.budget_pages
        );
        self.check_entries();
        self.order.check();
    }

    fn check_entries(&self) {
        assert_eq!(
            self.order.len(),
            self.documents.len() + self.prefixes.len() + self.blended.len(),
            "the order lacks an entry"
        );
        for (key, entry) in &self.documents {
            assert_eq!(*key, entry.key);
            assert!(
                entry.pages.iter().map(Page::id).eq(entry.ids.iter().copied()),
                "ids do not fit the pages"
            );
        }
        let mut children: HashMap<PrefixKey, usize> = HashMap::new();
        for parent in self.prefixes.values().filter_map(|node| node.parent) {
            assert!(self.prefixes.contains_key(&parent), "a page can't be reached");
            *children.entry(parent).or_default() += 1;
        }
        for (key, node) in &self.prefixes {
            let counted = children.get(key).copied().unwrap_or(0);
            assert_eq!(
                (*key, counted),
                (node.entry.key, node.children),
                "children are miscounted"
            );
        }
    }

    pub(crate) fn check_in_debug(&self) {
        if cfg!(any(debug_assertions, test)) {
            self.check();
        }
    }
}
