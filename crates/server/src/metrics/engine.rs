//! What the engine holds and has counted, read at each scrape.

use medley_generate::Gauges;
use medley_kv::PAGE_TOKENS;
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::Registrar;

pub(super) struct EngineMetrics {
    tier: &'static str,
    tier_bytes: IntGaugeVec,
    tier_capacity: IntGaugeVec,
    tier_entries: IntGaugeVec,
    tier_evictions: IntCounterVec,
    misses: IntCounterVec,
    private_pages: IntGauge,
    pool_pages: IntGauge,
    leases: IntGauge,
    computing: IntGauge,
    steps: IntCounter,
    last_step: Gauge,
    background: IntGauge,
    running: IntGauge,
    waiting: IntGauge,
    kv_usage: Gauge,
    cache_config: IntGaugeVec,
}

impl EngineMetrics {
    pub(super) fn new(registrar: &Registrar<'_>, tier: &'static str) -> Self {
        let of_tier = ["tier"];
        // Known to autoscalers; sequences are admitted with all the pages they need and never preempted.
        registrar.counter(
            "vllm:num_preemptions_total",
            "Always 0: requests are never preempted.",
        );
        Self {
            tier,
            tier_bytes: registrar.gauges("medley_tier_bytes", "Bytes of resident entries.", &of_tier),
            tier_capacity: registrar.gauges(
                "medley_tier_capacity_bytes",
                "Bytes that entries may hold.",
                &of_tier,
            ),
            tier_entries: registrar.gauges(
                "medley_tier_entries",
                "Resident documents and prefix pages.",
                &of_tier,
            ),
            tier_evictions: registrar.counters("medley_tier_evictions_total", "Entries evicted.", &of_tier),
            misses: registrar.counters(
                "medley_document_misses_total",
                "Look-ups of documents that found nothing usable.",
                &["reason"],
            ),
            private_pages: registrar.gauge(
                "medley_private_pages",
                "KV pages that running requests hold for themselves.",
            ),
            pool_pages: registrar.gauge("medley_pool_pages", "KV pages in the pool."),
            leases: registrar.gauge(
                "medley_leases",
                "Leases of documents and prefixes held by running requests.",
            ),
            computing: registrar.gauge(
                "medley_computing_documents",
                "Documents whose KV is being computed.",
            ),
            steps: registrar.counter("medley_engine_steps_total", "Steps that the engine has run."),
            last_step: registrar.float_gauge(
                "medley_engine_last_step_timestamp_seconds",
                "Unix time of the engine's last step.",
            ),
            background: registrar.gauge(
                "medley_background_requests",
                "Runs of shadow checks that wait for an idle moment or run.",
            ),
            running: registrar.gauge("vllm:num_requests_running", "Admitted requests."),
            waiting: registrar.gauge("vllm:num_requests_waiting", "Requests that wait for admission."),
            kv_usage: registrar.float_gauge(
                "vllm:kv_cache_usage_perc",
                "Share of KV pages that running requests hold for themselves; 1 is all.",
            ),
            cache_config: registrar.gauges(
                "vllm:cache_config_info",
                "Always 1; the KV pool is described by labels.",
                &["block_size", "num_gpu_blocks"],
            ),
        }
    }

    /// Takes over the engine's state. Not to be called twice at once.
    pub(super) fn set(&self, gauges: &Gauges) {
        self.set_tier(gauges);
        self.private_pages.set(integer(gauges.private_pages));
        self.pool_pages.set(integer(gauges.pool_pages));
        self.leases.set(integer(gauges.leases));
        self.computing.set(integer(gauges.computing));
        catch_up(&self.steps, gauges.steps);
        self.last_step.set(gauges.last_step_ms as f64 / 1e3);
        self.background.set(integer(gauges.background));
        self.running.set(integer(gauges.running));
        self.waiting.set(integer(gauges.waiting));
        self.kv_usage
            .set(gauges.private_pages as f64 / gauges.pool_pages.max(1) as f64);
        let config = [PAGE_TOKENS.to_string(), gauges.pool_pages.to_string()];
        self.cache_config.with_label_values(&config).set(1);
    }

    fn set_tier(&self, gauges: &Gauges) {
        let tier = [self.tier];
        let bytes = gauges.resident_pages.saturating_mul(gauges.page_bytes);
        self.tier_bytes.with_label_values(&tier).set(integer(bytes));
        self.tier_capacity
            .with_label_values(&tier)
            .set(integer(gauges.resident_capacity));
        self.tier_entries
            .with_label_values(&tier)
            .set(integer(gauges.documents + gauges.prefixes));
        catch_up(&self.tier_evictions.with_label_values(&tier), gauges.evictions);
        for (reason, count) in [
            ("absent", gauges.misses_absent),
            ("evicted", gauges.misses_evicted),
            ("mismatch", gauges.misses_mismatch),
        ] {
            catch_up(&self.misses.with_label_values(&[reason]), count);
        }
    }
}

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Advances a counter to a total that was counted elsewhere.
fn catch_up(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}
