//! Choices of one prompt share its prefill and answer as each would alone.

use std::sync::{Arc, Mutex};

use medley_backend::fake::FakeBackend;
use medley_engine::Engine;
use medley_generate::{EventStream, Generate, GenerateError, Witness};
use medley_kv::{BlendMode, Plan, Segment, Strategy, TokenId};

use crate::harness::{Answer, Ask, Engines, ask, collect, document, settle, small_model, text};

/// Sampled choices of one request: seeds in a row.
fn choices(ask: &Ask, count: usize) -> Vec<Ask> {
    let choice = |index: usize| {
        ask.clone().with(|r| {
            r.sampling.temperature = 1.5;
            r.sampling.seed = Some(40 + index as u64);
        })
    };
    (0..count).map(choice).collect()
}

fn submit(engine: &Engine, asks: &[Ask]) -> Vec<EventStream> {
    let requests = asks.iter().map(|ask| ask.0.clone()).collect();
    engine.submit_all(requests).expect("submitted")
}

fn together(engine: &Engine, asks: &[Ask]) -> Vec<Answer> {
    let streams = submit(engine, asks);
    streams
        .into_iter()
        .map(|s| collect(s).expect("answered"))
        .collect()
}

/// Each in an engine of its own.
fn alone(engines: &Engines, asks: &[Ask]) -> Vec<Answer> {
    asks.iter().map(|one| ask(&engines.start(), one)).collect()
}

fn check_same(found: &[Answer], expected: &[Answer], what: &str) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.tokens, expected.tokens, "{what}, choice {index}");
        assert_eq!(found.logits, expected.logits, "{what}, choice {index}");
        assert_eq!((&found.text, found.reason), (&expected.text, expected.reason));
        assert_eq!(found.report.tokens.total(), expected.report.tokens.total());
    }
}

/// Prompts that end everywhere in a page, without documents and with them.
fn prompts() -> Vec<(String, Ask)> {
    let mut prompts = Vec::new();
    for len in [1, 2, 63, 64, 65, 128, 200] {
        prompts.push((format!("text of {len}"), Ask::new(vec![text(7, len)])));
    }
    for (lead, end) in [(10, 5), (64, 64), (70, 51), (1, 130)] {
        let prompt = || vec![text(1, lead), document(2, 100), document(3, 90), text(4, end)];
        for strategy in [Strategy::Query, Strategy::Deviation, Strategy::Heads] {
            prompts.push((
                format!("{lead} and {end}, {strategy}"),
                Ask::new(prompt()).strategy(strategy),
            ));
        }
        for mode in [BlendMode::Exact, BlendMode::Off] {
            prompts.push((format!("{lead} and {end}, {mode}"), Ask::new(prompt()).mode(mode)));
        }
    }
    prompts
}

#[test]
fn choices_have_the_bits_that_they_have_alone_and_the_first_those_of_a_single_one() {
    for (what, ask) in prompts() {
        let asks = choices(&ask.max_tokens(70), 4);
        let engines = Engines::default();
        let engine = engines.start();
        let found = together(&engine, &asks);
        settle(&engine);
        check_same(&found, &alone(&engines, &asks), &what);
        let texts: std::collections::HashSet<_> = found.iter().map(|a| &a.text).collect();
        assert_eq!(texts.len(), 4, "{what}: choices of different seeds differ");
    }
}

#[test]
fn tokens_that_the_backend_draws_are_those_of_each_alone_too() {
    for (what, ask) in prompts() {
        let asks = choices(&ask.with(|r| r.capture.logits = false), 3);
        let engines = Engines::default();
        let found = together(&engines.start(), &asks);
        check_same(&found, &alone(&engines, &asks), &what);
    }
}

/// Rows and copied pages of choices of one token each.
fn cost(engines: &Engines, ask: &Ask, count: usize) -> (usize, usize) {
    let backend = engines.backend();
    let control = backend.control();
    let engine = engines.start_on(backend);
    together(&engine, &choices(&ask.clone().max_tokens(1), count));
    settle(&engine);
    (control.counts().rows, control.counts().copies)
}

