//! The answer to a request depends on the request and the configuration, never on what happens to be cached.

use medley_engine::Engine;
use medley_generate::Generate;
use medley_kv::{BlendMode, Segment, Strategy};

use crate::harness::{Answer, Ask, Engines, ask, collect, document, text};

const STRATEGIES: [Strategy; 3] = [Strategy::Query, Strategy::Deviation, Strategy::Heads];

fn random_ask(rng: &mut fastrand::Rng) -> Ask {
    let mut prompt = vec![text(rng.u64(0..3), [10, 64, 130][rng.usize(0..3)])];
    for _ in 0..rng.usize(1..5) {
        prompt.push(document(rng.u64(0..10), 20 * rng.usize(1..8)));
    }
    prompt.push(text(rng.u64(0..5), rng.usize(1..30)));
    let ask = Ask::new(prompt)
        .strategy(STRATEGIES[rng.usize(0..3)])
        .refined(rng.u8(0..2), rng.u8(1..3));
    let mode = [BlendMode::Auto, BlendMode::Auto, BlendMode::Exact, BlendMode::Off][rng.usize(0..4)];
    ask.ratio(f64::from(rng.u8(0..6)) / 10.0)
        .mode(mode)
        .max_tokens(rng.usize(1..12))
}

fn targets() -> Vec<Ask> {
    let prompt = |order: [u64; 3]| -> Vec<Segment> {
        let documents = order.map(|seed| document(seed, 60 + 20 * seed as usize));
        [text(0, 64)]
            .into_iter()
            .chain(documents)
            .chain([text(2, 15)])
            .collect()
    };
    let blended = STRATEGIES
        .into_iter()
        .map(|s| Ask::new(prompt([1, 2, 3])).strategy(s));
    let refined = Ask::new(prompt([3, 1, 2]))
        .strategy(Strategy::Query)
        .refined(1, 2)
        .ratio(0.3);
    let exact = Ask::new(prompt([2, 3, 1])).mode(BlendMode::Exact);
    blended.chain([refined, exact]).collect()
}

/// A history: requests, some of which are abandoned, some of which run while the target does.
fn live(engine: &Engine, rng: &mut fastrand::Rng, target: &Ask) -> Answer {
    let mut streams = Vec::new();
    for _ in 0..rng.usize(0..8) {
        streams.push(engine.submit(random_ask(rng).0).expect("submitted"));
        match rng.usize(0..4) {
            0 => drop(streams.pop()),
            1 => {
                collect(streams.swap_remove(rng.usize(0..streams.len()))).expect("answered");
            }
            _ => {}
        }
    }
    let answer = ask(engine, target);
    streams.into_iter().for_each(|s| {
        collect(s).expect("answered");
    });
    answer
}

#[test]
fn the_same_request_answers_the_same_after_any_history() {
    for target in targets() {
        let fresh = ask(&Engines::default().start(), &target);
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            // A small pool evicts all the time; other step sizes split rows elsewhere.
            let engines = Engines::default().with(|e| {
                e.pages = rng.usize(60..200);
                e.config.resident_pages = rng.usize(0..40);
                e.config.step_rows = rng.usize(1..200);
                e.config.mixed_step_rows = rng.usize(1..100);
            });
            let engine = engines.start();
            for round in 0..3 {
                let answer = live(&engine, &mut rng, &target);
                assert_eq!(answer.logits, fresh.logits, "seed {seed}, round {round}");
                assert_eq!(answer.text, fresh.text);
            }
        }
    }
}

#[test]
fn a_cold_run_follows_the_plan_of_a_warm_one() {
    for target in targets() {
        let cold = ask(&Engines::default().start(), &target);
        // The documents are there, and nothing else of the prompt.
        let engine = Engines::default().start();
        ask(&engine, &target.clone().ratio(0.01));
        let warm = ask(&engine, &target);
        assert_eq!(cold.logits, warm.logits);
        let repaired = |a: &Answer| a.report.documents.iter().map(|d| d.repaired).collect::<Vec<_>>();
        assert_eq!(repaired(&cold), repaired(&warm));
        assert_eq!(cold.report.tokens.computed, warm.report.tokens.reused);
    }
}

#[test]
fn blended_kv_is_never_found_as_an_exact_prefix() {
    let prompt = vec![text(0, 64), document(1, 128), document(2, 128), text(2, 64)];
    let exact = Ask::new(prompt.clone()).mode(BlendMode::Exact);
    let expected = ask(&Engines::default().start(), &exact);
    let engine = Engines::default().start();
    for ratio in [0.0, 0.3, 1.0] {
        ask(&engine, &Ask::new(prompt.clone()).ratio(ratio));
    }
    let answer = ask(&engine, &exact);
    assert_eq!(
        answer.report.tokens.exact_prefix, 64,
        "only the text before the first document is exact"
    );
    assert_eq!(answer.logits, expected.logits);
}
