//! Makes metrics and registers them.
//!
//! Names are literals of this crate, so a name that is malformed or taken is a mistake in it: it panics when the
//! server is built, before any request, and in every test.

use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, core::Collector,
};

pub(super) struct Registrar<'a> {
    registry: &'a Registry,
    model: &'a str,
}

impl<'a> Registrar<'a> {
    pub(super) fn new(registry: &'a Registry, model: &'a str) -> Self {
        Self { registry, model }
    }

    pub(super) fn take(&self, collector: Box<dyn Collector>) {
        self.registry
            .register(collector)
            .expect("names of metrics are distinct");
    }

    fn registered<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let metric = made.expect("names of metrics are well formed");
        self.take(Box::new(metric.clone()));
        metric
    }

    /// Names that others chose (`vllm:…`) carry the model's name.
    fn opts(&self, name: &str, help: &str) -> Opts {
        let opts = Opts::new(name, help);
        if name.starts_with("vllm:") {
            opts.const_label("model_name", self.model)
        } else {
            opts
        }
    }

    fn histogram_opts(&self, name: &str, help: &str, buckets: &[f64]) -> HistogramOpts {
        HistogramOpts {
            common_opts: self.opts(name, help),
            buckets: buckets.to_vec(),
        }
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.registered(IntCounter::with_opts(self.opts(name, help)))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.registered(IntCounterVec::new(self.opts(name, help), labels))
    }

    /// Counters of one label whose values are known: all there from the start, at 0.
    pub(super) fn counters_of(&self, name: &str, help: &str, label: &str, values: &[&str]) -> IntCounterVec {
        let counters = self.counters(name, help, &[label]);
        values
            .iter()
            .for_each(|value| drop(counters.with_label_values(&[value])));
        counters
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.registered(IntGauge::with_opts(self.opts(name, help)))
    }

    pub(super) fn float_gauge(&self, name: &str, help: &str) -> Gauge {
        self.registered(Gauge::with_opts(self.opts(name, help)))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.registered(IntGaugeVec::new(self.opts(name, help), labels))
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.registered(Histogram::with_opts(self.histogram_opts(name, help, buckets)))
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> HistogramVec {
        self.registered(HistogramVec::new(
            self.histogram_opts(name, help, buckets),
            labels,
        ))
    }

    /// A gauge that is always 1 and says something by its labels.
    pub(super) fn labels(&self, name: &str, help: &str, labels: &[&str], values: &[&str]) {
        self.gauges(name, help, labels).with_label_values(values).set(1);
    }
}
