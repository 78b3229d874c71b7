//! The access log.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use axum::body::Body;
use http_body_util::BodyExt;
use medley_generate::FinishReason;
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    fake::{Fake, Play, finished, planned, token},
    setup::{completion, post, server},
};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Answered requests so far.
    fn answered(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().expect("a lock").clone()).expect("UTF-8");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines
            .filter(|line: &Value| line["fields"]["message"] == "answered")
            .map(|line| line["fields"].clone())
            .collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a lock").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

/// Logs what this thread does; tests run on one thread each.
fn log() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().json().with_writer(log.clone()).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

/// The body of a stream that has sent one token and goes on, and the engine behind it.
async fn streaming() -> (Body, Arc<Fake>) {
    let fake = Fake::new(|_, request| Play::Open(vec![planned(request), token("a")]));
    let request = completion(&json!({"prompt": "Hi", "stream": true}));
    let response = server(&fake).oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), 200);
    (response.into_body(), fake)
}

#[tokio::test]
async fn a_whole_answer_is_logged_once() {
    let (log, _guard) = log();
    post(&server(&Fake::says(&["x"])), json!({"prompt": "Hi"})).await;
    let [answered] = &log.answered()[..] else {
        panic!("{:?}", log.answered())
    };
    assert_eq!(answered["route"], "/v1/completions");
    assert_eq!(
        (&answered["status"], &answered["code"]),
        (&json!(200), &json!(""))
    );
}

#[tokio::test]
async fn a_stream_is_logged_at_its_end() {
    let (log, _guard) = log();
    let (body, fake) = streaming().await;
    assert_eq!(log.answered(), Vec::<Value>::new());
    let end = finished(&fake.requests()[0], FinishReason::Stop, "");
    fake.sender(0).send(end).expect("received");
    body.collect().await.expect("a body");
    let [answered] = &log.answered()[..] else {
        panic!("{:?}", log.answered())
    };
    assert_eq!(
        (&answered["status"], &answered["code"]),
        (&json!(200), &json!(""))
    );
}

#[tokio::test]
async fn a_stream_that_nobody_reads_to_its_end_says_so_in_the_log() {
    let (log, _guard) = log();
    let (mut body, _fake) = streaming().await;
    body.frame().await.expect("a frame").expect("a chunk");
    drop(body);
    let [answered] = &log.answered()[..] else {
        panic!("{:?}", log.answered())
    };
    assert_eq!(answered["code"], "client_gone");
}
