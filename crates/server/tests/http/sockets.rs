//! The server on a socket: clients that hang up, and its end.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use medley_generate::FinishReason;
use medley_server::{AppState, Patience, Phase, Readiness, router, serve};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{
    fake::{Fake, Play, finished, planned, token},
    setup::{config, engine},
};

struct Running {
    address: SocketAddr,
    readiness: Readiness,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

async fn start(fake: &Arc<Fake>, timeout: Duration) -> Running {
    let patience = Patience {
        head: Duration::from_secs(60),
        shutdown: timeout,
    };
    start_with(fake, patience).await
}

async fn start_with(fake: &Arc<Fake>, patience: Patience) -> Running {
    let readiness = Readiness::loading();
    readiness.ready(engine(fake));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        stopped.await.expect("the test lives");
    };
    let router = router(AppState::new(config(), readiness.clone()));
    let served = tokio::spawn(serve(listener, router, readiness.clone(), patience, shutdown));
    Running {
        address,
        readiness,
        stop,
        served,
    }
}

/// Sends a request on a connection of its own and reads to its end, on a thread of its own.
fn exchange(address: SocketAddr, request: String) -> JoinHandle<String> {
    tokio::task::spawn_blocking(move || {
        let mut connection = TcpStream::connect(address).expect("connected");
        connection.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        // A connection that is cut off yields what came before.
        let _ = connection.read_to_string(&mut response);
        response
    })
}

fn health() -> String {
    "GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned()
}

fn stream() -> String {
    completion(r#"{"prompt":"Hi","stream":true}"#)
}

fn completion(body: &str) -> String {
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn draining(readiness: &Readiness) {
    while readiness.phase() != Phase::Draining {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn on_shutdown_running_requests_finish_and_others_get_503() {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let running = start(&fake, Duration::from_secs(60)).await;
    assert!(
        exchange(running.address, health())
            .await
            .expect("joined")
            .contains(" 200 ")
    );
    let streaming = exchange(running.address, stream());
    fake.submitted(1).await;
    running.stop.send(()).expect("running");
    draining(&running.readiness).await;
    let refused = exchange(running.address, health()).await.expect("joined");
    assert!(
        refused.contains(" 503 ") && refused.contains("shutting_down"),
        "{refused}"
    );
    let refused = exchange(running.address, stream()).await.expect("joined");
    assert!(refused.contains(" 503 "), "{refused}");
    assert!(!running.served.is_finished());
    let end = finished(&fake.requests()[0], FinishReason::Stop, "z");
    fake.sender(0).send(end).expect("received");
    let streamed = streaming.await.expect("joined");
    assert!(
        streamed.contains("\"z\"") && streamed.contains("[DONE]"),
        "{streamed}"
    );
    running.served.await.expect("joined");
}

#[tokio::test]
async fn requests_that_outlast_the_timeout_are_told_and_do_not_hold_the_server() {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let running = start(&fake, Duration::ZERO).await;
    let streaming = exchange(running.address, stream());
    let whole = exchange(running.address, completion(r#"{"prompt":"Hi"}"#));
    fake.submitted(2).await;
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
    let streamed = streaming.await.expect("joined");
    assert!(streamed.contains(" 200 "), "{streamed}");
    assert!(streamed.contains("data: {\"error\""), "{streamed}");
    assert!(
        streamed.contains("shutting_down") && !streamed.contains("[DONE]"),
        "{streamed}"
    );
    let whole = whole.await.expect("joined");
    assert!(
        whole.contains(" 503 ") && whole.contains("shutting_down"),
        "{whole}"
    );
    assert!(fake.sender(0).is_closed() && fake.sender(1).is_closed());
}

#[tokio::test]
async fn an_idle_server_stops_at_once() {
    let running = start(&Fake::says(&["x"]), Duration::from_secs(60)).await;
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_its_request_streaming_or_not() {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let running = start(&fake, Duration::from_secs(60)).await;
    for (k, request) in [completion(r#"{"prompt":"Hi"}"#), stream()]
        .into_iter()
        .enumerate()
    {
        let mut connection = TcpStream::connect(running.address).expect("connected");
        connection.write_all(request.as_bytes()).expect("sent");
        fake.submitted(k + 1).await;
        drop(connection);
        fake.sender(k).closed().await;
    }
    running.readiness.idle().await;
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
}

#[tokio::test]
async fn an_upload_that_does_not_end_does_not_hold_the_server() {
    let running = start(&Fake::says(&["x"]), Duration::from_secs(60)).await;
    let head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json";
    let head = format!("{head}\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n");
    let reading = tokio::task::spawn_blocking(move || {
        let mut connection = TcpStream::connect(running.address).expect("connected");
        connection.write_all(head.as_bytes()).expect("sent");
        let mut line = [0; 12];
        connection.read_exact(&mut line).expect("an answer");
        (connection, line)
    });
    let (connection, line) = reading.await.expect("joined");
    // The server has begun to read the body.
    assert_eq!(&line, b"HTTP/1.1 100");
    assert_eq!(running.readiness.in_flight(), 0);
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
    drop(connection);
}

/// What a client hears that sends `bytes` and then waits for the end.
fn heard(address: SocketAddr, bytes: &[u8]) -> JoinHandle<String> {
    exchange(address, String::from_utf8(bytes.to_vec()).expect("text"))
}

#[tokio::test]
async fn a_connection_whose_request_does_not_come_is_closed() {
    let patience = Patience {
        head: Duration::from_millis(50),
        shutdown: Duration::from_secs(60),
    };
    let running = start_with(&Fake::says(&["x"]), patience).await;
    let beginnings: [&[u8]; 4] = [
        b"",
        b"GET /health HT",
        b"GET /health HTTP/1.1\r\nhost: a\r\nx-slow: ",
        b"PRI * HTTP/2.0\r\n",
    ];
    for beginning in beginnings {
        let answer = heard(running.address, beginning).await.expect("joined");
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    // A connection that was used is closed too once it is silent.
    let kept = heard(running.address, b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .expect("joined");
    assert!(kept.contains(" 200 "), "{kept}");
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
}

#[tokio::test]
async fn a_silent_client_is_not_mistaken_for_one_that_waits_for_its_answer() {
    let patience = Patience {
        head: Duration::from_millis(50),
        shutdown: Duration::from_secs(60),
    };
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let running = start_with(&fake, patience).await;
    let whole = exchange(running.address, completion(r#"{"prompt":"Hi"}"#));
    fake.submitted(1).await;
    let silent = heard(running.address, b"").await.expect("joined");
    assert_eq!(silent, "", "its time was up");
    let end = finished(&fake.requests()[0], FinishReason::Stop, "z");
    fake.sender(0).send(end).expect("received");
    assert!(whole.await.expect("joined").contains("\"az\""));
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
}

#[tokio::test]
async fn a_hundred_megabytes_are_413_before_they_are_sent() {
    let running = start(&Fake::says(&["x"]), Duration::from_secs(60)).await;
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json";
    let head = format!("{head}\r\ncontent-length: 104857600\r\n\r\n{{");
    let answer = exchange(running.address, head).await.expect("joined");
    assert!(
        answer.contains(" 413 ") && answer.contains("request_too_large"),
        "{answer}"
    );
    running.stop.send(()).expect("running");
    running.served.await.expect("joined");
}
