//! Responses and refusals.

use prometheus::IntCounterVec;

use super::Registrar;

pub(crate) struct HttpMetrics {
    responses: IntCounterVec,
    rejections: IntCounterVec,
}

impl HttpMetrics {
    pub(super) fn new(registrar: &Registrar<'_>) -> Self {
        Self {
            responses: registrar.counters(
                "medley_http_requests_total",
                "Responses by matched route, status and error code.",
                &["path", "status", "code"],
            ),
            rejections: registrar.counters_of(
                "medley_rejections_total",
                "Requests refused for the server's state or for their size.",
                "reason",
                &[
                    "queue_full",
                    "loading",
                    "shutting_down",
                    "context_length",
                    "kv_capacity",
                    "body_too_large",
                ],
            ),
        }
    }

    /// Counts the head of a response.
    pub(crate) fn response(&self, route: &str, status: u16, code: &str) {
        self.responses
            .with_label_values(&[route, &status.to_string(), code])
            .inc();
    }

    /// Counts a refusal.
    pub(crate) fn rejection(&self, reason: &str) {
        self.rejections.with_label_values(&[reason]).inc();
    }
}
