//! One log line and one count for every request.
//!
//! Both name the matched route, never the path that was asked for, so that their number is bounded and no id gets into
//! them. A request whose client went away before the head of the response is logged with status 499 and not counted
//! as a response; what it had running is counted as aborted where it ran.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};

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
        answered: false,
    };
    let response = next.run(request).await;
    entry.answer(&response);
    response
}

struct Entry {
    route: String,
    method: Method,
    id: RequestId,
    started: Instant,
    metrics: Arc<Metrics>,
    answered: bool,
}

impl Entry {
    fn answer(&mut self, response: &Response) {
        self.answered = true;
        let failure = response.extensions().get::<Failure>();
        let code = failure.map_or("", |failure| failure.code);
        let status = response.status().as_u16();
        self.metrics.http.response(&self.route, status, code);
        if let (Some(reason), &Method::POST) = (failure.and_then(|failure| failure.rejection), &self.method) {
            self.metrics.http.rejection(reason);
        }
        self.log(status, code);
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
        if !self.answered {
            self.log(499, "client_gone");
        }
    }
}
