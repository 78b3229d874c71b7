//! The promises on the small real model.

use medley_kv::{BlendMode, Segment, Strategy};

use crate::harness::{Ask, ask, distance, document, live, small_model, text};

fn prompt(order: &[u64]) -> Vec<Segment> {
    let documents = order.iter().map(|&seed| document(seed, 40 + 9 * seed as usize));
    [text(100, 21)]
        .into_iter()
        .chain(documents)
        .chain([text(101, 12)])
        .collect()
}

#[test]
fn ratio_one_equals_exact_within_rounding_for_every_rule() {
    let engine = small_model(80, 60, 512);
    for order in [[1, 2, 3], [5, 1, 1]] {
        let ask_for = Ask::new(prompt(&order)).max_tokens(4);
        let exact = ask(&engine, &ask_for.clone().mode(BlendMode::Exact));
        for strategy in [
            Strategy::Auto,
            Strategy::Heads,
            Strategy::Deviation,
            Strategy::Query,
        ] {
            let blended = ask(&engine, &ask_for.clone().strategy(strategy).ratio(1.0));
            let distance = distance(blended.first_logits(), exact.first_logits());
            assert!(distance < 1e-4, "{strategy}: logits differ by {distance}");
            assert_eq!(blended.tokens, exact.tokens);
        }
        let unrepaired = ask(&engine, &ask_for.clone().ratio(0.0));
        assert!(
            distance(unrepaired.first_logits(), exact.first_logits()) > 1e-2,
            "repair makes a difference"
        );
    }
}

#[test]
fn prefill_has_the_same_bits_after_any_history() {
    let targets = [
        Ask::new(prompt(&[1, 2, 3])).max_tokens(2),
        Ask::new(prompt(&[2, 3]))
            .strategy(Strategy::Deviation)
            .max_tokens(1),
        Ask::new(prompt(&[3, 2, 1]))
            .strategy(Strategy::Query)
            .refined(1, 2)
            .ratio(0.3)
            .max_tokens(1),
        Ask::new(prompt(&[1, 3])).mode(BlendMode::Exact).max_tokens(1),
    ];
    let fresh = small_model(60, 30, 512);
    let expected: Vec<_> = targets
        .iter()
        .map(|t| ask(&fresh, t).first_logits().to_vec())
        .collect();
    let mut seed = 0;
    // Restarts, pools that evict, and steps that split rows elsewhere.
    for (pages, resident, step_rows) in [(60, 30, 512), (40, 6, 37), (60, 0, 130)] {
        let engine = small_model(pages, resident, step_rows);
        for round in 0..17 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let at = seed as usize % targets.len();
            let logits = live(&engine, &mut rng, &targets[at], prompt);
            assert!(
                logits == expected[at],
                "seed {seed}, round {round} with {step_rows} rows a step"
            );
            seed += 1;
        }
    }
}

#[test]
fn decoded_alone_the_text_is_the_same_after_any_history() {
    let target = Ask::new(prompt(&[1, 2])).max_tokens(16);
    let expected = ask(&small_model(60, 30, 512), &target).tokens;
    let engine = small_model(60, 30, 128);
    for seed in 0..4 {
        live(
            &engine,
            &mut fastrand::Rng::with_seed(seed),
            &Ask::new(prompt(&[seed, 1])).max_tokens(2),
            prompt,
        );
        assert_eq!(ask(&engine, &target).tokens, expected, "seed {seed}");
    }
}
