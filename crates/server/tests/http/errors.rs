//! Every kind of failure.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, Request},
};
use medley_generate::{Event, GenerateError, SubmitError};
use medley_server::{AppState, Readiness, router};
use serde_json::json;

use crate::{
    fake::{Fake, Play, answer, broken},
    setup::{completion, completion_of, config, engine, get, post, request, send, server, server_with},
};

#[tokio::test]
async fn a_body_that_is_not_json_is_located() {
    let server = server(&Fake::says(&["x"]));
    let message =
        send(&server, completion_of("{\n\"prompt\" 1}"))
            .await
            .is_error(400, "json_parse_error", None);
    assert!(message.contains("line 2"), "{message}");
    let reply = send(&server, completion_of(r#"{"documents":[{"title":"}]}"#)).await;
    let message = reply.is_error(400, "json_parse_error", Some("documents[0].title"));
    assert!(message.contains("line 1 column"), "{message}");
}

#[tokio::test]
async fn json_of_the_wrong_shape_is_located_and_says_what_is_wrong() {
    let server = server(&Fake::says(&["x"]));
    for (body, code, param) in [
        (
            r#"{"documents":[{"title":7}]}"#,
            "invalid_type",
            "documents[0].title",
        ),
        (
            r#"{"documents":[{"id":true}]}"#,
            "invalid_type",
            "documents[0].id",
        ),
        (r#"{"documents":7}"#, "invalid_type", "documents"),
        (r#"{"max_tokens":"many"}"#, "invalid_type", "max_tokens"),
        (r#"{"max_tokens":-1}"#, "invalid_value", "max_tokens"),
        (r#"{"blend":{"mode":"fast"}}"#, "invalid_value", "blend.mode"),
    ] {
        let reply = send(&server, completion_of(body)).await;
        let message = reply.is_error(400, code, Some(param));
        assert!(message.contains("line 1 column"), "{message}");
    }
}

/// A misspelt option would be lost in silence; fields of the request itself may be meant for others.
#[tokio::test]
async fn keys_that_blend_and_documents_do_not_have_are_named() {
    let server = server(&Fake::says(&["x"]));
    for (body, param, expected) in [
        (json!({"blend": {"ratio": 0.3}}), "blend.ratio", "recompute_ratio"),
        (
            json!({"documents": ["a", {"text": "b", "titel": "T"}]}),
            "documents[1].titel",
            "title",
        ),
    ] {
        let mut body = body;
        body["prompt"] = "Hi".into();
        let message = post(&server, body)
            .await
            .is_error(400, "unknown_parameter", Some(param));
        assert!(message.contains(expected), "{message}");
    }
    let others = json!({"prompt": "Hi", "ratio": 0.3, "documents": [{"text": "b", "metadata": {"a": 1}}]});
    assert_eq!(post(&server, others).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_not_utf8_is_refused_and_not_repeated() {
    let reply = send(
        &server(&Fake::says(&["x"])),
        completion_of(&b"{\"prompt\":\"\xff\"}"[..]),
    )
    .await;
    reply.is_error(400, "json_parse_error", None);
    assert!(std::str::from_utf8(&reply.bytes).is_ok_and(|text| !text.contains('\u{FFFD}')));
}

#[tokio::test]
async fn a_list_where_an_object_belongs_is_refused() {
    let server = server(&Fake::says(&["x"]));
    for (body, param) in [
        (r#"["default","hi"]"#, None),
        (r#"{"prompt":"Hi","blend":["exact",0.5]}"#, Some("blend")),
        (
            r#"{"prompt":"Hi","stream":true,"stream_options":[true]}"#,
            Some("stream_options"),
        ),
        (r#"{"prompt":"Hi","documents":[["a"]]}"#, Some("documents[0]")),
        (
            r#"{"prompt":"Hi","documents":[{"data":["T","t"]}]}"#,
            Some("documents[0].data"),
        ),
    ] {
        let reply = send(&server, completion_of(body)).await;
        let message = reply.is_error(400, "invalid_type", param);
        assert!(message.contains("an object"), "{message}");
    }
}

#[tokio::test]
async fn half_a_surrogate_pair_is_refused() {
    let reply = send(
        &server(&Fake::says(&["x"])),
        completion_of(r#"{"prompt":"\ud800"}"#),
    )
    .await;
    reply.is_error(400, "json_parse_error", Some("prompt"));
}

#[tokio::test]
async fn a_body_of_another_type_is_415() {
    let server = server(&Fake::says(&["x"]));
    for kind in [
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        None,
    ] {
        let request = Request::post("/v1/completions");
        let request = kind
            .into_iter()
            .fold(request, |request, kind| request.header("content-type", kind));
        let request = request.body(Body::from(r#"{"prompt":"Hi"}"#)).expect("a request");
        send(&server, request)
            .await
            .is_error(415, "unsupported_media_type", None);
    }
    let request = Request::post("/v1/completions").header("content-type", "Application/JSON; charset=utf-8");
    let request = request.body(Body::from(r#"{"prompt":"Hi"}"#)).expect("a request");
    assert_eq!(send(&server, request).await.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_the_limit() {
    let mut config = config();
    config.body_limit = 100;
    let server = server_with(&Fake::says(&["x"]), config);
    let reply = post(&server, json!({"prompt": "x".repeat(200)})).await;
    let message = reply.is_error(413, "request_too_large", None);
    assert!(message.contains("100"), "{message}");
    assert_eq!(post(&server, json!({"prompt": "x"})).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_announced_over_the_limit_is_413_unread() {
    let server = server(&Fake::says(&["x"]));
    let unread = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let mut request = completion_of(unread);
    let length = (config().body_limit + 1).to_string();
    request
        .headers_mut()
        .insert("content-length", length.parse().expect("a value"));
    send(&server, request)
        .await
        .is_error(413, "request_too_large", None);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_408() {
    let mut config = config();
    config.body_timeout = Duration::from_millis(20);
    let server = server_with(&Fake::says(&["x"]), config);
    let endless = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let reply = send(&server, completion_of(Body::from_stream(endless))).await;
    let message = reply.is_error(408, "request_timeout", None);
    assert!(message.contains("0.02 seconds"), "{message}");
    assert_eq!(post(&server, json!({"prompt": "x"})).await.status, 200);
}

#[tokio::test]
async fn unknown_paths_are_404_and_unknown_methods_405_as_json() {
    let server = server(&Fake::says(&["x"]));
    get(&server, "/v1/nothing").await.is_error(404, "not_found", None);
    let reply = get(&server, "/v1/completions").await;
    reply.is_error(405, "method_not_allowed", None);
    assert_eq!(reply.header("allow"), "POST");
    let reply = send(&server, request(Method::POST, "/v1/models")).await;
    reply.is_error(405, "method_not_allowed", None);
    get(&server, "/v1/models/%ff")
        .await
        .is_error(404, "not_found", None);
}

#[tokio::test]
async fn paths_of_other_versions_are_404_with_what_to_do_instead() {
    let server = server(&Fake::says(&["x"]));
    for (path, part) in [
        ("/v1/responses", "/v1/chat/completions"),
        ("/v1/documents", "`documents`"),
        ("/completions", "/v1"),
        ("/v1/embeddings", "/openapi.json"),
    ] {
        let reply = send(&server, request(Method::POST, path)).await;
        let message = reply.is_error(404, "not_found", None);
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn an_unknown_model_is_404() {
    let server = server(&Fake::says(&["x"]));
    let reply = post(&server, json!({"model": "gpt-4", "prompt": "Hi"})).await;
    let message = reply.is_error(404, "model_not_found", Some("model"));
    assert!(message.contains("gpt-4"));
    get(&server, "/v1/models/org/other")
        .await
        .is_error(404, "model_not_found", Some("model"));
    let message = post(&server, json!({"model": "m".repeat(9999), "prompt": "Hi"})).await;
    assert!(message.bytes.len() < 1000);
}

#[tokio::test]
async fn a_request_without_prompt_is_400() {
    let reply = post(&server(&Fake::says(&["x"])), json!({"model": "default"})).await;
    reply.is_error(400, "missing_required_parameter", Some("prompt"));
}

#[tokio::test]
async fn a_prompt_over_the_context_is_400_with_both_numbers_and_the_documents() {
    let server = server(&Fake::says(&["x"]));
    let documents = json!(["a".repeat(100), "b".repeat(98)]);
    let reply = post(&server, json!({"prompt": "Hi", "documents": documents})).await;
    let message = reply.is_error(400, "context_length_exceeded", Some("prompt"));
    for part in ["200 tokens", "has 205", "[0] 102", "[1] 100", "others 3"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // 199 tokens leave room for one.
    assert_eq!(
        post(&server, json!({"prompt": "x".repeat(198)})).await.status,
        200
    );
    post(&server, json!({"prompt": "x".repeat(199)})).await.is_error(
        400,
        "context_length_exceeded",
        Some("prompt"),
    );
}

/// The longest token of the tests' vocabulary has 13 bytes: 2600 bytes have at least the context's 200 tokens.
#[tokio::test]
async fn texts_that_can_not_fit_are_refused_before_they_are_tokenised() {
    let server = server(&Fake::says(&["x"]));
    let text = |bytes: usize| "x".repeat(bytes);
    let halves = [text(1300), text(1287)];
    for (body, param) in [
        (json!({"prompt": text(2600)}), "prompt"),
        (json!({"prompt": ["Hi", text(2600)]}), "prompt[1]"),
        (json!({"prompt": "Hi", "instructions": text(2587)}), "prompt"),
        (json!({"prompt": "Hi", "documents": halves}), "prompt"),
        (
            json!({"prompt": "Hi", "documents": ["a", {"text": "b", "context": text(2600)}]}),
            "documents[1].context",
        ),
    ] {
        let reply = post(&server, body).await;
        let message = reply.is_error(400, "context_length_exceeded", Some(param));
        assert!(
            message.contains("at least 200") && message.contains("holds 200"),
            "{message}"
        );
    }
    // One byte less is a token less: this is refused for the tokens that it has.
    let reply = post(&server, json!({"prompt": text(2587)})).await;
    let message = reply.is_error(400, "context_length_exceeded", Some("prompt"));
    assert!(message.contains("has 2588"), "{message}");
}

#[tokio::test]
async fn a_full_queue_is_429_with_retry_after() {
    for stream in [false, true] {
        let fake = Fake::new(|_, _| Play::Refuse(SubmitError::QueueFull));
        let reply = post(&server(&fake), json!({"prompt": "Hi", "stream": stream})).await;
        reply.is_error(429, "rate_limit_exceeded", None);
        assert_eq!(reply.header("retry-after"), "1");
    }
}

#[tokio::test]
async fn a_refused_choice_cancels_those_before_it() {
    let fake = Fake::new(|k, _| {
        if k < 2 {
            Play::Open(vec![])
        } else {
            Play::Refuse(SubmitError::QueueFull)
        }
    });
    post(&server(&fake), json!({"prompt": "Hi", "n": 3}))
        .await
        .is_error(429, "rate_limit_exceeded", None);
    assert!(fake.sender(0).is_closed() && fake.sender(1).is_closed());
}

#[tokio::test]
async fn other_refusals_of_the_engine_have_their_own_errors() {
    for (refusal, status, code, param) in [
        (SubmitError::ShuttingDown, 503, "shutting_down", None),
        (
            SubmitError::TooLarge { needed: 9, pages: 4 },
            400,
            "kv_capacity_exceeded",
            Some("prompt"),
        ),
        (
            SubmitError::PromptTooLong {
                tokens: 9,
                context: 4,
            },
            400,
            "context_length_exceeded",
            Some("prompt"),
        ),
        (
            SubmitError::CheckLayer { layer: 9, last: 4 },
            400,
            "invalid_value",
            Some("blend.check_layer"),
        ),
    ] {
        let fake = Fake::new(move |_, _| Play::Refuse(refusal));
        post(&server(&fake), json!({"prompt": "Hi"}))
            .await
            .is_error(status, code, param);
    }
}

#[tokio::test]
async fn a_request_over_the_kv_memory_is_told_in_tokens_what_helps() {
    let refuse = |pages| Fake::new(move |_, _| Play::Refuse(SubmitError::TooLarge { needed: 9, pages }));
    let documents = json!(["a".repeat(62), "b".repeat(62)]);
    let exact = json!({"mode": "exact"});
    for (pages, body, param, help) in [
        (
            4,
            json!({"documents": documents}),
            "documents",
            "`blend.mode: exact` or fewer",
        ),
        // The prompt alone has 131 tokens.
        (
            2,
            json!({"documents": documents}),
            "documents",
            "send fewer documents",
        ),
        (
            2,
            json!({"documents": documents, "blend": exact}),
            "documents",
            "send fewer documents",
        ),
        (4, json!({}), "prompt", "a shorter prompt"),
    ] {
        let mut body = body;
        body["prompt"] = "Hi".into();
        let message =
            post(&server(&refuse(pages)), body)
                .await
                .is_error(400, "kv_capacity_exceeded", Some(param));
        let memory = format!("for {}:", 64 * pages);
        for part in [
            "for 576 tokens",
            "pages of 64",
            &memory,
            help,
            "--host-cache-size",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(message.contains("exact"), help.contains("exact"), "{message}");
    }
}

#[tokio::test]
async fn more_choices_than_can_ever_run_are_blamed_on_what_asked_for_them() {
    let refuse = || Fake::new(|_, _| Play::Refuse(SubmitError::TooMany { requests: 3, most: 1 }));
    for (body, param) in [
        (json!({"prompt": ["a", "b", "c"]}), "prompt"),
        (json!({"prompt": "a", "n": 3}), "n"),
    ] {
        let message = post(&server(&refuse()), body)
            .await
            .is_error(400, "invalid_value", Some(param));
        assert!(
            message.contains("--max-num-seqs") && message.contains("--max-queue"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_field_that_is_there_twice_is_named() {
    let server = server(&Fake::says(&["x"]));
    for (body, param) in [
        (r#"{"prompt":"a","prompt":"b"}"#, "prompt"),
        (r#"{"prompt":"a","blend":{"hops":1,"hops":2}}"#, "blend.hops"),
        (
            r#"{"prompt":"a","documents":["b",{"text":"c","text":"d"}]}"#,
            "documents[1].text",
        ),
    ] {
        let reply = send(&server, completion_of(body)).await;
        let message = reply.is_error(400, "invalid_value", Some(param));
        assert!(message.contains("duplicate field"), "{message}");
    }
}

#[tokio::test]
async fn an_engine_failure_is_500_with_the_request_id_and_no_internals() {
    let fake = Fake::new(|_, _| Play::Events(vec![broken()]));
    let mut request = completion(&json!({"prompt": "Hi"}));
    request
        .headers_mut()
        .insert("x-request-id", "req-7".parse().expect("a value"));
    let reply = send(&server(&fake), request).await;
    let message = reply.is_error(500, "server_error", None);
    assert!(
        message.contains("req-7") && !message.contains("secret"),
        "{message}"
    );
}

#[tokio::test]
async fn one_failed_choice_fails_the_answer_and_cancels_the_others() {
    let fake = Fake::new(|k, _| {
        if k == 0 {
            Play::Open(vec![])
        } else {
            Play::Events(vec![broken()])
        }
    });
    post(&server(&fake), json!({"prompt": "Hi", "n": 2}))
        .await
        .is_error(500, "server_error", None);
    assert!(fake.sender(0).is_closed());
}

#[tokio::test]
async fn an_engine_that_shuts_down_is_503() {
    let fake = Fake::new(|_, _| Play::Events(vec![Event::Failed(GenerateError::ShuttingDown)]));
    let reply = post(&server(&fake), json!({"prompt": "Hi"})).await;
    reply.is_error(503, "shutting_down", None);
    assert_eq!(reply.header("retry-after"), "1");
}

#[tokio::test]
async fn a_panic_costs_its_request_only() {
    let fake = Fake::new(|k, request| {
        assert!(k > 0, "scripted");
        Play::Events(answer(request, &["x"]))
    });
    let server = server(&fake);
    // The panic happens in the port, under a lock of the fake: not held while scripts run.
    post(&server, json!({"prompt": "Hi"}))
        .await
        .is_error(500, "server_error", None);
    get(&server, "/health").await;
}

#[tokio::test]
async fn requests_are_refused_while_loading_and_while_draining() {
    let readiness = Readiness::loading();
    let server = router(AppState::new(config(), readiness.clone()));
    let body = json!({"prompt": "Hi"});
    post(&server, body.clone()).await.is_error(503, "loading", None);
    get(&server, "/health").await.is_error(503, "loading", None);
    get(&server, "/v1/models").await.is_error(503, "loading", None);
    readiness.ready(engine(&Fake::says(&["x"])));
    assert_eq!(post(&server, body.clone()).await.status, 200);
    readiness.drain();
    post(&server, body).await.is_error(503, "shutting_down", None);
    get(&server, "/ready").await.is_error(503, "shutting_down", None);
}
