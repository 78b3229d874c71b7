//! Measures one generation from arrival to its end, whatever that is.

use std::{sync::Arc, time::Instant};

use medley_generate::{Event, FinishReason, GenerateError};
use medley_kv::{Plan, Report};

use super::{Metrics, latency::Completed};

/// Measures one generation. Dropped before the end, it counts an abort.
pub(crate) struct Meter {
    metrics: Arc<Metrics>,
    counts_prompt: bool,
    arrived: Instant,
    plan: Option<Plan>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    generated: usize,
    /// What dropping means; `None` once the end is counted.
    open: Option<Abort>,
}

/// Why a generation did not come to its end.
#[derive(Clone, Copy)]
enum Abort {
    ClientGone,
    GivenUp,
    Engine,
    ShuttingDown,
}

impl Abort {
    fn name(self) -> &'static str {
        match self {
            Self::ClientGone => "client_gone",
            Self::GivenUp => "request_failed",
            Self::Engine => "engine",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl Meter {
    pub(super) fn new(metrics: Arc<Metrics>, arrived: Instant, counts_prompt: bool) -> Self {
        Self {
            metrics,
            counts_prompt,
            arrived,
            plan: None,
            first_token: None,
            last_token: None,
            generated: 0,
            open: Some(Abort::ClientGone),
        }
    }

    /// The request is given up for another reason than that its client went away.
    pub(crate) fn give_up(&mut self) {
        self.open = self.open.map(|_| Abort::GivenUp);
    }

    /// Counts an event.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::Planned(report) => self.planned(report),
            Event::Prompt(_) => {}
            Event::Token(_) => self.token(),
            Event::Finished { reason, report, .. } => self.finished(*reason, report),
            Event::Failed(GenerateError::Engine(_) | GenerateError::Displaced) => self.abort(Abort::Engine),
            Event::Failed(GenerateError::ShuttingDown) => self.abort(Abort::ShuttingDown),
        }
    }

    fn planned(&mut self, report: &Report) {
        self.plan = Some(report.plan);
        if self.counts_prompt {
            self.metrics.reuse.planned(report);
        }
    }

    fn token(&mut self) {
        let now = Instant::now();
        self.generated += 1;
        self.metrics.latency.generated.inc();
        match self.last_token.replace(now) {
            Some(before) => self
                .metrics
                .latency
                .between_tokens
                .observe((now - before).as_secs_f64()),
            None => {
                self.first_token = Some(now);
                let seconds = (now - self.arrived).as_secs_f64();
                self.metrics.latency.first_token.observe(seconds);
                self.metrics
                    .reuse
                    .first_token(self.plan.unwrap_or(Plan::Exact), seconds);
            }
        }
    }

    fn finished(&mut self, reason: FinishReason, report: &Report) {
        let reason = match reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        };
        let whole = self.arrived.elapsed().as_secs_f64();
        let decode = self
            .first_token
            .map_or(0.0, |first| first.elapsed().as_secs_f64());
        let generated = self.generated;
        self.metrics.latency.completed(&Completed {
            report,
            generated,
            whole,
            decode,
        });
        self.metrics.latency.finished.with_label_values(&[reason]).inc();
        self.open = None;
    }

    fn abort(&mut self, abort: Abort) {
        self.open = None;
        self.metrics.reuse.aborts.with_label_values(&[abort.name()]).inc();
        self.metrics.latency.finished.with_label_values(&["abort"]).inc();
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(abort) = self.open {
            self.abort(abort);
        }
    }
}
