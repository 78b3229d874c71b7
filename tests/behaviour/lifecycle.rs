//! What a request holds, it gives back; what does not fit is refused; what fails fails alone.

use std::sync::{Arc, Mutex};

use medley_backend::{Backend, Batch, fake::FakeBackend};
use medley_generate::{Event, FinishReason, Generate, GenerateError, SubmitError};
use medley_kv::{BlendMode, Strategy, TokenId};

use crate::harness::{
    Ask, Engines, Through, ask, ask_all, collect, document, document_behind, settle, text, try_ask, words,
};

fn small() -> Ask {
    Ask::new(vec![text(1, 10), document(2, 100), document(3, 90), text(4, 10)])
}

#[test]
fn abandoned_requests_leave_nothing_behind() {
    let engine = Engines::default().start();
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let prompt = vec![
            text(seed, 70),
            document(rng.u64(0..20), 150),
            document(rng.u64(0..20), 90),
            text(4, 9),
        ];
        let strategy = [Strategy::Query, Strategy::Deviation][rng.usize(0..2)];
        let mut stream = engine
            .submit(Ask::new(prompt).strategy(strategy).max_tokens(500).0)
            .expect("submitted");
        let events = rng.usize(0..6);
        for _ in 0..events {
            assert!(
                !matches!(stream.blocking_recv(), None | Some(Event::Failed(_))),
                "seed {seed}"
            );
        }
        drop(stream);
    }
    settle(&engine);
    assert!(engine.gauges().cancelled >= 50, "{:?}", engine.gauges());
}

#[test]
fn many_streams_of_mixed_lengths_share_steps_and_answer_as_alone() {
    let make = |i: u64| {
        let prompt = vec![
            text(i, 5 + 11 * i as usize),
            document(i % 5, 120),
            document(i % 3, 64),
            text(i, 7),
        ];
        let mode = if i.is_multiple_of(4) {
            BlendMode::Exact
        } else {
            BlendMode::Auto
        };
        Ask::new(prompt).mode(mode).max_tokens(3 + 5 * i as usize)
    };
    let asks: Vec<_> = (0..32).map(make).collect();
    let engine = Engines::default().with(|e| e.pages = 2000).start();
    let together = ask_all(&engine, &asks);
    settle(&engine);
    for (answer, alone) in together.iter().zip(&asks) {
        let expected = ask(&Engines::default().start(), alone);
        assert_eq!((&answer.text, &answer.logits), (&expected.text, &expected.logits));
    }
}

#[test]
fn equal_documents_in_flight_are_computed_once() {
    let engine = Engines::default().start();
    let asks: Vec<_> = (0..10)
        .map(|i| Ask::new(vec![text(i, 3), document(1, 300), text(i, 4)]))
        .collect();
    let answers = ask_all(&engine, &asks);
    assert_eq!(engine.gauges().documents, 1);
    assert!(answers.iter().any(|a| a.sources() == ["computed"]));
    settle(&engine);
}

#[test]
fn a_full_queue_refuses_and_recovers() {
    let engine = Engines::default().with(|e| {
        e.config.max_queue = 2;
        e.config.max_sequences = 1;
    });
    let engine = engine.start();
    let submit = || engine.submit(small().max_tokens(300).0);
    let streams: Vec<_> = (0..20).map(|_| submit()).collect();
    assert!(streams.iter().any(|s| matches!(s, Err(SubmitError::QueueFull))));
    let taken = streams.into_iter().filter_map(Result::ok);
    taken.for_each(|s| {
        collect(s).expect("answered");
    });
    settle(&engine);
    ask(&engine, &small());
}

/// The next request may come from whoever has just read the last event of the one before.
#[test]
fn with_no_queue_requests_one_after_another_are_all_taken() {
    let engine = Engines::default().with(|e| {
        e.config.max_queue = 0;
        e.config.max_sequences = 1;
    });
    let engine = engine.start();
    for seed in 0..200 {
        let prompt = vec![text(seed, 9), document(seed, 70), text(4, 5)];
        let asked = Ask::new(prompt).max_tokens(1 + seed as usize % 5);
        let mut stream = engine.submit(asked.0).expect("nobody else is there");
        while !matches!(stream.blocking_recv(), Some(Event::Finished { .. })) {}
    }
}

