//! The blended chain: overlays of prompts up to their question rows, found again by equal prompts and by those that go on
//! behind them.
//!
//! Rows up to the question run in a pass of their own, over parts that depend on nothing behind them; so their bits are the
//! same in every prompt that begins so, and it makes no difference who ran them.

use std::sync::Arc;

use medley_blend::{Layout, Rule};
use medley_generate::{Priority, Request};
use medley_kv::{BlendedKey, Namespace, Plan, Position, Segment, pages_for};
use medley_store::{Blended, Residency};

use crate::holdings::Holdings;

/// What the blended chain has to do with a sequence.
pub(crate) enum Chained {
    /// Nothing, any more.
    No,
    /// Rows up to the question are kept once they have run.
    Keep(Link),
    /// These rows, up to the question, have run.
    Found(Arc<[Position]>),
}

/// A prompt up to its question row, and the key of its overlay.
pub(crate) struct Link {
    key: BlendedKey,
    segments: Vec<Segment>,
}

impl Link {
    /// The link of a request, if its overlay may be found and kept.
    pub(crate) fn of(request: &Request, plan: Plan, rule: &Rule, namespace: &Namespace) -> Option<Self> {
        if plan != Plan::Blended || request.priority == Priority::Background {
            return None;
        }
        let segments = request.prompt.asked()?;
        let key = BlendedKey::new(&namespace.subdivide(&how(rule)), &segments);
        Some(Self { key, segments })
    }

    /// The overlay, if it is there.
    pub(crate) fn find(&self, residency: &mut Residency) -> Option<Blended> {
        residency.blended(self.key, &self.segments)
    }

    /// Keeps the overlay of `rows`, which have run.
    pub(crate) fn keep(
        mut self,
        rows: &[Position],
        repaired: &Arc<[Position]>,
        holdings: &Holdings,
        residency: &mut Residency,
    ) {
        let blended = Blended {
            rows: rows.into(),
            repaired: repaired.clone(),
            pages: holdings.first_of_overlay(pages_for(rows.len())),
        };
        self.share_documents(holdings);
        residency.keep_blended(self.key, self.segments, blended);
    }

    /// Lets go of the request's own copies of its documents' tokens: those of resident ones are there already.
    fn share_documents(&mut self, holdings: &Holdings) {
        let documents = self.segments.iter_mut().filter_map(|segment| match segment {
            Segment::Document(document) => Some(document),
            Segment::Text(_) => None,
        });
        for (document, occurrence) in documents.zip(&holdings.documents) {
            document.name = None;
            if let Some(lease) = &occurrence.lease {
                document.tokens = lease.tokens().clone();
                document.anchor = lease.anchor().clone();
            }
        }
    }
}

/// Everything of a rule that decides which rows are repaired.
fn how(rule: &Rule) -> String {
    let Rule {
        strategy,
        ratio,
        hops,
        rounds,
        check_layer,
    } = rule;
    format!(
        "blended by {strategy} {} {hops} {rounds} {check_layer}",
        ratio.get().to_bits()
    )
}

/// How many of the rows of a final pass run up to the question row, where all documents stand before it; those behind it run
/// in a pass of their own.
pub(crate) fn rows_asked(layout: &Layout, rows: &[Position]) -> Option<usize> {
    let question = layout.question();
    let behind = layout
        .documents()
        .all(|document| document.span.end() <= question.0);
    behind.then(|| rows.partition_point(|&position| position <= question))
}
