//! The accounts of a request's prompts, and what of them answers show.
//!
//! A prompt's account is that of its first choice: the others find what the first one left. So the counts of an
//! answer sum to the tokens of its prompts whatever `n`.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use medley_kv::{DocumentReport, Plan, Report, ReportDetail, TokenCounts};
use medley_openai::{
    MedleyDocument, MedleyReport, MedleyReports, MedleyTiming, MedleyTokens, PromptTokensDetails, Usage,
};

/// Headers that say how the prompts were run; browsers may read them.
pub(crate) const PLAN_HEADERS: [HeaderName; 6] = [PLAN, EXACT_PREFIX, REUSED, COMPUTED, REPAIRED, FRESH];

const PLAN: HeaderName = HeaderName::from_static("x-medley-plan");
const EXACT_PREFIX: HeaderName = HeaderName::from_static("x-medley-exact-prefix-tokens");
const REUSED: HeaderName = HeaderName::from_static("x-medley-reused-tokens");
const COMPUTED: HeaderName = HeaderName::from_static("x-medley-computed-tokens");
const REPAIRED: HeaderName = HeaderName::from_static("x-medley-repaired-tokens");
const FRESH: HeaderName = HeaderName::from_static("x-medley-fresh-tokens");

/// One account a prompt, known from the plan on.
pub(crate) struct Ledger {
    /// Choices that are generated a prompt.
    each: usize,
    detail: ReportDetail,
    reports: Vec<Option<Report>>,
}

impl Ledger {
    pub(super) fn new(prompts: usize, each: usize, detail: ReportDetail) -> Self {
        Self {
            each,
            detail,
            reports: vec![None; prompts],
        }
    }

    /// Takes the account that choice `index` reports, if it is the one that counts.
    pub(super) fn enter(&mut self, index: usize, report: Report) {
        if index.is_multiple_of(self.each)
            && let Some(place) = self.reports.get_mut(index / self.each)
        {
            *place = Some(report);
        }
    }

    /// Whether every prompt has its account.
    pub(super) fn is_complete(&self) -> bool {
        self.reports.iter().all(Option::is_some)
    }

    fn entered(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().flatten()
    }

    fn counts(&self) -> TokenCounts {
        self.entered()
            .map(|report| report.tokens)
            .fold(TokenCounts::default(), |sum, one| TokenCounts {
                exact_prefix: sum.exact_prefix + one.exact_prefix,
                reused: sum.reused + one.reused,
                computed: sum.computed + one.computed,
                repaired: sum.repaired + one.repaired,
                fresh: sum.fresh + one.fresh,
            })
    }

    /// `blended` if any prompt was, else what the first was.
    fn plan(&self) -> Plan {
        let mut plans = self.entered().map(|report| report.plan);
        let first = plans.next().unwrap_or(Plan::Exact);
        if plans.any(|plan| plan == Plan::Blended) {
            Plan::Blended
        } else {
            first
        }
    }

    /// The plan and the counts over all prompts as headers.
    pub(super) fn headers(&self) -> HeaderMap {
        let counts = self.counts();
        let mut headers = HeaderMap::from_iter([(PLAN, HeaderValue::from_static(self.plan().name()))]);
        headers.insert(EXACT_PREFIX, counts.exact_prefix.into());
        headers.insert(REUSED, counts.reused.into());
        headers.insert(COMPUTED, counts.computed.into());
        headers.insert(REPAIRED, counts.repaired.into());
        headers.insert(FRESH, counts.fresh.into());
        headers
    }

    /// The usage with so many generated tokens.
    pub(super) fn usage(&self, completion_tokens: usize) -> Usage {
        let counts = self.counts();
        let prompt_tokens = counts.total();
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: counts.exact_prefix + counts.reused,
                repaired_tokens: counts.repaired,
                computed_tokens: counts.computed,
            },
        }
    }

    /// The accounts: an object for one prompt, a list for several.
    pub(super) fn medley(&self) -> MedleyReports {
        let mut reports: Vec<_> = self
            .entered()
            .map(|report| wire_report(report, self.detail))
            .collect();
        match reports.pop() {
            Some(only) if reports.is_empty() => MedleyReports::One(Box::new(only)),
            last => {
                reports.extend(last);
                MedleyReports::Many(reports)
            }
        }
    }
}

fn wire_report(report: &Report, detail: ReportDetail) -> MedleyReport {
    let (tokens, timing) = (report.tokens, report.timing);
    MedleyReport {
        plan: report.plan.name(),
        reason: report.reason.clone(),
        ratio: report.ratio.get(),
        strategy: report.strategy.name(),
        hops: report.hops,
        rounds: report.rounds,
        tokens: MedleyTokens {
            exact_prefix: tokens.exact_prefix,
            reused: tokens.reused,
            computed: tokens.computed,
            repaired: tokens.repaired,
            fresh: tokens.fresh,
        },
        documents: report
            .documents
            .iter()
            .map(|document| wire_document(document, detail))
            .collect(),
        timing_ms: MedleyTiming {
            queue: timing.queue,
            load: timing.load,
            compute_documents: timing.compute_documents,
            probe: timing.probe,
            prefill: timing.prefill,
        },
    }
}

fn wire_document(document: &DocumentReport, detail: ReportDetail) -> MedleyDocument {
    let ranges = || {
        document
            .repaired_ranges
            .iter()
            .map(|span| [span.start, span.len])
            .collect()
    };
    MedleyDocument {
        index: document.index,
        id: document.name.clone(),
        document_id: document.document_id.clone(),
        tokens: document.tokens,
        offset: document.offset,
        source: document.source.name(),
        reused: document.reused,
        computed: document.computed,
        repaired: document.repaired,
        repaired_ranges: (detail == ReportDetail::Tokens).then(ranges),
    }
}
