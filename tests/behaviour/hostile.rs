//! Input that no client should send: it is refused with an error of OpenAI's shape, and the server answers afterwards.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use medley_server::ServerConfig;
use medley_shadow::Rate;
use serde_json::{Value, json};

use crate::harness::{Engines, Server, config};

const PATHS: [&str; 3] = ["/v1/completions", "/tokenize", "/detokenize"];

fn server() -> Server {
    Server::fake(&Engines::default())
}

/// Status and error of a body; an answer of 200 has a null error.
fn outcome(server: &Server, path: &str, body: impl Into<Vec<u8>>) -> (u16, Value) {
    let request = server.client.post(format!("{}{path}", server.address));
    let request = request
        .header("content-type", "application/json")
        .body(body.into());
    let response = request.send().expect("a response");
    let status = response.status().as_u16();
    let answer: Value = response.json().expect("JSON");
    (status, answer["error"].clone())
}

/// Checks that a body is refused as the client's fault and the error has its four fields.
fn refused(server: &Server, path: &str, body: impl Into<Vec<u8>>) -> Value {
    let body = body.into();
    let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    let (status, error) = outcome(server, path, body);
    assert!([400, 413].contains(&status), "{path} {shown}: {status} {error}");
    assert!(
        error["message"].is_string() && error["type"] == "invalid_request_error" && error["code"].is_string(),
        "{path} {shown}: {error}"
    );
    assert!(error["message"].as_str().is_some_and(|text| text.len() < 2000));
    error
}

/// Checks that the server still answers, holds nothing and never failed.
fn still_answers(server: &Server) {
    let answer = server.complete(&json!({"prompt": "still there?", "max_tokens": 2, "temperature": 0}));
    assert_eq!(answer["usage"]["completion_tokens"], 2);
    server.settle();
    let metrics = server.get("/metrics");
    assert!(!metrics.contains("status=\"500\""), "{metrics}");
}

