//! However a pass is spread over steps, the backend learns what the whole of it is: the order of sums may depend on that
//! alone.

use std::sync::{Arc, Mutex};

use medley_backend::{ANY_LENGTH, Backend as _, Batch, Part, fake::FakeBackend};
use medley_kv::{BlendMode, Strategy};

use crate::harness::{Ask, Engines, Through, ask, document, text};

/// What a step had of a sequence: rows of the whole pass, parts, rows in the step.
type Piece = (usize, Vec<Part>, usize);

/// The pieces of a lone request, in steps of so many rows.
fn pieces(asked: &Ask, rows: usize) -> Vec<Piece> {
    let engines = Engines::default().with(|e| {
        e.config.step_rows = rows;
        e.config.mixed_step_rows = rows;
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let engine = engines.start_on(Through(
        engines.backend(),
        move |backend: &mut FakeBackend, batch: &Batch| {
            let of = |(index, sequence): (usize, &medley_backend::Sequence)| {
                let rows = batch.rows.iter().filter(|row| row.sequence == index).count();
                (sequence.pass_rows, sequence.parts.clone(), rows)
            };
            keep.lock()
                .expect("no panic")
                .extend(batch.sequences.iter().enumerate().map(of));
            backend.run(batch)
        },
    ));
    ask(&engine, asked);
    std::mem::take(&mut *seen.lock().expect("no panic"))
}

fn asked() -> Ask {
    Ask::new(vec![text(0, 70), document(1, 90), document(2, 50), text(3, 20)])
}

#[test]
fn pieces_of_a_pass_share_its_length_and_its_parts() {
    for strategy in [Strategy::Query, Strategy::Deviation, Strategy::Heads] {
        let asked = asked().strategy(strategy).refined(1, 2).ratio(0.4).max_tokens(4);
        for rows in [7, 13, 64, 1000] {
            let pieces = pieces(&asked, rows);
            let mut passes = pieces.iter().filter(|piece| piece.0 != ANY_LENGTH).peekable();
            let mut count = 0;
            while let Some((whole, parts, first)) = passes.next() {
                let mut ran = *first;
                while ran < *whole {
                    let (next, same, more) = passes.next().expect("the rest of the pass");
                    assert_eq!((next, same), (whole, parts), "{strategy}, steps of {rows}");
                    ran += more;
                }
                assert_eq!(ran, *whole, "{strategy}, steps of {rows}");
                count += 1;
            }
            assert!(
                count >= 4,
                "{strategy}: {count} passes, streamed tokens among them"
            );
        }
    }
}

#[test]
fn prefixes_and_documents_may_begin_anywhere() {
    for asked in [
        asked().max_tokens(1),
        asked().mode(BlendMode::Exact).max_tokens(1),
    ] {
        let pieces = pieces(&asked, 16);
        let any: usize = pieces
            .iter()
            .filter(|piece| piece.0 == ANY_LENGTH)
            .map(|piece| piece.2)
            .sum();
        // Instructions and two documents behind their anchors, or all of the prompt.
        assert!([70 + 91 + 51, 230].contains(&any), "{any} rows");
    }
}
