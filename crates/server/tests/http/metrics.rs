//! What is counted.

use std::sync::Arc;

use axum::Router;
use medley_generate::{Gauges, SubmitError};
use serde_json::json;
use tower::ServiceExt;

use crate::{
    fake::{Fake, Play, answer, broken, planned, token},
    setup::{completion, get, post, server},
};

/// The sample with this name and these labels.
async fn sample(server: &Router, name: &str) -> Option<f64> {
    let reply = get(server, "/metrics").await;
    assert!(
        reply
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let text = String::from_utf8(reply.bytes.to_vec()).expect("UTF-8");
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

async fn check(server: &Router, samples: &[(&str, f64)]) {
    for (name, value) in samples {
        assert_eq!(sample(server, name).await, Some(*value), "{name}");
    }
}

#[tokio::test]
async fn an_answered_request_counts_its_tokens_once_whatever_n() {
    let server = server(&Fake::says(&["a", "b"]));
    post(
        &server,
        json!({"prompt": "Q", "documents": ["abc", "de"], "n": 2}),
    )
    .await;
    check(
        &server,
        &[
            (r#"medley_prompt_tokens_total{kind="exact_prefix"}"#, 2.0),
            (r#"medley_prompt_tokens_total{kind="reused"}"#, 7.0),
            (r#"medley_prompt_tokens_total{kind="computed"}"#, 0.0),
            (r#"medley_prompt_tokens_total{kind="repaired"}"#, 2.0),
            (r#"medley_prompt_tokens_total{kind="fresh"}"#, 0.0),
            (r#"medley_documents_total{source="host"}"#, 2.0),
            ("medley_recompute_ratio_count", 1.0),
            (r#"medley_time_to_first_token_seconds_count{plan="blended"}"#, 2.0),
            (
                r#"medley_http_requests_total{code="",path="/v1/completions",status="200"}"#,
                1.0,
            ),
            (r#"vllm:prompt_tokens_total{model_name="org/model"}"#, 11.0),
            (r#"vllm:generation_tokens_total{model_name="org/model"}"#, 4.0),
            (
                r#"vllm:request_success_total{finished_reason="stop",model_name="org/model"}"#,
                2.0,
            ),
            (
                r#"vllm:time_to_first_token_seconds_count{model_name="org/model"}"#,
                2.0,
            ),
            (
                r#"vllm:inter_token_latency_seconds_count{model_name="org/model"}"#,
                2.0,
            ),
            (
                r#"vllm:e2e_request_latency_seconds_count{model_name="org/model"}"#,
                2.0,
            ),
            (
                r#"vllm:request_queue_time_seconds_sum{model_name="org/model"}"#,
                0.003,
            ),
            (r#"vllm:request_prompt_tokens_sum{model_name="org/model"}"#, 22.0),
            (
                r#"vllm:request_generation_tokens_sum{model_name="org/model"}"#,
                4.0,
            ),
            (
                r#"vllm:external_prefix_cache_queries_total{model_name="org/model"}"#,
                9.0,
            ),
            (
                r#"vllm:external_prefix_cache_hits_total{model_name="org/model"}"#,
                7.0,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_aborted_request_has_added_what_it_planned_and_generated() {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let server = server(&fake);
    let body = json!({"prompt": "Hi", "stream": true});
    let response = server
        .clone()
        .oneshot(completion(&body))
        .await
        .expect("infallible");
    let mut body = response.into_body().into_data_stream();
    assert!(futures::StreamExt::next(&mut body).await.is_some());
    drop(body);
    check(
        &server,
        &[
            (r#"medley_aborts_total{reason="client_gone"}"#, 1.0),
            (r#"medley_prompt_tokens_total{kind="exact_prefix"}"#, 2.0),
            (r#"vllm:generation_tokens_total{model_name="org/model"}"#, 1.0),
            (
                r#"vllm:request_success_total{finished_reason="abort",model_name="org/model"}"#,
                1.0,
            ),
            (
                r#"vllm:e2e_request_latency_seconds_count{model_name="org/model"}"#,
                0.0,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn failures_and_refusals_are_counted_with_their_reason() {
    let fake = Fake::new(|k, request| match k {
        0 => Play::Open(vec![]),
        1 => Play::Events(vec![broken()]),
        2 => Play::Refuse(SubmitError::QueueFull),
        _ => Play::Events(answer(request, &["x"])),
    });
    let server = server(&fake);
    post(&server, json!({"prompt": "Hi", "n": 2})).await;
    post(&server, json!({"prompt": "Hi"})).await;
    get(&server, "/v1/some/secret/path").await;
    get(&server, "/v1/models/org/model").await;
    check(
        &server,
        &[
            (r#"medley_aborts_total{reason="engine"}"#, 1.0),
            (r#"medley_aborts_total{reason="request_failed"}"#, 1.0),
            (r#"medley_rejections_total{reason="queue_full"}"#, 1.0),
            (r#"medley_http_requests_total{code="server_error",path="/v1/completions",status="500"}"#, 1.0),
            (r#"medley_http_requests_total{code="rate_limit_exceeded",path="/v1/completions",status="429"}"#, 1.0),
            (r#"medley_http_requests_total{code="not_found",path="unmatched",status="404"}"#, 1.0),
            (r#"medley_http_requests_total{code="",path="/v1/models/{*id}",status="200"}"#, 1.0),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_engines_state_is_read_when_asked() {
    let mut fake = Fake::bare(|_, _| Play::Events(vec![]));
    fake.gauges = Gauges {
        waiting: 3,
        running: 2,
        background: 1,
        private_pages: 5,
        leases: 4,
        computing: 1,
        pool_pages: 20,
        resident_pages: 6,
        page_bytes: 1000,
        documents: 2,
        prefixes: 3,
        resident_capacity: 9000,
        misses_absent: 7,
        misses_evicted: 8,
        misses_mismatch: 9,
        evictions: 11,
        last_step_ms: 1500,
        ..Gauges::default()
    };
    check(
        &server(&Arc::new(fake)),
        &[
            (r#"vllm:num_requests_running{model_name="org/model"}"#, 2.0),
            (r#"vllm:num_requests_waiting{model_name="org/model"}"#, 3.0),
            (r#"vllm:kv_cache_usage_perc{model_name="org/model"}"#, 0.25),
            ("medley_background_requests", 1.0),
            ("medley_private_pages", 5.0),
            ("medley_leases", 4.0),
            ("medley_computing_documents", 1.0),
            (r#"medley_tier_bytes{tier="host"}"#, 6000.0),
            (r#"medley_tier_capacity_bytes{tier="host"}"#, 9000.0),
            (r#"medley_tier_entries{tier="host"}"#, 5.0),
            (r#"medley_tier_evictions_total{tier="host"}"#, 11.0),
            (r#"medley_document_misses_total{reason="absent"}"#, 7.0),
            (r#"medley_document_misses_total{reason="evicted"}"#, 8.0),
            (r#"medley_document_misses_total{reason="mismatch"}"#, 9.0),
            ("medley_engine_last_step_timestamp_seconds", 1.5),
        ],
    )
    .await;
}
