//! That the fake notices what it is for, and agrees with a slow obvious reference.

use std::sync::Arc;

use medley_kv::{PageId, Position, SlotId, TokenId, pages_for};

use super::*;
use crate::{Mask, Part, PartKind, ProbeRow, Row};

fn backend() -> FakeBackend {
    FakeBackend::new(FakeConfig {
        pages: 32,
        ..FakeConfig::default()
    })
}

fn pages(ids: std::ops::Range<u32>) -> Arc<[PageId]> {
    ids.map(PageId).collect()
}

fn prefix(pages: Arc<[PageId]>, len: usize) -> Part {
    Part {
        pages,
        len,
        kind: PartKind::Prefix,
    }
}

fn overlay(pages: Arc<[PageId]>, positions: &[u32]) -> Part {
    let positions: Vec<_> = positions.iter().copied().map(Position).collect();
    Part {
        pages,
        len: positions.len(),
        kind: PartKind::Overlay { positions },
    }
}

fn document(pages: Arc<[PageId]>, len: usize, start: u32, local: u32, hide: &[usize]) -> Part {
    let mut hidden = Mask::none(len);
    hide.iter().for_each(|slot| hidden.hide(*slot));
    Part {
        pages,
        len,
        kind: PartKind::Document {
            start: Position(start),
            local: Position(local),
            hidden,
        },
    }
}

/// Rows of sequence 0 that fill slots of a part from `first`; row `i` has token `tokens[i]`.
fn rows(part: &Part, first: usize, tokens: &[u32]) -> Vec<Row> {
    let row = |(i, token): (usize, &u32)| Row {
        sequence: 0,
        token: TokenId(*token),
        position: part.position(first + i),
        slot: SlotId::of(&part.pages, first + i),
    };
    tokens.iter().enumerate().map(row).collect()
}

fn batch(parts: Vec<Part>, rows: Vec<Row>) -> Batch {
    let logits = vec![rows.len() - 1];
    Batch {
        sequences: vec![Sequence::new(parts)],
        rows,
        logits,
        ..Batch::default()
    }
}

fn run(backend: &mut FakeBackend, parts: Vec<Part>, rows: Vec<Row>) -> Vec<f32> {
    backend
        .run(&batch(parts, rows))
        .expect("a valid batch")
        .logits
        .remove(0)
}

const TEXT: [u32; 10] = [1, 20, 21, 22, 23, 24, 25, 26, 27, 28];

/// A plain prefill of `TEXT` on page 0.
fn prefilled(backend: &mut FakeBackend) -> Vec<f32> {
    let part = prefix(pages(0..1), TEXT.len());
    let rows = rows(&part, 0, &TEXT);
    run(backend, vec![part], rows)
}

/// `TEXT[4..8]` as a document behind the anchor 1, on page 8; the anchor on page 9.
fn canonical(backend: &mut FakeBackend) {
    let (anchor, body) = (prefix(pages(9..10), 1), document(pages(8..9), 4, 1, 1, &[]));
    let mut all = rows(&anchor, 0, &[1]);
    all.extend(rows(&body, 0, &TEXT[4..8]));
    run(backend, vec![anchor, body], all);
}

/// The text around the document as overlay rows on page 10, over this document part; repairs are overlay rows too.
fn blended(backend: &mut FakeBackend, body: Part, repaired: &[usize]) -> Result<Vec<f32>, BackendError> {
    let positions: Vec<u32> = (0..10)
        .filter(|p| !(4..8).contains(p) || repaired.contains(&(*p as usize - 4)))
        .collect();
    let own = overlay(pages(10..11), &positions);
    let tokens: Vec<u32> = positions.iter().map(|p| TEXT[*p as usize]).collect();
    let all = rows(&own, 0, &tokens);
    backend
        .run(&batch(vec![body, own], all))
        .map(|mut outcome| outcome.logits.remove(0))
}

fn blend(body: Part, repaired: &[usize]) -> Vec<f32> {
    let mut backend = backend();
    canonical(&mut backend);
    blended(&mut backend, body, repaired).expect("a valid batch")
}

fn good() -> Part {
    document(pages(8..9), 4, 4, 1, &[])
}

