//! Log-probabilities of the prompt are those of a plain prefill, whatever is cached.

use medley_kv::{BlendMode, Plan, Segment, TokenId};

use crate::harness::{Answer, Ask, Engines, ask, ask_all, document, settle, small_model, text};

/// Logits behind every token of the prompt but the last: its first token, fed all the others.
fn fed(engine: &dyn medley_generate::Generate, tokens: &[TokenId]) -> Vec<Vec<f32>> {
    let first = Ask::new(vec![Segment::Text(tokens[..1].into())]).mode(BlendMode::Off);
    let rest = tokens[1..].into();
    let forced = first
        .max_tokens(tokens.len())
        .with(|r| r.capture.forced = Some(rest));
    ask(engine, &forced).logits
}

fn logprob(logits: &[f32], token: TokenId) -> f64 {
    let total: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
    f64::from(logits[token.0 as usize]) - total.ln()
}

fn check(answer: &Answer, tokens: &[TokenId], logits: &[Vec<f32>], alternatives: usize, tolerance: f64) {
    let found: Vec<_> = answer.prompt.iter().map(|p| p.token).collect();
    assert_eq!(found, tokens);
    assert_eq!((answer.prompt[0].logprob, answer.prompt[0].top.len()), (None, 0));
    for (place, (scored, logits)) in answer.prompt[1..].iter().zip(logits).enumerate() {
        let expected = logprob(logits, scored.token);
        let found = f64::from(scored.logprob.expect("a log-probability"));
        assert!(
            (found - expected).abs() < tolerance,
            "{place}: {found}, not {expected}"
        );
        assert_eq!(scored.top.len(), alternatives);
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if let Some(top) = scored.top.first() {
            assert!((f64::from(top.logprob) - logprob(logits, top.token)).abs() < tolerance);
            assert!(logits[top.token.0 as usize] >= greatest - 1e-3, "{place}");
        }
    }
}

#[test]
fn they_are_those_of_feeding_the_prompt_token_by_token_in_steps_of_any_size() {
    for step_rows in [1, 7, 64, 500] {
        for len in [1, 2, 64, 65, 300] {
            let engine = Engines::default()
                .with(|e| e.config.step_rows = step_rows)
                .start();
            let asked = Ask::new(vec![text(3, len)]).with(|r| r.prompt_logprobs = Some(2));
            let tokens = asked.0.prompt.tokens();
            let logits = if len > 1 {
                fed(&engine, &tokens)
            } else {
                Vec::new()
            };
            for _ in 0..2 {
                let answer = ask(&engine, &asked);
                check(&answer, &tokens, &logits, 2, 1e-5);
                assert_eq!(answer.report.tokens.exact_prefix, 0, "nothing is read");
                assert_eq!(answer.tokens.len(), 8, "the text goes on behind it");
            }
        }
    }
}

#[test]
fn they_force_a_plain_prefill_and_the_report_says_so() {
    let engine = Engines::default().start();
    let prompt = || vec![text(1, 70), document(2, 100), document(3, 90), text(4, 9)];
    ask(&engine, &Ask::new(prompt()));
    let plain = ask(&engine, &Ask::new(prompt()).mode(BlendMode::Exact));
    for (mode, plan, reason) in [
        (BlendMode::Auto, Plan::Exact, true),
        (BlendMode::Exact, Plan::Exact, false),
        (BlendMode::Off, Plan::Off, false),
    ] {
        let asked = Ask::new(prompt())
            .mode(mode)
            .with(|r| r.prompt_logprobs = Some(0));
        let answer = ask(&engine, &asked);
        assert_eq!(
            (answer.report.plan, answer.report.reason.is_some()),
            (plan, reason)
        );
        assert_eq!(
            (answer.report.tokens.fresh, answer.report.tokens.reused),
            (269, 0)
        );
        assert_eq!(answer.prompt.len(), 269);
        assert_eq!(answer.logits, plain.logits);
    }
    settle(&engine);
}

/// A step brings few rows' logits at a time: each is as long as the vocabulary.
#[test]
fn a_step_never_brings_more_than_some_rows_of_logits() {
    let engines = Engines::default().with(|e| {
        e.config.step_rows = 2000;
        e.pages = 2000;
    });
    let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = most.clone();
    let note = move |backend: &mut medley_backend::fake::FakeBackend, batch: &medley_backend::Batch| {
        seen.fetch_max(batch.logits.len(), std::sync::atomic::Ordering::Relaxed);
        medley_backend::Backend::run(backend, batch)
    };
    let engine = engines.start_on(crate::harness::Through(engines.backend(), note));
    let asks: Vec<_> = (0..6)
        .map(|i| {
            Ask::new(vec![text(i, 700)])
                .max_tokens(1)
                .with(|r| r.prompt_logprobs = Some(0))
        })
        .collect();
    let answers = ask_all(&engine, &asks);
    assert!(answers.iter().all(|a| a.prompt.len() == 700));
    let most = most.load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        (100..=128 + 6).contains(&most),
        "{most} rows of logits in one step"
    );
}

#[test]
fn on_the_small_model_too_they_are_those_of_feeding_the_prompt() {
    let engine = small_model(80, 60, 512);
    let asked = Ask::new(vec![text(3, 150)])
        .max_tokens(1)
        .with(|r| r.prompt_logprobs = Some(1));
    let tokens = asked.0.prompt.tokens();
    let logits = fed(&engine, &tokens);
    check(&ask(&engine, &asked), &tokens, &logits, 1, 1e-3);
}