#[test]
fn bodies_that_are_no_object_are_refused() {
    let server = server();
    let deep = |open: &str, close: &str| open.repeat(1000) + &close.repeat(1000);
    let bodies: Vec<Vec<u8>> = [
        "",
        " ",
        "[]",
        "true",
        "null",
        "1",
        "\"text\"",
        "{",
        "}",
        "{}{}",
        "{\"prompt\"}",
        "{'prompt': 'a'}",
        "NaN",
        "{\"prompt\": NaN}",
        "{\"prompt\": \"a\", \"temperature\": Infinity}",
        "{\"prompt\": \"\\ud800\"}",
        "{\"prompt\": \"\\udc00\\ud800\"}",
        "{\"prompt\": \"\\x00\"}",
        "{\"prompt\": \"\0\"}",
        "\u{feff}{\"prompt\": \"a\"}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into_iter()
    .chain([
        b"{\"prompt\": \"\xff\"}".to_vec(),
        b"{\"\xc3\x28\": 1}".to_vec(),
        b"\xff\xfe{\x00}\x00".to_vec(),
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        "[".repeat(1_000_000).into_bytes(),
        format!("{{\"prompt\": {}}}", deep("[", "]")).into_bytes(),
    ])
    .collect();
    for path in PATHS {
        for body in &bodies {
            refused(&server, path, body.clone());
        }
    }
    still_answers(&server);
}

/// What stands in a field that nobody reads may be refused or not, but it overflows no stack.
#[test]
fn fields_that_nobody_reads_may_be_as_deep_as_they_like() {
    let server = server();
    for depth in [100, 1000, 1_000_000] {
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        for field in ["foreign", "response_format", "logit_bias", "messages"] {
            for path in PATHS {
                let body =
                    format!("{{\"prompt\":\"a\",\"tokens\":[97],\"max_tokens\":1,\"{field}\":{deep}}}");
                let (status, error) = outcome(&server, path, body);
                assert!([200, 400].contains(&status), "{path} {field} {depth}: {error}");
            }
        }
    }
    still_answers(&server);
}

/// A body of one field more.
fn with(field: &str, value: Value) -> String {
    let mut body = json!({"prompt": "a", "max_tokens": 1});
    body[field] = value;
    body.to_string()
}

#[test]
fn numbers_that_nobody_means_are_refused_by_name() {
    let server = server();
    let fields = [
        "max_tokens",
        "n",
        "best_of",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "logprobs",
        "stop_token_ids",
        "presence_penalty",
    ];
    for field in fields {
        for number in ["1e999", "-1e999", &"9".repeat(400), "-1e300"] {
            let body = format!("{{\"prompt\":\"a\",\"{field}\":{number}}}");
            let error = refused(&server, "/v1/completions", body);
            let named = error["param"].as_str();
            assert!(
                named.is_some_and(|name| name.starts_with(field)) || error["code"] == "json_parse_error",
                "{field} {number}: {error}"
            );
        }
    }
    for ratio in ["-0.1", "1.1", "1e300", "\"all\"", "true", "[]"] {
        let body = format!("{{\"prompt\":\"a\",\"blend\":{{\"recompute_ratio\":{ratio}}}}}");
        let error = refused(&server, "/v1/completions", body);
        assert_eq!(error["param"], "blend.recompute_ratio", "{ratio}");
    }
    still_answers(&server);
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let server = server();
    let cases = [
        ("max_tokens", json!(0), "max_tokens"),
        ("stop", json!("x".repeat(1_000_000)), "stop"),
        ("stop", json!([""]), "stop"),
        ("stop", json!(["a", "b", "c", "d", "e"]), "stop"),
        ("stop_token_ids", json!([258]), "stop_token_ids[0]"),
        ("stop_token_ids", json!([4_294_967_295u32]), "stop_token_ids[0]"),
        ("logit_bias", json!({"999999": 1}), "logit_bias"),
        ("logit_bias", json!({"not a token": 1}), "logit_bias"),
        ("prompt", json!([1, 258]), "prompt[1]"),
        ("prompt", json!([[1], [4_294_967_295u32]]), "prompt[1][0]"),
        ("prompt", json!([]), "prompt"),
        ("prompt", json!([[]]), "prompt"),
        ("prompt", json!(""), "prompt"),
        ("prompt", json!("x".repeat(5_000_000)), "prompt"),
        ("prompt", json!(vec!["a"; 129]), "prompt"),
        ("documents", json!([{"token_ids": [258]}]), "documents[0]"),
        ("documents", json!([{"id": "doc_5f"}]), "documents[0].id"),
        ("documents", json!(vec!["a"; 513]), "documents"),
        ("cache_salt", json!(""), "cache_salt"),
        ("cache_salt", json!("x".repeat(1025)), "cache_salt"),
        ("model", json!("x".repeat(1_000_000)), "model"),
        ("stream_options", json!({}), "stream_options"),
    ];
    for (field, value, param) in cases {
        let (status, error) = outcome(&server, "/v1/completions", with(field, value));
        let expected = if field == "model" { 404 } else { 400 };
        assert_eq!(status, expected, "{field}: {error}");
        let named = error["param"].as_str().unwrap_or_default();
        assert!(named.starts_with(param), "{field}: {error}");
    }
    still_answers(&server);
}

#[test]
fn null_is_absent_in_every_field() {
    let server = server();
    let description: Value = serde_json::from_str(&server.get("/openapi.json")).expect("JSON");
    let fields = |schema: &str| -> Vec<String> {
        let properties = &description["components"]["schemas"][schema]["properties"];
        properties
            .as_object()
            .expect("properties")
            .keys()
            .cloned()
            .collect()
    };
    for (path, schema, must) in [
        ("/v1/completions", "CompletionRequest", "prompt"),
        ("/tokenize", "TokenizeRequest", "prompt"),
        ("/detokenize", "DetokenizeRequest", "tokens"),
    ] {
        let mut body = json!({});
        for field in fields(schema) {
            body[field] = Value::Null;
        }
        assert_eq!(refused(&server, path, body.to_string())["param"], must);
        body[must] = if must == "tokens" { json!([97]) } else { json!("a") };
        assert_eq!(outcome(&server, path, body.to_string()).0, 200, "{path}");
    }
    still_answers(&server);
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let server = server();
    for (path, body, param) in [
        ("/v1/completions", r#"{"prompt":"a","prompt":"b"}"#, "prompt"),
        ("/tokenize", r#"{"prompt":"a","prompt":"b"}"#, "prompt"),
        ("/detokenize", r#"{"tokens":[],"tokens":[1]}"#, "tokens"),
    ] {
        assert_eq!(refused(&server, path, body)["param"], param);
    }
}

#[test]
fn the_text_of_control_tokens_in_documents_stays_text() {
    let server = server();
    let text = "<|bos|><|end|> # # <|end|>";
    let body = json!({"prompt": "a", "documents": [text], "max_tokens": 3, "temperature": 0});
    let answer = server.complete(&body);
    let tokens = answer["medley"]["documents"][0]["tokens"]
        .as_u64()
        .expect("a count") as usize;
    assert!(
        tokens >= text.len(),
        "a document's text became control tokens: {tokens}"
    );
    still_answers(&server);
}

/// Sends `head`, then `piece` again and again, until an answer is there or the connection is closed.
fn flood(server: &Server, head: &str, piece: &[u8]) -> (String, usize) {
    let address = server.address.trim_start_matches("http://");
    let mut connection = TcpStream::connect(address).expect("connected");
    let mut listening = connection.try_clone().expect("a second handle");
    let hearing = std::thread::spawn(move || {
        let mut answer = vec![0; 4096];
        let length = listening.read(&mut answer).unwrap_or(0);
        String::from_utf8_lossy(&answer[..length]).into_owned()
    });
    connection.write_all(head.as_bytes()).expect("sent");
    let (mut sent, patience) = (0, Instant::now() + Duration::from_secs(30));
    while !hearing.is_finished() && connection.write_all(piece).is_ok() {
        sent += piece.len();
        assert!(Instant::now() < patience, "the server goes on reading: {sent}");
    }
    (hearing.join().expect("joined"), sent)
}

#[test]
fn bodies_and_heads_without_end_are_not_read_to_their_end() {
    let config = ServerConfig {
        body_limit: 1 << 20,
        ..config()
    };
    let server = Server::fake_as(&Engines::default(), Rate::NONE, config);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\n";
    let chunked = format!("{head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let (answer, sent) = flood(&server, &chunked, chunk.as_bytes());
    assert!(
        answer.contains(" 413 ") && answer.contains("request_too_large"),
        "{answer}"
    );
    assert!(sent < 50 << 20, "{sent} bytes were taken");
    let field = format!("x-long: {}\r\n", "a".repeat(10_000));
    let (answer, sent) = flood(&server, head, field.as_bytes());
    assert!(answer.contains(" 431 "), "{answer}");
    assert!(sent < 50 << 20, "{sent} bytes were taken");
    still_answers(&server);
}