#[test]
fn equal_batches_give_equal_logits_with_one_strong_maximum() {
    let logits = prefilled(&mut backend());
    assert_eq!(logits, prefilled(&mut backend()));
    let mut sorted = logits.clone();
    sorted.sort_by(f32::total_cmp);
    assert!(sorted[299] - sorted[298] > 10.0);
    let other = run(
        &mut backend(),
        vec![prefix(pages(0..1), 1)],
        rows(&prefix(pages(0..1), 1), 0, &[1]),
    );
    assert_ne!(logits, other);
}

#[test]
fn muted_tokens_are_never_the_likeliest() {
    let plain = prefilled(&mut backend());
    let best = |l: &[f32]| {
        (0..l.len())
            .max_by(|a, b| l[*a].total_cmp(&l[*b]))
            .expect("a token")
    };
    let muted = vec![TokenId(best(&plain) as u32)];
    let mut other = FakeBackend::new(FakeConfig {
        pages: 32,
        muted,
        ..FakeConfig::default()
    });
    assert_ne!(best(&prefilled(&mut other)), best(&plain));
}

#[test]
fn rows_may_be_split_over_calls_and_come_in_any_order() {
    let whole = prefilled(&mut backend());
    for cut in 1..TEXT.len() {
        let mut backend = backend();
        let (head, all) = (prefix(pages(0..1), cut), prefix(pages(0..1), TEXT.len()));
        run(&mut backend, vec![head.clone()], rows(&head, 0, &TEXT[..cut]));
        assert_eq!(
            run(&mut backend, vec![all.clone()], rows(&all, cut, &TEXT[cut..])),
            whole,
            "cut {cut}"
        );
    }
    let part = prefix(pages(0..1), TEXT.len());
    let mut reversed = batch(vec![part.clone()], rows(&part, 0, &TEXT));
    reversed.rows.reverse();
    reversed.logits = vec![0];
    assert_eq!(backend().run(&reversed).expect("valid").logits[0], whole);
}

#[test]
fn an_overlay_in_any_order_equals_a_prefix() {
    let whole = prefilled(&mut backend());
    let own = overlay(pages(3..4), &[5, 0, 9, 1, 2, 3, 8, 4, 7, 6]);
    let tokens: Vec<u32> = [5, 0, 9, 1, 2, 3, 8, 4, 7, 6].map(|p: usize| TEXT[p]).to_vec();
    let mut shuffled = batch(vec![own.clone()], rows(&own, 0, &tokens));
    shuffled.logits = vec![2];
    assert_eq!(backend().run(&shuffled).expect("valid").logits[0], whole);
}

#[test]
fn repairing_everything_equals_a_plain_prefill_and_less_does_not() {
    let whole = prefilled(&mut backend());
    assert_eq!(
        blend(document(pages(8..9), 4, 4, 1, &[0, 1, 2, 3]), &[0, 1, 2, 3]),
        whole
    );
    let none = blend(good(), &[]);
    let some = blend(document(pages(8..9), 4, 4, 1, &[2]), &[2]);
    assert!(none != whole && some != whole && some != none);
}

#[test]
fn a_document_behind_exactly_its_anchor_is_exact() {
    let mut alone = backend();
    canonical(&mut alone);
    let (body, own) = (
        document(pages(8..9), 4, 1, 1, &[]),
        overlay(pages(10..11), &[0, 5]),
    );
    let reused = run(&mut alone, vec![body, own.clone()], rows(&own, 0, &[1, 77]));
    let part = prefix(pages(0..1), 6);
    let tokens: Vec<u32> = [&[1], &TEXT[4..8], &[77]].concat();
    assert_eq!(
        run(&mut backend(), vec![part.clone()], rows(&part, 0, &tokens)),
        reused
    );
}

#[test]
fn a_wrong_mask_changes_the_logits() {
    let right = blend(document(pages(8..9), 4, 4, 1, &[2]), &[2]);
    assert_ne!(
        blend(document(pages(8..9), 4, 4, 1, &[]), &[2]),
        right,
        "a superseded slot is visible"
    );
    assert_ne!(
        blend(document(pages(8..9), 4, 4, 1, &[1]), &[2]),
        right,
        "another slot is hidden"
    );
    assert_ne!(
        blend(document(pages(8..9), 4, 4, 1, &[1, 2]), &[2]),
        right,
        "a slot too many is hidden"
    );
}

