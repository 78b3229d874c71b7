//! How far blended answers were from exact ones, as far as it was checked.

use medley_shadow::Outcome;
use prometheus::{Histogram, IntCounterVec};

use super::Registrar;

/// Nats per token.
const KL: [f64; 13] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];
/// Shares of tokens.
const AGREEMENT: [f64; 11] = [0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];

pub(crate) struct ShadowMetrics {
    kl: Histogram,
    top1_agreement: Histogram,
    checks: IntCounterVec,
}

impl ShadowMetrics {
    pub(super) fn new(registrar: &Registrar<'_>) -> Self {
        Self {
            kl: registrar.histogram(
                "medley_shadow_kl",
                "KL(exact || blended) of checked answers, in nats per token.",
                &KL,
            ),
            top1_agreement: registrar.histogram(
                "medley_shadow_top1_agreement",
                "Share of a checked answer's tokens at which exact and blended prefer the same one.",
                &AGREEMENT,
            ),
            checks: registrar.counters_of(
                "medley_shadow_checks_total",
                "Sampled answers by what came of their check.",
                "result",
                &["done", "dropped", "failed"],
            ),
        }
    }

    /// Counts what came of a sampled answer.
    pub(crate) fn record(&self, outcome: Outcome) {
        let result = match outcome {
            Outcome::Done(divergence) => {
                // Equal distributions may come out a rounding below 0, and sums must not fall.
                self.kl.observe(divergence.kl.max(0.0));
                self.top1_agreement.observe(divergence.top1);
                "done"
            }
            Outcome::Dropped => "dropped",
            Outcome::Failed => "failed",
        };
        self.checks.with_label_values(&[result]).inc();
    }
}
