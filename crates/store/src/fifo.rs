//! Who leaves next: S3-FIFO over entries of different weight.
//!
//! New entries stand in a small queue with a tenth of the budget, and most of those that are asked for once leave
//! through it soon; entries that were asked for again, or come back soon after their eviction, stand in the main
//! queue, where every use since the last visit buys one more turn. So a stream of documents that are used once
//! does not push out those that are used often, which least-recently-used order would let it do. (Yang et al.,
//! "FIFO queues are all you need for cache eviction", SOSP 2023; here weighted by pages.)
//!
//! The policy knows keys and weights only. Whether an entry may leave now is the caller's to say; an entry that
//! may not is passed over and keeps its turn.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use crate::ghost::Ghosts;

/// Uses that are remembered at most.
const MAX_USES: u8 = 3;

/// Uses after which an entry leaves the small queue for the main one instead of the cache.
const PROMOTED_FROM: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

#[derive(Debug)]
struct Member {
    queue: Queue,
    weight: usize,
    uses: u8,
}

/// The order of eviction.
#[derive(Debug)]
pub(crate) struct Fifo<K> {
    members: HashMap<K, Member>,
    small: VecDeque<K>,
    main: VecDeque<K>,
    small_weight: usize,
    small_share: usize,
    ghosts: Ghosts<K>,
}