#[test]
fn a_further_choice_costs_one_row_and_one_page_however_many_run_at_once() {
    for (what, ask) in prompts() {
        if ask.0.blend.mode == BlendMode::Off {
            continue;
        }
        for max_sequences in [1, 3, 64] {
            let engines = Engines::default().with(|e| e.config.max_sequences = max_sequences);
            let (rows, none) = cost(&engines, &ask, 1);
            assert_eq!(none, 0);
            assert_eq!(
                cost(&engines, &ask, 9),
                (rows + 8, 8),
                "{what}, {max_sequences} at once"
            );
        }
    }
}

#[test]
fn without_reuse_every_choice_runs_its_own_prompt() {
    let engines = Engines::default();
    let off = Ask::new(vec![text(1, 90)]).mode(BlendMode::Off);
    assert_eq!(cost(&engines, &off, 3), (270, 0));
}

#[test]
fn what_differs_in_anything_but_its_draws_shares_nothing() {
    let engines = Engines::default();
    let base = Ask::new(vec![text(1, 90)]).max_tokens(1);
    let others = [
        base.clone().salt("a"),
        base.clone().mode(BlendMode::Exact),
        base.clone().with(|r| r.prompt_logprobs = Some(0)),
        Ask::new(vec![text(1, 91)]).max_tokens(1),
    ];
    let backend = engines.backend();
    let control = backend.control();
    let engine = engines.start_on(backend);
    let asks: Vec<_> = [base].into_iter().chain(others).collect();
    together(&engine, &asks);
    assert_eq!(control.counts().copies, 0);
}

#[test]
fn the_account_of_a_further_choice_sums_to_the_prompt() {
    let engine = Engines::default().start();
    let exact = together(&engine, &choices(&Ask::new(vec![text(1, 90)]), 2));
    let counts = |answer: &Answer| (answer.report.tokens.exact_prefix, answer.report.tokens.fresh);
    assert_eq!(counts(&exact[0]), (0, 90));
    assert_eq!(counts(&exact[1]), (89, 1));
}

/// Some listen to the end, some never, some for a few tokens, in pools in which there is hardly room.
#[test]
fn choices_that_are_given_up_take_nothing_from_the_others() {
    let prompts = prompts();
    for seed in 0..120 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (what, ask) = &prompts[rng.usize(0..prompts.len())];
        let asks = choices(&ask.clone().max_tokens(rng.usize(1..140)), rng.usize(2..9));
        let engines = Engines::default().with(|e| {
            e.pages = rng.usize(24..60);
            e.config.resident_pages = rng.usize(0..20);
            e.config.step_rows = rng.usize(1..200);
            e.config.mixed_step_rows = rng.usize(1..60);
            e.config.max_sequences = rng.usize(1..8);
        });
        let engine = engines.start();
        for _ in 0..2 {
            let mut kept = Vec::new();
            for (mut stream, ask) in submit(&engine, &asks).into_iter().zip(&asks) {
                match rng.usize(0..4) {
                    0 => drop(stream),
                    1 => {
                        for _ in 0..rng.usize(0..4) {
                            stream.blocking_recv();
                        }
                    }
                    _ => kept.push((stream, ask)),
                }
            }
            let (streams, asks): (Vec<_>, Vec<_>) = kept.into_iter().map(|(s, a)| (s, a.clone())).unzip();
            let found: Vec<_> = streams
                .into_iter()
                .map(|s| collect(s).expect("answered"))
                .collect();
            check_same(
                &found,
                &alone(&Engines::default(), &asks),
                &format!("seed {seed}, {what}"),
            );
        }
        settle(&engine);
    }
}