#[test]
fn a_wrong_offset_changes_the_logits() {
    let right = blend(good(), &[]);
    assert_ne!(
        blend(document(pages(8..9), 4, 4, 2, &[]), &[]),
        right,
        "wrong rotation"
    );
    assert_ne!(
        blend(document(pages(8..9), 4, 5, 1, &[]), &[]),
        right,
        "wrong start"
    );
    assert_ne!(
        blend(document(pages(8..9), 4, 5, 2, &[]), &[]),
        right,
        "both moved together"
    );
}

#[test]
fn every_occurrence_counts() {
    let right = blend(good(), &[]);
    let mut twice = backend();
    canonical(&mut twice);
    let own = overlay(pages(10..11), &[0, 1, 2, 3, 8, 9]);
    let tokens: Vec<u32> = [0, 1, 2, 3, 8, 9].map(|p: usize| TEXT[p]).to_vec();
    let parts = vec![good(), good(), own.clone()];
    assert_ne!(run(&mut twice, parts, rows(&own, 0, &tokens)), right);
    assert_ne!(
        blend(document(pages(8..9), 3, 4, 1, &[]), &[]),
        right,
        "a token is missing"
    );
}

#[test]
fn a_row_sees_nothing_behind_itself() {
    let mut backend = backend();
    prefilled(&mut backend);
    let part = prefix(pages(0..1), TEXT.len());
    let again = run(&mut backend, vec![part.clone()], rows(&part, 0, &TEXT[..5]));
    let short = prefix(pages(1..2), 5);
    assert_eq!(
        again,
        run(&mut backend, vec![short.clone()], rows(&short, 0, &TEXT[..5]))
    );
    // A slot that claims an earlier position is seen: causality is by position, and a wrong one shows.
    let own = overlay(pages(2..3), &[0, 1, 2, 3, 4, 5]);
    run(&mut backend, vec![own.clone()], rows(&own, 0, &TEXT[..6]));
    let wrong = overlay(pages(2..3), &[0, 1, 2, 3, 4, 3]);
    assert_ne!(
        run(&mut backend, vec![wrong.clone()], rows(&wrong, 4, &TEXT[4..5])),
        again
    );
}

#[test]
fn other_tokens_and_other_pages_change_the_logits() {
    let right = blend(good(), &[]);
    let mut other = backend();
    canonical(&mut other);
    let stale = document(pages(9..10), 1, 4, 0, &[]);
    assert_ne!(blended(&mut other, stale, &[]).expect("written"), right);
}

fn invalid(outcome: Result<impl std::fmt::Debug, BackendError>) -> bool {
    matches!(outcome, Err(BackendError::Invalid(_)))
}

#[test]
fn reading_what_was_never_written_in_this_life_is_an_error() {
    let mut backend = backend();
    assert!(invalid(blended(&mut backend, good(), &[])));
    canonical(&mut backend);
    assert!(blended(&mut backend, good(), &[]).is_ok());
    backend.control().poison([PageId(8)]);
    assert!(invalid(blended(&mut backend, good(), &[])));
    let all = [0, 1, 2, 3];
    assert!(
        blended(&mut backend, document(pages(8..9), 4, 4, 1, &all), &all).is_ok(),
        "hidden slots are not read"
    );
}

#[test]
fn a_row_stands_in_exactly_one_place_at_its_own_position() {
    let part = prefix(pages(0..1), 2);
    let good = rows(&part, 0, &[1, 2]);
    let run = |parts: Vec<Part>, rows: Vec<Row>| backend().run(&batch(parts, rows));
    assert!(run(vec![part.clone()], good.clone()).is_ok());
    assert!(
        invalid(run(vec![prefix(pages(0..1), 1)], good.clone())),
        "outside every part"
    );
    assert!(
        invalid(run(vec![part.clone(), part.clone()], good.clone())),
        "in two parts"
    );
    assert!(
        invalid(run(vec![overlay(pages(0..1), &[0, 3])], good.clone())),
        "at another position"
    );
    assert!(
        invalid(run(vec![document(pages(0..1), 2, 0, 1, &[])], good.clone())),
        "rotated elsewhere"
    );
    assert!(
        invalid(run(vec![document(pages(0..1), 2, 0, 0, &[1])], good)),
        "hidden from its sequence"
    );
}

