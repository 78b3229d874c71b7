//! What answers say about reuse.

use serde_json::{Value, json};

use crate::{
    fake::Fake,
    setup::{post, server},
};

fn body() -> Value {
    // BOS, "Do.\n\n", "abc\n\n", "defg\n\n", "Q": 1 + 5 + 5 + 6 + 1 tokens.
    json!({"prompt": "Q", "instructions": "Do.", "documents": [{"id": "a", "text": "abc"}, "defg"]})
}

#[tokio::test]
async fn the_report_accounts_for_every_token() {
    let reply = post(&server(&Fake::says(&["x"])), body()).await;
    let json = reply.json();
    let medley = &json["medley"];
    assert_eq!(medley["plan"], "blended");
    assert_eq!(medley["reason"], Value::Null);
    assert_eq!(medley["strategy"], "query");
    assert_eq!(
        medley["tokens"],
        json!({"exact_prefix": 2, "reused": 9, "computed": 0, "repaired": 2, "fresh": 5})
    );
    let sum: u64 = medley["tokens"]
        .as_object()
        .expect("counts")
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(json["usage"]["prompt_tokens"], sum);
    let first = json!({
        "index": 0, "id": "a", "document_id": "doc_0", "tokens": 5, "offset": 1, "source": "host",
        "reused": 4, "computed": 0, "repaired": 1,
    });
    assert_eq!(medley["documents"][0], first);
    assert_eq!(medley["documents"][1]["id"], Value::Null);
    let timing = json!({"queue": 1.5, "load": 0.0, "compute_documents": 0.0, "probe": 0.0, "prefill": 31.0});
    assert_eq!(medley["timing_ms"], timing);
}

#[tokio::test]
async fn cached_tokens_are_the_exact_prefix_and_the_reused() {
    let reply = post(&server(&Fake::says(&["x"])), body()).await;
    let details = json!({"cached_tokens": 11, "repaired_tokens": 2, "computed_tokens": 0});
    assert_eq!(reply.json()["usage"]["prompt_tokens_details"], details);
}

#[tokio::test]
async fn the_head_carries_plan_and_counts_streaming_or_not() {
    for stream in [false, true] {
        let mut body = body();
        body["stream"] = stream.into();
        let reply = post(&server(&Fake::says(&["x"])), body).await;
        let names = [
            "plan",
            "exact-prefix-tokens",
            "reused-tokens",
            "computed-tokens",
            "repaired-tokens",
            "fresh-tokens",
        ];
        let values: Vec<_> = names
            .iter()
            .map(|name| reply.header(&format!("x-medley-{name}")))
            .collect();
        assert_eq!(values, ["blended", "2", "9", "0", "2", "5"], "stream: {stream}");
    }
}

#[tokio::test]
async fn the_counts_of_a_batch_are_sums() {
    let mut body = body();
    body["prompt"] = json!(["Q", "QQ"]);
    let reply = post(&server(&Fake::says(&["x"])), body).await;
    assert_eq!(reply.header("x-medley-reused-tokens"), "18");
    assert_eq!(reply.header("x-medley-fresh-tokens"), "11");
    assert_eq!(reply.json()["usage"]["prompt_tokens"], 18 + 19);
}

#[tokio::test]
async fn repaired_ranges_come_when_asked_for() {
    let mut body = body();
    body["blend"] = json!({"report": "tokens"});
    let reply = post(&server(&Fake::says(&["x"])), body).await;
    assert_eq!(
        reply.json()["medley"]["documents"][1]["repaired_ranges"],
        json!([[6, 1]])
    );
}
