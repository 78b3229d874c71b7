//! What a residency promises, one fact each.

use std::sync::Arc;

use medley_kv::{DocumentKey, Namespace, PAGE_TOKENS, PrefixKey, TokenId, pages_for};

use crate::{DocumentLease, Miss, PagePool, PrefixLease, Residency};

fn namespace() -> Namespace {
    Namespace::builder().field("model", "m").build()
}

fn residency(pages: usize, budget: usize) -> Residency {
    Residency::new(PagePool::new(pages), budget)
}

fn tokens(ids: impl IntoIterator<Item = u32>) -> Arc<[TokenId]> {
    ids.into_iter().map(TokenId).collect()
}

/// Document `n` of `len` tokens, and its key behind anchor 1.
fn body(n: u32, len: u32) -> (DocumentKey, Arc<[TokenId]>, Arc<[TokenId]>) {
    let (anchor, tokens) = (tokens([1]), tokens((0..len).map(|i| n + i)));
    (DocumentKey::new(&namespace(), &anchor, &tokens), anchor, tokens)
}

fn keep(residency: &mut Residency, n: u32, len: u32) -> DocumentLease {
    let (key, anchor, tokens) = body(n, len);
    let pages = residency.reserve(pages_for(tokens.len())).expect("pages");
    residency.keep_document(key, anchor, tokens, pages)
}

fn find(residency: &mut Residency, n: u32, len: u32) -> Result<DocumentLease, Miss> {
    let (key, anchor, tokens) = body(n, len);
    residency.document(key, &anchor, &tokens)
}

fn peek(residency: &mut Residency, n: u32, len: u32) -> Option<DocumentLease> {
    let (key, anchor, tokens) = body(n, len);
    residency.peek_document(key, &anchor, &tokens)
}

fn keep_chain(residency: &mut Residency, tokens: &[TokenId], held: &[PrefixLease]) -> Vec<PrefixLease> {
    let fresh = residency
        .reserve(tokens.len() / PAGE_TOKENS - held.len())
        .expect("pages");
    residency.keep_prefix(&namespace(), tokens, held, fresh)
}

#[test]
fn a_kept_document_is_found_on_its_pages() {
    let mut r = residency(8, 8);
    assert_eq!(find(&mut r, 10, 100).map(|_| ()), Err(Miss::Absent));
    let kept = keep(&mut r, 10, 100);
    let found = find(&mut r, 10, 100).expect("resident");
    assert_eq!(found.pages(), kept.pages());
    assert_eq!((found.pages().len(), r.stats().documents, r.leases()), (2, 1, 2));
    r.check();
}

#[test]
fn a_forged_key_is_a_mismatch_and_does_no_harm() {
    let mut r = residency(8, 8);
    let own = keep(&mut r, 10, 100);
    let (key, anchor, other) = (own.key(), tokens([1]), tokens(500..600));
    assert_eq!(r.document(key, &anchor, &other).map(|_| ()), Err(Miss::Mismatch));
    assert_eq!(
        r.document(key, &other, own.tokens()).map(|_| ()),
        Err(Miss::Mismatch)
    );
    let pages = r.reserve(2).expect("pages");
    let forged = r.keep_document(key, anchor, other.clone(), pages);
    assert_eq!(forged.tokens(), &other);
    assert_eq!(find(&mut r, 10, 100).map(|lease| lease.pages()), Ok(own.pages()));
    drop(forged);
    assert_eq!((r.pool().free(), r.stats().misses.mismatch), (6, 2));
    r.check();
}

#[test]
fn a_document_published_twice_keeps_one_copy() {
    let mut r = residency(8, 8);
    let first = keep(&mut r, 10, 100);
    let second = keep(&mut r, 10, 100);
    assert_eq!(first.pages(), second.pages());
    assert_eq!((r.pool().free(), r.stats().resident_pages), (6, 2));
}

#[test]
fn an_evicted_document_is_remembered_as_evicted() {
    let mut r = residency(8, 2);
    drop(keep(&mut r, 10, 100));
    drop(keep(&mut r, 500, 100));
    assert_eq!(find(&mut r, 10, 100).map(|_| ()), Err(Miss::Evicted));
    assert_eq!(find(&mut r, 900, 100).map(|_| ()), Err(Miss::Absent));
    let stats = r.stats();
    assert_eq!(
        (stats.evictions, stats.misses.evicted, stats.misses.absent),
        (1, 1, 1)
    );
}

#[test]
fn a_leased_document_is_never_evicted() {
    let mut r = residency(4, 4);
    let lease = keep(&mut r, 10, 100);
    r.evict_all();
    assert!(r.reserve(3).is_none());
    assert!(find(&mut r, 10, 100).is_ok());
    drop(lease);
    assert_eq!(r.reserve(3).map(|pages| pages.len()), Some(3));
    assert_eq!(find(&mut r, 10, 100).map(|_| ()), Err(Miss::Evicted));
}