#[test]
fn a_failed_call_leaves_nothing_readable_and_all_else_untouched() {
    let mut backend = backend();
    let whole = prefilled(&mut backend);
    backend.control().fail_next(1);
    let (part, extra) = (prefix(pages(0..1), TEXT.len()), overlay(pages(1..2), &[10]));
    let next = rows(&extra, 0, &[50]);
    let step = batch(vec![part.clone(), extra.clone()], next);
    assert!(matches!(backend.run(&step), Err(BackendError::Device(_))));
    let reader = overlay(pages(2..3), &[11]);
    let read = batch(vec![part.clone(), extra, reader.clone()], rows(&reader, 0, &[51]));
    assert!(invalid(backend.run(&read)));
    assert!(backend.run(&step).is_ok() && backend.run(&read).is_ok());
    assert_eq!(
        run(&mut backend, vec![part.clone()], rows(&part, 9, &TEXT[9..])),
        whole
    );
    assert_eq!(backend.control().counts().failures, 2);
}

#[test]
fn rows_up_to_some_keys_are_readable_for_the_same_depth_only() {
    let mut backend = backend();
    canonical(&mut backend);
    let part = prefix(pages(0..1), TEXT.len());
    let mut shallow = Batch {
        depth: Depth::Keys(1),
        logits: Vec::new(),
        ..batch(vec![part.clone()], rows(&part, 0, &TEXT[..6]))
    };
    let compare = |row, slot| Deviation {
        row,
        reference: PageId(8).slot(slot),
        rotated_at: Position(1 + slot as u32),
    };
    shallow.deviations = vec![compare(4, 0), compare(5, 1)];
    let first = backend.run(&shallow).expect("valid").deviations;
    assert!(first.iter().all(|d| *d > 0.0));
    shallow.rows = rows(&part, 6, &TEXT[6..]);
    shallow.deviations = vec![compare(0, 2)];
    let rest = backend
        .run(&shallow)
        .expect("chunks follow each other")
        .deviations;
    assert!(invalid(
        backend.run(&batch(vec![part.clone()], rows(&part, 9, &TEXT[9..])))
    ));
    shallow.rows = rows(&part, 0, &TEXT);
    shallow.deviations = vec![compare(4, 0), compare(5, 1), compare(6, 2)];
    assert_eq!(
        backend.run(&shallow).expect("valid").deviations,
        [first, rest].concat()
    );
}

#[test]
fn an_exact_row_deviates_by_nothing() {
    let mut backend = backend();
    canonical(&mut backend);
    let part = prefix(pages(0..1), 5);
    let tokens: Vec<u32> = [&[1], &TEXT[4..8]].concat();
    let mut exact = Batch {
        depth: Depth::Keys(1),
        logits: Vec::new(),
        ..batch(vec![part.clone()], rows(&part, 0, &tokens))
    };
    exact.deviations = vec![Deviation {
        row: 3,
        reference: PageId(8).slot(2),
        rotated_at: Position(3),
    }];
    assert_eq!(backend.run(&exact).expect("valid").deviations, [0.0]);
    exact.deviations[0].rotated_at = Position(4);
    assert!(
        backend.run(&exact).expect("valid").deviations[0] > 0.0,
        "a wrong rotation shows"
    );
}

