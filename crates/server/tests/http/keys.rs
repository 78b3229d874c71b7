//! API keys, and what they keep apart.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{Method, Request},
};
use medley_server::ServerConfig;
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Play},
    setup::{Reply, completion, config, get, post, request, send, server, server_with},
};

fn keyed() -> ServerConfig {
    ServerConfig {
        api_keys: ["one", "two"].into_iter().collect(),
        ..config()
    }
}

async fn with_key<B: Into<axum::body::Body>>(server: &Router, authorization: &str, ask: Request<B>) -> Reply {
    let mut ask = ask.map(Into::into);
    let value = authorization.parse().expect("a value");
    ask.headers_mut().insert("authorization", value);
    send(server, ask).await
}

/// The salt with which the engine was asked.
async fn salt(server: &Router, fake: &Fake, key: &str, body: Value) -> Option<String> {
    let reply = with_key(server, &format!("Bearer {key}"), completion(&body)).await;
    assert_eq!(reply.status, 200);
    fake.requests().pop().expect("a request").cache_salt
}

#[tokio::test]
async fn without_a_key_or_with_a_wrong_one_it_is_401() {
    let server = server_with(&Fake::says(&["x"]), keyed());
    let body = json!({"prompt": "Hi"});
    let reply = post(&server, body.clone()).await;
    reply.is_error(401, "invalid_api_key", None);
    assert_eq!(reply.header("www-authenticate"), "Bearer");
    for wrong in [
        "Bearer three",
        "Bearer",
        "Bearer ",
        "Basic one",
        "one",
        "Bearer onetwo",
        "Bearer on",
        "Bearer one two",
    ] {
        let reply = with_key(&server, wrong, completion(&body)).await;
        let message = reply.is_error(401, "invalid_api_key", None);
        assert!(!message.contains("one"), "{message}");
    }
    for right in ["Bearer one", "Bearer two", "bearer one", "Bearer  one "] {
        assert_eq!(
            with_key(&server, right, completion(&body)).await.status,
            200,
            "{right}"
        );
    }
}

#[tokio::test]
async fn only_what_those_need_who_run_the_server_is_open() {
    let server = server_with(&Fake::says(&["x"]), keyed());
    for path in [
        "/health",
        "/live",
        "/ready",
        "/metrics",
        "/version",
        "/openapi.json",
        "/docs",
    ] {
        assert_eq!(get(&server, path).await.status, 200, "{path}");
    }
    for path in [
        "/v1/models",
        "/v1/models/org/model",
        "/tokenizer_info",
        "/v1/tokenizer_info",
        "/v1/anything",
        "/anything",
        "//health",
        "/health/",
    ] {
        get(&server, path).await.is_error(401, "invalid_api_key", None);
    }
    for path in ["/v1/completions", "/tokenize", "/detokenize", "/v1/detokenize"] {
        let reply = send(&server, request(Method::POST, path)).await;
        reply.is_error(401, "invalid_api_key", None);
    }
    let models = with_key(&server, "Bearer one", request(Method::GET, "/v1/models")).await;
    assert_eq!(models.status, 200);
}

#[tokio::test]
async fn preflights_need_no_key_and_refusals_can_be_read_by_pages() {
    let server = server_with(&Fake::says(&["x"]), keyed());
    let mut preflight = request(Method::OPTIONS, "/v1/completions");
    for (name, value) in [
        ("origin", "https://a.example"),
        ("access-control-request-method", "POST"),
    ] {
        preflight
            .headers_mut()
            .insert(name, value.parse().expect("a value"));
    }
    assert_eq!(send(&server, preflight).await.status, 200);
    let refused = post(&server, json!({"prompt": "Hi"})).await;
    assert_eq!(refused.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn keys_have_caches_of_their_own_which_salts_subdivide() {
    let fake = Fake::says(&["x"]);
    let server = server_with(&fake, keyed());
    let (plain, salted) = (
        json!({"prompt": "Hi"}),
        json!({"prompt": "Hi", "cache_salt": "user-7"}),
    );
    let salts = [
        salt(&server, &fake, "one", plain.clone()).await,
        salt(&server, &fake, "two", plain.clone()).await,
        salt(&server, &fake, "one", salted.clone()).await,
        salt(&server, &fake, "two", salted).await,
    ];
    for (index, one) in salts.iter().enumerate() {
        let text = one.as_deref().expect("a tenant's");
        assert!(!text.contains("one") && !text.contains("two"), "{text}");
        assert!(!salts[index + 1..].contains(one), "{text}");
    }
    assert_eq!(salt(&server, &fake, "one", plain).await, salts[0]);
}

#[tokio::test]
async fn where_no_key_is_wanted_one_changes_nothing() {
    let fake = Fake::says(&["x"]);
    let server = server(&fake);
    let body = json!({"prompt": "Hi", "cache_salt": "user-7"});
    assert_eq!(salt(&server, &fake, "any", body).await.as_deref(), Some("user-7"));
    assert_eq!(salt(&server, &fake, "any", json!({"prompt": "Hi"})).await, None);
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up() {
    let fake = Fake::new(|_, _| Play::Open(vec![]));
    let config = ServerConfig {
        request_timeout: Some(Duration::from_millis(20)),
        ..config()
    };
    let server = server_with(&Arc::clone(&fake), config);
    let reply = post(&server, json!({"prompt": "Hi"})).await;
    let message = reply.is_error(504, "answer_timeout", None);
    assert!(message.contains("0.02 seconds"), "{message}");
    assert!(fake.sender(0).is_closed());
}
