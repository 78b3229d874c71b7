//! The selection: which passes to run, and what to choose by what they measured.
//!
//! A state machine of three states. It asks for probes or one comparison until its budget is spent, then it is
//! done; it terminates, because every answer spends a part of the budget. It never runs anything itself.
//!
//! `query` spends its first tokens on the heads of all documents, and probes with those repaired.
//!
//! The budget is the ratio of the tokens of documents that are not exact. When it is nothing or everything, no
//! pass is asked for, whatever the strategy. Candidates behind the question row have a budget of their own. They
//! are chosen by `deviation` where that is the rule, and as heads otherwise, since the question row can't see them.

use std::mem;

use medley_kv::{Position, Span, Strategy};

use crate::{
    Layout, Repairs, Rule,
    candidates::{self, Field},
    rank,
    stages::{self, Asker, Stage},
};

/// Tokens at the beginning of every document that the `query` strategy repairs whatever the question attends to.
/// Measured at 15 % (table in `crates/bench/README.md`).
pub const HEADS: usize = 4;

/// Whose attention a probe adds up.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// The question row, with weight 1.
    Question,
    /// These repaired rows, ascending, each with a weight from 0 to 1; the largest weight is 1. A row does not
    /// score the document that it lies in.
    Rows(Vec<(Position, f32)>),
}

impl Observed {
    /// The last position that is observed: rows behind it need not run.
    pub fn last(&self, layout: &Layout) -> Position {
        match self {
            Self::Question => layout.question(),
            Self::Rows(rows) => rows.iter().map(|row| row.0).max().unwrap_or(layout.question()),
        }
    }
}

/// What a selection wants done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Pass {
    /// Run the `repaired` positions, their canonical slots hidden, and the text up to the last observed position,
    /// over canonical documents; answer with [`Selection::feed_scores`].
    Probe {
        /// Document positions, ascending; none behind the question row.
        repaired: Vec<Position>,
        /// Whose attention is added up.
        observed: Observed,
    },
    /// Run all tokens of the documents that are not exact, and the text between, up to the keys of this layer;
    /// answer with [`Selection::feed_deviations`].
    Compare {
        /// The layer, at least 1.
        layer: usize,
    },
    /// Nothing more: these are the positions to repair.
    Done(Repairs),
}

/// The selection of the positions to repair.
#[derive(Clone, Debug)]
pub struct Selection {
    seen: Field,
    behind: Field,
    forced: Vec<Position>,
    question: Position,
    documents: Vec<(Span, bool)>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Probing(Probing),
    Comparing { layer: usize },
    Done(Repairs),
}

#[derive(Clone, Debug)]
struct Probing {
    stages: Vec<Stage>,
    /// The stage that waits for its scores.
    at: usize,
    /// What the stage before chose: indices into the field.
    newest: Vec<usize>,
    /// The question row's attention to every candidate, by the latest probe that it asked; sums to 1.
    attention: Vec<f64>,
}

impl Selection {
    /// Starts a selection by `rule`, whose strategy is resolved.
    pub fn new(layout: &Layout, rule: Rule) -> Self {
        let (seen, behind) = Field::split(layout, rule.ratio);
        let mut selection = Self {
            seen,
            behind,
            forced: candidates::forced(layout),
            question: layout.question(),
            documents: layout
                .documents()
                .map(|document| (document.span, document.exact))
                .collect(),
            state: State::Done(Repairs::default()),
        };
        selection.start(rule);
        selection
    }

    fn start(&mut self, rule: Rule) {
        let settled = self.seen.is_settled();
        self.state = match rule.strategy {
            Strategy::Deviation if !(settled && self.behind.is_settled()) => State::Comparing {
                layer: rule.check_layer as usize,
            },
            Strategy::Query | Strategy::Auto if !settled => {
                self.choose_heads();
                State::Probing(Probing {
                    stages: stages::stages(self.seen.room(), rule.rounds, rule.hops),
                    at: 0,
                    newest: Vec::new(),
                    attention: Vec::new(),
                })
            }
            _ => return self.finish(),
        };
    }

    /// Spends up to half of the budget on the first [`HEADS`] tokens of every document. What they attended to alone is
    /// furthest from what they see in the prompt, and the question hardly looks at them, so no probe would find them.
    fn choose_heads(&mut self) {
        let heads = self.seen.heads();
        let first = heads.iter().filter(|&&score| -score < HEADS as f64).count();
        let count = first.min(self.seen.room() / 2);
        let chosen = rank::best(&heads, self.seen.chosen(), count);
        self.seen.choose(&chosen);
    }

