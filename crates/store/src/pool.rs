//! The pool of pages: who holds which page.
//!
//! A page is either free or held by exactly one [`Page`], which gives it back when it is dropped. One mutex
//! protects the list; nothing else is locked while it is held.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use medley_kv::PageId;

/// The pages `0..total` of a model's KV memory. Clones share them.
#[derive(Clone)]
pub struct PagePool(Arc<Shared>);

struct Shared {
    total: usize,
    list: Mutex<FreeList>,
}

struct FreeList {
    /// Taken from the end; the page freed last is taken first, while caches still know it.
    free: Vec<PageId>,
    held: Vec<bool>,
}

impl PagePool {
    /// A pool of free pages.
    pub fn new(pages: usize) -> Self {
        let free = (0..pages as u32).rev().map(PageId).collect();
        let list = Mutex::new(FreeList {
            free,
            held: vec![false; pages],
        });
        Self(Arc::new(Shared { total: pages, list }))
    }

    /// Number of pages.
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// Number of free pages.
    pub fn free(&self) -> usize {
        self.0.list().free.len()
    }

    /// The free pages, in no particular order: a snapshot for checks and tests.
    pub fn free_pages(&self) -> Vec<PageId> {
        self.0.list().free.clone()
    }

    /// Takes `n` pages, or none when fewer are free. What they hold is left over from their last life.
    pub fn take(&self, n: usize) -> Option<Vec<Page>> {
        let mut list = self.0.list();
        let from = list.free.len().checked_sub(n)?;
        let ids = list.free.split_off(from);
        ids.iter().for_each(|id| list.held[id.0 as usize] = true);
        drop(list);
        Some(
            ids.into_iter()
                .rev()
                .map(|id| Page {
                    id,
                    pool: Arc::clone(&self.0),
                })
                .collect(),
        )
    }
}

impl Shared {
    /// The list stays consistent whatever panics elsewhere: no step under the lock can fail half-way.
    fn list(&self) -> MutexGuard<'_, FreeList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PagePool({} of {} free)", self.free(), self.total())
    }
}

/// A page in somebody's hands. Dropping it returns it to its pool.
pub struct Page {
    id: PageId,
    pool: Arc<Shared>,
}

impl Page {
    /// Which page it is.
    pub fn id(&self) -> PageId {
        self.id
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let mut list = self.pool.list();
        let held = &mut list.held[self.id.0 as usize];
        debug_assert!(*held, "page {} is freed twice", self.id.0);
        *held = false;
        list.free.push(self.id);
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({})", self.id.0)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, thread};

    use super::*;

    #[test]
    fn pages_are_taken_all_or_none() {
        let pool = PagePool::new(3);
        let two = pool.take(2).expect("two of three");
        assert!(pool.take(2).is_none());
        assert_eq!(pool.free(), 1);
        drop(two);
        assert_eq!(pool.take(3).map(|pages| pages.len()), Some(3));
        assert_eq!((pool.free(), pool.total()), (3, 3));
        assert_eq!(pool.take(0).map(|pages| pages.len()), Some(0));
    }

    #[test]
    fn a_page_has_one_holder_whatever_threads_do() {
        let pool = PagePool::new(16);
        thread::scope(|scope| {
            for seed in 0..4 {
                let pool = pool.clone();
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut held: Vec<Page> = Vec::new();
                    for _ in 0..2000 {
                        held.extend(pool.take(rng.usize(..5)).into_iter().flatten());
                        let ids: BTreeSet<_> = held.iter().map(Page::id).collect();
                        assert_eq!(ids.len(), held.len(), "seed {seed}");
                        held.truncate(rng.usize(..=held.len()));
                    }
                });
            }
        });
        let ids: BTreeSet<_> = pool.free_pages().into_iter().collect();
        assert_eq!(ids, (0..16).map(PageId).collect());
    }

    #[test]
    fn a_page_is_either_held_or_free() {
        let pool = PagePool::new(4);
        let held = |pool: &PagePool| pool.0.list().held.clone();
        let mut pages = pool.take(3).expect("three of four");
        assert_eq!(held(&pool), [true, true, true, false]);
        pages.remove(1);
        assert_eq!(held(&pool), [true, false, true, false]);
        assert_eq!(pool.free_pages(), [3, 1].map(PageId));
    }
}
