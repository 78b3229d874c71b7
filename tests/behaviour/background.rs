//! Requests that nobody waits for: they run in idle moments and are felt by nobody.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};

use medley_backend::{Backend, Batch, fake::FakeBackend};
use medley_engine::Engine;
use medley_generate::{Generate, GenerateError, Priority};
use medley_kv::{BlendMode, Segment, TokenId};

use crate::harness::{
    Answer, Ask, Engines, PATIENCE, Through, ask, collect, document, settle, text, try_ask,
};

/// A prompt and an answer of one token over and over, so that its rows can be told from others.
fn of_token(token: u32, prompt: usize, answer: usize) -> Ask {
    let repeated = |count| Arc::from(vec![TokenId(token); count]);
    Ask::new(vec![Segment::Text(repeated(prompt))])
        .mode(BlendMode::Off)
        .max_tokens(answer)
        .with(|r| r.capture.forced = Some(repeated(answer)))
}

fn background(ask: Ask) -> Ask {
    ask.with(|r| r.priority = Priority::Background)
}

/// A call: the tokens of its rows, and how many rows.
type Call = (BTreeSet<u32>, usize);

/// An engine one of whose calls waits, and its calls.
struct Held {
    engine: Engine,
    /// The call that waits.
    held: Arc<AtomicUsize>,
    calls: Arc<Mutex<Vec<Call>>>,
    reached: Receiver<()>,
    release: Sender<()>,
}

impl Held {
    /// The `held`-th call waits.
    fn start(engines: &Engines, held: usize) -> Self {
        let held = Arc::new(AtomicUsize::new(held));
        let awaited = held.clone();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let ((reach, reached), (release, released)) = (channel(), channel());
        let noted = calls.clone();
        let run = move |backend: &mut FakeBackend, batch: &Batch| {
            let tokens = batch.rows.iter().map(|row| row.token.0).collect();
            let call = {
                let mut noted = noted.lock().expect("a lock");
                noted.push((tokens, batch.rows.len()));
                noted.len()
            };
            if call == awaited.load(Ordering::Relaxed) {
                reach.send(()).expect("somebody waits");
                released.recv_timeout(PATIENCE).expect("released");
            }
            backend.run(batch)
        };
        Self {
            engine: engines.start_on(Through(engines.backend(), run)),
            held,
            calls,
            reached,
            release,
        }
    }

    /// Forgets the calls so far; the `held`-th from here on waits.
    fn again(&self, held: usize) {
        self.calls.lock().expect("a lock").clear();
        self.held.store(held, Ordering::Relaxed);
    }

    /// Does something while the held call runs.
    fn meanwhile<T>(&self, what: impl FnOnce(&Engine) -> T) -> T {
        self.reached.recv_timeout(PATIENCE).expect("the call is reached");
        let done = what(&self.engine);
        self.release.send(()).expect("it waits");
        done
    }
}

fn alone(ask_: &Ask) -> Answer {
    ask(&Engines::default().start(), ask_)
}

#[test]
fn a_request_waits_for_the_step_that_is_running_and_for_no_further_one() {
    let held = Held::start(&Engines::default(), 3);
    let slow = background(of_token(7, 2000, 4));
    let unhurried = held.engine.submit(slow.0.clone()).expect("submitted");
    let quick = of_token(9, 100, 5);
    let quickly = held.meanwhile(|engine| engine.submit(quick.0.clone()).expect("submitted"));
    let (quickly, unhurried) = (collect(quickly), collect(unhurried));
    settle(&held.engine);
    let calls = held.calls.lock().expect("a lock");
    let mut turns: Vec<_> = calls.iter().map(|(tokens, _)| tokens.clone()).collect();
    assert!(turns[2].contains(&7) && turns[3].contains(&9), "{turns:?}");
    turns.dedup();
    assert_eq!(turns, [7, 9, 7].map(|token| BTreeSet::from([token])));
    let largest = calls.iter().filter(|(tokens, _)| tokens.contains(&7));
    assert_eq!(
        largest.map(|c| c.1).max(),
        Some(Engines::default().config.mixed_step_rows)
    );
    assert_eq!(quickly.expect("answered").logits, alone(&quick).logits);
    assert_eq!(unhurried.expect("answered").logits, alone(&slow).logits);
}