impl<K: Copy + Eq + Hash> Fifo<K> {
    /// An empty order for entries of `budget` weight together.
    pub fn new(budget: usize) -> Self {
        Self {
            members: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_weight: 0,
            small_share: budget / 10,
            // One weight is the least that an entry has: as many keys as entries fit.
            ghosts: Ghosts::new(budget),
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether a key was evicted and is still remembered.
    pub fn was_evicted(&self, key: &K) -> bool {
        self.ghosts.contains(key)
    }

    /// Adds a key that is no member.
    pub fn insert(&mut self, key: K, weight: usize) {
        let queue = if self.ghosts.remove(&key) {
            Queue::Main
        } else {
            Queue::Small
        };
        let former = self.members.insert(
            key,
            Member {
                queue,
                weight,
                uses: 0,
            },
        );
        debug_assert!(former.is_none(), "inserted twice");
        match queue {
            Queue::Small => {
                self.small_weight += weight;
                self.small.push_back(key);
            }
            Queue::Main => self.main.push_back(key),
        }
    }

    /// Counts a use of a member.
    pub fn touch(&mut self, key: &K) {
        if let Some(member) = self.members.get_mut(key) {
            member.uses = (member.uses + 1).min(MAX_USES);
        }
    }

    /// Removes and remembers the member that leaves next among those that `may_leave`; none if none may.
    pub fn evict(&mut self, may_leave: impl Fn(&K) -> bool) -> Option<K> {
        let key = if self.small_weight > self.small_share {
            self.scan_small(&may_leave).or_else(|| self.scan_main(&may_leave))
        } else {
            self.scan_main(&may_leave).or_else(|| self.scan_small(&may_leave))
        };
        // The small queue's scan may have moved everything that may leave to the main queue.
        let key = key.or_else(|| self.scan_main(&may_leave))?;
        self.members.remove(&key);
        self.ghosts.insert(key);
        Some(key)
    }

    /// One turn of the small queue.
    fn scan_small(&mut self, may_leave: &impl Fn(&K) -> bool) -> Option<K> {
        for _ in 0..self.small.len() {
            let key = self.small.pop_front()?;
            let Some(member) = self.members.get_mut(&key) else {
                continue;
            };
            if !may_leave(&key) {
                self.small.push_back(key);
                continue;
            }
            self.small_weight -= member.weight;
            if member.uses < PROMOTED_FROM {
                return Some(key);
            }
            *member = Member {
                queue: Queue::Main,
                weight: member.weight,
                uses: 0,
            };
            self.main.push_back(key);
        }
        None
    }

    /// As many turns of the main queue as use up every use that is remembered.
    fn scan_main(&mut self, may_leave: &impl Fn(&K) -> bool) -> Option<K> {
        for _ in 0..self.main.len() * (usize::from(MAX_USES) + 1) {
            let key = self.main.pop_front()?;
            let Some(member) = self.members.get_mut(&key) else {
                continue;
            };
            if may_leave(&key) {
                if member.uses == 0 {
                    return Some(key);
                }
                member.uses -= 1;
            }
            self.main.push_back(key);
        }
        None
    }

    /// Panics unless every member stands in exactly one queue and the weights add up.
    pub fn check(&self) {
        for (queue, kind) in [(&self.small, Queue::Small), (&self.main, Queue::Main)] {
            assert!(
                queue
                    .iter()
                    .all(|key| self.members.get(key).is_some_and(|m| m.queue == kind))
            );
        }
        assert_eq!(
            self.small.len() + self.main.len(),
            self.members.len(),
            "a key stands in two queues or in none"
        );
        let small = self.members.values().filter(|m| m.queue == Queue::Small);
        assert_eq!(small.map(|m| m.weight).sum::<usize>(), self.small_weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_used_often_outlive_a_stream_of_new_ones() {
        let mut fifo = Fifo::new(20);
        (0..5).for_each(|key| fifo.insert(key, 1));
        for new in 100..400 {
            (0..5).for_each(|key| fifo.touch(&key));
            fifo.insert(new, 1);
            if fifo.len() > 20 {
                let gone = fifo.evict(|_| true).expect("a member");
                assert!(gone >= 100, "{gone} was in use");
            }
            fifo.check();
        }
    }

    #[test]
    fn what_may_not_leave_stays_and_all_else_leaves_in_the_end() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut fifo = Fifo::new(30);
            let keys = rng.u32(1..40);
            (0..keys).for_each(|key| fifo.insert(key, rng.usize(1..4)));
            (0..100).for_each(|_| fifo.touch(&rng.u32(..keys)));
            let mut gone = Vec::new();
            while let Some(key) = fifo.evict(|key| key % 3 != 0) {
                gone.push(key);
                fifo.check();
            }
            gone.sort_unstable();
            assert_eq!(
                gone,
                (0..keys).filter(|key| key % 3 != 0).collect::<Vec<_>>(),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn what_comes_back_after_its_eviction_goes_to_the_main_queue() {
        let mut fifo = Fifo::new(10);
        fifo.insert(1, 1);
        assert_eq!(fifo.evict(|_| true), Some(1));
        assert!(fifo.was_evicted(&1));
        fifo.insert(1, 1);
        assert!(!fifo.was_evicted(&1));
        (2..5).for_each(|key| fifo.insert(key, 1));
        assert_eq!(fifo.evict(|_| true), Some(2));
    }

    /// Members of the main queue, in order: they were evicted before.
    fn main_queue(budget: usize, keys: impl IntoIterator<Item = u32>) -> Fifo<u32> {
        let mut fifo = Fifo::new(budget);
        for key in keys {
            fifo.ghosts.insert(key);
            fifo.insert(key, 1);
        }
        fifo
    }

    #[test]
    fn one_use_does_not_buy_a_place_in_the_main_queue_and_two_do() {
        for (uses, gone) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
            let mut fifo = Fifo::new(10);
            (1..4).for_each(|key| fifo.insert(key, 1));
            (0..uses).for_each(|_| fifo.touch(&1));
            assert_eq!(fifo.evict(|_| true), Some(gone), "{uses} uses");
        }
    }

    #[test]
    fn uses_are_counted_anew_in_the_main_queue() {
        let mut fifo = main_queue(10, [1]);
        (2..4).for_each(|key| fifo.insert(key, 1));
        (0..3).for_each(|_| fifo.touch(&2));
        (0..2).for_each(|_| fifo.touch(&3));
        assert_eq!([(); 3].map(|()| fifo.evict(|_| true)), [1, 2, 3].map(Some));
    }

    #[test]
    fn three_uses_are_remembered() {
        let mut fifo = main_queue(10, [1, 2, 3]);
        (0..100).for_each(|_| fifo.touch(&1));
        (0..3).for_each(|_| fifo.touch(&2));
        assert_eq!([(); 3].map(|()| fifo.evict(|_| true)), [3, 1, 2].map(Some));
    }

    #[test]
    fn an_entry_that_may_not_leave_keeps_its_uses() {
        let mut fifo = main_queue(10, [1, 2]);
        fifo.touch(&1);
        assert_eq!(fifo.evict(|key| *key == 2), Some(2));
        fifo.ghosts.insert(3);
        fifo.insert(3, 1);
        assert_eq!(fifo.evict(|_| true), Some(3));
    }

    #[test]
    fn the_small_queue_pays_while_it_is_over_its_tenth() {
        let mut fifo = main_queue(20, [1, 2]);
        (3..7).for_each(|key| fifo.insert(key, 1));
        assert_eq!([(); 4].map(|()| fifo.evict(|_| true)), [3, 4, 1, 2].map(Some));
    }
}
