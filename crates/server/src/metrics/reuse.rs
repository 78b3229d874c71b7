//! What prompts consisted of and what was reused of them.

use medley_kv::{Plan, Report};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::{Registrar, latency::TIME_TO_FIRST_TOKEN};

pub(super) struct ReuseMetrics {
    tokens: IntCounterVec,
    documents: IntCounterVec,
    ratio: Histogram,
    below_needed: IntCounter,
    first_token: HistogramVec,
    pub(super) aborts: IntCounterVec,
    prompt_tokens: IntCounter,
    prefix_queries: IntCounter,
    prefix_hits: IntCounter,
    document_queries: IntCounter,
    document_hits: IntCounter,
}

impl ReuseMetrics {
    pub(super) fn new(registrar: &Registrar<'_>) -> Self {
        Self {
            tokens: registrar.counters_of(
                "medley_prompt_tokens_total",
                "Prompt tokens by what happened to them, counted when the plan is known.",
                "kind",
                &["exact_prefix", "reused", "computed", "repaired", "fresh"],
            ),
            documents: registrar.counters_of(
                "medley_documents_total",
                "Documents of prompts by where their KV came from.",
                "source",
                &["gpu", "host", "disk", "remote", "computed"],
            ),
            ratio: registrar.histogram(
                "medley_recompute_ratio",
                "Repaired share of the document tokens of blended prompts.",
                &[0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0],
            ),
            below_needed: registrar.counter(
                "medley_below_needed_ratio_total",
                "Requests with documents that asked for a smaller ratio than the model was found to need.",
            ),
            first_token: registrar.histograms(
                "medley_time_to_first_token_seconds",
                "From the request to the first token, by how the prompt was run.",
                &TIME_TO_FIRST_TOKEN,
                &["plan"],
            ),
            aborts: registrar.counters_of(
                "medley_aborts_total",
                "Generations that did not come to their end.",
                "reason",
                &["client_gone", "request_failed", "engine", "shutting_down"],
            ),
            prompt_tokens: registrar.counter("vllm:prompt_tokens_total", "Prompt tokens."),
            prefix_queries: registrar.counter(
                "vllm:prefix_cache_queries_total",
                "Prompt tokens looked up as prefixes.",
            ),
            prefix_hits: registrar
                .counter("vllm:prefix_cache_hits_total", "Prompt tokens found as prefixes."),
            document_queries: registrar.counter(
                "vllm:external_prefix_cache_queries_total",
                "Document tokens looked up.",
            ),
            document_hits: registrar.counter(
                "vllm:external_prefix_cache_hits_total",
                "Document tokens that were resident and taken as they were.",
            ),
        }
    }

    /// Counts a request for a smaller ratio than the model needs.
    pub(super) fn below_needed(&self) {
        self.below_needed.inc();
    }

    /// Counts a prompt whose plan has become known.
    pub(super) fn planned(&self, report: &Report) {
        self.count_tokens(report);
        for document in &report.documents {
            self.documents.with_label_values(&[document.source.name()]).inc();
        }
        let documents: usize = report.documents.iter().map(|document| document.tokens).sum();
        self.document_queries.inc_by(documents as u64);
        self.document_hits.inc_by(report.tokens.reused as u64);
        if report.plan == Plan::Blended && documents > 0 {
            self.ratio
                .observe(report.tokens.repaired as f64 / documents as f64);
        }
    }

    fn count_tokens(&self, report: &Report) {
        let counts = report.tokens;
        for (kind, count) in [
            ("exact_prefix", counts.exact_prefix),
            ("reused", counts.reused),
            ("computed", counts.computed),
            ("repaired", counts.repaired),
            ("fresh", counts.fresh),
        ] {
            self.tokens.with_label_values(&[kind]).inc_by(count as u64);
        }
        self.prompt_tokens.inc_by(counts.total() as u64);
        self.prefix_queries.inc_by(counts.total() as u64);
        self.prefix_hits.inc_by(counts.exact_prefix as u64);
    }

    /// The first token came so many seconds after the request.
    pub(super) fn first_token(&self, plan: Plan, seconds: f64) {
        self.first_token
            .with_label_values(&[plan.name()])
            .observe(seconds);
    }
}
