//! Clients that wait, go away, name their requests or are browsers.

use std::pin::pin;

use axum::http::Method;
use futures::FutureExt;
use medley_generate::FinishReason;
use serde_json::json;
use tower::ServiceExt;

use crate::{
    fake::{Fake, Play, finished, planned, token},
    setup::{completion, request, send, server},
};

#[tokio::test]
async fn a_client_that_leaves_a_stream_cancels_its_choices() {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let body = json!({"prompt": "Hi", "n": 2, "stream": true});
    let response = server(&fake)
        .oneshot(completion(&body))
        .await
        .expect("infallible");
    assert!(!fake.sender(0).is_closed() && !fake.sender(1).is_closed());
    drop(response);
    assert!(fake.sender(0).is_closed() && fake.sender(1).is_closed());
}

#[tokio::test]
async fn a_client_that_does_not_wait_for_a_whole_answer_cancels_it() {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let waiting = tokio::spawn(server(&fake).oneshot(completion(&json!({"prompt": "Hi"}))));
    fake.submitted(1).await;
    assert!(!fake.sender(0).is_closed());
    waiting.abort();
    assert!(waiting.await.is_err());
    assert!(fake.sender(0).is_closed());
}

#[tokio::test]
async fn the_head_of_a_stream_waits_for_the_plans_of_all_prompts() {
    let fake = Fake::new(|_, _| Play::Open(vec![]));
    let body = json!({"prompt": ["Hi", "Yo"], "n": 2, "stream": true});
    let server = server(&fake);
    let mut response = pin!(send(&server, completion(&body)));
    tokio::select! {
        _ = &mut response => panic!("answered before any plan"),
        () = fake.submitted(4) => {}
    }
    let requests = fake.requests();
    fake.sender(0).send(planned(&requests[0])).expect("received");
    fake.sender(0).send(token("early")).expect("received");
    assert!(
        (&mut response).now_or_never().is_none(),
        "the second prompt has no plan yet"
    );
    fake.sender(2).send(planned(&requests[2])).expect("received");
    for (k, request) in requests.iter().enumerate() {
        fake.sender(k)
            .send(finished(request, FinishReason::Stop, ""))
            .expect("received");
    }
    fake.open.lock().expect("lock").clear();
    let reply = response.await;
    assert_eq!(reply.header("x-medley-exact-prefix-tokens"), "4");
    assert_eq!(reply.chunks()[0]["choices"][0]["text"], "early");
}

#[tokio::test]
async fn a_sane_request_id_is_returned_and_another_is_replaced() {
    let server = server(&Fake::says(&["x"]));
    let with = |id: &str| {
        let mut request = request(Method::GET, "/live");
        request
            .headers_mut()
            .insert("x-request-id", id.parse().expect("a value"));
        request
    };
    assert_eq!(
        send(&server, with("a-7:b/c=")).await.header("x-request-id"),
        "a-7:b/c="
    );
    for odd in ["", "a b", "a\"b", &"x".repeat(129)] {
        let reply = send(&server, with(odd)).await;
        assert!(reply.header("x-request-id").starts_with("req_"), "{odd:?}");
    }
    let missing = send(&server, request(Method::GET, "/nothing")).await;
    assert!(missing.header("x-request-id").starts_with("req_"));
}

#[tokio::test]
async fn browsers_may_call_and_read_our_headers() {
    let server = server(&Fake::says(&["x"]));
    let mut preflight = request(Method::OPTIONS, "/v1/completions");
    for (name, value) in [
        ("origin", "https://a.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ] {
        preflight
            .headers_mut()
            .insert(name, value.parse().expect("a value"));
    }
    let reply = send(&server, preflight).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("access-control-allow-headers"),
        "authorization,content-type"
    );
    let mut call = completion(&json!({"prompt": ""}));
    call.headers_mut()
        .insert("origin", "https://a.example".parse().expect("a value"));
    let reply = send(&server, call).await;
    assert_eq!(reply.header("access-control-allow-origin"), "*");
    for name in [
        "x-medley-plan",
        "x-medley-fresh-tokens",
        "x-request-id",
        "retry-after",
    ] {
        assert!(
            reply.header("access-control-expose-headers").contains(name),
            "{name}"
        );
    }
}