#[test]
fn what_can_never_run_is_refused_with_the_numbers() {
    let engine = Engines::default().with(|e| e.pages = 10).start();
    let long = Ask::new(vec![text(1, 4096)]);
    let refused = try_ask(&engine, &long).expect_err("too long");
    assert_eq!(
        refused,
        SubmitError::PromptTooLong {
            tokens: 4096,
            context: 4096
        }
    );
    let large = Ask::new(vec![text(1, 700)]);
    assert!(matches!(
        try_ask(&engine, &large),
        Err(SubmitError::TooLarge {
            needed: 11,
            pages: 10
        })
    ));
    let deep = small()
        .strategy(Strategy::Deviation)
        .with(|r| r.blend.check_layer = 99);
    assert!(matches!(
        try_ask(&engine, &deep),
        Err(SubmitError::CheckLayer { layer: 99, .. })
    ));
    let foreign = Ask::new(vec![text(1, 5), medley_kv::Segment::Text([TokenId(256)].into())]);
    let refused = try_ask(&engine, &foreign).expect_err("no such token");
    assert_eq!(
        refused,
        SubmitError::TokenOutsideVocabulary {
            token: 256,
            vocab: 256
        }
    );
    let context = Ask::new(vec![text(1, 5), document_behind(4090, 2, 20), text(1, 5)]);
    let refused = try_ask(&engine, &context).expect_err("the context is too long");
    assert_eq!(
        refused,
        SubmitError::DocumentTooLong {
            index: 0,
            tokens: 4110,
            context: 4096
        }
    );
    engine.close();
    assert!(matches!(
        try_ask(&engine, &small()),
        Err(SubmitError::ShuttingDown)
    ));
}

#[test]
fn more_tokens_than_the_pool_holds_are_clamped() {
    let engine = Engines::default().with(|e| e.pages = 10).start();
    let answer = ask(&engine, &Ask::new(vec![text(1, 100)]).max_tokens(3000));
    assert_eq!(
        (answer.reason, answer.tokens.len()),
        (FinishReason::Length, 8 * 64 + 1)
    );
}

#[test]
fn a_warm_request_does_not_wait_for_other_requests_documents() {
    let engines = Engines::default().with(|e| e.pages = 4000);
    // For every call, the positions whose logits were asked for.
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let note = move |backend: &mut FakeBackend, batch: &Batch| {
        let positions = batch.logits.iter().map(|&row| batch.rows[row].position.0);
        noted.lock().expect("a lock").push(positions.collect());
        backend.run(batch)
    };
    let engine = engines.start_on(Through(engines.backend(), note));
    let warm = small().max_tokens(1);
    ask(&engine, &warm);
    let cold = |seed| Ask::new(vec![text(9, 3), document(seed, 3000), text(seed, 3)]).max_tokens(1);
    let colds: Vec<_> = (50..60)
        .map(|seed| engine.submit(cold(seed).0).expect("submitted"))
        .collect();
    let stream = engine.submit(warm.0.clone()).expect("submitted");
    let before = calls.lock().expect("a lock").len();
    collect(stream).expect("answered");
    let last = warm.0.prompt.len() as u32 - 1;
    let at = calls
        .lock()
        .expect("a lock")
        .iter()
        .rposition(|p: &Vec<u32>| p.contains(&last))
        .expect("it ran");
    assert!(
        at.saturating_sub(before) < 20,
        "{} calls for a warm request",
        at - before
    );
    colds.into_iter().for_each(|s| {
        collect(s).expect("answered");
    });
    settle(&engine);
}

#[test]
fn a_panic_in_a_step_fails_its_requests_and_nothing_else() {
    let engines = Engines::default();
    let mut calls = 0;
    let panic = move |backend: &mut FakeBackend, batch: &Batch| {
        calls += 1;
        assert!(calls != 2, "on purpose");
        backend.run(batch)
    };
    let engine = engines.start_on(Through(engines.backend(), panic));
    let failed = try_ask(&engine, &small()).expect("submitted");
    assert!(matches!(failed, Err(GenerateError::Engine(_))));
    settle(&engine);
    assert_eq!(ask(&engine, &small()).tokens.len(), 8);
    assert!(!engine.gauges().failed);
}