#[test]
fn scores_fall_on_visible_slots_of_documents_only() {
    let mut backend = backend();
    canonical(&mut backend);
    let own = overlay(pages(10..11), &[0, 1, 2, 3, 6, 8]);
    let parts = vec![
        document(pages(8..9), 4, 4, 1, &[2]),
        document(pages(8..9), 4, 20, 1, &[]),
        own.clone(),
    ];
    let mut probed = batch(parts, rows(&own, 0, &[1, 20, 21, 22, 26, 27]));
    let mut scores = |rows: Vec<ProbeRow>| {
        probed.probes = vec![Probe { sequence: 0, rows }];
        backend.run(&probed).expect("valid").scores.remove(0)
    };
    let asker = |row, weight, except| ProbeRow { row, weight, except };
    let last = scores(vec![asker(5, 1.0, None)]);
    assert_eq!(last.0.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 0]);
    assert!(
        last.0[0]
            .iter()
            .enumerate()
            .all(|(slot, mass)| (*mass > 0) == (slot != 2))
    );
    assert!(last.0[0].iter().all(|mass| *mass < 1 << 32));
    assert!(last.0[1].iter().all(|mass| *mass == 0), "behind the row");
    let middle = scores(vec![asker(4, 0.5, None)]);
    assert!(middle.0[0][0] > 0 && middle.0[0][3] == 0, "causal");
    let mut sum = last.clone();
    sum.add(&middle);
    assert_eq!(scores(vec![asker(5, 1.0, None), asker(4, 0.5, None)]), sum);
    assert_eq!(scores(vec![asker(5, 1.0, Some(0))]).0[0], [0; 4]);
}

#[test]
fn a_sequence_sees_what_another_writes_in_the_same_call() {
    let mut backend = backend();
    let (written, own) = (prefix(pages(0..1), 3), overlay(pages(1..2), &[3]));
    let mut both = batch(vec![written.clone(), own.clone()], rows(&own, 0, &[40]));
    both.sequences.push(Sequence::new(vec![written.clone()]));
    both.rows.extend(
        rows(&written, 0, &[1, 2, 3])
            .into_iter()
            .map(|row| Row { sequence: 1, ..row }),
    );
    let together = backend.run(&both).expect("valid").logits;
    let alone = prefix(pages(5..6), 4);
    assert_eq!(
        run(&mut backend, vec![alone.clone()], rows(&alone, 0, &[1, 2, 3, 40])),
        together[0]
    );
}

#[test]
fn counts_follow_the_kind_of_part_that_a_row_fills() {
    let mut backend = backend();
    canonical(&mut backend);
    blended(&mut backend, document(pages(8..9), 4, 4, 1, &[2]), &[2]).expect("valid");
    let counts = backend.control().counts();
    assert_eq!(
        (counts.calls, counts.rows, counts.largest_call, counts.logits),
        (2, 12, 7, 2)
    );
    assert_eq!(
        (counts.prefix, counts.document, counts.overlay, counts.keys),
        (1, 4, 7, 0)
    );
}

/// The definition, row by row and slot by slot, over what the backend has stored.
fn reference(backend: &FakeBackend, parts: &[Part], row: &Row) -> u64 {
    let mut fold = 0u64;
    for part in parts {
        for slot in (0..part.len).filter(|slot| part.visible(*slot, row.position)) {
            if SlotId::of(&part.pages, slot) != row.slot {
                fold = fold.wrapping_add(backend.slots.seen(part, slot));
            }
        }
    }
    mix(mix(u64::from(row.token.0), u64::from(row.position.0)), fold)
}

#[test]
fn every_stored_value_is_what_the_definition_says() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut backend = backend();
        let len = rng.usize(1..200);
        let body = document(pages(0..4), len, 5, 5, &[]);
        let anchor = prefix(pages(4..5), 5);
        let mut all = rows(&anchor, 0, &[1, 2, 3, 4, 5]);
        all.extend(rows(
            &body,
            0,
            &(0..len as u32).map(|i| i % 300).collect::<Vec<_>>(),
        ));
        run(&mut backend, vec![anchor, body], all);
        let start = rng.u32(..50);
        let hide: Vec<usize> = (0..len).filter(|_| rng.u8(..3) == 0).collect();
        let behind = start + len as u32;
        let mut positions: Vec<u32> = (0..start)
            .chain(hide.iter().map(|i| start + *i as u32))
            .chain(behind..behind + 9)
            .collect();
        rng.shuffle(&mut positions);
        let own = overlay(
            (8..8 + pages_for(positions.len()) as u32).map(PageId).collect(),
            &positions,
        );
        let parts = vec![document(pages(0..4), len, start, 5, &hide), own.clone()];
        let all = rows(&own, 0, &positions.iter().map(|p| p % 300).collect::<Vec<_>>());
        run(&mut backend, parts.clone(), all.clone());
        for row in &all {
            assert_eq!(
                backend.slots.get(row.slot).value,
                reference(&backend, &parts, row),
                "seed {seed}"
            );
        }
    }
}
