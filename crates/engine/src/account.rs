//! The account of a request: what was reused, computed, repaired and fresh, and how long each phase took.

use std::time::Instant;

use medley_blend::Rule;
use medley_kv::{
    DocumentKey, DocumentReport, Plan, Position, Prompt, Report, ReportDetail, Source, Span, Timing,
    TokenCounts,
};

/// Collects what the report needs while the request runs.
#[derive(Clone)]
pub(crate) struct Account {
    pub plan: Plan,
    pub reason: Option<String>,
    pub rule: Rule,
    pub detail: ReportDetail,
    pub prompt_len: usize,
    /// Tokens that were taken from an exact prefix.
    pub exact_prefix: usize,
    /// Layers of the model.
    pub layers: usize,
    /// Whole rows of the passes behind the prefix.
    pub rows: usize,
    /// Texts behind documents that were found with the blended overlay, in tokens; `None` if there was none to go on from.
    pub resumed: Option<usize>,
    pub documents: Vec<DocumentAccount>,
    pub timing: Timing,
    mark: Instant,
}

/// One document of the prompt.
#[derive(Clone)]
pub(crate) struct DocumentAccount {
    pub name: Option<String>,
    pub key: DocumentKey,
    pub span: Span,
    pub source: Source,
}

impl Account {
    /// An account that starts now; `submitted` is when the request arrived.
    pub(crate) fn new(
        plan: Plan,
        reason: Option<String>,
        rule: Rule,
        detail: ReportDetail,
        prompt: &Prompt,
        layers: usize,
        submitted: Instant,
    ) -> Self {
        let mark = Instant::now();
        let timing = Timing {
            queue: milliseconds(mark - submitted),
            ..Timing::default()
        };
        let (prompt_len, documents) = (prompt.len(), Vec::new());
        Self {
            plan,
            reason,
            rule,
            detail,
            prompt_len,
            exact_prefix: 0,
            layers,
            rows: 0,
            resumed: None,
            documents,
            timing,
            mark,
        }
    }

    /// The account of a further choice of the prompt: a plain prefill is an exact prefix to it but for the last token. A
    /// blended prompt is accounted for as it was run.
    pub(crate) fn of_branch(&self) -> Self {
        let exact_prefix = match self.plan {
            Plan::Blended => self.exact_prefix,
            _ => self.prompt_len - 1,
        };
        Self {
            exact_prefix,
            mark: Instant::now(),
            ..self.clone()
        }
    }

    /// Milliseconds since the last lap.
    pub(crate) fn lap(&mut self) -> f64 {
        let now = Instant::now();
        milliseconds(now - std::mem::replace(&mut self.mark, now))
    }

    /// The report, with `repaired` document positions in ascending order. Those that were found with the overlay were
    /// repaired for another prompt, and reused for this one.
    pub(crate) fn report(&self, repaired: &[Position]) -> Report {
        let documents: Vec<_> = self
            .documents
            .iter()
            .enumerate()
            .map(|(i, d)| self.document(i, d, repaired))
            .collect();
        let sum = |f: fn(&DocumentReport) -> usize| documents.iter().map(f).sum::<usize>();
        let mut tokens = TokenCounts {
            exact_prefix: self.exact_prefix,
            reused: sum(|d| d.reused) + self.resumed.unwrap_or(0),
            computed: sum(|d| d.computed),
            repaired: sum(|d| d.repaired),
            fresh: 0,
        };
        tokens.fresh = self.prompt_len - tokens.total();
        Report {
            plan: self.plan,
            reason: self.reason.clone(),
            ratio: self.rule.ratio,
            strategy: self.rule.strategy,
            hops: self.rule.hops,
            rounds: self.rule.rounds,
            tokens,
            rows: self.rows,
            documents,
            timing: self.timing,
        }
    }

    fn document(&self, index: usize, document: &DocumentAccount, repaired: &[Position]) -> DocumentReport {
        let inside = repaired.iter().copied().filter(|&p| document.span.contains(p));
        let ranges = Span::runs(inside);
        let repaired: usize = ranges.iter().map(|r| r.len as usize).sum();
        let kept = document.span.len as usize - repaired;
        let computed = document.source == Source::Computed;
        let (found, repaired, ranges) = match self.resumed {
            Some(_) => (repaired, 0, Vec::new()),
            None => (0, repaired, ranges),
        };
        DocumentReport {
            index,
            name: document.name.clone(),
            document_id: document.key.document_id(),
            tokens: document.span.len as usize,
            offset: document.span.start as usize,
            source: document.source,
            reused: if computed { found } else { found + kept },
            computed: if computed { kept } else { 0 },
            repaired,
            repaired_ranges: if self.detail == ReportDetail::Tokens {
                ranges
            } else {
                Vec::new()
            },
        }
    }
}

/// A duration in milliseconds.
fn milliseconds(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