#[test]
fn a_document_over_the_budget_lives_as_long_as_its_lease_and_displaces_nothing() {
    let mut r = residency(16, 3);
    drop(keep(&mut r, 10, 100));
    let big = keep(&mut r, 500, 300);
    assert_eq!((big.pages().len(), r.stats().documents), (5, 1));
    assert!(find(&mut r, 10, 100).is_ok());
    assert_eq!(find(&mut r, 500, 300).map(|_| ()), Err(Miss::Absent));
    drop(big);
    assert_eq!(r.pool().free(), 14);
}

#[test]
fn a_reservation_that_can_not_succeed_evicts_nothing() {
    let mut r = residency(6, 6);
    let _lease = keep(&mut r, 10, 100);
    drop(keep(&mut r, 500, 100));
    assert!(r.reserve(5).is_none());
    assert!(find(&mut r, 500, 100).is_ok());
    assert_eq!(r.stats().evictions, 0);
    assert_eq!(r.reserve(4).map(|pages| pages.len()), Some(4));
}

#[test]
fn documents_in_use_outlive_a_scan() {
    let mut r = residency(64, 40);
    (0..10).for_each(|n| drop(keep(&mut r, n * 1000, 60)));
    for scan in 0..200 {
        for n in 0..10 {
            assert!(find(&mut r, n * 1000, 60).is_ok(), "document {n} left at {scan}");
        }
        drop(keep(&mut r, 100_000 + scan * 100, 60));
    }
}

#[test]
fn to_peek_at_a_document_is_no_use_and_no_miss() {
    let evicted_first = |look: fn(&mut Residency)| {
        let mut r = residency(8, 8);
        (0..3).for_each(|n| drop(keep(&mut r, n * 1000, 60)));
        (0..3).for_each(|_| look(&mut r));
        r.reserve(6).expect("one eviction");
        r.documents.len() == 2 && !r.documents.contains_key(&body(0, 60).0)
    };
    assert!(!evicted_first(|r| drop(find(r, 0, 60))));
    assert!(evicted_first(|r| assert!(peek(r, 0, 60).is_some())));
    let mut r = residency(8, 8);
    assert!(peek(&mut r, 0, 60).is_none());
    assert_eq!(r.stats().misses.absent, 0);
}

#[test]
fn a_prefix_never_covers_the_last_token() {
    let mut r = residency(8, 8);
    let all = tokens(0..3 * PAGE_TOKENS as u32);
    drop(keep_chain(&mut r, &all, &[]));
    for (len, pages) in [(0, 0), (64, 0), (65, 1), (128, 1), (129, 2), (192, 2)] {
        assert_eq!(r.prefix(&namespace(), &all[..len]).len(), pages, "{len} tokens");
    }
    let longer: Vec<_> = all.iter().copied().chain([TokenId(0)]).collect();
    assert_eq!(r.prefix(&namespace(), &longer).len(), 3);
}

#[test]
fn a_prefix_ends_where_the_tokens_or_the_namespace_differ() {
    let mut r = residency(8, 8);
    let all = tokens(0..200);
    drop(keep_chain(&mut r, &all[..192], &[]));
    let mut other = all.to_vec();
    other[100] = TokenId(7);
    assert_eq!(r.prefix(&namespace(), &other).len(), 1);
    assert!(r.prefix(&namespace().subdivide("tenant"), &all).is_empty());
}

#[test]
fn a_chain_grows_behind_what_is_held() {
    let mut r = residency(8, 8);
    let all = tokens(0..300);
    let first = keep_chain(&mut r, &all[..128], &[]);
    let longer = keep_chain(&mut r, &all[..256], &first);
    assert_eq!(longer.len(), 4);
    assert_eq!(longer[1].page(), first[1].page());
    drop((first, longer));
    assert_eq!((r.prefix(&namespace(), &all).len(), r.stats().prefixes), (4, 4));
    r.check();
}

#[test]
fn a_page_published_meanwhile_wins_and_the_caller_keeps_its_own() {
    let mut r = residency(8, 8);
    let all = tokens(0..300);
    let winner = keep_chain(&mut r, &all[..128], &[]);
    let own = keep_chain(&mut r, &all[..192], &[]);
    assert_ne!(own[0].page(), winner[0].page());
    let found = r.prefix(&namespace(), &all);
    let expected = [winner[0].page(), winner[1].page(), own[2].page()];
    assert_eq!(found.iter().map(PrefixLease::page).collect::<Vec<_>>(), expected);
    drop((own, found));
    assert_eq!(r.pool().free(), 5);
    r.check();
}

