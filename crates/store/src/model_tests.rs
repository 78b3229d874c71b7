//! Random operations against a model of what every page holds.
//!
//! The test stands in for a backend: `contents` says what was last written to each page. Whatever a lease or a
//! lookup promises must be there, so a page that is handed out too early is found by its contents.

use std::collections::HashSet;

use medley_kv::{DocumentKey, Namespace, PAGE_TOKENS, PageId, PrefixKey, TokenId, pages_for};

use crate::{DocumentLease, Page, PagePool, PrefixLease, Residency, lease::leased};

struct World {
    rng: fastrand::Rng,
    namespace: Namespace,
    residency: Residency,
    contents: Vec<String>,
    documents: Vec<DocumentLease>,
    prefixes: Vec<PrefixLease>,
    private: Vec<Page>,
}

fn tokens(ids: impl IntoIterator<Item = u32>) -> Vec<TokenId> {
    ids.into_iter().map(TokenId).collect()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let pages = rng.usize(8..40);
        Self {
            residency: Residency::new(PagePool::new(pages), rng.usize(..=pages)),
            rng,
            namespace: Namespace::builder().field("model", "m").build(),
            contents: vec![String::new(); pages],
            documents: Vec::new(),
            prefixes: Vec::new(),
            private: Vec::new(),
        }
    }

    /// Reserves and overwrites pages; checks that refusal is right and leaves everything in place.
    fn reserve(&mut self, pages: usize) -> Option<Vec<Page>> {
        let attainable = self.residency.pool().free() + self.evictable();
        let before = self.residency.stats();
        let taken = self.residency.reserve(pages);
        assert_eq!(taken.is_some(), pages <= attainable);
        if taken.is_none() {
            assert_eq!(self.residency.stats(), before);
        }
        self.write(taken.iter().flatten().map(Page::id).collect(), |_| {
            "overwritten".to_owned()
        });
        taken
    }

    fn write(&mut self, pages: Vec<PageId>, content: impl Fn(usize) -> String) {
        for (i, page) in pages.into_iter().enumerate() {
            self.contents[page.0 as usize] = content(i);
        }
    }

    /// Resident pages that are neither leased nor before a leased one, found the slow way.
    fn evictable(&self) -> usize {
        let r = &self.residency;
        let documents = r
            .documents
            .values()
            .filter(|e| !leased(e))
            .map(|e| e.pages.len())
            .sum::<usize>();
        let mut kept = HashSet::new();
        for (key, _) in r.prefixes.iter().filter(|(_, node)| leased(&node.entry)) {
            let mut at: Option<PrefixKey> = Some(*key);
            while let Some(key) = at {
                kept.insert(key);
                at = r.prefixes[&key].parent;
            }
        }
        documents + r.prefixes.len() - kept.len()
    }

    fn document(&mut self) {
        let n = self.rng.u32(..12);
        let (anchor, body) = (tokens([1]), tokens((0..n * 17 % 200).map(|i| n * 1000 + i)));
        let key = DocumentKey::new(&self.namespace, &anchor, &body);
        let look_up = self.rng.u8(..5) > 0;
        let found = if look_up {
            self.residency.document(key, &anchor, &body).ok()
        } else {
            None
        };
        let lease = found.or_else(|| {
            let pages = self.reserve(pages_for(body.len()))?;
            self.write(pages.iter().map(Page::id).collect(), |i| format!("{key:?} {i}"));
            Some(
                self.residency
                    .keep_document(key, anchor.into(), body.into(), pages),
            )
        });
        self.documents.extend(lease);
    }

    fn prefix(&mut self) {
        let pages = self.rng.usize(..6);
        let kinds: Vec<u32> = (0..pages).map(|_| self.rng.u32(..2)).collect();
        let body = tokens(kinds.iter().flat_map(|kind| [*kind; PAGE_TOKENS]));
        let asked: Vec<_> = body.iter().copied().chain([TokenId(9)]).collect();
        let mut held = self.residency.prefix(&self.namespace, &asked);
        held.truncate(self.rng.usize(..=pages));
        let Some(fresh) = self.reserve(pages - held.len()) else {
            return;
        };
        let (first, namespace) = (held.len(), self.namespace);
        self.write(fresh.iter().map(Page::id).collect(), |i| {
            format!("{:?}", key_of(&namespace, &body[..(first + i + 1) * PAGE_TOKENS]))
        });
        let own: Vec<_> = held
            .iter()
            .map(PrefixLease::page)
            .chain(fresh.iter().map(Page::id))
            .collect();
        let chain = self.residency.keep_prefix(&self.namespace, &body, &held, fresh);
        assert_eq!(chain.iter().map(PrefixLease::page).collect::<Vec<_>>(), own);
        self.prefixes.extend(chain);
    }

    fn forget<T>(rng: &mut fastrand::Rng, from: &mut Vec<T>) {
        for _ in 0..rng.usize(..4).min(from.len()) {
            let at = rng.usize(..from.len());
            from.swap_remove(at);
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0..6 => self.document(),
            6..10 => self.prefix(),
            10..14 => Self::forget(&mut self.rng, &mut self.documents),
            14..17 => Self::forget(&mut self.rng, &mut self.prefixes),
            17 => {
                let n = self.rng.usize(..6);
                let pages = self.reserve(n);
                self.private.extend(pages.into_iter().flatten());
            }
            18 => Self::forget(&mut self.rng, &mut self.private),
            _ => self.residency.evict_all(),
        }
    }

    /// Whatever is leased or resident holds what it should, and no page is missing.
    fn verify(&self) {
        self.residency.check();
        let r = &self.residency;
        let documents: Vec<_> = r
            .documents
            .values()
            .chain(self.documents.iter().map(|lease| &lease.0))
            .collect();
        let prefixes = r
            .prefixes
            .values()
            .map(|node| &node.entry)
            .chain(self.prefixes.iter().map(|lease| &lease.0));
        let prefixes: Vec<_> = prefixes.collect();
        let holds = |page: PageId, content: String| assert_eq!(self.contents[page.0 as usize], content);
        for entry in &documents {
            entry
                .ids
                .iter()
                .enumerate()
                .for_each(|(i, page)| holds(*page, format!("{:?} {i}", entry.key)));
        }
        prefixes
            .iter()
            .for_each(|entry| holds(entry.page.id(), format!("{:?}", entry.key)));
        let mut shared: HashSet<PageId> = documents
            .iter()
            .flat_map(|entry| entry.ids.iter().copied())
            .collect();
        shared.extend(prefixes.iter().map(|entry| entry.page.id()));
        let mut places = r.pool().free_pages();
        places.extend(self.private.iter().map(Page::id).chain(shared));
        places.sort_unstable();
        let all: Vec<_> = (0..self.contents.len() as u32).map(PageId).collect();
        assert_eq!(places, all, "a page leaks or has two holders");
    }
}

fn key_of(namespace: &Namespace, tokens: &[TokenId]) -> PrefixKey {
    tokens
        .chunks(PAGE_TOKENS)
        .fold(PrefixKey::root(namespace), |key, page| key.extend(page))
}

#[test]
fn every_page_holds_what_its_holder_was_promised() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        for step in 0..300 {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                world.step();
                world.verify();
            }));
            assert!(result.is_ok(), "seed {seed}, step {step}");
        }
        world.documents.clear();
        world.prefixes.clear();
        world.private.clear();
        world.residency.evict_all();
        assert_eq!(
            world.residency.pool().free(),
            world.contents.len(),
            "seed {seed}: a page leaks"
        );
    }
}
