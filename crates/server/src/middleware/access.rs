//! One log line and one count for every request.
//!
//! Both name the matched route, never the path that was asked for, so that their number is bounded and no id gets into
//! them. A request whose client went away before the head of the response is logged with status 499 and not counted
//! as a response; what it had running is counted as aborted where it ran. A stream is counted with its head and logged
//! at its end, so that its duration is that of the whole answer; one that nobody read to its end says so.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use futures::Stream;

use crate::{AppState, error::Failure, metrics::Metrics, request_id::RequestId};

/// Middleware: logs and counts.
pub(crate) async fn record(
    State(state): State<AppState>,
    route: Option<MatchedPath>,
    id: RequestId,
    request: Request,
    next: Next,
) -> Response {
    let route = route.map_or("unmatched".to_owned(), |route| route.as_str().to_owned());
    let method = request.method().clone();
    let metrics = Arc::clone(state.metrics());
    let mut entry = Entry {
        route,
        method,
        id,
        started: Instant::now(),
        metrics,
        head: None,
    };
    let response = next.run(request).await;
    entry.answer(&response);
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        Body::from_stream(Streamed {
            data: body.into_data_stream(),
            ended: false,
            entry,
        })
    })
}

struct Entry {
    route: String,
    method: Method,
    id: RequestId,
    started: Instant,
    metrics: Arc<Metrics>,
    /// Status and error code of the response.
    head: Option<(u16, &'static str)>,
}

impl Entry {
    fn answer(&mut self, response: &Response) {
        let failure = response.extensions().get::<Failure>();
        let code = failure.map_or("", |failure| failure.code);
        let status = response.status().as_u16();
        self.head = Some((status, code));
        self.metrics.http.response(&self.route, status, code);
        if let (Some(reason), &Method::POST) = (failure.and_then(|failure| failure.rejection), &self.method) {
            self.metrics.http.rejection(reason);
        }
    }

    fn log(&self, status: u16, code: &str) {
        let (route, method, ms) = (
            &self.route,
            &self.method,
            self.started.elapsed().as_secs_f64() * 1e3,
        );
        // Probes and scrapes come every few seconds and say nothing.
        if matches!(route.as_str(), "/health" | "/ready" | "/live" | "/metrics") {
            tracing::debug!(request_id = %self.id, %method, route, status, code, ms, "answered");
        } else {
            tracing::info!(request_id = %self.id, %method, route, status, code, ms, "answered");
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let (status, code) = self.head.unwrap_or((499, CLIENT_GONE));
        self.log(status, code);
    }
}

/// What is logged in place of an error code if nobody waited for the end.
const CLIENT_GONE: &str = "client_gone";

/// A body of unknown length, which takes its log entry along.
struct Streamed {
    data: BodyDataStream,
    ended: bool,
    entry: Entry,
}

impl Stream for Streamed {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.data).poll_next(context);
        self.ended |= matches!(next, Poll::Ready(None));
        next
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if let (false, Some((_, code))) = (self.ended, &mut self.entry.head) {
            *code = CLIENT_GONE;
        }
    }
}
