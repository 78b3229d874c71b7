//! What shares a batch, and how rows are split over calls, changes no bit.

use medley_backend::{BackendError, Batch, Depth, Deviation, Sequence};
use medley_kv::{Position, SlotId};

use crate::sequences::{Pages, batch, placed, prefill, prefix, rows, tokens};
use crate::tiny::{Tiny, loaded};

#[test]
fn rows_have_the_same_bits_whatever_shares_the_batch() {
    let seed = 21;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut backend = loaded(&Tiny::new("qwen2", false, 1)).backend;
    let texts: Vec<_> = (0..4).map(|i| tokens(i, 20 + 23 * i as usize)).collect();
    let mut pages = Pages::of(backend.pages());
    let alone: Vec<_> = texts
        .iter()
        .map(|text| {
            backend
                .run(&prefill(&pages.take(text.len()), text))
                .unwrap()
                .logits
        })
        .collect();

    let mut together = Batch::default();
    for (sequence, text) in texts.iter().enumerate() {
        let pages = pages.take(text.len());
        together
            .sequences
            .push(Sequence::new(vec![prefix(&pages, text.len())]));
        together.rows.extend(rows(sequence, &pages, 0, &placed(text, 0)));
    }
    random.shuffle(&mut together.rows);
    together.logits = (0..together.rows.len()).collect();
    let outcome = backend.run(&together).unwrap();
    for (row, found) in together.rows.iter().zip(outcome.logits) {
        assert_eq!(
            found, alone[row.sequence][row.position.0 as usize],
            "seed {seed}, {row:?}"
        );
    }
}

#[test]
fn rows_have_the_same_bits_however_they_are_split_over_calls() {
    let mut backend = loaded(&Tiny::new("llama", true, 2)).backend;
    let text = tokens(9, 140);
    let mut pages = Pages::of(backend.pages());
    let whole = backend.run(&prefill(&pages.take(140), &text)).unwrap().logits;
    let own = pages.take(140);
    let mut split = Vec::new();
    for (first, end) in [(0, 1), (1, 64), (64, 67), (67, 140)] {
        let rows = rows(0, &own, first, &placed(&text[first..end], first as u32));
        split.extend(backend.run(&batch(vec![prefix(&own, end)], rows)).unwrap().logits);
    }
    assert_eq!(whole, split);
}

#[test]
fn asking_for_few_logits_changes_no_bit_of_them_and_keeps_their_order() {
    let mut backend = loaded(&Tiny::new("llama", false, 2)).backend;
    let text = tokens(9, 70);
    let mut batch = prefill(&Pages::of(backend.pages()).take(70), &text);
    let all = backend.run(&batch).unwrap().logits;
    batch.logits = vec![69, 3, 3];
    let some = backend.run(&batch).unwrap().logits;
    assert_eq!(some, [all[69].clone(), all[3].clone(), all[3].clone()]);
    batch.logits.clear();
    assert!(backend.run(&batch).unwrap().logits.is_empty());
}

#[test]
fn an_empty_batch_gives_an_empty_outcome() {
    let mut backend = loaded(&Tiny::new("llama", true, 2)).backend;
    assert!(backend.run(&Batch::default()).unwrap().logits.is_empty());
}

#[test]
fn what_the_model_lacks_is_an_error() {
    let mut backend = loaded(&Tiny::new("llama", true, 2)).backend;
    let pages = Pages::of(backend.pages()).take(4);
    let good = || Batch {
        logits: Vec::new(),
        ..prefill(&pages, &[1, 2, 3])
    };
    let beyond = Deviation {
        row: 0,
        reference: SlotId(32 * 64),
        rotated_at: Position(0),
    };
    let cases = [
        Batch {
            depth: Depth::Keys(3),
            ..good()
        },
        Batch {
            depth: Depth::Keys(1),
            deviations: vec![beyond],
            ..good()
        },
        prefill(&pages, &[101]),
    ];
    for case in cases {
        assert!(
            matches!(backend.run(&case), Err(BackendError::Invalid(_))),
            "{case:?}"
        );
    }
}
