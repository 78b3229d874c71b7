//! Connections: HTTP/1 and HTTP/2, with a bound on the time that a client may be silent where a request belongs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::Request};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, time::sleep};
use tower::ServiceExt;

/// Interval at which HTTP/2 clients are asked whether they are still there.
const PING: Duration = Duration::from_secs(20);

/// All connections.
pub(crate) struct Connections {
    router: Router,
    builder: Builder<TokioExecutor>,
    open: GracefulShutdown,
    head_timeout: Duration,
}

impl Connections {
    /// None yet. The head of a request must arrive within `head_timeout`; on an open connection that includes the time
    /// before it.
    pub(crate) fn new(router: Router, head_timeout: Duration) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING);
        Self {
            router,
            builder,
            open: GracefulShutdown::new(),
            head_timeout,
        }
    }

    /// Answers what comes from `stream`, in a task of its own.
    pub(crate) fn serve(&self, stream: TcpStream) {
        // Tokens are small: without this they would wait for each other's acknowledgements.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps Nagle's algorithm");
        }
        let asked = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&asked);
        let service = self
            .router
            .clone()
            .map_request(move |request: Request<Incoming>| {
                heard.store(true, Ordering::Relaxed);
                request
            });
        let connection = self
            .builder
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .into_owned();
        let connection = self.open.watch(connection);
        let head_timeout = self.head_timeout;
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(error, "a connection broke");
                },
                () = silence(&asked, head_timeout) => tracing::debug!("a connection without a request is closed"),
            }
        });
    }

    /// Resolves when all have sent what they had begun; they take no further requests.
    pub(crate) async fn close(self) {
        self.open.shutdown().await;
    }
}

/// Resolves if nothing has been asked when the time is up. The protocols' own timeouts begin later, once it is known which
/// of them is spoken.
async fn silence(asked: &AtomicBool, patience: Duration) {
    sleep(patience).await;
    if asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
