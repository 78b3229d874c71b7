//! Listens until told to stop, then finishes what was begun.
//!
//! On shutdown the server drains first: it still accepts connections, so that health checks and new requests are
//! answered with 503 and not with silence, until no request is being answered or the time is up. What still runs then
//! ends with an error. Then the server stops listening and closes what is idle.

use std::{io, time::Duration};

use axum::{Router, serve::ListenerExt};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use crate::Readiness;

/// Time that connections get to send the rest of their last response once listening has stopped.
const LINGER: Duration = Duration::from_secs(1);

/// Serves until `shutdown` resolves and running requests have finished, or `timeout` has passed since.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    readiness: Readiness,
    timeout: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = listener.tap_io(|connection| {
        // Tokens are small: without this they would wait for each other's acknowledgements.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps Nagle's algorithm");
        }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        // Resolves too if the sender is gone.
        let _ = stopped.await;
    });
    tokio::select! {
        result = async { server.await } => result,
        () = drained(readiness, timeout, shutdown, stop) => Ok(()),
    }
}

/// Resolves when nothing more is to be waited for, which is later than a server that closes in order needs.
async fn drained(
    readiness: Readiness,
    patience: Duration,
    shutdown: impl Future<Output = ()>,
    stop: oneshot::Sender<()>,
) {
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
    // The server may have ended by itself; then nobody listens.
    let _ = stop.send(());
    sleep_until(Instant::now() + LINGER).await;
}
