//! Random bodies: whatever is sent is answered, or refused as the client's fault, and never with a 500.
//!
//! `PROPTEST_CASES=100000` makes it a search of an hour.

use std::sync::LazyLock;

use axum::{Router, body::Body, http::Request};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::{
    fake::Fake,
    setup::{Reply, send, server},
};

/// Any JSON, three levels deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("auto")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(object),
        ]
    })
}

fn object(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(entries.into_iter().collect::<Map<_, _>>())
}

/// Names that mean something somewhere.
const NAMES: &[&str] = &[
    "prompt",
    "documents",
    "instructions",
    "blend",
    "mode",
    "recompute_ratio",
    "strategy",
    "hops",
    "text",
    "title",
    "id",
    "token_ids",
    "context",
    "data",
    "snippet",
    "stop",
    "n",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "logprobs",
    "echo",
    "stream",
    "stream_options",
    "include_usage",
    "cache_salt",
    "stop_token_ids",
    "tokens",
    "messages",
    "model",
    "logit_bias",
    "best_of",
    "return_token_strs",
    "add_special_tokens",
];

/// Names that mean something, and others.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(NAMES).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// A body that is nearly right: a prompt or tokens, and anything in some fields.
fn any_body() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), any_json(), 0..5).prop_map(|fields| {
        let mut body = json!({"prompt": "Hi", "tokens": [72], "max_tokens": 1});
        for (field, value) in fields {
            body[field] = value;
        }
        body
    })
}

/// One server for all cases: making its tokenizer takes longer than a case.
fn reply(path: &str, bytes: Vec<u8>) -> Reply {
    static SERVER: LazyLock<(Router, Runtime)> = LazyLock::new(|| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        (server(&Fake::says(&["x"])), runtime.expect("a runtime"))
    });
    let (server, runtime) = &*SERVER;
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(bytes)).expect("a request");
    runtime.block_on(send(server, request))
}

/// Checks that a body is answered, or refused with an error of OpenAI's shape.
fn check(path: &str, bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let reply = reply(path, bytes);
    let status = reply.status.as_u16();
    prop_assert!([200, 400, 404].contains(&status), "{status}: {:?}", reply.bytes);
    if status != 200 {
        let error = &reply.json()["error"];
        prop_assert!(
            error["message"].is_string() && error["code"].is_string(),
            "{error}"
        );
        prop_assert_eq!(&error["type"], "invalid_request_error");
    }
    Ok(())
}

const PATHS: [&str; 3] = ["/v1/completions", "/tokenize", "/detokenize"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nearly_right_bodies_are_answered_or_refused(path in prop::sample::select(&PATHS[..]), body in any_body()) {
        check(path, body.to_string().into_bytes())?;
    }

    #[test]
    fn any_bytes_are_answered_or_refused(path in prop::sample::select(&PATHS[..]), bytes: Vec<u8>) {
        check(path, bytes)?;
    }

    #[test]
    fn bodies_with_a_byte_changed_are_answered_or_refused(
        path in prop::sample::select(&PATHS[..]),
        body in any_body(),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = body.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check(path, bytes)?;
    }

    #[test]
    fn a_text_is_what_its_tokens_spell(text: String) {
        let body = json!({"prompt": text, "add_special_tokens": false});
        let tokens = reply("/tokenize", body.to_string().into_bytes()).json()["tokens"].clone();
        let spelled = reply("/detokenize", json!({"tokens": tokens}).to_string().into_bytes()).json();
        prop_assert_eq!(spelled, json!({"prompt": text}));
    }
}
