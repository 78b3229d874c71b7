//! Shadow checks: blended answers are compared with exact ones once they have ended, and nobody notices.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Instant,
};

use medley_backend::{Backend, BackendError, Batch, fake::FakeBackend};
use medley_engine::Engine;
use medley_generate::{Event, EventStream, Generate, Witness};
use medley_kv::{BlendMode, Plan, TokenId};
use medley_quality::Divergence;
use medley_shadow::{COMPARED_TOKENS, MOST_WAITING, Outcome, Rate, Shadow};
use serde_json::json;

use crate::harness::{Ask, Engines, PATIENCE, Server, Through, ask, document, settle, text};

/// A shadowed engine and what came of its checks.
struct Shadowed {
    engine: Arc<Engine>,
    shadow: Shadow,
    outcomes: Receiver<Outcome>,
}

impl Shadowed {
    fn new(engine: Engine, rate: Rate) -> Self {
        let (sender, outcomes) = channel();
        let record = move |outcome| {
            // A test that has ended listens no more.
            let _ = sender.send(outcome);
        };
        let engine = Arc::new(engine);
        let shadow = Shadow::start(engine.clone(), rate, record).expect("a thread");
        Self {
            engine,
            shadow,
            outcomes,
        }
    }

    fn always(engine: Engine) -> Self {
        Self::new(engine, Rate::ALL)
    }

    fn next(&self) -> Outcome {
        self.outcomes.recv_timeout(PATIENCE).expect("a check")
    }

    /// Waits until all is over. Nothing may be held, and no outcome may be left over.
    fn end(self) {
        drop(self.shadow);
        // Whoever could tell an outcome is gone.
        let left = self.outcomes.recv_timeout(PATIENCE);
        assert_eq!(left, Err(RecvTimeoutError::Disconnected));
        settle(&*self.engine);
    }
}

fn blended() -> Ask {
    Ask::new(vec![text(1, 10), document(2, 100), document(3, 90), text(4, 10)])
}

/// The mean divergence and the agreement of one check.
fn check(ask_: &Ask) -> (f64, f64) {
    let shadowed = Shadowed::always(Engines::default().start());
    ask(&shadowed.shadow, ask_);
    let Outcome::Done(divergence) = shadowed.next() else {
        panic!("not done")
    };
    shadowed.end();
    (divergence.kl, divergence.top1)
}

#[test]
fn a_blended_answer_is_checked_once_and_its_distance_is_that_of_a_full_prefill() {
    assert_eq!(check(&blended().ratio(1.0)), (0.0, 1.0));
    let (kl, top1) = check(&blended().ratio(0.0));
    assert!(kl > 0.0 && top1 < 1.0, "{kl} {top1}");
}

#[test]
fn what_is_compared_is_the_beginning_of_the_answer_whatever_its_options() {
    let long = blended().ratio(1.0).max_tokens(300).with(|r| {
        r.capture.logits = false;
        r.sampling.temperature = 3.0;
        r.logprobs = Some(2);
    });
    assert_eq!(check(&long), (0.0, 1.0));
    let stopped = {
        let whole = ask(&Engines::default().start(), &blended().max_tokens(40));
        let end = whole.tokens[7];
        blended()
            .max_tokens(40)
            .ratio(1.0)
            .with(|r| r.stop_tokens = [end].into())
    };
    assert_eq!(check(&stopped), (0.0, 1.0));
}

#[test]
fn the_distance_is_that_of_the_first_tokens_from_a_full_prefill() {
    let asked = blended()
        .ratio(0.0)
        .max_tokens(50)
        .with(|r| r.sampling.seed = Some(3));
    let asked = asked.with(|r| r.sampling.temperature = 5.0);
    let engine = Engines::default().start();
    let tokens: Arc<[TokenId]> = ask(&engine, &asked).tokens[..COMPARED_TOKENS].into();
    let forced = |mode| {
        let tokens = Some(tokens.clone());
        ask(
            &engine,
            &asked.clone().mode(mode).with(|r| r.capture.forced = tokens),
        )
        .logits
    };
    let (exact, blended) = (forced(BlendMode::Exact), forced(BlendMode::Auto));
    let expected = Divergence::between(&exact, &blended).expect("comparable");
    assert_eq!(check(&asked), (expected.kl, expected.top1));
    assert_ne!(Divergence::between(&blended, &exact), Some(expected));
}

