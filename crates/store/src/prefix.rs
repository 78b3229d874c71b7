//! Resident chains of exact KV, one entry a page.
//!
//! The entry of a page is found by the hash of everything before and in it. An entry counts the entries that
//! continue it, and leaves only when there are none: a chain shrinks from its end, so whatever is resident can be
//! reached.

use std::{collections::HashSet, sync::Arc};

use medley_kv::{Namespace, PAGE_TOKENS, PrefixKey, TokenId};

use crate::{
    Page, PrefixLease, Residency,
    lease::{PrefixEntry, leased},
    residency::EntryKey,
};

/// A resident page of a chain.
pub(crate) struct Node {
    pub entry: Arc<PrefixEntry>,
    /// The page before it; none if it is the first.
    pub parent: Option<PrefixKey>,
    /// Resident pages that continue it.
    pub children: usize,
}

impl Node {
    /// Whether it may leave.
    pub fn is_free(&self) -> bool {
        self.children == 0 && !leased(&self.entry)
    }
}

/// One page of a chain that is being published.
struct Link {
    parent: Option<PrefixKey>,
    entry: Arc<PrefixEntry>,
}

impl Residency {
    /// The longest resident chain of full pages from the start of `tokens`, without the page of the last token:
    /// the last position is always a row.
    pub fn prefix(&mut self, namespace: &Namespace, tokens: &[TokenId]) -> Vec<PrefixLease> {
        let usable = &tokens[..tokens.len().saturating_sub(1)];
        let mut key = PrefixKey::root(namespace);
        let mut chain = Vec::new();
        for page in usable.chunks_exact(PAGE_TOKENS) {
            key = key.extend(page);
            let Some(node) = self
                .prefixes
                .get(&key)
                .filter(|node| node.entry.tokens[..] == *page)
            else {
                break;
            };
            chain.push(PrefixLease(Arc::clone(&node.entry)));
            self.order.touch(&EntryKey::Prefix(key));
        }
        chain
    }

    /// Publishes the chain of `tokens`, a multiple of [`PAGE_TOKENS`]: its first pages are `held` already, the
    /// others are `fresh`. Returns leases on all of them, in order, on the caller's own pages.
    ///
    /// A page that somebody else has published meanwhile is not published again: the caller's own page stays
    /// private to the returned lease, and later pages continue the resident chain (the bits are the same). As much
    /// of the chain's beginning is kept as the budget can hold, others that are not leased being evicted for it.
    pub fn keep_prefix(
        &mut self,
        namespace: &Namespace,
        tokens: &[TokenId],
        held: &[PrefixLease],
        fresh: Vec<Page>,
    ) -> Vec<PrefixLease> {
        debug_assert_eq!(
            (held.len() + fresh.len()) * PAGE_TOKENS,
            tokens.len(),
            "pages do not fit the tokens"
        );
        let chain = chain(namespace, tokens, held, fresh);
        let (known, new) = self.split(&chain);
        // The resident part must not leave while its continuation moves in.
        let hold: Vec<_> = known
            .iter()
            .filter_map(|key| self.prefixes.get(key))
            .map(|n| Arc::clone(&n.entry))
            .collect();
        let count = new.len().min(self.attainable_room());
        let made = self.make_room(count);
        debug_assert!(made, "room for {count} pages was attainable");
        drop(hold);
        if made {
            self.publish(new.into_iter().take(count).collect());
        }
        self.check_in_debug();
        chain
    }

    /// The keys of the chain's beginning that is resident, and what can be published behind it. A page whose key
    /// belongs to other tokens ends the chain.
    fn split(&self, chain: &[PrefixLease]) -> (Vec<PrefixKey>, Vec<Link>) {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        let mut parent = None;
        for PrefixLease(entry) in chain {
            match self.prefixes.get(&entry.key) {
                Some(node) if node.entry.tokens != entry.tokens => break,
                Some(_) => known.push(entry.key),
                None => new.push(Link {
                    parent,
                    entry: Arc::clone(entry),
                }),
            }
            parent = Some(entry.key);
        }
        (known, new)
    }

    /// Adds pages whose parents are resident or come before them.
    fn publish(&mut self, links: Vec<Link>) {
        // The end of a chain leaves first, so it takes its place in the order first.
        for link in links.iter().rev() {
            self.order.insert(EntryKey::Prefix(link.entry.key), 1);
        }
        self.resident_pages += links.len();
        for Link { parent, entry } in links {
            if let Some(parent) = parent.and_then(|key| self.prefixes.get_mut(&key)) {
                parent.children += 1;
            }
            self.prefixes.insert(
                entry.key,
                Node {
                    entry,
                    parent,
                    children: 0,
                },
            );
        }
    }

    /// Removes a page that may leave.
    pub(crate) fn remove_prefix(&mut self, key: &PrefixKey) {
        let Some(node) = self.prefixes.remove(key) else {
            return;
        };
        debug_assert!(node.is_free(), "a page in use is evicted");
        self.resident_pages -= 1;
        if let Some(parent) = node.parent.and_then(|key| self.prefixes.get_mut(&key)) {
            parent.children -= 1;
        }
    }

    /// Resident prefix pages that can leave one after the other: all but the leased ones and those before them.
    pub(crate) fn evictable_prefixes(&self) -> usize {
        let mut kept = HashSet::new();
        for (key, _) in self.prefixes.iter().filter(|(_, node)| leased(&node.entry)) {
            let mut at = Some(*key);
            while let Some(node) = at
                .filter(|key| kept.insert(*key))
                .and_then(|key| self.prefixes.get(&key))
            {
                at = node.parent;
            }
        }
        self.prefixes.len() - kept.len()
    }
}

/// Leases on the pages of a chain: those that are held, then fresh entries.
fn chain(
    namespace: &Namespace,
    tokens: &[TokenId],
    held: &[PrefixLease],
    fresh: Vec<Page>,
) -> Vec<PrefixLease> {
    let mut chain = held.to_vec();
    let mut key = held
        .last()
        .map_or_else(|| PrefixKey::root(namespace), PrefixLease::key);
    let (pages, _) = tokens.as_chunks::<PAGE_TOKENS>();
    debug_assert!(
        held.iter()
            .zip(pages)
            .all(|(lease, tokens)| lease.0.tokens == *tokens),
        "another chain is held"
    );
    for (&tokens, page) in pages.iter().skip(held.len()).zip(fresh) {
        key = key.extend(&tokens);
        chain.push(PrefixLease(Arc::new(PrefixEntry { key, tokens, page })));
    }
    chain
}
