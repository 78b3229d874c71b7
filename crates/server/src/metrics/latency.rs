//! Durations and sizes of requests, under the names that autoscalers and dashboards read.

use medley_kv::Report;
use prometheus::{Histogram, IntCounter, IntCounterVec};

use super::Registrar;

/// Buckets of times to a first token, in seconds.
pub(super) const TIME_TO_FIRST_TOKEN: [f64; 18] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
];
const BETWEEN_TOKENS: [f64; 15] = [
    0.005, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
];
const WHOLE: [f64; 15] = [
    0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0,
];
const SIZES: [f64; 14] = [
    1.0, 8.0, 32.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0,
];

pub(super) struct LatencyMetrics {
    pub(super) generated: IntCounter,
    pub(super) finished: IntCounterVec,
    pub(super) first_token: Histogram,
    pub(super) between_tokens: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_size: Histogram,
    generated_size: Histogram,
}

/// A generation that came to its end.
pub(super) struct Completed<'a> {
    pub(super) report: &'a Report,
    pub(super) generated: usize,
    /// Seconds from arrival to the end.
    pub(super) whole: f64,
    /// Seconds from the first token to the end.
    pub(super) decode: f64,
}

impl LatencyMetrics {
    pub(super) fn new(registrar: &Registrar<'_>) -> Self {
        let histogram = |name, help, buckets: &[f64]| registrar.histogram(name, help, buckets);
        Self {
            generated: registrar.counter("vllm:generation_tokens_total", "Generated tokens."),
            finished: registrar.counters_of(
                "vllm:request_success_total",
                "Generations by why they ended.",
                "finished_reason",
                &["stop", "length", "abort"],
            ),
            first_token: histogram(
                "vllm:time_to_first_token_seconds",
                "From the request to the first token.",
                &TIME_TO_FIRST_TOKEN,
            ),
            between_tokens: histogram(
                "vllm:inter_token_latency_seconds",
                "Between tokens of a generation.",
                &BETWEEN_TOKENS,
            ),
            whole: histogram(
                "vllm:e2e_request_latency_seconds",
                "From the request to the end.",
                &WHOLE,
            ),
            queue: histogram(
                "vllm:request_queue_time_seconds",
                "From submission to the engine to admission.",
                &WHOLE,
            ),
            prefill: histogram(
                "vllm:request_prefill_time_seconds",
                "From admission to the first token: loading, documents, probe and prefill.",
                &WHOLE,
            ),
            decode: histogram(
                "vllm:request_decode_time_seconds",
                "From the first token to the end.",
                &WHOLE,
            ),
            prompt_size: histogram(
                "vllm:request_prompt_tokens",
                "Prompt tokens of a generation.",
                &SIZES,
            ),
            generated_size: histogram(
                "vllm:request_generation_tokens",
                "Tokens of a generation.",
                &SIZES,
            ),
        }
    }

    /// Counts a generation that came to its end.
    pub(super) fn completed(&self, completed: &Completed<'_>) {
        let timing = completed.report.timing;
        let prefill = timing.load + timing.compute_documents + timing.probe + timing.prefill;
        self.whole.observe(completed.whole);
        self.queue.observe(timing.queue / 1e3);
        self.prefill.observe(prefill / 1e3);
        self.decode.observe(completed.decode);
        self.prompt_size.observe(completed.report.tokens.total() as f64);
        self.generated_size.observe(completed.generated as f64);
    }
}
