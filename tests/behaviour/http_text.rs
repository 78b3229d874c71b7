//! A streamed text is the text of a whole answer, wherever stop strings fall.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::harness::{Engines, Server};

/// Pieces of `text`, each of a few characters.
fn pieces(text: &str, cuts: &[(Index, usize)]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let piece = |(at, length): &(Index, usize)| {
        let from = at.index(chars.len());
        chars[from..chars.len().min(from + length)].iter().collect()
    };
    cuts.iter().map(piece).collect()
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["text"].as_str().expect("a text")
}

#[test]
fn streamed_and_whole_texts_are_equal_and_hold_no_stop_string() {
    let server = Server::fake(&Engines::default());
    let case = (
        any::<u32>(),
        proptest::collection::vec((any::<Index>(), 1..5_usize), 0..=4),
        0..30_usize,
        1..40_usize,
    );
    let check = |(seed, cuts, least, echoed): (u32, Vec<(Index, usize)>, usize, usize)| {
        let free = json!({
            "prompt": "x".repeat(echoed), "max_tokens": 40, "temperature": 2, "seed": seed, "documents": ["one"],
        });
        let stops = pieces(text(&server.complete(&free)), &cuts);
        let with = |fields: Value| {
            let mut body = free.clone();
            let fields = fields.as_object().expect("fields").clone();
            body.as_object_mut().expect("a body").extend(fields);
            body
        };
        let whole = server.complete(&with(json!({"stop": stops})));
        prop_assert!(stops.iter().all(|stop| !text(&whole).contains(stop.as_str())));
        prop_assert_eq!(
            server.stream(&with(json!({"stop": stops, "stream": true})), None),
            text(&whole)
        );
        let longer = with(json!({"stop": stops, "min_tokens": least}));
        let found = server.complete(&longer);
        // A token of this model is a byte, and each is a character, be it U+FFFD.
        let later: String = text(&found).chars().skip(least).collect();
        prop_assert!(stops.iter().all(|stop| !later.contains(stop.as_str())));
        let streamed = with(json!({"stop": stops, "min_tokens": least, "stream": true}));
        prop_assert_eq!(server.stream(&streamed, None), text(&found));
        Ok(())
    };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(120));
    runner.run(&case, check).expect("every case holds");
}