#[test]
fn requests_wait_for_pages_and_all_are_answered() {
    let engine = Engines::default().with(|e| {
        e.pages = 14;
        e.config.resident_pages = 14;
    });
    let engine = engine.start();
    let asks: Vec<_> = (0..12)
        .map(|i| Ask::new(vec![text(i, 20), document(i, 200), text(i, 9)]))
        .collect();
    let answers = ask_all(&engine, &asks);
    assert!(answers.iter().all(|a| a.tokens.len() == 8));
    settle(&engine);
    assert!(engine.gauges().evictions > 0);
}

#[test]
fn a_failed_step_fails_its_requests_and_nothing_else() {
    let engines = Engines::default();
    let backend = engines.backend();
    backend.control().fail_next(1);
    let engine = engines.start_on(backend);
    let failed = try_ask(&engine, &small()).expect("submitted");
    assert!(matches!(failed, Err(GenerateError::Engine(_))));
    settle(&engine);
    let expected = ask(&engines.start(), &small());
    assert_eq!(ask(&engine, &small()).logits, expected.logits);
}

#[test]
fn a_lost_device_fails_all_requests_and_takes_no_more() {
    let engines = Engines::default();
    let backend = engines.backend();
    let control = backend.control();
    let engine = engines.start_on(backend);
    ask(&engine, &small());
    control.lose();
    let requests = (0..40).map(|_| small().max_tokens(30).0).collect();
    for stream in engine.submit_all(requests).expect("submitted") {
        assert!(matches!(collect(stream), Err(GenerateError::Engine(_))));
    }
    settle(&engine);
    assert!(engine.gauges().failed);
    assert!(try_ask(&engine, &small()).is_err(), "nothing is taken any more");
}

#[test]
fn texts_end_where_they_should() {
    let engine = Engines::default().start();
    let whole = ask(&engine, &small().max_tokens(40));
    assert_eq!((whole.reason, whole.tokens.len()), (FinishReason::Length, 40));
    let stop = whole.text[10..13].to_owned();
    let at = whole.text.find(&stop).expect("it is there");
    let cut = ask(&engine, &small().max_tokens(40).with(|r| r.stop = vec![stop]));
    assert_eq!(
        (cut.reason, cut.text.as_str()),
        (FinishReason::Stop, &whole.text[..at])
    );
    let token = whole.tokens[5];
    let first = whole
        .tokens
        .iter()
        .position(|&t| t == token)
        .expect("it is there");
    let ended = ask(
        &engine,
        &small().max_tokens(40).with(|r| r.stop_tokens = [token].into()),
    );
    assert_eq!(
        (ended.reason, ended.text.as_str()),
        (FinishReason::Stop, &whole.text[..first])
    );
    assert_eq!(ended.tokens.len(), first + 1);
}

#[test]
fn the_context_ends_a_text() {
    let engine = Engines::default().with(|e| e.config.max_model_len = 220).start();
    let answer = ask(&engine, &small().max_tokens(100));
    assert_eq!((answer.reason, answer.tokens.len()), (FinishReason::Length, 10));
}

#[test]
fn forced_tokens_are_fed_and_their_logits_captured() {
    let engine = Engines::default().start();
    let free = ask(&engine, &small().max_tokens(6));
    let force = |tokens: &[TokenId]| {
        let tokens = tokens.into();
        ask(
            &engine,
            &small().max_tokens(50).with(|r| r.capture.forced = Some(tokens)),
        )
    };
    let forced = force(&free.tokens);
    assert_eq!((forced.tokens, forced.logits), (free.tokens, free.logits.clone()));
    let other = force(&words(77, 6));
    assert_eq!(other.logits[0], free.logits[0]);
    assert_ne!(other.logits[1], free.logits[1]);
}
