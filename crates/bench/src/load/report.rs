//! What a load gave.

use std::{collections::BTreeMap, fmt, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::client::{Answer, Outcome};

/// Different failures that a report names.
const NAMED_FAILURES: usize = 5;

/// What a load gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// From the first request to the last answer, in seconds.
    pub seconds: f64,
    /// Requests that were sent.
    pub requests: usize,
    /// Those that were answered to the end.
    pub done: usize,
    /// Those whose client went away, as it was meant to.
    pub hung_up: usize,
    /// Those answered with 429.
    pub refused: usize,
    /// Those that failed, by reason.
    pub failed: BTreeMap<String, usize>,
    /// Answers per second.
    pub requests_per_second: f64,
    /// Generated tokens per second.
    pub tokens_per_second: f64,
    /// Prompt tokens of all answers.
    pub prompt_tokens: u64,
    /// Those of them that the server had in its cache, by its own account.
    pub cached_tokens: u64,
    /// From when a request was due to the first text of its stream, in milliseconds.
    pub time_to_first_token_ms: Option<Percentiles>,
    /// Between pieces of text of a stream, in milliseconds.
    pub inter_token_latency_ms: Option<Percentiles>,
    /// From when a request was due to the end of its answer, in milliseconds.
    pub latency_ms: Option<Percentiles>,
}

/// Percentiles of times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// Nine of ten are below.
    pub p90: f64,
    /// 99 of 100 are below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// Collects outcomes; of times it keeps counts with three digits, so that long runs need little memory.
pub(super) struct Tally {
    requests: usize,
    done: usize,
    hung_up: usize,
    refused: usize,
    failed: BTreeMap<String, usize>,
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    first: Times,
    gaps: Times,
    total: Times,
}

/// Times in microseconds.
struct Times(Histogram<u64>);

impl Times {
    fn new() -> Self {
        // Three digits are within what the histogram takes, so this can't fail; it grows with its values.
        Self(Histogram::new(3).expect("three digits"))
    }

    fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // What is too long even for a histogram that grows is counted as the longest there is.
        if self.0.record(micros).is_err() {
            self.0.saturating_record(micros);
        }
    }

    fn percentiles(&self) -> Option<Percentiles> {
        let at = |share: f64| self.0.value_at_quantile(share) as f64 / 1e3;
        (!self.0.is_empty()).then(|| Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: self.0.max() as f64 / 1e3,
        })
    }
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            requests: 0,
            done: 0,
            hung_up: 0,
            refused: 0,
            failed: BTreeMap::new(),
            prompt_tokens: 0,
            completion_tokens: 0,
            cached_tokens: 0,
            first: Times::new(),
            gaps: Times::new(),
            total: Times::new(),
        }
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        self.requests += 1;
        match outcome {
            Outcome::Done(answer) => self.answered(&answer),
            Outcome::HungUp => self.hung_up += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Failed(reason) => *self.failed.entry(reason).or_default() += 1,
        }
    }

    fn answered(&mut self, answer: &Answer) {
        self.done += 1;
        let usage = &answer.usage;
        self.prompt_tokens += usage.prompt_tokens;
        self.completion_tokens += usage.completion_tokens;
        let details = usage.prompt_tokens_details.unwrap_or_default();
        self.cached_tokens += details.cached_tokens.unwrap_or(0);
        answer
            .first_token
            .into_iter()
            .for_each(|time| self.first.add(time));
        answer.gaps.iter().for_each(|&time| self.gaps.add(time));
        self.total.add(answer.total);
    }

    pub(super) fn report(self, elapsed: Duration) -> Report {
        let seconds = elapsed.as_secs_f64();
        Report {
            seconds,
            requests: self.requests,
            done: self.done,
            hung_up: self.hung_up,
            refused: self.refused,
            failed: self.failed,
            requests_per_second: self.done as f64 / seconds,
            tokens_per_second: self.completion_tokens as f64 / seconds,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            time_to_first_token_ms: self.first.percentiles(),
            inter_token_latency_ms: self.gaps.percentiles(),
            latency_ms: self.total.percentiles(),
        }
    }
}

/// Markdown.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed: usize = self.failed.values().sum();
        writeln!(
            f,
            "| requests | done | gone | refused | failed | seconds | requests/s | tokens/s | cached |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        writeln!(
            f,
            "| {} | {} | {} | {} | {failed} | {:.1} | {:.1} | {:.0} | {:.1} % |\n",
            self.requests,
            self.done,
            self.hung_up,
            self.refused,
            self.seconds,
            self.requests_per_second,
            self.tokens_per_second,
            100.0 * self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64,
        )?;
        writeln!(f, "| ms | p50 | p90 | p99 | max |\n|---|---|---|---|---|")?;
        let times = [
            ("time to first token", self.time_to_first_token_ms),
            ("between tokens", self.inter_token_latency_ms),
            ("whole answer", self.latency_ms),
        ];
        for (name, times) in times {
            if let Some(Percentiles { p50, p90, p99, max }) = times {
                writeln!(f, "| {name} | {p50:.1} | {p90:.1} | {p99:.1} | {max:.1} |")?;
            }
        }
        for (reason, count) in self.failed.iter().take(NAMED_FAILURES) {
            writeln!(f, "\nfailed, {count} times: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::client::{Details, Usage},
        *,
    };

    #[test]
    fn outcomes_are_counted_by_their_kind_and_only_answers_have_times() {
        let mut tally = Tally::new();
        let answer = |ms: u64, cached| Answer {
            first_token: Some(Duration::from_millis(ms)),
            gaps: vec![Duration::from_millis(2); 3],
            total: Duration::from_millis(10 * ms),
            usage: Usage {
                prompt_tokens: 100,
                completion_tokens: 4,
                prompt_tokens_details: Some(Details {
                    cached_tokens: Some(cached),
                }),
            },
        };
        tally.add(Outcome::Done(answer(10, 0)));
        tally.add(Outcome::Done(answer(30, 80)));
        tally.add(Outcome::HungUp);
        tally.add(Outcome::Refused);
        tally.add(Outcome::Failed("status 500".to_owned()));
        let report = tally.report(Duration::from_secs(2));
        assert_eq!(
            (report.requests, report.done, report.hung_up, report.refused),
            (5, 2, 1, 1)
        );
        assert_eq!(report.failed, BTreeMap::from([("status 500".to_owned(), 1)]));
        assert_eq!((report.requests_per_second, report.tokens_per_second), (1.0, 4.0));
        assert_eq!((report.prompt_tokens, report.cached_tokens), (200, 80));
        let first = report.time_to_first_token_ms.expect("times");
        assert!(
            (first.p50 - 10.0).abs() < 0.02 && (first.max - 30.0).abs() < 0.05,
            "{first:?}"
        );
        assert!(report.to_string().contains("| 40.0 % |"), "{report}");
    }

    #[test]
    fn without_streams_there_are_no_first_tokens() {
        let report = Tally::new().report(Duration::from_secs(1));
        assert_eq!((report.time_to_first_token_ms, report.latency_ms), (None, None));
        assert!(!report.to_string().contains("first token"));
    }
}