#[test]
fn without_a_rate_nothing_is_checked() {
    let shadowed = Shadowed::new(Engines::default().start(), Rate::NONE);
    for _ in 0..50 {
        ask(&shadowed.shadow, &blended().max_tokens(1));
    }
    shadowed.end();
}

#[test]
fn exact_answers_are_never_checked() {
    let unsupported = Engines::default().with(|e| e.config.unsupported = Some("a reason".to_owned()));
    for (engines, asked) in [
        (Engines::default(), blended().mode(BlendMode::Exact)),
        (Engines::default(), blended().mode(BlendMode::Off)),
        (Engines::default(), Ask::new(vec![text(1, 30)])),
        (unsupported, blended()),
    ] {
        let shadowed = Shadowed::always(engines.start());
        ask(&shadowed.shadow, &asked);
        shadowed.end();
    }
}

#[test]
fn the_answer_is_whole_before_its_check_starts() {
    let engines = Engines::default();
    let ((reach, reached), (release, released)) = (channel(), channel::<()>());
    let mut tokens = 0;
    let hold = move |backend: &mut FakeBackend, batch: &Batch| {
        if tokens == 8 {
            reach.send(()).expect("somebody waits");
            released.recv_timeout(PATIENCE).expect("released");
        }
        tokens += batch.logits.len().max(usize::from(tokens == 8));
        backend.run(batch)
    };
    let shadowed = Shadowed::always(engines.start_on(Through(engines.backend(), hold)));
    assert_eq!(ask(&shadowed.shadow, &blended()).tokens.len(), 8);
    reached.recv_timeout(PATIENCE).expect("the check starts");
    assert_eq!(shadowed.outcomes.try_recv().ok(), None);
    release.send(()).expect("it waits");
    assert!(matches!(shadowed.next(), Outcome::Done(_)));
}

/// Looks into the listener's stream when it hears that the answer has ended.
struct Eavesdropper {
    stream: Arc<Mutex<Option<EventStream>>>,
    heard: Sender<(Plan, Vec<Event>)>,
}

impl Witness for Eavesdropper {
    fn token(&self, _: TokenId) {}

    fn answered(&self, plan: Plan) {
        let mut stream = self.stream.lock().expect("a lock");
        let there = std::iter::from_fn(|| stream.as_mut()?.try_recv().ok());
        self.heard.send((plan, there.collect())).expect("somebody waits");
    }
}

#[test]
fn a_witness_hears_of_the_end_when_the_listener_has_everything() {
    let engines = Engines::default();
    let ((heard, hearing), (release, released)) = (channel(), channel::<()>());
    let mut held = true;
    let hold = move |backend: &mut FakeBackend, batch: &Batch| {
        if std::mem::take(&mut held) {
            released.recv_timeout(PATIENCE).expect("released");
        }
        backend.run(batch)
    };
    let engine = engines.start_on(Through(engines.backend(), hold));
    let slot = Arc::new(Mutex::new(None));
    let stream = slot.clone();
    let asked = blended().with(|r| r.witness = Some(Arc::new(Eavesdropper { stream, heard })));
    let stream = engine.submit(asked.0).expect("submitted");
    slot.lock().expect("a lock").replace(stream);
    release.send(()).expect("it waits");
    let (plan, events) = hearing.recv_timeout(PATIENCE).expect("it ends");
    assert_eq!((plan, events.len()), (Plan::Blended, 1 + 8 + 1));
    assert!(matches!(events.last(), Some(Event::Finished { .. })));
}

