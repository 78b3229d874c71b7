//! What a report's durations count.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use medley_backend::{Backend, Batch, fake::FakeBackend};
use medley_kv::Timing;

use crate::harness::{Ask, Engines, Through, ask, document, text};

/// The durations of a cold and of a warm request on one document, and those of the calls of the cold one.
fn cold_and_warm(instructions: usize, tokens: usize) -> (Timing, Timing, Vec<f64>) {
    let engines = Engines::default().with(|e| e.config.step_rows = 512);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let time = move |backend: &mut FakeBackend, batch: &Batch| {
        let started = Instant::now();
        let outcome = backend.run(batch);
        let took = started.elapsed().as_secs_f64() * 1e3;
        noted.lock().expect("a lock").push(took);
        outcome
    };
    let engine = engines.start_on(Through(engines.backend(), time));
    let asked = Ask::new(vec![text(1, instructions), document(2, tokens), text(3, 4)]).max_tokens(1);
    let cold = ask(&engine, &asked);
    let calls = calls.lock().expect("a lock").clone();
    let warm = ask(&engine, &asked);
    assert_eq!((cold.sources(), warm.sources()), (vec!["computed"], vec!["host"]));
    (cold.report.timing, warm.report.timing, calls)
}

/// Instructions and document fit into the first call.
#[test]
fn a_document_that_is_computed_beside_the_instructions_is_waited_for() {
    let (cold, warm, calls) = cold_and_warm(10, 90);
    assert!(cold.compute_documents >= calls[0], "{cold:?} {calls:?}");
    assert!(cold.prefill >= calls[calls.len() - 1], "{cold:?} {calls:?}");
    assert_eq!(warm.compute_documents, 0.0);
}

#[test]
fn a_document_of_several_steps_is_waited_for() {
    let (cold, _, calls) = cold_and_warm(10, 1200);
    assert!(
        cold.compute_documents >= calls[0] + calls[1],
        "{cold:?} {calls:?}"
    );
}

/// The document is there before the instructions are.
#[test]
fn long_instructions_are_prefilled_once_the_document_is_there() {
    let (cold, _, calls) = cold_and_warm(1200, 20);
    assert!(cold.compute_documents >= calls[0], "{cold:?} {calls:?}");
    assert!(cold.prefill >= calls[1] + calls[2], "{cold:?} {calls:?}");
}
