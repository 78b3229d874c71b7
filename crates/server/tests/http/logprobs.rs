//! Log-probabilities in the legacy shape.

use std::sync::Arc;

use medley_generate::{Event, FinishReason, TokenEvent, TopLogprob};
use medley_kv::TokenId;
use serde_json::json;

use crate::{
    fake::{Fake, Play, finished, planned},
    setup::{post, server},
};

/// "a", "é" in two tokens, "b": the first half of "é" makes no text certain.
fn fake() -> Arc<Fake> {
    Fake::new(|_, request| {
        let token = |token: u32, text: &str, logprob: f32| {
            let top = [(98, -0.25), (token, logprob)].map(|(id, logprob)| TopLogprob {
                token: TokenId(id),
                logprob,
            });
            Event::Token(TokenEvent {
                token: TokenId(token),
                text: text.to_owned(),
                logprob: Some(logprob),
                top: top[..usize::from(request.logprobs.unwrap_or(0)).min(2)].to_vec(),
                logits: None,
            })
        };
        let end = finished(request, FinishReason::Stop, "");
        let texts = [
            token(97, "a", -0.5),
            token(0xC3, "", -1.0),
            token(0xA9, "é", f32::NEG_INFINITY),
            token(98, "b", -2.0),
        ];
        Play::Events([planned(request)].into_iter().chain(texts).chain([end]).collect())
    })
}

#[tokio::test]
async fn the_four_lists_run_in_parallel() {
    let reply = post(&server(&fake()), json!({"prompt": "Hi", "logprobs": 1})).await;
    let expected = json!({
        "tokens": ["a", "bytes:\\xc3", "bytes:\\xa9", "b"],
        "token_logprobs": [-0.5, -1.0, -9999.0, -2.0],
        "top_logprobs": [
            {"b": -0.25, "a": -0.5}, {"b": -0.25, "bytes:\\xc3": -1.0}, {"b": -0.25, "bytes:\\xa9": -9999.0}, {"b": -0.25},
        ],
        "text_offset": [0, 1, 1, 2],
    });
    assert_eq!(reply.json()["choices"][0]["logprobs"], expected);
    assert_eq!(reply.text(0), "aéb");
}

#[tokio::test]
async fn zero_alternatives_still_name_the_generated_token() {
    let fake = fake();
    let reply = post(&server(&fake), json!({"prompt": "Hi", "logprobs": 0})).await;
    assert_eq!(
        reply.json()["choices"][0]["logprobs"]["top_logprobs"][0],
        json!({"a": -0.5})
    );
    assert_eq!(fake.requests()[0].logprobs, Some(0));
}

#[tokio::test]
async fn a_stream_carries_them_with_each_token_also_without_text() {
    let reply = post(
        &server(&fake()),
        json!({"prompt": "Hi", "logprobs": 1, "stream": true}),
    )
    .await;
    let chunks = reply.chunks();
    let lists: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["logprobs"].clone())
        .collect();
    let offsets: Vec<_> = lists.iter().map(|list| list["text_offset"].clone()).collect();
    assert_eq!(
        offsets,
        [json!([0]), json!([1]), json!([1]), json!([2]), json!(null)]
    );
    assert_eq!(chunks[1]["choices"][0]["text"], "");
    assert_eq!(chunks[2]["choices"][0]["text"], "é");
}

#[tokio::test]
async fn without_being_asked_for_there_are_none() {
    let fake = fake();
    post(&server(&fake), json!({"prompt": "Hi", "logprobs": null})).await;
    assert_eq!(fake.requests()[0].logprobs, None);
}
