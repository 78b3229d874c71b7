//! Several prompts, several choices.

use medley_generate::Event;
use medley_kv::TokenId;
use serde_json::json;

use crate::{
    fake::{Fake, Play, answer},
    setup::{post, server},
};

/// Says the last byte of the prompt and the number of the request.
fn parrot() -> std::sync::Arc<Fake> {
    Fake::new(|k, request| {
        let last = request.prompt.tokens().last().map_or(0, |token| token.0 as u8);
        Play::Events(answer(request, &[&format!("{}{k}", char::from(last))]))
    })
}

#[tokio::test]
async fn all_four_forms_of_a_prompt_are_taken() {
    for (prompt, tokens) in [
        (json!("ab"), vec![vec![256, 97, 98]]),
        (json!(["a", "b"]), vec![vec![256, 97], vec![256, 98]]),
        (json!([97, 98]), vec![vec![97, 98]]),
        (json!([[97, 98], [99, 100]]), vec![vec![97, 98], vec![99, 100]]),
    ] {
        let fake = parrot();
        let reply = post(&server(&fake), json!({"prompt": prompt})).await;
        assert_eq!(reply.status, 200, "{}", reply.json());
        let ran: Vec<Vec<_>> = fake.requests().iter().map(|r| r.prompt.tokens()).collect();
        let expected: Vec<Vec<_>> = tokens
            .into_iter()
            .map(|list| list.into_iter().map(TokenId).collect())
            .collect();
        assert_eq!(ran, expected, "{prompt}");
    }
}

#[tokio::test]
async fn choices_are_in_the_order_of_the_prompts() {
    let reply = post(&server(&parrot()), json!({"prompt": ["a", "b", "c"], "n": 2})).await;
    let json = reply.json();
    let choices = json["choices"].as_array().expect("choices").iter().enumerate();
    for (index, choice) in choices {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["text"], format!("{}{index}", ["a", "b", "c"][index / 2]));
    }
}

#[tokio::test]
async fn prompt_tokens_count_each_prompt_once_whatever_n() {
    let reply = post(&server(&parrot()), json!({"prompt": ["a", "bc"], "n": 3})).await;
    assert_eq!(reply.json()["usage"]["prompt_tokens"], 2 + 3);
    assert_eq!(reply.json()["usage"]["completion_tokens"], 6);
    assert_eq!(reply.header("x-medley-exact-prefix-tokens"), "4");
    assert_eq!(reply.header("x-medley-fresh-tokens"), "1");
}

#[tokio::test]
async fn medley_is_an_object_for_one_prompt_and_a_list_for_several() {
    let server = server(&parrot());
    for (prompt, n) in [(json!("a"), 1), (json!("a"), 3), (json!(["a"]), 1)] {
        let reply = post(&server, json!({"prompt": prompt, "n": n})).await;
        assert!(reply.json()["medley"].is_object(), "{prompt}, {n}");
    }
    let reply = post(&server, json!({"prompt": ["a", "bc"], "n": 2})).await;
    let fresh: Vec<_> = reply.json()["medley"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|report| report["tokens"]["fresh"].as_u64().expect("a number"))
        .collect();
    assert_eq!(fresh, [0, 1]);
}

#[tokio::test]
async fn choices_take_consecutive_seeds() {
    let fake = parrot();
    post(&server(&fake), json!({"prompt": ["a", "b"], "n": 2, "seed": -1})).await;
    let seeds: Vec<_> = fake
        .requests()
        .iter()
        .map(|request| request.sampling.seed)
        .collect();
    assert_eq!(seeds, [Some(u64::MAX), Some(0), Some(1), Some(2)]);
    let fake = parrot();
    post(&server(&fake), json!({"prompt": "a"})).await;
    assert_eq!(fake.requests()[0].sampling.seed, None);
}

#[tokio::test]
async fn a_batch_shares_its_documents() {
    let fake = parrot();
    post(&server(&fake), json!({"prompt": ["a", "b"], "documents": ["x"]})).await;
    for request in fake.requests() {
        let documents: Vec<_> = request
            .prompt
            .documents()
            .map(|document| document.tokens.len())
            .collect();
        assert_eq!(documents, ["x\n\n".len()]);
    }
}

/// Further choices of a prompt find what the first one left: their accounts are not the prompt's.
#[tokio::test]
async fn the_account_of_a_prompt_is_that_of_its_first_choice() {
    let fake = Fake::new(|k, request| {
        let mut events = answer(request, &["x"]);
        for event in &mut events {
            if let (1, Event::Planned(report) | Event::Finished { report, .. }) = (k % 2, event) {
                report.tokens.exact_prefix += std::mem::take(&mut report.tokens.fresh);
            }
        }
        Play::Events(events)
    });
    for stream in [false, true] {
        let reply = post(&server(&fake), json!({"prompt": "abc", "n": 2, "stream": stream})).await;
        assert_eq!(reply.header("x-medley-exact-prefix-tokens"), "2");
        assert_eq!(reply.header("x-medley-fresh-tokens"), "2");
    }
    let reply = post(&server(&fake), json!({"prompt": "abc", "n": 2})).await;
    assert_eq!(reply.json()["medley"]["tokens"]["fresh"], 2);
}
