//! Chat answers as streams.

use medley_generate::FinishReason;
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Play, broken, finished, planned, token},
    setup::{chat, server},
};

fn asking(more: Value) -> Value {
    let mut body = more;
    body["messages"] = json!([{"role": "user", "content": "Hi"}]);
    body["stream"] = true.into();
    body
}

#[tokio::test]
async fn the_role_comes_first_then_content_then_one_finish() {
    let fake = Fake::says(&["Hel", "", "lo"]);
    let reply = chat(
        &server(&fake),
        asking(json!({"stream_options": {"include_usage": true}})),
    )
    .await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.header("x-medley-plan"), "exact");
    let chunks = reply.chunks();
    let choices: Vec<_> = chunks.iter().map(|chunk| chunk["choices"].clone()).collect();
    let choice = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]);
    let expected = [
        choice(json!({"role": "assistant", "content": ""}), Value::Null),
        choice(json!({"content": "Hel"}), Value::Null),
        choice(json!({"content": "lo"}), Value::Null),
        choice(json!({}), "stop".into()),
        json!([]),
    ];
    assert_eq!(choices, expected);
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
    }
    let (last, before) = chunks.split_last().expect("chunks");
    assert!(
        before
            .iter()
            .all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some())
    );
    assert_eq!(last["usage"]["completion_tokens"], 3);
    assert_eq!(last["medley"]["plan"], "exact");
}

#[tokio::test]
async fn without_options_there_is_no_usage() {
    let chunks = chat(&server(&Fake::says(&["x"])), asking(json!({})))
        .await
        .chunks();
    assert_eq!(chunks.len(), 3);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.get("usage").is_none() && chunk.get("medley").is_none())
    );
}

#[tokio::test]
async fn calls_come_whole_and_in_order() {
    let call = |name: &str| format!("<tool_call>{{\"name\": \"{name}\"}}</tool_call>");
    let text = format!("See {}{}", call("a"), call("b"));
    let pieces: Vec<&'static str> = text
        .as_bytes()
        .chunks(3)
        .map(|piece| {
            let piece = String::from_utf8(piece.to_vec()).expect("ASCII");
            &*Box::leak(piece.into_boxed_str())
        })
        .collect();
    let fake = Fake::says(Box::leak(pieces.into_boxed_slice()));
    let tool = json!({"type": "function", "function": {"name": "a"}});
    let chunks = chat(&server(&fake), asking(json!({"tools": [tool]})))
        .await
        .chunks();
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let calls: Vec<_> = deltas
        .clone()
        .filter_map(|delta| delta["tool_calls"].as_array())
        .flatten()
        .map(|call| {
            (
                call["index"].as_u64(),
                call["function"]["name"].as_str(),
                call["type"].as_str(),
            )
        })
        .collect();
    let function = Some("function");
    assert_eq!(
        calls,
        [(Some(0), Some("a"), function), (Some(1), Some("b"), function)]
    );
    let content: String = deltas.filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!(content, "See");
    assert_eq!(
        chunks.last().expect("a chunk")["choices"][0]["finish_reason"],
        "tool_calls"
    );
}

#[tokio::test]
async fn every_token_has_its_log_probability_once() {
    let fake = Fake::new(|_, request| {
        let end = finished(request, FinishReason::Stop, "c");
        Play::Events(vec![
            planned(request),
            token("a"),
            token(""),
            token("b"),
            token(""),
            end,
        ])
    });
    let chunks = chat(&server(&fake), asking(json!({"logprobs": true})))
        .await
        .chunks();
    let counts: Vec<_> = chunks
        .iter()
        .map(|chunk| {
            chunk["choices"][0]["logprobs"]["content"]
                .as_array()
                .map_or(0, Vec::len)
        })
        .collect();
    assert_eq!(counts, [0, 1, 2, 1, 0]);
}

#[tokio::test]
async fn choices_have_streams_of_their_own() {
    let chunks = chat(&server(&Fake::says(&["x", "y"])), asking(json!({"n": 2})))
        .await
        .chunks();
    for index in 0..2 {
        let own: Vec<_> = chunks
            .iter()
            .filter(|chunk| chunk["choices"][0]["index"] == index)
            .collect();
        let content: String = own
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(content, "xy");
        let finished = own
            .iter()
            .filter(|chunk| !chunk["choices"][0]["finish_reason"].is_null());
        assert_eq!(finished.count(), 1);
    }
}

#[tokio::test]
async fn a_failure_on_the_way_is_an_event() {
    let fake = Fake::new(|_, request| Play::Events(vec![planned(request), token("a"), broken()]));
    let events = chat(&server(&fake), asking(json!({}))).await.events();
    let last: Value = serde_json::from_str(events.last().expect("an event")).expect("JSON");
    assert_eq!(last["error"]["code"], "server_error");
}
