//! What a request changes about logits, seen in its text.

use medley_generate::FinishReason;
use medley_kv::TokenId;

use crate::harness::{Ask, Engines, ask, text};

fn prompt() -> Ask {
    Ask::new(vec![text(1, 30)]).max_tokens(12)
}

#[test]
fn a_great_bias_decides_every_token_and_the_logits_shown_are_the_models() {
    let engine = Engines::default().start();
    let plain = ask(&engine, &prompt());
    let biased = prompt().with(|r| r.adjustments.bias = [(TokenId(77), 100.0)].into());
    let answer = ask(&engine, &biased);
    assert_eq!(answer.tokens, [TokenId(77); 12]);
    assert_eq!(answer.logits[0], plain.logits[0]);
}

#[test]
fn penalties_keep_a_token_from_coming_again() {
    let engine = Engines::default().start();
    let only = |r: &mut medley_generate::Request| {
        r.adjustments.bias = [(TokenId(7), 50.0), (TokenId(8), 49.0)].into();
    };
    let free = ask(&engine, &prompt().with(only));
    assert_eq!(free.tokens, [TokenId(7); 12]);
    for penalise in [
        |r: &mut medley_generate::Request| r.adjustments.presence_penalty = 2.0,
        |r: &mut medley_generate::Request| r.adjustments.frequency_penalty = 2.0,
        |r: &mut medley_generate::Request| r.adjustments.repetition_penalty = 1.5,
    ] {
        let answer = ask(&engine, &prompt().with(only).with(penalise));
        assert_eq!(answer.tokens[..2], [TokenId(7), TokenId(8)]);
    }
}

#[test]
fn stop_tokens_and_stop_strings_wait_for_the_least_length() {
    let engine = Engines::default().start();
    let free = ask(&engine, &prompt().max_tokens(40));
    let least = |tokens: usize| move |r: &mut medley_generate::Request| r.adjustments.min_tokens = tokens;
    // Every token ends the text as soon as one may.
    let all = (0..256).map(TokenId).filter(|t| t.0 != 9).collect();
    let stopped = ask(&engine, &prompt().with(|r| r.stop_tokens = all).with(least(5)));
    assert_eq!(stopped.reason, FinishReason::Stop);
    assert_eq!(stopped.tokens[..5], [TokenId(9); 5]);
    assert_eq!(stopped.tokens.len(), 6);
    let stop = free.text[3..4].to_owned();
    let cut = |least_tokens: usize| {
        let stop = vec![stop.clone()];
        ask(
            &engine,
            &prompt()
                .max_tokens(40)
                .with(|r| r.stop = stop)
                .with(least(least_tokens)),
        )
    };
    let first = free.text.find(&stop).expect("it is there");
    assert_eq!(cut(0).text, free.text[..first]);
    let later = free.text[10..].find(&stop).map_or(40, |at| 10 + at);
    assert_eq!(cut(10).text, free.text[..later]);
}

#[test]
fn a_request_whose_logits_change_answers_the_same_by_its_seed() {
    let sampled = |seed: u64| {
        prompt().with(|r| {
            r.sampling.temperature = 2.0;
            r.sampling.seed = Some(seed);
            r.adjustments.min_p = 0.001;
            r.adjustments.repetition_penalty = 1.2;
            r.capture.logits = false;
        })
    };
    let engine = Engines::default().start();
    let run = |seed| ask(&engine, &sampled(seed)).tokens;
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
