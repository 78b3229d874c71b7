//! Documents in every shape.

use medley_kv::TokenId;
use serde_json::{Value, json};

use crate::{
    fake::Fake,
    setup::{post, server},
};

/// The documents as the engine gets them: name, text, length of the anchor.
async fn run(documents: Value) -> Vec<(Option<String>, String, usize)> {
    let fake = Fake::says(&["x"]);
    let reply = post(&server(&fake), json!({"prompt": "Q", "documents": documents})).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
    let text =
        |tokens: &[TokenId]| String::from_utf8(tokens.iter().map(|t| t.0 as u8).collect()).expect("text");
    let request = fake.requests().remove(0);
    request
        .prompt
        .documents()
        .map(|d| (d.name.clone(), text(&d.tokens), d.anchor.len()))
        .collect()
}

#[tokio::test]
async fn every_accepted_shape_becomes_a_document() {
    let documents = run(json!([
        "plain",
        {"id": "a", "title": "T", "text": "x"},
        {"text": null, "data": {"title": "T", "snippet": "x"}},
        {"data": "x"},
        {"id": "tokens", "token_ids": [65, 66]},
        {"id": "doc_5f", "text": "given"},
        {"text": "x", "context": "ctx"},
        {"id": 7, "page_content": "x", "metadata": {"source": "s"}},
        {"text": null, "content": "x"},
        {"data": {"content": "x", "url": "u"}},
    ]))
    .await;
    let expected = [
        (None, "plain\n\n", 1),
        (Some("a"), "T\n\nx\n\n", 1),
        (None, "T\n\nx\n\n", 1),
        (None, "x\n\n", 1),
        (Some("tokens"), "AB", 1),
        (Some("doc_5f"), "given\n\n", 1),
        (None, "x\n\n", 4),
        (Some("7"), "x\n\n", 1),
        (None, "x\n\n", 1),
        (None, "x\n\n", 1),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(n, t, a)| (n.map(str::to_owned), (*t).to_owned(), *a))
        .collect();
    assert_eq!(documents, expected);
}

#[tokio::test]
async fn an_empty_list_equals_none() {
    assert_eq!(run(json!([])).await, []);
    assert_eq!(run(Value::Null).await, []);
}

#[tokio::test]
async fn control_tokens_spelled_in_a_document_are_text() {
    assert_eq!(run(json!(["<|endoftext|>"])).await[0].1, "<|endoftext|>\n\n");
}

#[tokio::test]
async fn a_reference_to_an_unknown_document_is_400_and_says_which() {
    let server = server(&Fake::says(&["x"]));
    let reply = post(
        &server,
        json!({"prompt": "Q", "documents": ["a", "b", {"id": "doc_5f"}]}),
    )
    .await;
    let message = reply.is_error(400, "document_not_found", Some("documents[2].id"));
    assert!(message.contains("in this version"), "{message}");
}

#[tokio::test]
async fn a_text_under_two_of_its_names_is_refused_with_both() {
    let server = server(&Fake::says(&["x"]));
    for (document, param, names) in [
        (
            json!({"text": "a", "content": "b"}),
            "documents[0].content",
            ["`text`", "`content`"],
        ),
        (
            json!({"data": {"snippet": "a", "text": "b"}}),
            "documents[0].data.text",
            ["`snippet`", "`text`"],
        ),
    ] {
        let reply = post(&server, json!({"prompt": "Q", "documents": [document]})).await;
        let message = reply.is_error(400, "invalid_value", Some(param));
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
}

#[tokio::test]
async fn documents_without_content_or_with_two_are_refused() {
    let server = server(&Fake::says(&["x"]));
    for document in [
        json!({}),
        json!({"id": "a"}),
        json!({"title": "T"}),
        json!({"data": {"title": "T"}}),
        json!({"text": "a", "token_ids": [1]}),
        json!({"text": "a", "data": "b"}),
    ] {
        let reply = post(&server, json!({"prompt": "Q", "documents": ["ok", document]})).await;
        reply.is_error(400, "invalid_value", Some("documents[1]"));
    }
}

#[tokio::test]
async fn token_ids_outside_the_vocabulary_are_located() {
    let server = server(&Fake::says(&["x"]));
    let reply = post(
        &server,
        json!({"prompt": "Q", "documents": [{"token_ids": [1, 258]}]}),
    )
    .await;
    reply.is_error(400, "invalid_value", Some("documents[0].token_ids[1]"));
}

#[tokio::test]
async fn more_documents_than_configured_are_refused_with_the_limit() {
    let mut config = crate::setup::config();
    config.max_documents = 2;
    let server = crate::setup::server_with(&Fake::says(&["x"]), config);
    let reply = post(&server, json!({"prompt": "Q", "documents": ["a", "b", "c"]})).await;
    let message = reply.is_error(400, "invalid_value", Some("documents"));
    assert!(message.contains('2') && message.contains('3'), "{message}");
}
