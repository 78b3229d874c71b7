//! Metrics in Prometheus' text format.
//!
//! Labels are bounded: routes, status codes and names from fixed sets; never texts, ids or tenants. What the engine
//! counts is read when somebody asks, everything else is counted where it happens.
//!
//! **Aborted requests.** A prompt's tokens are counted when its plan is known, and generated tokens as they come. So a
//! request that is aborted has added what it had planned and what it had generated; it adds one to
//! `medley_aborts_total` and to `vllm:request_success_total{finished_reason="abort"}`, and nothing to the
//! histograms of whole requests. With `n > 1` a prompt is counted once.
//!
//! **Shadow checks** are no requests: they have metrics of their own and add to none of the others, but that their
//! pages and steps are pages and steps.

mod engine;
mod http;
mod latency;
mod meter;
mod registrar;
mod reuse;
mod shadow;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use medley_generate::Gauges;
use prometheus::{Registry, TextEncoder, process_collector::ProcessCollector};

use crate::ServerConfig;
use engine::EngineMetrics;
use http::HttpMetrics;
use latency::LatencyMetrics;
pub(crate) use meter::Meter;
use registrar::Registrar;
use reuse::ReuseMetrics;
use shadow::ShadowMetrics;

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    engine: EngineMetrics,
    pub(crate) http: HttpMetrics,
    reuse: ReuseMetrics,
    latency: LatencyMetrics,
    pub(crate) shadow: ShadowMetrics,
    /// One scrape at a time: counters of the engine are advanced by differences.
    scrape: Mutex<()>,
}

impl Metrics {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let registry = Registry::new();
        let registrar = Registrar::new(&registry, config.model_name());
        registrar.labels(
            "medley_build_info",
            "Always 1; the version is a label.",
            &["version"],
            &[VERSION],
        );
        registrar.take(Box::new(ProcessCollector::for_self()));
        Self {
            engine: EngineMetrics::new(&registrar, config.resident_tier.name()),
            http: HttpMetrics::new(&registrar),
            reuse: ReuseMetrics::new(&registrar),
            latency: LatencyMetrics::new(&registrar),
            shadow: ShadowMetrics::new(&registrar),
            scrape: Mutex::new(()),
            registry,
        }
    }

    /// Measures one choice of a request that arrived then; `counts_prompt` for the one whose account is its prompt's.
    pub(crate) fn meter(self: &Arc<Self>, arrived: Instant, counts_prompt: bool) -> Meter {
        Meter::new(Arc::clone(self), arrived, counts_prompt)
    }

    /// Counts a request with documents for a smaller ratio than the model needs.
    pub(crate) fn below_needed(&self) {
        self.reuse.below_needed();
    }

    /// Everything as text, the engine's state as of now.
    pub(crate) fn render(&self, gauges: Option<&Gauges>) -> prometheus::Result<String> {
        let _one_at_a_time = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gauges) = gauges {
            self.engine.set(gauges);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    /// What `promtool check metrics` asks of our names.
    #[test]
    fn our_names_follow_the_conventions() {
        let metrics = Metrics::new(&ServerConfig::new("m"));
        metrics.http.response("/v1/completions", 200, "");
        let text = metrics.render(Some(&Gauges::default())).expect("text");
        let types = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE medley_"));
        for (name, kind) in types.filter_map(|line| line.split_once(' ')) {
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            assert!(
                !name.contains("_ms") && !name.contains("milli"),
                "{name} is not in base units"
            );
            assert!(
                text.contains(&format!("# HELP medley_{name} ")),
                "{name} has no help"
            );
        }
        assert!(
            text.contains("medley_build_info{version=\"") && text.contains("process_resident_memory_bytes")
        );
    }

    #[test]
    fn counters_of_the_engine_only_grow() {
        let metrics = Metrics::new(&ServerConfig::new("m"));
        let at = |evictions| {
            let gauges = Gauges {
                evictions,
                ..Gauges::default()
            };
            let text = metrics.render(Some(&gauges)).expect("text");
            text.lines()
                .find(|line| line.starts_with("medley_tier_evictions_total"))
                .map(str::to_owned)
        };
        for (now, shown) in [(3, 3), (5, 5), (5, 5), (4, 5)] {
            assert_eq!(
                at(now),
                Some(format!("medley_tier_evictions_total{{tier=\"host\"}} {shown}"))
            );
        }
    }
}