#[test]
fn a_chain_shrinks_from_its_end() {
    let mut r = residency(8, 8);
    let all = tokens(0..300);
    drop(keep_chain(&mut r, &all[..256], &[]));
    for left in (0..4).rev() {
        let taken = r.reserve(8 - left).expect("pages");
        assert_eq!(r.prefix(&namespace(), &all).len(), left);
        drop(taken);
    }
}

#[test]
fn a_leased_page_keeps_what_stands_before_it() {
    let mut r = residency(8, 8);
    let all = tokens(0..300);
    let mut chain = keep_chain(&mut r, &all[..256], &[]);
    let third = chain.swap_remove(2);
    drop(chain);
    r.evict_all();
    assert_eq!(r.prefix(&namespace(), &all).len(), 3);
    assert!(r.reserve(6).is_none());
    drop(third);
    assert!(r.reserve(8).is_some());
}

#[test]
fn the_beginning_of_a_chain_is_kept_when_the_budget_can_not_hold_all() {
    let mut r = residency(8, 3);
    let all = tokens(0..400);
    let chain = keep_chain(&mut r, &all[..320], &[]);
    assert_eq!((chain.len(), r.stats().prefixes), (5, 3));
    assert_eq!(r.prefix(&namespace(), &all).len(), 3);
    drop(chain);
    assert_eq!(r.pool().free(), 5);
}

#[test]
fn a_lease_outlives_the_residency() {
    let pool = PagePool::new(4);
    let mut r = Residency::new(pool.clone(), 4);
    let lease = keep(&mut r, 10, 100);
    drop(r);
    assert_eq!(pool.free(), 2);
    drop(lease);
    assert_eq!(pool.free(), 4);
}

/// Gives the entry of a resident page other tokens than its key was made of.
fn forge(residency: &mut Residency, key: PrefixKey) {
    let node = residency.prefixes.get_mut(&key).expect("resident");
    let entry = Arc::get_mut(&mut node.entry).expect("not leased");
    entry.tokens[0] = TokenId(7777);
}

#[test]
fn a_prefix_ends_where_a_key_leads_to_other_tokens_and_nothing_is_published_behind() {
    let mut r = residency(8, 8);
    let all = tokens(0..300);
    let keys: Vec<_> = keep_chain(&mut r, &all[..128], &[])
        .iter()
        .map(PrefixLease::key)
        .collect();
    forge(&mut r, keys[1]);
    assert_eq!(r.prefix(&namespace(), &all).len(), 1);
    let own = keep_chain(&mut r, &all[..256], &[]);
    assert_eq!((own.len(), r.stats().prefixes), (4, 2));
    drop(own);
    assert_eq!(r.pool().free(), 6);
    r.check();
}

#[test]
fn prefixes_in_use_outlive_a_scan() {
    let mut r = residency(64, 40);
    let chains: Vec<_> = (0..5).map(|n| tokens(n * 1000..n * 1000 + 130)).collect();
    chains
        .iter()
        .for_each(|chain| drop(keep_chain(&mut r, &chain[..128], &[])));
    for scan in 0..200 {
        for chain in &chains {
            assert_eq!(r.prefix(&namespace(), chain).len(), 2, "a page left at {scan}");
        }
        drop(keep(&mut r, 100_000 + scan * 100, 60));
    }
}

#[test]
fn a_chain_leaves_whole_before_what_came_later() {
    let mut r = residency(8, 8);
    drop(keep_chain(&mut r, &tokens(0..192), &[]));
    drop(keep(&mut r, 1000, 100));
    let taken = r.reserve(6).expect("pages");
    assert!(find(&mut r, 1000, 100).is_ok());
    assert_eq!((r.stats().prefixes, taken.len()), (0, 6));
}

#[test]
fn a_document_that_leases_leave_no_room_for_displaces_nothing() {
    let mut r = residency(16, 4);
    let _lease = keep(&mut r, 10, 100);
    drop(keep(&mut r, 500, 60));
    let big = keep(&mut r, 1000, 150);
    assert_eq!((big.pages().len(), r.stats().documents), (3, 2));
    assert!(find(&mut r, 500, 60).is_ok());
}

#[test]
fn a_forged_key_displaces_nothing() {
    let mut r = residency(16, 4);
    let (key, anchor, _) = body(10, 100);
    drop(keep(&mut r, 10, 100));
    drop(keep(&mut r, 500, 100));
    let pages = r.reserve(2).expect("pages");
    drop(r.keep_document(key, anchor, tokens(900..1000), pages));
    assert_eq!((r.stats().documents, r.stats().evictions), (2, 0));
}

#[test]
fn a_document_without_tokens_is_not_kept() {
    let mut r = residency(8, 8);
    assert!(keep(&mut r, 10, 0).pages().is_empty());
    assert_eq!(find(&mut r, 10, 0).map(|_| ()), Err(Miss::Absent));
    assert_eq!(r.stats().documents, 0);
}