/// An engine on which somebody streams until the test lets go.
fn busy(shadowed: &Shadowed) -> EventStream {
    let endless = Ask::new(vec![text(9, 5)]).mode(BlendMode::Exact).max_tokens(4000);
    let mut stream = shadowed.shadow.submit(endless.0).expect("submitted");
    assert!(matches!(stream.blocking_recv(), Some(Event::Planned(_))));
    stream
}

#[test]
fn checks_wait_for_an_idle_moment_and_those_that_find_the_queue_full_are_dropped() {
    let shadowed = Shadowed::always(Engines::default().start());
    let stream = busy(&shadowed);
    ask(&shadowed.shadow, &blended().max_tokens(1));
    let patience = Instant::now() + PATIENCE;
    while shadowed.shadow.gauges().background == 0 {
        assert!(Instant::now() < patience, "no check waits");
        std::thread::yield_now();
    }
    for _ in 0..MOST_WAITING {
        ask(&shadowed.shadow, &blended().max_tokens(1));
    }
    assert_eq!(shadowed.outcomes.try_recv().ok(), None, "all wait");
    for _ in 0..3 {
        ask(&shadowed.shadow, &blended().max_tokens(1));
        assert_eq!(shadowed.next(), Outcome::Dropped);
    }
    drop(stream);
    for _ in 0..=MOST_WAITING {
        assert!(matches!(shadowed.next(), Outcome::Done(_)));
    }
    shadowed.end();
}

#[test]
fn an_answer_whose_listener_went_away_is_not_checked() {
    let engines = Engines::default();
    let ((reach, reached), (release, released)) = (channel(), channel::<()>());
    let mut answered = false;
    let hold = move |backend: &mut FakeBackend, batch: &Batch| {
        if !batch.logits.is_empty() && !std::mem::replace(&mut answered, true) {
            reach.send(()).expect("somebody waits");
            released.recv_timeout(PATIENCE).expect("released");
        }
        backend.run(batch)
    };
    let shadowed = Shadowed::always(engines.start_on(Through(engines.backend(), hold)));
    // It hangs up in the step that brings the last token.
    let stream = shadowed
        .shadow
        .submit(blended().max_tokens(1).0)
        .expect("submitted");
    reached.recv_timeout(PATIENCE).expect("reached");
    drop(stream);
    release.send(()).expect("it waits");
    settle(&shadowed.shadow);
    // And in the midst of an answer.
    let mut stream = shadowed
        .shadow
        .submit(blended().max_tokens(2000).0)
        .expect("submitted");
    assert!(matches!(stream.blocking_recv(), Some(Event::Planned(_))));
    drop(stream);
    settle(&shadowed.shadow);
    assert_eq!(shadowed.shadow.gauges().cancelled, 1);
    shadowed.end();
}

#[test]
fn a_check_that_fails_is_recorded_and_the_next_one_runs() {
    let engines = Engines::default();
    let mut calls_with_logits = 0;
    let fail = move |backend: &mut FakeBackend, batch: &Batch| {
        calls_with_logits += usize::from(!batch.logits.is_empty());
        match calls_with_logits {
            2 if !batch.logits.is_empty() => Err(BackendError::Device("on purpose".to_owned())),
            _ => backend.run(batch),
        }
    };
    let shadowed = Shadowed::always(engines.start_on(Through(engines.backend(), fail)));
    ask(&shadowed.shadow, &blended().max_tokens(1));
    assert_eq!(shadowed.next(), Outcome::Failed);
    ask(&shadowed.shadow, &blended().max_tokens(1));
    assert!(matches!(shadowed.next(), Outcome::Done(_)));
    shadowed.end();
}

