//! Log-probabilities of an echoed prompt.

use std::sync::Arc;

use medley_generate::{Event, PromptToken, TokenEvent, TopLogprob};
use medley_kv::TokenId;
use serde_json::json;

use crate::{
    fake::{Fake, Play, finished, planned},
    setup::{post, server},
};

/// Tells the prompt in two pieces, if it is to, and says "!".
fn fake() -> Arc<Fake> {
    Fake::new(|_, request| {
        let tokens = request.prompt.tokens();
        let scored = |(place, token): (usize, TokenId)| PromptToken {
            token,
            logprob: (place > 0).then_some(-(place as f32)),
            top: match (place, request.prompt_logprobs) {
                (1.., Some(1..)) => vec![TopLogprob {
                    token: TokenId(120),
                    logprob: -0.5,
                }],
                _ => Vec::new(),
            },
        };
        let told: Vec<_> = tokens.into_iter().enumerate().map(scored).collect();
        let mut events = vec![planned(request)];
        if request.prompt_logprobs.is_some() {
            let (first, second) = told.split_at(1);
            events.extend([first, second].map(|piece| Event::Prompt(piece.to_vec())));
        }
        events.push(Event::Token(TokenEvent {
            token: TokenId(33),
            text: "!".to_owned(),
            logprob: request.logprobs.map(|_| -0.25),
            top: Vec::new(),
            logits: None,
        }));
        events.push(finished(request, medley_generate::FinishReason::Length, ""));
        Play::Events(events)
    })
}

#[tokio::test]
async fn they_come_first_and_the_first_of_them_is_null() {
    let body = json!({"prompt": [72, 105], "echo": true, "logprobs": 1, "max_tokens": 1});
    let reply = post(&server(&fake()), body).await;
    let expected = json!({
        "tokens": ["H", "i", "!"],
        "token_logprobs": [null, -1.0, -0.25],
        "top_logprobs": [null, {"x": -0.5, "i": -1.0}, {"!": -0.25}],
        "text_offset": [0, 1, 2],
    });
    assert_eq!(reply.json()["choices"][0]["logprobs"], expected);
    assert_eq!(reply.text(0), "Hi!");
}

#[tokio::test]
async fn without_tokens_to_generate_there_are_those_of_the_prompt_alone() {
    let body = json!({"prompt": [72, 105], "echo": true, "logprobs": 0, "max_tokens": 0});
    let reply = post(&server(&fake()), body).await;
    let logprobs = &reply.json()["choices"][0]["logprobs"];
    assert_eq!(logprobs["token_logprobs"], json!([null, -1.0]));
    assert_eq!(logprobs["top_logprobs"], json!([null, {"i": -1.0}]));
    assert_eq!(reply.text(0), "Hi");
    assert_eq!(reply.json()["usage"]["completion_tokens"], 0);
}

#[tokio::test]
async fn a_stream_carries_them_before_the_text() {
    let body = json!({"prompt": [72, 105], "echo": true, "logprobs": 0, "stream": true});
    let chunks = post(&server(&fake()), body).await.chunks();
    let lists: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["logprobs"]["text_offset"].clone())
        .collect();
    assert_eq!(
        lists,
        [json!(null), json!([0]), json!([1]), json!([2]), json!(null)]
    );
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(text, "Hi!");
}

#[tokio::test]
async fn they_are_asked_for_only_with_both() {
    for (body, expected) in [
        (json!({"prompt": "Hi", "echo": true}), None),
        (json!({"prompt": "Hi", "logprobs": 2}), None),
        (json!({"prompt": "Hi", "logprobs": 2, "echo": true}), Some(2)),
    ] {
        let fake = fake();
        post(&server(&fake), body).await;
        assert_eq!(fake.requests()[0].prompt_logprobs, expected);
    }
}