/// A prompt that is kept for choices that wait does not keep others out for good.
#[test]
fn what_is_kept_for_choices_that_wait_gives_way_to_who_goes_first() {
    let engines = Engines::default().with(|e| {
        e.pages = 12;
        e.config.resident_pages = 0;
        e.config.max_sequences = 1;
    });
    let many = choices(&Ask::new(vec![text(1, 300)]).max_tokens(40), 6);
    let urgent = Ask::new(vec![text(2, 600)])
        .max_tokens(40)
        .with(|r| r.precedence = -1);
    let engine = engines.start();
    let mut streams = submit(&engine, &many);
    let mut first = streams.remove(0);
    while first.try_recv().is_err() {
        std::thread::yield_now();
    }
    let before = engine.submit(urgent.0.clone()).expect("submitted");
    let answer = collect(before).expect("answered");
    assert_eq!(answer.tokens, ask(&Engines::default().start(), &urgent).tokens);
    drop(first);
    let found: Vec<_> = streams
        .into_iter()
        .map(|s| collect(s).expect("answered"))
        .collect();
    check_same(&found, &alone(&Engines::default(), &many[1..]), "behind it");
    settle(&engine);
}

#[test]
fn a_step_that_fails_fails_all_choices_of_its_prompt() {
    let engines = Engines::default();
    let backend = engines.backend();
    backend.control().fail_next(1);
    let engine = engines.start_on(backend);
    let asks = choices(&Ask::new(vec![text(1, 90)]), 3);
    for stream in submit(&engine, &asks) {
        assert!(matches!(collect(stream), Err(GenerateError::Engine(_))));
    }
    settle(&engine);
    check_same(&together(&engine, &asks), &alone(&engines, &asks), "after it");
}

#[test]
fn pages_that_can_not_be_copied_fail_the_choices_that_needed_them() {
    let engines = Engines::default();
    let backend = engines.backend();
    let control = backend.control();
    let lose = move |backend: &mut FakeBackend, batch: &medley_backend::Batch| {
        let outcome = backend.run(batch);
        control.lose();
        outcome
    };
    use medley_backend::Backend;
    let engine = engines.start_on(crate::harness::Through(backend, lose));
    let streams = submit(&engine, &choices(&Ask::new(vec![text(1, 30)]).max_tokens(1), 3));
    let ends: Vec<_> = streams.into_iter().map(|s| collect(s).is_ok()).collect();
    assert_eq!(ends, [true, false, false]);
    settle(&engine);
}

#[test]
fn on_the_small_model_too_choices_have_the_bits_that_they_have_alone() {
    let prompt: Vec<Segment> = vec![text(100, 21), document(1, 49), document(2, 58), text(101, 12)];
    let engine = small_model(80, 60, 512);
    for mode in [BlendMode::Auto, BlendMode::Exact] {
        let asks = choices(&Ask::new(prompt.clone()).mode(mode).max_tokens(5), 3);
        let found = together(&engine, &asks);
        let expected: Vec<_> = asks.iter().map(|one| ask(&engine, one)).collect();
        check_same(&found, &expected, mode.name());
        settle(&engine);
    }
}

/// Notes who ended.
struct Ended(i64, Arc<Mutex<Vec<i64>>>);

impl Witness for Ended {
    fn token(&self, _: TokenId) {}

    fn answered(&self, _: Plan) {
        self.1.lock().expect("a lock").push(self.0);
    }
}

#[test]
fn lower_precedence_goes_first_and_equal_ones_in_their_order() {
    let engine = Engines::default().with(|e| e.config.max_sequences = 1).start();
    let order = Arc::new(Mutex::new(Vec::new()));
    let submit = |name: i64, precedence: i64, max_tokens: usize| {
        let ask = Ask::new(vec![text(name as u64, 20)])
            .max_tokens(max_tokens)
            .with(|r| {
                r.precedence = precedence;
                r.capture.logits = false;
                r.witness = Some(Arc::new(Ended(name, order.clone())));
            });
        engine.submit(ask.0).expect("submitted")
    };
    let mut streams = vec![submit(0, 0, 3000)];
    while engine.gauges().running == 0 {
        std::thread::yield_now();
    }
    for (name, precedence) in [(1, 0), (2, 5), (3, -7), (4, 0), (5, -7), (6, i64::MIN)] {
        streams.push(submit(name, precedence, 1));
    }
    for stream in streams {
        collect(stream).expect("answered");
    }
    assert_eq!(*order.lock().expect("a lock"), [0, 6, 3, 5, 1, 4, 2]);
}
