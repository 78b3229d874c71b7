//! Answers as streams.

use medley_generate::FinishReason;
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Play, broken, finished, planned, token},
    setup::{Reply, post, server},
};

async fn stream(pieces: &'static [&'static str], mut body: Value) -> Reply {
    body["stream"] = true.into();
    post(&server(&Fake::says(pieces)), body).await
}

/// The texts of choice `index`, joined.
fn text(chunks: &[Value], index: u64) -> String {
    let choices = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().expect("choices"));
    choices
        .filter(|choice| choice["index"] == index)
        .filter_map(|choice| choice["text"].as_str())
        .collect()
}

#[tokio::test]
async fn a_stream_is_server_sent_events_that_end_with_done() {
    let reply = stream(&["Hel", "lo"], json!({"prompt": "Hi"})).await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").starts_with("text/event-stream"));
    assert!(
        !String::from_utf8_lossy(&reply.bytes).contains("\nid:"),
        "no SSE ids"
    );
    let chunks = reply.chunks();
    assert_eq!(text(&chunks, 0), "Hello");
    for chunk in &chunks {
        assert_eq!(chunk["object"], "text_completion");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["created"], chunks[0]["created"]);
        assert_eq!(chunk["model"], "org/model");
        assert!(
            chunk.get("usage").is_none() && chunk.get("medley").is_none(),
            "{chunk}"
        );
    }
}

#[tokio::test]
async fn every_choice_has_one_finish_chunk() {
    let reply = stream(&["a", "b"], json!({"prompt": ["x", "y"], "n": 2})).await;
    let chunks = reply.chunks();
    for index in 0..4_u64 {
        let of_choice = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0])
            .filter(|choice| choice["index"] == index);
        let reasons: Vec<_> = of_choice.map(|choice| choice["finish_reason"].clone()).collect();
        assert_eq!(
            reasons,
            [Value::Null, Value::Null, "stop".into()],
            "choice {index}"
        );
        assert_eq!(text(&chunks, index), "ab");
    }
}

#[tokio::test]
async fn with_include_usage_chunks_have_null_and_the_last_has_usage_and_medley() {
    let options = json!({"include_usage": true});
    let chunks = stream(&["a", "b"], json!({"prompt": "Hi", "stream_options": options}))
        .await
        .chunks();
    let (last, others) = chunks.split_last().expect("chunks");
    for chunk in others {
        assert_eq!(chunk.get("usage"), Some(&Value::Null), "{chunk}");
        assert!(chunk.get("medley").is_none());
    }
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 3);
    assert_eq!(last["usage"]["completion_tokens"], 2);
    assert_eq!(last["medley"]["plan"], "exact");
    assert_eq!(last["medley"]["timing_ms"]["prefill"], 31.0);
}

#[tokio::test]
async fn continuous_usage_grows_from_chunk_to_chunk() {
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let chunks = stream(&["a", "b"], json!({"prompt": "Hi", "stream_options": options}))
        .await
        .chunks();
    let counts: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk["usage"]["completion_tokens"].as_u64())
        .collect();
    assert_eq!(counts, [Some(1), Some(2), Some(2), Some(2)]);
}

#[tokio::test]
async fn tokens_without_certain_text_make_no_chunk_and_their_text_comes_whole() {
    let fake = Fake::new(|_, request| {
        let events = [
            planned(request),
            token(""),
            token("é"),
            token(""),
            finished(request, FinishReason::Stop, "日"),
        ];
        Play::Events(events.into())
    });
    let chunks = post(&server(&fake), json!({"prompt": "Hi", "stream": true}))
        .await
        .chunks();
    let texts: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["é", "日"]);
}

#[tokio::test]
async fn echo_opens_every_choice() {
    let chunks = stream(&["!"], json!({"prompt": ["Hi", "Yo"], "echo": true}))
        .await
        .chunks();
    assert_eq!([text(&chunks, 0), text(&chunks, 1)], ["Hi!", "Yo!"]);
    assert_eq!(chunks[0]["choices"][0]["text"], "Hi");
}

#[tokio::test]
async fn a_failure_after_the_start_is_an_event_and_ends_the_stream() {
    let fake = Fake::new(|_, request| Play::Events(vec![planned(request), token("a"), broken(), token("b")]));
    let reply = post(&server(&fake), json!({"prompt": "Hi", "stream": true})).await;
    assert_eq!(reply.status, 200);
    let events = reply.events();
    assert_eq!(events.len(), 2, "{events:?}");
    let error: Value = serde_json::from_str(&events[1]).expect("JSON");
    assert_eq!(error["error"]["code"], "server_error");
    assert_eq!(error["error"]["type"], "server_error");
    assert!(!events[1].contains("secret"), "{error}");
    assert!(
        error["error"]["message"]
            .as_str()
            .expect("text")
            .contains(reply.header("x-request-id"))
    );
}

#[tokio::test]
async fn a_failure_before_the_plan_is_a_status() {
    let fake = Fake::new(|_, _| Play::Events(vec![broken()]));
    post(&server(&fake), json!({"prompt": "Hi", "stream": true}))
        .await
        .is_error(500, "server_error", None);
}

#[tokio::test]
async fn an_event_stream_that_breaks_off_is_a_failure() {
    let fake = Fake::new(|_, request| Play::Events(vec![planned(request), token("a")]));
    let reply = post(&server(&fake), json!({"prompt": "Hi", "stream": true})).await;
    assert!(reply.events()[1].contains("server_error"));
    post(&server(&fake), json!({"prompt": "Hi"}))
        .await
        .is_error(500, "server_error", None);
}
