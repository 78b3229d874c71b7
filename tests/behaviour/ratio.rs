//! Ratio 1 is a full prefill, ratio 0 repairs nothing, and a budget is kept.

use medley_kv::{BlendMode, Segment, Strategy};

use crate::harness::{Ask, Engines, RULES, ask, document, text};

fn random_prompt(rng: &mut fastrand::Rng) -> Vec<Segment> {
    let mut prompt = vec![text(rng.u64(..), rng.usize(1..90))];
    for _ in 0..rng.usize(1..6) {
        prompt.push(document(rng.u64(0..12), rng.usize(0..150)));
        if rng.bool() {
            prompt.push(text(rng.u64(..), rng.usize(1..20)));
        }
    }
    prompt.push(text(rng.u64(..), rng.usize(1..40)));
    prompt
}

#[test]
fn ratio_one_equals_exact_for_every_rule() {
    let engine = Engines::default().start();
    for seed in 0..30 {
        let ask_for = Ask::new(random_prompt(&mut fastrand::Rng::with_seed(seed)));
        let exact = ask(&engine, &ask_for.clone().mode(BlendMode::Exact));
        for (strategy, hops, rounds) in RULES {
            let blended = ask(
                &engine,
                &ask_for
                    .clone()
                    .strategy(strategy)
                    .refined(hops, rounds)
                    .ratio(1.0),
            );
            assert_eq!(
                blended.logits, exact.logits,
                "seed {seed}, {strategy} {hops} {rounds}"
            );
            assert_eq!(blended.text, exact.text);
        }
    }
}

#[test]
fn ratio_zero_repairs_nothing() {
    let engine = Engines::default().start();
    let prompt = vec![text(1, 20), document(2, 200), document(3, 100), text(4, 10)];
    let exact = ask(&engine, &Ask::new(prompt.clone()).mode(BlendMode::Exact));
    for (strategy, hops, rounds) in RULES {
        let answer = ask(
            &engine,
            &Ask::new(prompt.clone())
                .strategy(strategy)
                .refined(hops, rounds)
                .ratio(0.0),
        );
        assert_eq!(answer.report.tokens.repaired, 0);
        assert_ne!(
            answer.first_logits(),
            exact.first_logits(),
            "unrepaired KV can't equal a full prefill here"
        );
    }
}

#[test]
fn the_budget_is_spent_to_the_token_by_every_rule() {
    let prompt = vec![text(1, 20), document(2, 200), document(3, 100), text(4, 10)];
    for (strategy, hops, rounds) in RULES {
        for (ratio, repaired) in [(0.1, 30), (0.15, 45), (0.5, 150)] {
            let answer = ask(
                &Engines::default().start(),
                &Ask::new(prompt.clone())
                    .strategy(strategy)
                    .refined(hops, rounds)
                    .ratio(ratio),
            );
            assert_eq!(
                answer.report.tokens.repaired, repaired,
                "{strategy} {hops} {rounds} at {ratio}"
            );
        }
    }
}

/// 20 tokens before the documents, 300 of documents, 10 behind them; 30 are repaired.
#[test]
fn rows_are_those_of_every_pass_behind_the_prefix() {
    let engine = Engines::default().start();
    let prompt = vec![text(1, 20), document(2, 200), document(3, 100), text(4, 10)];
    let rows = |strategy, hops, rounds, ratio| {
        let ask_for = Ask::new(prompt.clone())
            .strategy(strategy)
            .refined(hops, rounds)
            .ratio(ratio);
        ask(&engine, &ask_for).report.rows
    };
    assert_eq!(rows(Strategy::Heads, 0, 1, 0.1), 40, "the final pass");
    // Four heads of both documents and the text run in the probe; then everything that is repaired.
    assert_eq!(rows(Strategy::Query, 0, 1, 0.1), (8 + 10) + 40);
    // The second round probes with half of what is left repaired.
    assert_eq!(rows(Strategy::Query, 0, 2, 0.1), (8 + 10) + (8 + 11 + 10) + 40);
    // All 300 stop at the keys of layer 1 of 2: half a row each.
    assert_eq!(rows(Strategy::Deviation, 0, 1, 0.1), 150 + 40);
    // A hop observes the rows that were chosen first: what lies behind the last of them does not run.
    assert!((40 + 18 + 18..40 + 18 + 30).contains(&rows(Strategy::Query, 1, 1, 0.1)));
    let exact = ask(&engine, &Ask::new(prompt.clone()).mode(BlendMode::Exact));
    assert_eq!(exact.report.rows, 0, "nothing is blended");
}

#[test]
fn rules_choose_different_tokens() {
    let engine = Engines::default().start();
    let prompt = vec![text(1, 20), document(2, 200), document(3, 100), text(4, 10)];
    let tokens = |r: &mut medley_generate::Request| r.blend.report = medley_kv::ReportDetail::Tokens;
    let ranges = [Strategy::Heads, Strategy::Deviation, Strategy::Query].map(|strategy| {
        let answer = ask(&engine, &Ask::new(prompt.clone()).strategy(strategy).with(tokens));
        answer
            .report
            .documents
            .iter()
            .flat_map(|d| d.repaired_ranges.clone())
            .collect::<Vec<_>>()
    });
    assert!(ranges[0] != ranges[1] && ranges[1] != ranges[2] && ranges[0] != ranges[2]);
    assert_eq!(
        ranges[0].len(),
        2,
        "heads are one run a document: {:?}",
        ranges[0]
    );
}

#[test]
fn a_document_directly_behind_its_anchor_costs_no_budget() {
    let engine = Engines::default().start();
    let anchor = Segment::Text([medley_kv::TokenId(1)].into());
    let alone = vec![anchor.clone(), document(2, 200), text(4, 10)];
    let exact = ask(&engine, &Ask::new(alone.clone()).mode(BlendMode::Exact));
    let blended = ask(&engine, &Ask::new(alone));
    assert_eq!(blended.report.tokens.repaired, 0);
    assert_eq!(blended.logits, exact.logits);
    let two = vec![anchor, document(2, 200), document(3, 100), text(4, 10)];
    let blended = ask(&engine, &Ask::new(two).ratio(0.1));
    assert_eq!(
        blended
            .report
            .documents
            .iter()
            .map(|d| d.repaired)
            .collect::<Vec<_>>(),
        [0, 10]
    );
}