#[test]
fn a_check_without_room_is_dropped_and_evicts_nothing() {
    let engine = Engines::default().with(|e| e.pages = 20).start();
    let shadowed = Shadowed::always(engine);
    let asked = Ask::new(vec![document(1, 700), text(2, 3)]).max_tokens(1);
    ask(&shadowed.shadow, &asked);
    assert_eq!(shadowed.next(), Outcome::Dropped);
    assert_eq!(ask(&shadowed.shadow, &asked).sources(), ["host"]);
    assert_eq!(shadowed.next(), Outcome::Dropped);
    assert_eq!(shadowed.shadow.gauges().evictions, 0);
    shadowed.end();
}

#[test]
fn a_request_beside_a_check_gets_the_answer_that_it_gets_alone() {
    let shadowed = Shadowed::always(Engines::default().start());
    let beside = Ask::new(vec![text(5, 20), document(6, 300), text(7, 10)]).max_tokens(20);
    let expected = ask(&Engines::default().start(), &beside);
    for seed in 0..20 {
        ask(
            &shadowed.shadow,
            &Ask::new(vec![text(seed, 9), document(seed, 200), text(4, 5)]),
        );
        assert_eq!(ask(&shadowed.shadow, &beside).logits, expected.logits);
    }
    settle(&shadowed.shadow);
}

#[test]
fn checks_are_in_metrics_of_their_own_and_in_no_others() {
    let server = Server::fake_with(&Engines::default(), Rate::ALL);
    let documents = [
        "The stone bridge of Arven. ".repeat(4),
        "The mill below it. ".repeat(5),
    ];
    let request = |ratio: f64| {
        json!({
            "prompt": "Who built it?", "documents": documents, "max_tokens": 9, "temperature": 0,
            "blend": {"recompute_ratio": ratio},
        })
    };
    let checked = |count: f64| {
        let patience = Instant::now() + PATIENCE;
        while server.metric("medley_shadow_kl_count") < count {
            assert!(Instant::now() < patience, "{}", server.get("/metrics"));
        }
    };
    let first = server.complete(&request(1.0));
    checked(1.0);
    assert_eq!(server.metric("medley_shadow_kl_sum"), 0.0);
    assert_eq!(server.metric("medley_shadow_top1_agreement_sum"), 1.0);
    server.complete(&request(0.0));
    checked(2.0);
    assert!(server.metric("medley_shadow_kl_sum") > 0.0);
    assert!(server.metric("medley_shadow_top1_agreement_sum") < 2.0);
    server.settle();
    let done = server.get("/metrics");
    assert!(
        done.contains("medley_shadow_checks_total{result=\"done\"} 2\n"),
        "{done}"
    );
    let prompt = first["usage"]["prompt_tokens"].as_f64().expect("a count");
    for (name, count) in [
        ("medley_shadow_checks_total", 2.0),
        ("vllm:request_success_total", 2.0),
        ("vllm:generation_tokens_total", 18.0),
        ("vllm:prompt_tokens_total", 2.0 * prompt),
        ("medley_prompt_tokens_total", 2.0 * prompt),
        ("medley_documents_total", 4.0),
        ("medley_document_misses_total", 2.0),
        ("medley_recompute_ratio_count", 2.0),
        ("medley_aborts_total", 0.0),
        ("medley_tier_evictions_total", 0.0),
    ] {
        assert_eq!(server.metric(name), count, "{name}");
    }
}

#[test]
fn the_metrics_of_the_alerts_are_there() {
    let rules = include_str!("../../deploy/prometheus/medley-alerts.yml");
    let server = Server::fake(&Engines::default());
    let expressions = rules.split("expr:").skip(1);
    let named = expressions.flat_map(|text| {
        let expression = text.split("for:").next().unwrap_or_default();
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words
            .filter(|word| word.starts_with("medley_"))
            .collect::<Vec<_>>()
    });
    let names: Vec<_> = named.collect();
    assert!(names.len() >= 4, "{names:?}");
    names.iter().for_each(|name| assert!(server.metric(name) >= 0.0));
}
