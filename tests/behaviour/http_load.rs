//! Many clients at once, some of which hang up.

use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{Engines, Server};

const CLIENTS: usize = 32;

fn request(client: usize) -> Value {
    let document = |i: usize| "abcdefgh ".repeat(4 + i % 7) + &i.to_string();
    let documents: Vec<_> = (0..client % 4).map(|i| document(client + i)).collect();
    let mode = if client.is_multiple_of(5) { "exact" } else { "auto" };
    json!({
        "prompt": format!("question {client} {}", "x".repeat(client * 3)),
        "documents": documents,
        "blend": {"mode": mode},
        "temperature": 0,
        "max_tokens": 40 + 13 * client,
        "stream": true,
    })
}

/// Reads a stream to its end, or hangs up after `patience` chunks.
fn read(server: &Server, body: &Value, patience: Option<usize>) -> String {
    let response = server.post(body);
    assert_eq!(response.status(), 200);
    let mut text = String::new();
    let mut done = false;
    for (chunk, line) in BufReader::new(response)
        .lines()
        .map_while(Result::ok)
        .filter(|l| !l.is_empty())
        .enumerate()
    {
        if patience.is_some_and(|patience| chunk >= patience) {
            return text;
        }
        let data = line.strip_prefix("data: ").expect("an event");
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let event: Value = serde_json::from_str(data).expect("JSON");
        text += event["choices"][0]["text"].as_str().expect("a text");
    }
    assert!(done, "the stream broke off");
    text
}

/// Waits until no gauge shows anything of any request.
fn settle(server: &Server) {
    let patience = Instant::now() + Duration::from_secs(20);
    let held = [
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "medley_private_pages",
        "medley_leases",
        "medley_computing_documents",
    ];
    while held.iter().any(|name| server.metric(name) != 0.0) {
        assert!(Instant::now() < patience, "{}", server.get("/metrics"));
    }
}

fn engines() -> Engines {
    Engines::default().with(|e| e.pages = 1500)
}

#[test]
fn concurrent_streams_get_the_texts_that_they_get_alone() {
    let server = Server::fake(&engines());
    let texts: Vec<String> = std::thread::scope(|scope| {
        let run = |i: usize| read(&server, &request(i), None);
        let clients: Vec<_> = (0..CLIENTS).map(|i| scope.spawn(move || run(i))).collect();
        clients.into_iter().map(|c| c.join().expect("a text")).collect()
    });
    settle(&server);
    let alone = Server::fake(&engines());
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(text.len(), 40 + 13 * i, "client {i}");
        assert_eq!(*text, read(&alone, &request(i), None), "client {i}");
    }
}

#[test]
fn clients_that_hang_up_leave_nothing_behind() {
    let server = Server::fake(&engines());
    std::thread::scope(|scope| {
        let run = |i: usize| read(&server, &request(i), i.is_multiple_of(2).then_some(i / 2));
        let clients: Vec<_> = (0..CLIENTS).map(|i| scope.spawn(move || run(i))).collect();
        for (i, client) in clients.into_iter().enumerate() {
            let text = client.join().expect("no panic");
            assert!(i.is_multiple_of(2) || text.len() == 40 + 13 * i, "client {i}");
        }
    });
    settle(&server);
    assert_eq!(read(&server, &request(3), None).len(), 40 + 13 * 3);
}
