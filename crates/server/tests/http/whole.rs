//! Answers in one piece.

use medley_generate::FinishReason;
use serde_json::json;

use crate::{
    fake::{Fake, Play, finished, planned, token},
    setup::{get, post, server},
};

#[tokio::test]
async fn an_answer_has_every_field_of_the_openai_shape() {
    let reply = post(
        &server(&Fake::says(&["Hel", "lo"])),
        json!({"model": "org/model", "prompt": "Hi"}),
    )
    .await;
    let json = reply.json();
    assert_eq!(reply.status, 200, "{json}");
    assert!(
        json["id"].as_str().is_some_and(|id| id.starts_with("cmpl-")),
        "{json}"
    );
    assert_eq!(json["object"], "text_completion");
    assert!(json["created"].as_u64().is_some_and(|time| time > 1_700_000_000));
    assert_eq!(json["model"], "org/model");
    let choice = json!({"index": 0, "text": "Hello", "logprobs": null, "finish_reason": "stop"});
    assert_eq!(json["choices"], json!([choice]));
    // BOS and two bytes.
    assert_eq!(json["usage"]["prompt_tokens"], 3);
    assert_eq!(json["usage"]["completion_tokens"], 2);
    assert_eq!(json["usage"]["total_tokens"], 5);
}

#[tokio::test]
async fn text_held_back_to_the_end_belongs_to_the_answer() {
    let fake = Fake::new(|_, request| {
        let end = finished(request, FinishReason::Length, "tail");
        Play::Events(vec![planned(request), token("a"), token(""), end])
    });
    let reply = post(&server(&fake), json!({"prompt": "Hi"})).await;
    assert_eq!(reply.text(0), "atail");
    assert_eq!(reply.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(reply.json()["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn echo_puts_the_prompt_in_front_of_every_choice() {
    let server = server(&Fake::says(&["!"]));
    let reply = post(&server, json!({"prompt": ["Hé", "Yo"], "n": 2, "echo": true})).await;
    let texts: Vec<_> = (0..4).map(|index| reply.text(index)).collect();
    assert_eq!(texts, ["Hé!", "Hé!", "Yo!", "Yo!"]);
}

#[tokio::test]
async fn echo_renders_instructions_and_documents() {
    let body = json!({
        "prompt": "Q", "instructions": "Do.", "echo": true,
        "documents": [{"title": "T", "text": "x"}, "y"],
    });
    let reply = post(&server(&Fake::says(&["!"])), body).await;
    assert_eq!(reply.text(0), "Do.\n\nT\n\nx\n\ny\n\nQ!");
}

#[tokio::test]
async fn an_echoed_list_of_tokens_is_its_text() {
    let reply = post(
        &server(&Fake::says(&["!"])),
        json!({"prompt": [72, 105], "echo": true}),
    )
    .await;
    assert_eq!(reply.text(0), "Hi!");
}

#[tokio::test]
async fn zero_tokens_with_echo_run_the_prompt_and_generate_nothing() {
    let fake = Fake::says(&["x"]);
    let reply = post(
        &server(&fake),
        json!({"prompt": "Hi", "echo": true, "max_tokens": 0}),
    )
    .await;
    assert_eq!(reply.text(0), "Hi");
    assert_eq!(reply.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(reply.json()["usage"]["completion_tokens"], 0);
    assert_eq!(reply.header("x-medley-plan"), "exact");
    assert_eq!(fake.requests()[0].max_tokens, 1);
}

#[tokio::test]
async fn the_requested_name_is_the_answers_and_default_is_the_models_own() {
    let mut config = crate::setup::config();
    config.served_names.push("alias".into());
    let server = crate::setup::server_with(&Fake::says(&["x"]), config);
    for (asked, answered) in [
        ("alias", "alias"),
        ("org/model", "org/model"),
        ("default", "org/model"),
    ] {
        let reply = post(&server, json!({"model": asked, "prompt": "Hi"})).await;
        assert_eq!(reply.json()["model"], answered);
    }
    assert_eq!(
        post(&server, json!({"prompt": "Hi"})).await.json()["model"],
        "org/model"
    );
    assert_eq!(
        get(&server, "/v1/models").await.json()["data"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}
