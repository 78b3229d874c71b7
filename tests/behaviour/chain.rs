//! Blended KV up to the question is found again by equal prompts and by those that go on behind it, and changes no bit.

use medley_engine::Engine;
use medley_kv::{BlendMode, Plan, Prompt, Segment, Strategy};

use crate::harness::{Answer, Ask, Engines, RULES, ask, document, settle, small_model, text};

/// Documents between a lead and a question of so many tokens.
fn asked(question: usize) -> Vec<Segment> {
    vec![text(1, 70), document(2, 100), document(3, 90), text(4, question)]
}

/// The same conversation after an answer and a further message.
fn followed(question: usize, behind: usize) -> Ask {
    let position = 70 + 100 + 90 + question - 1;
    let mut segments = asked(question);
    segments.push(text(5, behind));
    Ask::of(Prompt::with_question(segments, position).expect("a prompt"))
}

fn fresh(engine: &Engine, ask_: &Ask) -> Answer {
    let answer = ask(engine, ask_);
    settle(engine);
    answer
}

/// Rows of the prompt that the final pass ran, and what it found.
fn tokens(answer: &Answer) -> (usize, usize, usize, usize) {
    let tokens = answer.report.tokens;
    assert_eq!(tokens.total(), answer.report.tokens.total());
    (tokens.reused, tokens.repaired, tokens.fresh, answer.report.rows)
}

#[test]
fn an_equal_prompt_runs_its_last_row_and_nothing_else() {
    for question in [1, 2, 13, 60, 64, 65, 130] {
        for (strategy, hops, rounds) in RULES {
            let asked = Ask::new(asked(question)).strategy(strategy).refined(hops, rounds);
            let engine = Engines::default().start();
            let first = fresh(&engine, &asked);
            let again = fresh(&engine, &asked);
            assert_eq!(again.logits, first.logits, "{question} {strategy}");
            assert_eq!(again.report.plan, Plan::Blended);
            let (reused, repaired, fresh, rows) = tokens(&again);
            assert_eq!((repaired, rows), (0, 1), "{question} {strategy}");
            // The last page of the lead may have to run again.
            assert!(
                fresh <= 1 + 70 % 64 && reused >= 190 + question - 1,
                "{question} {strategy}: {again:?}"
            );
        }
    }
}

#[test]
fn a_prompt_that_goes_on_runs_what_lies_behind_the_question() {
    for (question, behind) in [(13, 1), (13, 40), (51, 64), (1, 130), (64, 3)] {
        for strategy in [Strategy::Query, Strategy::Heads, Strategy::Deviation] {
            let first = Ask::new(asked(question)).strategy(strategy);
            let next = followed(question, behind).strategy(strategy);
            let cold = fresh(&Engines::default().start(), &next);
            let engine = Engines::default().start();
            fresh(&engine, &first);
            let warm = fresh(&engine, &next);
            assert_eq!(warm.logits, cold.logits, "{question} {behind} {strategy}");
            assert_eq!(tokens(&warm).3, behind, "{question} {behind} {strategy}");
            // And the other way round: what the longer one left is what the shorter one finds.
            let engine = Engines::default().start();
            fresh(&engine, &next);
            let back = fresh(&engine, &first);
            assert_eq!(back.logits, fresh(&Engines::default().start(), &first).logits);
            assert_eq!(tokens(&back).3, 1);
        }
    }
}

#[test]
fn only_what_was_blended_in_the_same_way_is_found() {
    let first = Ask::new(asked(20));
    let engine = Engines::default().start();
    fresh(&engine, &first);
    let others = [
        first.clone().ratio(0.2),
        first.clone().strategy(Strategy::Heads),
        first.clone().refined(0, 2),
        first.clone().salt("another"),
        Ask::new(asked(21)),
        Ask::new(vec![text(1, 70), document(3, 90), document(2, 100), text(4, 20)]),
    ];
    for other in others {
        let found = fresh(&engine, &other);
        assert!(tokens(&found).3 > 1, "{:?}", found.report);
        assert_eq!(found.logits, fresh(&Engines::default().start(), &other).logits);
    }
}

#[test]
fn exact_answers_never_see_it() {
    let first = Ask::new(asked(20)).ratio(0.0);
    let engine = Engines::default().start();
    fresh(&engine, &first);
    for mode in [BlendMode::Exact, BlendMode::Off] {
        let exact = first.clone().mode(mode);
        let found = fresh(&engine, &exact);
        assert_eq!(found.logits, fresh(&Engines::default().start(), &exact).logits);
        assert_ne!(found.logits, fresh(&engine, &first).logits);
    }
}

#[test]
fn what_has_to_leave_is_run_again_with_the_same_bits() {
    let engines = Engines::default().with(|e| {
        e.pages = 30;
        e.config.resident_pages = 8;
    });
    let engine = engines.start();
    for round in 0..4 {
        for seed in 0..5 {
            let asked = Ask::new(vec![text(1, 10), document(20 + seed, 100), text(30 + seed, 40)]);
            let expected = fresh(&Engines::default().start(), &asked);
            assert_eq!(
                fresh(&engine, &asked).logits,
                expected.logits,
                "round {round}, {seed}"
            );
        }
    }
}

#[test]
fn where_the_pool_is_full_what_was_found_gives_way() {
    // As many tokens as the pool holds: not a page is left over.
    for (pages, documents) in [
        (6, vec![document(2, 0)]),
        (8, vec![document(2, 100)]),
        (9, vec![document(2, 64), document(3, 0)]),
    ] {
        let engines = Engines::default().with(|e| {
            e.pages = pages;
            e.config.resident_pages = pages;
        });
        for question in [5, 62, 63, 64, 65, 70] {
            let segments: Vec<_> = [text(1, 10)]
                .into_iter()
                .chain(documents.clone())
                .chain([text(4, question)])
                .collect();
            let asked = Ask::new(segments).max_tokens(4000);
            let engine = engines.start();
            let first = fresh(&engine, &asked);
            assert_eq!(
                fresh(&engine, &asked).tokens,
                first.tokens,
                "{pages} pages, {question}"
            );
            // Documents have to leave, what was blended may not.
            fresh(
                &engine,
                &Ask::new(vec![text(7, 64 * (pages - 3))]).mode(BlendMode::Exact),
            );
            assert_eq!(
                fresh(&engine, &asked).tokens,
                first.tokens,
                "{pages} pages, {question}"
            );
        }
    }
}

#[test]
fn on_the_small_model_too_nothing_changes_a_bit() {
    let engine = small_model(60, 40, 128);
    let first = Ask::new(asked(30)).max_tokens(4);
    let next = followed(30, 20).max_tokens(4);
    let (cold_first, cold_next) = (fresh(&engine, &first), fresh(&small_model(60, 40, 512), &next));
    let (again, warm) = (fresh(&engine, &first), fresh(&engine, &next));
    assert_eq!(again.logits, cold_first.logits);
    assert_eq!(warm.logits, cold_next.logits);
    assert_eq!((tokens(&again).3, tokens(&warm).3), (1, 20));
}
