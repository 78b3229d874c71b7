//! Many clients at once, some of which hang up.

use std::time::Duration;

use medley_bench::load::{Arrivals, Corpus, Options, Report, Traffic};
use serde_json::{Value, json};

use crate::harness::{Engines, Server, at_once};

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

fn engines() -> Engines {
    Engines::default().with(|e| e.pages = 1500)
}

#[test]
fn concurrent_streams_get_the_texts_that_they_get_alone() {
    let server = Server::fake(&engines());
    let texts = at_once(CLIENTS, |i| server.stream(&request(i), None));
    server.settle();
    let alone = Server::fake(&engines());
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(text.len(), 40 + 13 * i, "client {i}");
        assert_eq!(*text, alone.stream(&request(i), None), "client {i}");
    }
}

#[test]
fn clients_that_hang_up_leave_nothing_behind() {
    let server = Server::fake(&engines());
    let texts = at_once(CLIENTS, |i| {
        server.stream(&request(i), i.is_multiple_of(2).then_some(i / 2))
    });
    for (i, text) in texts.iter().enumerate() {
        assert!(i.is_multiple_of(2) || text.len() == 40 + 13 * i, "client {i}");
    }
    server.settle();
    assert_eq!(server.stream(&request(3), None).len(), 40 + 13 * 3);
}

/// Documents that clients share, of 30 to 200 tokens, and answers of 12 to 60.
fn small_model_request(client: usize, max_tokens: usize) -> Value {
    let line = |i: usize| {
        format!(
            "In the year {i} the harbour town counted {} boats and one bell. ",
            i * 7
        )
    };
    let document = |i: usize| -> String { (0..=i % 4 * 3).map(|n| line(1700 + 10 * i + n)).collect() };
    let documents: Vec<_> = (0..client % 4).map(|i| document(client / 2 + i)).collect();
    let (strategy, mode) = [
        ("query", "auto"),
        ("heads", "auto"),
        ("deviation", "auto"),
        ("auto", "exact"),
    ][client * 3 / 2 % 4];
    json!({
        "prompt": format!("Question {client}: how many boats?{}\nAnswer:", " Please.".repeat(client * 5)),
        "instructions": "Answer from the documents.",
        "documents": documents,
        "blend": {"mode": mode, "strategy": strategy},
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": true,
    })
}

#[test]
fn on_the_small_model_too_streams_beside_others_that_hang_up_get_the_texts_that_they_get_alone() {
    let (clients, hang_up) = (8, |i: usize| i.is_multiple_of(2));
    let server = Server::small_model();
    let texts = at_once(clients, |i| {
        if hang_up(i) {
            server.stream(&small_model_request(i, 1000), Some(2 + 3 * i))
        } else {
            server.stream(&small_model_request(i, 12 + 7 * i), None)
        }
    });
    server.settle();
    assert_eq!(server.metric("medley_aborts_total"), 4.0);
    let alone = Server::small_model();
    for (i, text) in texts.iter().enumerate() {
        if !hang_up(i) {
            let expected = alone.stream(&small_model_request(i, 12 + 7 * i), None);
            assert_eq!(*text, expected, "client {i}");
        }
    }
}

/// A load of half a second on the server.
fn load(server: &Server, arrivals: Arrivals, traffic: Traffic) -> Report {
    let options = Options {
        url: server.address.clone(),
        model: None,
        api_key: None,
        arrivals,
        duration: Duration::from_millis(500),
        requests: Some(200),
        corpus: Corpus::invented(20, 30, 1),
        traffic,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime
        .block_on(medley_bench::load::run(options))
        .expect("a load")
}

#[test]
fn the_load_generator_counts_what_the_server_did() {
    let server = Server::fake(&engines());
    let traffic = Traffic {
        max_tokens: 8,
        stream: 0.5,
        ..Traffic::default()
    };
    let report = load(&server, Arrivals::Closed { clients: 6 }, traffic);
    server.settle();
    assert!(report.done > 0 && report.done == report.requests, "{report}");
    assert_eq!(
        server.metric("medley_prompt_tokens_total") as u64,
        report.prompt_tokens
    );
    assert!(0 < report.cached_tokens && report.cached_tokens < report.prompt_tokens);
    let (first, whole) = (
        report.time_to_first_token_ms.expect("streams"),
        report.latency_ms.expect("answers"),
    );
    assert!(first.p50 <= whole.p99, "{report}");
}

#[test]
fn arrivals_come_whatever_the_server_does_and_some_go_away() {
    let server = Server::fake(&engines());
    let traffic = Traffic {
        max_tokens: 3000,
        hang_up: 1.0,
        ..Traffic::default()
    };
    let report = load(&server, Arrivals::Poisson { per_second: 100.0 }, traffic);
    server.settle();
    assert!((20..=90).contains(&report.requests), "{report}");
    assert!(report.hung_up > 0 && report.failed.is_empty(), "{report}");
}
