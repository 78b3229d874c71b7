//! Texts to tokens and back.

use axum::{body::Body, http::Request};
use medley_server::{AppState, Readiness, router};
use serde_json::{Value, json};

use crate::{
    fake::Fake,
    setup::{Reply, config, get, post, send, server},
};

async fn ask(server: &axum::Router, path: &str, body: Value) -> Reply {
    let request = Request::post(path).header("content-type", "application/json");
    send(
        server,
        request.body(Body::from(body.to_string())).expect("a request"),
    )
    .await
}

#[tokio::test]
async fn a_text_has_the_tokens_that_a_plain_prompt_has() {
    let fake = Fake::says(&["x"]);
    let server = server(&fake);
    for text in ["Hi", "<|bos|>Hi", "ß <|endoftext|>"] {
        post(&server, json!({"prompt": text})).await;
        let run = fake.requests().pop().expect("a request").prompt.tokens();
        let run: Vec<u32> = run.iter().map(|token| token.0).collect();
        for path in ["/tokenize", "/v1/tokenize"] {
            let reply = ask(&server, path, json!({"prompt": text})).await;
            let expected =
                json!({"count": run.len(), "max_model_len": 200, "tokens": run, "token_strs": null});
            assert_eq!(reply.json(), expected, "{path} {text}");
        }
    }
}

#[tokio::test]
async fn special_tokens_and_spellings_are_given_if_asked_for() {
    let server = server(&Fake::says(&["x"]));
    let body =
        json!({"prompt": "H i", "add_special_tokens": false, "return_token_strs": true, "model": "default"});
    let reply = ask(&server, "/tokenize", body).await.json();
    assert_eq!(reply["tokens"], json!([72, 32, 105]));
    assert_eq!(reply["token_strs"], json!(["H", "Ġ", "i"]));
    let empty = ask(&server, "/tokenize", json!({"prompt": ""})).await.json();
    assert_eq!(empty["tokens"], json!([256]));
    let nothing = json!({"prompt": "", "add_special_tokens": false});
    assert_eq!(ask(&server, "/tokenize", nothing).await.json()["count"], 0);
}

#[tokio::test]
async fn tokens_become_the_text_again() {
    let server = server(&Fake::says(&["x"]));
    for text in ["", "Hi ß", "<|bos|>Hi<|endoftext|>"] {
        let tokens = ask(
            &server,
            "/tokenize",
            json!({"prompt": text, "add_special_tokens": false}),
        )
        .await
        .json();
        for path in ["/detokenize", "/v1/detokenize"] {
            let reply = ask(&server, path, json!({"tokens": tokens["tokens"]})).await;
            assert_eq!(reply.json(), json!({"prompt": text}), "{path}");
        }
    }
}

#[tokio::test]
async fn mistakes_are_named() {
    let server = server(&Fake::says(&["x"]));
    for (path, body, status, code, param) in [
        (
            "/tokenize",
            json!({}),
            400,
            "missing_required_parameter",
            "prompt",
        ),
        ("/tokenize", json!({"prompt": 7}), 400, "invalid_type", "prompt"),
        (
            "/tokenize",
            json!({"messages": []}),
            400,
            "unsupported_parameter",
            "messages",
        ),
        (
            "/tokenize",
            json!({"prompt": "a", "model": "b"}),
            404,
            "model_not_found",
            "model",
        ),
        (
            "/detokenize",
            json!({}),
            400,
            "missing_required_parameter",
            "tokens",
        ),
        (
            "/detokenize",
            json!({"tokens": [1, 258]}),
            400,
            "invalid_value",
            "tokens[1]",
        ),
        (
            "/detokenize",
            json!({"tokens": [1, -1]}),
            400,
            "invalid_value",
            "tokens[1]",
        ),
    ] {
        let reply = ask(&server, path, body).await;
        reply.is_error(status, code, Some(param));
    }
}

#[tokio::test]
async fn the_tokenizer_says_what_it_is() {
    let server = server(&Fake::says(&["x"]));
    let info = get(&server, "/tokenizer_info").await.json();
    assert_eq!(get(&server, "/v1/tokenizer_info").await.json(), info);
    let expected = json!({
        "tokenizer_class": "GPT2TokenizerFast", "vocab_size": 258, "model_max_length": 200, "add_bos_token": true,
        "bos_token": "<|bos|>", "bos_token_id": 256, "eos_token": "<|endoftext|>", "eos_token_id": 257,
        "eos_token_ids": [257], "chat_template": null,
        "added_tokens_decoder": {
            "256": {"content": "<|bos|>", "special": true}, "257": {"content": "<|endoftext|>", "special": true},
        },
    });
    assert_eq!(info, expected);
}

#[tokio::test]
async fn a_server_without_its_model_says_so() {
    let server = router(AppState::new(config(), Readiness::loading()));
    get(&server, "/tokenizer_info")
        .await
        .is_error(503, "loading", None);
    let reply = ask(&server, "/tokenize", json!({"prompt": "a"})).await;
    reply.is_error(503, "loading", None);
}