#[test]
fn a_background_request_starts_when_the_others_have_ended() {
    let held = Held::start(&Engines::default(), 1);
    let quick = held.engine.submit(of_token(9, 100, 5).0).expect("submitted");
    let slow = held.meanwhile(|engine| {
        engine
            .submit(background(of_token(7, 50, 4)).0)
            .expect("submitted")
    });
    collect(quick).expect("answered");
    collect(slow).expect("answered");
    let mut turns: Vec<_> = held
        .calls
        .lock()
        .expect("a lock")
        .iter()
        .map(|c| c.0.clone())
        .collect();
    turns.dedup();
    assert_eq!(turns, [9, 7].map(|token| BTreeSet::from([token])));
}

#[test]
fn pages_of_a_background_request_go_to_others_before_anything_is_evicted() {
    let engines = Engines::default().with(|e| e.pages = 30);
    let held = Held::start(&engines, usize::MAX);
    let kept = Ask::new(vec![document(1, 640), text(2, 3)]).max_tokens(1);
    ask(&held.engine, &kept);
    settle(&held.engine);
    held.again(3);
    // Ten pages each for what is resident, what runs in the background and what is free.
    let slow = held.engine.submit(background(of_token(7, 600, 4)).0);
    let quick = held.meanwhile(|engine| engine.submit(of_token(9, 900, 5).0).expect("submitted"));
    let displaced = collect(slow.expect("submitted"));
    assert_eq!(displaced.map(|a| a.tokens), Err(GenerateError::Displaced));
    collect(quick).expect("answered");
    settle(&held.engine);
    assert_eq!(held.engine.gauges().evictions, 0);
    assert_eq!(ask(&held.engine, &kept).sources(), ["host"]);
}

#[test]
fn a_background_request_takes_no_place_and_is_not_among_those_that_run_or_wait() {
    let engines = Engines::default().with(|e| {
        e.config.max_queue = 0;
        e.config.max_sequences = 1;
    });
    let held = Held::start(&engines, 3);
    let slow: Vec<_> = (0..5)
        .map(|_| {
            held.engine
                .submit(background(of_token(7, 100, 4)).0)
                .expect("submitted")
        })
        .collect();
    let (quick, gauges) = held.meanwhile(|engine| {
        let gauges = engine.gauges();
        (engine.submit(of_token(9, 100, 5).0).expect("a place"), gauges)
    });
    assert_eq!((gauges.waiting, gauges.running, gauges.background), (0, 0, 5));
    collect(quick).expect("answered");
    slow.into_iter().for_each(|s| {
        collect(s).expect("answered");
    });
    settle(&held.engine);
}

#[test]
fn a_background_request_evicts_nothing() {
    let engine = Engines::default().with(|e| e.pages = 20).start();
    let kept = Ask::new(vec![document(1, 640), text(2, 3)]).max_tokens(1);
    ask(&engine, &kept);
    let large = of_token(7, 700, 4);
    let refused = try_ask(&engine, &background(large.clone())).expect("submitted");
    assert_eq!(refused.map(|a| a.tokens), Err(GenerateError::Displaced));
    settle(&engine);
    assert_eq!((engine.gauges().documents, engine.gauges().evictions), (1, 0));
    ask(&engine, &large);
    assert_eq!(engine.gauges().evictions, 1, "it takes an eviction");
}

#[test]
fn a_background_request_leaves_nothing_resident_and_counts_no_misses() {
    let engine = Engines::default().start();
    let exact = Ask::new(vec![text(1, 300)]).mode(BlendMode::Exact);
    ask(&engine, &background(exact));
    let blended = Ask::new(vec![text(1, 300), document(2, 100), text(3, 4)]);
    let missing = try_ask(&engine, &background(blended.clone())).expect("submitted");
    assert_eq!(missing.map(|a| a.tokens), Err(GenerateError::Displaced));
    settle(&engine);
    let gauges = engine.gauges();
    assert_eq!(
        (gauges.documents, gauges.prefixes, gauges.misses_absent),
        (0, 0, 0)
    );
    let expected = ask(&engine, &blended);
    let prefixes = engine.gauges().prefixes;
    let again = ask(&engine, &background(blended));
    assert_eq!(again.logits, expected.logits);
    assert_eq!(engine.gauges().prefixes, prefixes);
}

#[test]
fn a_background_request_that_nobody_listens_to_is_let_go_and_not_counted_as_cancelled() {
    let held = Held::start(&Engines::default(), 2);
    let submit = || held.engine.submit(background(of_token(7, 2000, 4)).0);
    let slow = [submit().expect("submitted"), submit().expect("submitted")];
    held.meanwhile(|_| drop(slow));
    settle(&held.engine);
    assert_eq!(held.engine.gauges().cancelled, 0);
    assert!(held.calls.lock().expect("a lock").len() < 5);
}
