//! The best of several completions.

use medley_generate::{Event, TokenEvent};
use medley_kv::TokenId;
use serde_json::json;

use crate::{
    fake::{Fake, Play, finished, planned},
    setup::{post, server},
};

/// Request k says the letter k, with a log-probability that falls and rises again: the third is the worst.
fn letters() -> std::sync::Arc<Fake> {
    Fake::new(|k, request| {
        let logprob = [-1.0, -3.0, -9.0, -2.0][k % 4];
        let token = Event::Token(TokenEvent {
            token: TokenId(97 + k as u32),
            text: char::from(b'a' + k as u8).to_string(),
            logprob: request.logprobs.map(|_| logprob),
            top: Vec::new(),
            logits: None,
        });
        let end = finished(request, medley_generate::FinishReason::Stop, "");
        Play::Events(vec![planned(request), token, end])
    })
}

#[tokio::test]
async fn the_n_best_of_every_prompt_are_returned_and_all_are_counted() {
    let fake = letters();
    let body = json!({"prompt": ["x", "y"], "n": 2, "best_of": 4, "seed": 10});
    let reply = post(&server(&fake), body).await;
    let json = reply.json();
    let texts: Vec<_> = json["choices"].as_array().expect("choices").iter().collect();
    let seen: Vec<_> = texts
        .iter()
        .map(|choice| (choice["index"].as_u64(), choice["text"].as_str()))
        .collect();
    let expected = [(0, "a"), (1, "d"), (2, "e"), (3, "h")];
    assert_eq!(seen, expected.map(|(index, text)| (Some(index), Some(text))));
    assert!(texts.iter().all(|choice| choice["logprobs"].is_null()));
    assert_eq!(json["usage"]["completion_tokens"], 8);
    assert_eq!(json["usage"]["prompt_tokens"], 4);
    let seeds: Vec<_> = fake.requests().iter().map(|r| r.sampling.seed).collect();
    assert_eq!(seeds, (10..18).map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn log_probabilities_are_asked_for_where_they_choose_and_shown_where_they_are_asked_for() {
    let fake = letters();
    post(&server(&fake), json!({"prompt": "x", "best_of": 2})).await;
    assert_eq!(fake.requests()[0].logprobs, Some(0));
    let fake = letters();
    post(&server(&fake), json!({"prompt": "x", "n": 2, "best_of": 2})).await;
    assert_eq!(fake.requests()[0].logprobs, None);
    let reply = post(
        &server(&letters()),
        json!({"prompt": "x", "best_of": 2, "logprobs": 3}),
    )
    .await;
    assert_eq!(reply.json()["choices"][0]["logprobs"]["tokens"], json!(["a"]));
}
