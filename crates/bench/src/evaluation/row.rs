//! A rule at a ratio, summed up over cases.

use super::ledger::Record;
use crate::statistics::{Interval, mean};

/// What results call the full prefill.
pub(super) const FULL: &str = "full";

/// A rule at a ratio: means over cases with their confidence intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The rule.
    pub rule: String,
    /// The ratio that was asked for.
    pub ratio: f32,
    /// Cases.
    pub cases: usize,
    /// Repaired document tokens of all document tokens; a full prefill computes all of them in their context.
    pub repaired: f64,
    /// Mean rows that ran for the first token, where all results know it.
    pub rows: Option<f64>,
    /// KL(full ‖ this) in nats per token.
    pub kl: Interval,
    /// Top-1 agreement.
    pub top1: Interval,
    /// F1 of the own answers, where it was asked for.
    pub f1: Option<Interval>,
    /// KL less that of the rule to compare with, at the same ratio and over the cases that both have.
    pub difference: Option<Interval>,
}

/// The results of a rule at a ratio, one a case; never empty.
pub(super) struct Group<'r>(Vec<&'r Record>);

impl<'r> Group<'r> {
    /// The last of the results of each case. A result without F1 replaces none that has it.
    pub(super) fn newest(records: &[&'r Record]) -> Self {
        let mut kept: Vec<&Record> = Vec::new();
        for &record in records {
            match kept.iter_mut().find(|k| k.key.case == record.key.case) {
                Some(slot) if record.f1.is_some() || slot.f1.is_none() => *slot = record,
                Some(_) => {}
                None => kept.push(record),
            }
        }
        Self(kept)
    }

    /// The ratio that was asked for.
    pub(super) fn ratio(&self) -> f32 {
        self.0[0].key.ratio
    }

    /// Whether these are results of a rule at a ratio.
    pub(super) fn is(&self, rule: &str, ratio: f32) -> bool {
        let key = &self.0[0].key;
        key.rule == rule && key.ratio == ratio
    }

    /// The row, beside a group to compare with.
    pub(super) fn row(&self, other: Option<&Self>) -> Row {
        let key = &self.0[0].key;
        let over = |value: fn(&Record) -> f64| -> Vec<f64> { self.0.iter().map(|r| value(r)).collect() };
        let f1: Vec<f64> = self.0.iter().filter_map(|r| r.f1).collect();
        Row {
            rule: key.rule.clone(),
            ratio: key.ratio,
            cases: self.0.len(),
            repaired: self.repaired(),
            rows: self.rows(),
            kl: Interval::of(&over(|r| r.kl)).unwrap_or_default(),
            top1: Interval::of(&over(|r| r.top1)).unwrap_or_default(),
            f1: Interval::of(&f1),
            difference: other.and_then(|other| self.difference(other)),
        }
    }

    fn full(&self) -> bool {
        self.0[0].key.rule == FULL
    }

    fn repaired(&self) -> f64 {
        let sum = |value: fn(&Record) -> usize| self.0.iter().map(|r| value(r)).sum::<usize>() as f64;
        if self.full() {
            1.0
        } else {
            sum(|r| r.repaired) / sum(|r| r.document_tokens).max(1.0)
        }
    }

    fn rows(&self) -> Option<f64> {
        let of = |record: &&Record| {
            if self.full() {
                Some(record.prompt_tokens)
            } else {
                record.rows
            }
        };
        let rows: Option<Vec<usize>> = self.0.iter().map(of).collect();
        mean(rows?.into_iter().map(|rows| rows as f64))
    }

    fn difference(&self, other: &Self) -> Option<Interval> {
        let same = |record: &&Record| other.0.iter().find(|o| o.key.case == record.key.case);
        let pairs = self.0.iter().filter_map(|r| same(r).map(|o| r.kl - o.kl));
        Interval::of(&pairs.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::ledger::sample;

    fn row(records: &[Record]) -> Row {
        Group::newest(&records.iter().collect::<Vec<_>>()).row(None)
    }

    #[test]
    fn later_results_replace_earlier_ones_and_cases_are_averaged() {
        let all = [
            sample("0", "query", 9.0),
            sample("1", "query", 3.0),
            sample("0", "query", 1.0),
        ];
        let row = row(&all);
        assert_eq!((row.cases, row.kl.mean, row.repaired), (2, 2.0, 0.1));
    }

    #[test]
    fn a_result_without_an_answer_leaves_the_one_that_has_it() {
        let answered = Record {
            f1: Some(0.5),
            ..sample("0", "full", 0.0)
        };
        let row = row(&[answered, sample("0", "full", 0.0)]);
        assert_eq!(row.f1.map(|f1| f1.mean), Some(0.5));
    }

    #[test]
    fn rows_are_averaged_where_all_results_know_them() {
        let known = |case, rows| Record {
            rows: Some(rows),
            ..sample(case, "query", 1.0)
        };
        assert_eq!(row(&[known("0", 10), known("1", 20)]).rows, Some(15.0));
        assert_eq!(row(&[known("0", 10), sample("1", "query", 1.0)]).rows, None);
    }

    #[test]
    fn a_full_prefill_runs_the_prompt() {
        let row = row(&[sample("0", "full", 0.0)]);
        assert_eq!((row.rows, row.repaired), (Some(100.0), 1.0));
    }

    #[test]
    fn differences_are_over_the_cases_that_both_rules_have() {
        let ours = [sample("0", "query", 1.0), sample("1", "query", 5.0)];
        let theirs = [sample("2", "heads", 9.0), sample("0", "heads", 4.0)];
        let [ours, theirs] = [&ours, &theirs].map(|r| Group::newest(&r.iter().collect::<Vec<_>>()));
        let difference = ours.row(Some(&theirs)).difference.expect("a case in common");
        assert_eq!(
            (difference.mean, difference.low, difference.high),
            (-3.0, -3.0, -3.0)
        );
    }
}
