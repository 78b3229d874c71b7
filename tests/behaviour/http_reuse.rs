//! The main job over HTTP on the real model: the same documents in another order are reused and reported.

use serde_json::{Value, json};

use crate::harness::{SEPARATOR, Server};

/// Prose of about `words` words that follows from `seed`.
fn prose(seed: u64, words: usize) -> String {
    const WORDS: [&str; 24] = [
        "river", "old", "the", "a", "stone", "bridge", "carries", "market", "north", "of", "people",
        "winter", "called", "small", "harbour", "which", "built", "in", "light", "under", "and", "garden",
        "letter", "seven",
    ];
    let mut rng = fastrand::Rng::with_seed(seed);
    let text: Vec<_> = (0..words).map(|_| WORDS[rng.usize(0..WORDS.len())]).collect();
    format!("Chapter {seed}. {}.", text.join(" "))
}

fn request(documents: &[String]) -> Value {
    json!({
        "prompt": "Question: what is written about the bridge?\nAnswer:",
        "instructions": "Answer from the documents.",
        "documents": documents,
        "max_tokens": 4,
        "temperature": 0,
    })
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// Checks the sums of an answer and returns every document's source.
fn check(answer: &Value) -> Vec<String> {
    let (medley, usage) = (&answer["medley"], &answer["usage"]);
    assert_eq!(medley["plan"], "blended");
    let tokens = medley["tokens"].as_object().expect("counts");
    assert_eq!(
        tokens.values().map(count).sum::<u64>(),
        count(&usage["prompt_tokens"])
    );
    let cached = count(&tokens["exact_prefix"]) + count(&tokens["reused"]);
    assert_eq!(count(&usage["prompt_tokens_details"]["cached_tokens"]), cached);
    let documents = medley["documents"].as_array().expect("documents");
    for document in documents {
        let parts = ["reused", "computed", "repaired"].map(|k| count(&document[k]));
        assert_eq!(
            parts.iter().sum::<u64>(),
            count(&document["tokens"]),
            "{document}"
        );
    }
    documents
        .iter()
        .map(|d| d["source"].as_str().expect("a source").to_owned())
        .collect()
}

fn check_cold(answer: &Value, documents: usize) {
    assert_eq!(check(answer), vec!["computed"; documents]);
    assert_eq!(answer["medley"]["tokens"]["reused"], 0);
}

fn check_warm(answer: &Value, documents: usize) {
    assert_eq!(check(answer), vec!["host"; documents]);
    for document in answer["medley"]["documents"].as_array().expect("documents") {
        assert_eq!(
            count(&document["reused"]) + count(&document["repaired"]),
            count(&document["tokens"])
        );
    }
}

#[test]
fn documents_in_another_order_are_reused_however_they_are_sent() {
    let server = Server::small_model();
    let [a, b, c] = [1, 2, 3].map(|seed| prose(seed, 320));
    let cold = server.complete(&request(&[a.clone(), b.clone(), c.clone()]));
    check_cold(&cold, 3);
    assert!(
        cold["medley"]["documents"]
            .as_array()
            .expect("documents")
            .iter()
            .all(|d| count(&d["tokens"]) >= 300)
    );
    check_warm(&server.complete(&request(&[c.clone(), a.clone(), b.clone()])), 3);
    check_warm(&server.complete(&request(&[a.clone(), b.clone(), a.clone()])), 3);
    let mixed = server.complete(&request(&[prose(9, 300), b, c]));
    assert_eq!(check(&mixed), ["computed", "host", "host"]);
}

#[test]
fn short_documents_are_reused() {
    let server = Server::small_model();
    let [a, b, c] = [1, 2, 3].map(|seed| prose(seed, 14));
    let cold = server.complete(&request(&[a.clone(), b.clone(), c.clone()]));
    check_cold(&cold, 3);
    assert!(
        cold["medley"]["documents"]
            .as_array()
            .expect("documents")
            .iter()
            .all(|d| count(&d["tokens"]) <= 30)
    );
    check_warm(&server.complete(&request(&[c, a, b])), 3);
}

#[test]
fn a_separator_makes_documents_in_text_and_in_token_ids() {
    let server = Server::small_model();
    let chunks = [1, 2, 3].map(|seed| prose(seed, 300));
    let ends = [
        "Answer from the documents.".to_owned(),
        "Question: which bridge?\nAnswer:".to_owned(),
    ];
    let text = |order: [usize; 3]| {
        let middle = order.map(|i| chunks[i].as_str());
        [&[ends[0].as_str()], &middle[..], &[ends[1].as_str()]]
            .concat()
            .join(SEPARATOR)
    };
    let ids = |order: [usize; 3]| -> Vec<u32> {
        let encode = |text: &str| server.tokenizer.encode(text, medley_prompt::Specials::AsText);
        let separator = encode(SEPARATOR);
        let middle = order.map(|i| encode(&chunks[i]));
        let pieces = [&[encode(&ends[0])], &middle[..], &[encode(&ends[1])]].concat();
        pieces.join(&separator[..]).iter().map(|t| t.0).collect()
    };
    let ask = |prompt: Value| server.complete(&json!({"prompt": prompt, "max_tokens": 4, "temperature": 0}));
    check_cold(&ask(json!(text([0, 1, 2]))), 3);
    let warm_text = ask(json!(text([2, 0, 1])));
    check_warm(&warm_text, 3);
    let warm_ids = ask(json!(ids([2, 0, 1])));
    check_warm(&warm_ids, 3);
    assert_eq!(warm_ids["choices"][0]["text"], warm_text["choices"][0]["text"]);
    assert_eq!(
        count(&warm_ids["usage"]["prompt_tokens"]),
        ids([2, 0, 1]).len() as u64
    );
    check_warm(&ask(json!(ids([1, 2, 0]))), 3);
}