    /// The pass to run now; the same until it is answered.
    pub fn next(&self) -> Pass {
        match &self.state {
            State::Probing(probing) => self.probe(probing),
            State::Comparing { layer } => Pass::Compare { layer: *layer },
            State::Done(repairs) => Pass::Done(repairs.clone()),
        }
    }

    fn probe(&self, probing: &Probing) -> Pass {
        let mut repaired: Vec<_> = self.seen.positions().collect();
        repaired.extend(self.forced.iter().filter(|position| **position <= self.question));
        repaired.sort_unstable();
        repaired.dedup();
        let observed = match probing.stages[probing.at].asker {
            Asker::Question => Observed::Question,
            Asker::Newest => Observed::Rows(self.newest(probing)),
        };
        Pass::Probe { repaired, observed }
    }

    /// The rows chosen last, each with its share of the question row's attention, the largest scaled to 1.
    fn newest(&self, probing: &Probing) -> Vec<(Position, f32)> {
        let share = |index: usize| probing.attention[index];
        let largest = probing.newest.iter().map(|&i| share(i)).fold(0.0, f64::max);
        let weight = |i| {
            if largest > 0.0 {
                (share(i) / largest) as f32
            } else {
                1.0
            }
        };
        probing
            .newest
            .iter()
            .map(|&i| (self.seen.position(i), weight(i)))
            .collect()
    }

    /// Answers [`Pass::Probe`]: fixed-point attention masses, one vector per document and one entry per token;
    /// vectors of exact documents may be empty. Ignored when no probe is asked for; what is missing counts as 0.
    pub fn feed_scores(&mut self, per_document: &[Vec<u64>]) {
        debug_assert!(
            candidates::complete(per_document, &self.documents),
            "scores do not fit the documents"
        );
        let mass = self
            .seen
            .scores(|c| candidates::lookup(per_document, c).unwrap_or(0) as f64);
        let State::Probing(probing) = &mut self.state else {
            debug_assert!(false, "scores were not asked for");
            return;
        };
        let stage = probing.stages[probing.at];
        let attention = probing.combine(stage.asker, &mass);
        let scores: Vec<f64> = attention
            .iter()
            .zip(&self.seen.nearness())
            .map(|(a, n)| a * n)
            .collect();
        probing.newest = rank::best(&scores, self.seen.chosen(), stage.share);
        probing.at += 1;
        let done = probing.at == probing.stages.len();
        self.seen.choose(&probing.newest);
        if done {
            self.finish();
        }
    }

    /// Answers [`Pass::Compare`]: squared key distances, one vector per document and one entry per token; vectors
    /// of exact documents may be empty. NaN counts as the largest. Ignored when no comparison is asked for; what is
    /// missing counts as 0.
    pub fn feed_deviations(&mut self, per_document: &[Vec<f32>]) {
        debug_assert!(
            candidates::complete(per_document, &self.documents),
            "deviations do not fit the documents"
        );
        if !matches!(self.state, State::Comparing { .. }) {
            debug_assert!(false, "deviations were not asked for");
            return;
        }
        for field in [&mut self.seen, &mut self.behind] {
            let scores = field.scores(|c| candidates::lookup(per_document, c).map_or(0.0, f64::from));
            spend(field, &scores);
        }
        self.finish();
    }

    /// Spends what is left on heads and ends the selection.
    fn finish(&mut self) {
        for field in [&mut self.seen, &mut self.behind] {
            let heads = field.heads();
            spend(field, &heads);
        }
        let mut positions = mem::take(&mut self.forced);
        positions.extend(self.seen.positions().chain(self.behind.positions()));
        self.state = State::Done(Repairs::new(positions));
    }
}

/// Spends the whole budget of `field` on the best of `scores`.
fn spend(field: &mut Field, scores: &[f64]) {
    let best = rank::best(scores, field.chosen(), field.room());
    field.choose(&best);
}

impl Probing {
    /// The attention to choose by. A hop adds its own attention, normalised, to that of the question row.
    fn combine(&mut self, asker: Asker, mass: &[f64]) -> Vec<f64> {
        match asker {
            Asker::Question => {
                self.attention = rank::normalised(mass);
                mass.to_vec()
            }
            Asker::Newest => {
                let hop = rank::normalised(mass);
                self.attention
                    .iter()
                    .zip(&hop)
                    .map(|(question, hop)| question + hop)
                    .collect()
            }
        }
    }
}
