//! The memory of what was evicted: keys without entries, bounded in number, oldest forgotten first.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// The keys evicted last.
#[derive(Debug)]
pub(crate) struct Ghosts<K> {
    capacity: usize,
    /// When each remembered key was evicted.
    evicted: HashMap<K, u64>,
    /// Evictions in order. One whose time is not the key's own is stale.
    order: VecDeque<(K, u64)>,
    now: u64,
}

impl<K: Copy + Eq + Hash> Ghosts<K> {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            evicted: HashMap::new(),
            order: VecDeque::new(),
            now: 0,
        }
    }

    pub fn contains(&self, key: &K) -> bool {
        self.evicted.contains_key(key)
    }

    /// Forgets a key; whether it was remembered.
    pub fn remove(&mut self, key: &K) -> bool {
        self.evicted.remove(key).is_some()
    }

    /// Remembers a key as evicted now.
    pub fn insert(&mut self, key: K) {
        self.now += 1;
        self.evicted.insert(key, self.now);
        self.order.push_back((key, self.now));
        while self.order.len() > self.capacity {
            let Some((oldest, time)) = self.order.pop_front() else {
                return;
            };
            if self.evicted.get(&oldest) == Some(&time) {
                self.evicted.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first_and_a_second_eviction_renews() {
        let mut ghosts = Ghosts::new(3);
        [1, 2, 1, 3].into_iter().for_each(|key| ghosts.insert(key));
        assert!(ghosts.contains(&1) && ghosts.contains(&2) && ghosts.contains(&3));
        ghosts.insert(4);
        assert!(ghosts.contains(&1) && !ghosts.contains(&2));
        assert!(ghosts.remove(&1) && !ghosts.remove(&1) && !ghosts.contains(&1));
        assert!(ghosts.order.len() <= 3);
    }

    #[test]
    fn without_capacity_nothing_is_remembered() {
        let mut ghosts = Ghosts::new(0);
        ghosts.insert(1);
        assert!(!ghosts.contains(&1));
    }
}
