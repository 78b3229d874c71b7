//! Against a reference that computes one token's logit at a time from the whole history.

use std::sync::Arc;

use fastrand::Rng;
use medley_generate::{Adjustments, Capture, Priority, Request, Sampling};
use medley_kv::{BlendOptions, Prompt, Segment, TokenId};

use super::Adjuster;

const VOCAB: u32 = 24;

fn request(prompt: &[u32], temperature: f32, stop: &[u32], adjustments: Adjustments) -> Request {
    let tokens: Arc<[TokenId]> = prompt.iter().copied().map(TokenId).collect();
    Request {
        prompt: Prompt::new(vec![Segment::Text(tokens)]).expect("a prompt"),
        blend: BlendOptions::default(),
        cache_salt: None,
        sampling: Sampling {
            temperature,
            ..Sampling::default()
        },
        adjustments,
        max_tokens: 100,
        stop: Vec::new(),
        stop_tokens: stop.iter().copied().map(TokenId).collect(),
        logprobs: None,
        prompt_logprobs: None,
        capture: Capture::default(),
        priority: Priority::Normal,
        precedence: 0,
        witness: None,
    }
}

/// Every logit by its definition. Min-p compares probabilities.
fn reference(request: &Request, said: &[u32], logits: &[f32]) -> Vec<f32> {
    let (by, prompt) = (&request.adjustments, request.prompt.tokens());
    let adjusted = |(token, &logit): (u32, &f32)| {
        let id = TokenId(token);
        let mut logit = logit;
        if said.len() < by.min_tokens && request.stop_tokens.contains(&id) {
            logit = f32::NEG_INFINITY;
        }
        if let Some((_, bias)) = by.bias.iter().find(|(biased, _)| *biased == id) {
            logit += bias;
        }
        if prompt.contains(&id) || said.contains(&token) {
            logit = if logit > 0.0 {
                logit / by.repetition_penalty
            } else {
                logit * by.repetition_penalty
            };
        }
        let times = said.iter().filter(|&&other| other == token).count();
        logit -= by.frequency_penalty * times as f32;
        if times > 0 {
            logit -= by.presence_penalty;
        }
        logit
    };
    let all: Vec<f32> = (0..).zip(logits).map(adjusted).collect();
    let weight = |logit: f32| (f64::from(logit) / f64::from(request.sampling.temperature)).exp();
    let total: f64 = all.iter().map(|&logit| weight(logit)).sum();
    let best = all.iter().map(|&logit| weight(logit) / total).fold(0.0, f64::max);
    let cut = |logit: f32| match weight(logit) / total < f64::from(by.min_p) * best {
        true => f32::NEG_INFINITY,
        false => logit,
    };
    all.into_iter().map(cut).collect()
}

fn random(rng: &mut Rng) -> Request {
    let mut float = |from: f32, to: f32| from + (to - from) * rng.f32();
    let (repetition_penalty, temperature) = (float(0.5, 2.0), float(0.2, 2.0));
    let (frequency_penalty, presence_penalty) = (float(-2.0, 2.0), float(-2.0, 2.0));
    let (min_p, bias) = (float(0.0, 0.4), float(-5.0, 5.0));
    let mut ids: Vec<u32> = (0..VOCAB).collect();
    rng.shuffle(&mut ids);
    let bias = ids[..rng.usize(0..4)].iter().map(|&id| (TokenId(id), bias));
    let adjustments = Adjustments {
        bias: bias.collect(),
        repetition_penalty,
        frequency_penalty,
        presence_penalty,
        min_p,
        min_tokens: rng.usize(0..6),
    };
    let (prompt, stop) = (rng.usize(1..9), rng.usize(0..3));
    request(&ids[10..10 + prompt], temperature, &ids[4..4 + stop], adjustments)
}

#[test]
fn logits_are_adjusted_as_the_reference_does_it() {
    for seed in 0..500 {
        let mut rng = Rng::with_seed(seed);
        let request = random(&mut rng);
        let mut adjuster = Adjuster::new(&request);
        let mut said = Vec::new();
        for step in 0..8 {
            let logits: Vec<f32> = (0..VOCAB).map(|_| rng.f32() * 8.0 - 4.0).collect();
            let mut adjusted = logits.clone();
            adjuster.apply(&mut adjusted);
            let expected = reference(&request, &said, &logits);
            for (token, (found, expected)) in adjusted.iter().zip(&expected).enumerate() {
                let same = found == expected || (found - expected).abs() < 1e-4;
                assert!(
                    same,
                    "seed {seed}, step {step}, token {token}: {found}, not {expected}"
                );
            }
            let next = rng.u32(0..VOCAB);
            adjuster.said(TokenId(next));
            said.push(next);
        }
    }
}

#[test]
fn what_changes_nothing_is_not_active() {
    let plain = request(&[1, 2], 1.0, &[3], Adjustments::default());
    assert!(!Adjuster::new(&plain).is_active());
    let changes: [fn(&mut Adjustments); 6] = [
        |a| a.bias = [(TokenId(1), 0.5)].into(),
        |a| a.repetition_penalty = 1.1,
        |a| a.frequency_penalty = 0.1,
        |a| a.presence_penalty = -0.1,
        |a| a.min_p = 0.1,
        |a| a.min_tokens = 1,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut adjustments = Adjustments::default();
        change(&mut adjustments);
        let adjuster = Adjuster::new(&request(&[1, 2], 1.0, &[3], adjustments));
        assert!(adjuster.is_active(), "change {index}");
    }
}

#[test]
fn once_the_text_may_end_nothing_is_masked() {
    let adjustments = Adjustments {
        min_tokens: 2,
        ..Adjustments::default()
    };
    let mut adjuster = Adjuster::new(&request(&[1], 1.0, &[3], adjustments));
    for masked in [true, true, false] {
        let mut logits = vec![0.0; VOCAB as usize];
        adjuster.apply(&mut logits);
        assert_eq!(logits[3] == f32::NEG_INFINITY, masked);
        assert_eq!(adjuster.is_active(), masked);
        adjuster.said(TokenId(5));
    }
}

#[test]
fn a_greedy_text_keeps_its_best_token_under_min_p() {
    let adjustments = Adjustments {
        min_p: 1.0,
        ..Adjustments::default()
    };
    let mut logits = vec![1.0, 3.0, 2.0];
    Adjuster::new(&request(&[1], 0.0, &[], adjustments)).apply(&mut logits);
    assert_eq!(logits, [f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
}

#[test]
fn tokens_that_have_no_logit_are_passed_over() {
    let adjustments = Adjustments {
        bias: [(TokenId(99), 1.0)].into(),
        repetition_penalty: 2.0,
        ..Adjustments::default()
    };
    let mut adjuster = Adjuster::new(&request(&[77], 1.0, &[88], adjustments));
    adjuster.said(TokenId(66));
    let mut logits = vec![1.0, -1.0];
    adjuster.apply(&mut logits);
    assert_eq!(logits, [1.0, -1.0]);
}
