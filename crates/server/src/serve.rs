//! Listens until told to stop, then finishes what was begun.
//!
//! On shutdown the server drains first: it still accepts connections, so that health checks and new requests are
//! answered with 503 and not with silence, until no request is being answered or the time is up. What still runs then
//! ends with an error. Then the server stops listening and closes what is idle.

use std::{io::ErrorKind, time::Duration};

use axum::Router;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{Readiness, connections::Connections};

/// Time that connections get to send the rest of their last response once listening has stopped.
const LINGER: Duration = Duration::from_secs(1);

/// Time after which connections are accepted again when the system had no more of something.
const BREATH: Duration = Duration::from_millis(100);

/// How long the server waits for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the head of a request, on a new connection and between requests.
    pub head: Duration,
    /// For running requests, at the end.
    pub shutdown: Duration,
}

/// Serves until `shutdown` resolves and running requests have finished, or the time for them has passed since.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    readiness: Readiness,
    patience: Patience,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let connections = Connections::new(router, patience.head);
    tokio::select! {
        () = accept(&listener, &connections) => {}
        () = drained(readiness, patience.shutdown, shutdown) => {}
    }
    drop(listener);
    // Those that take longer are cut off.
    let _ = timeout(LINGER, connections.close()).await;
}

/// Takes connections for ever.
async fn accept(listener: &TcpListener, connections: &Connections) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.serve(stream),
            Err(error) if is_of_client(error.kind()) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection can't be accepted");
                sleep(BREATH).await;
            }
        }
    }
}

/// Whether it was the client's connection that failed, not the listener.
fn is_of_client(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

/// Resolves when nothing more is to be waited for.
async fn drained(readiness: Readiness, patience: Duration, shutdown: impl Future<Output = ()>) {
    shutdown.await;
    readiness.drain();
    let running = readiness.in_flight();
    tracing::info!(
        running,
        "shutting down; running requests have {patience:?} to finish"
    );
    let deadline = Instant::now() + patience;
    if timeout_at(deadline, readiness.idle()).await.is_err() {
        tracing::warn!(
            running = readiness.in_flight(),
            "requests are cut off: the shutdown timeout has passed"
        );
        readiness.cut_off();
        // Their clients are told.
        let _ = timeout(LINGER, readiness.idle()).await;
    }
}
