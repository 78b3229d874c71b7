//! Results summed up.

use std::fmt;

use serde::Serialize;

use super::ledger::Record;
use crate::{Subject, statistics::mean};

/// The means of all rules and ratios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The model.
    pub model: String,
    /// What its documents stand behind.
    pub anchor: String,
    /// The cases' file.
    pub data: String,
    /// F1 of the full prefill's answers, where it was asked for.
    pub full_f1: Option<f64>,
    /// By rule and ratio, in the order in which they were first measured.
    pub rows: Vec<Row>,
}

/// A rule at a ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The rule.
    pub rule: String,
    /// The ratio that was asked for.
    pub ratio: f32,
    /// Cases.
    pub cases: usize,
    /// Repaired document tokens of all document tokens.
    pub repaired: f64,
    /// Mean over cases of KL(full ‖ this) per token.
    pub kl: f64,
    /// Mean over cases of the top-1 agreement.
    pub top1: f64,
    /// Mean F1 of the own answers, where it was asked for.
    pub f1: Option<f64>,
}

impl Table {
    /// Sums up the results of a model on the given cases of a data file.
    pub(super) fn new(subject: &Subject, data: &str, cases: &[&str], records: &[Record]) -> Self {
        let ours = |r: &&Record| {
            r.key.model == subject.name
                && r.key.anchor == subject.anchor
                && r.key.data == data
                && cases.contains(&r.key.case.as_str())
        };
        let records = newest(records.iter().filter(ours));
        let (full, others): (Vec<&Record>, Vec<&Record>) =
            records.into_iter().partition(|r| r.key.rule == "full");
        Self {
            model: subject.name.clone(),
            anchor: subject.anchor.clone(),
            data: data.to_owned(),
            full_f1: mean(full.iter().filter_map(|r| r.f1)),
            rows: grouped(&others).iter().map(|group| Row::new(group)).collect(),
        }
    }
}

impl Row {
    fn new(group: &[&Record]) -> Self {
        let sum = |value: fn(&Record) -> usize| group.iter().map(|r| value(r)).sum::<usize>() as f64;
        let average = |value: fn(&Record) -> f64| mean(group.iter().map(|r| value(r))).unwrap_or(0.0);
        Self {
            rule: group[0].key.rule.clone(),
            ratio: group[0].key.ratio,
            cases: group.len(),
            repaired: sum(|r| r.repaired) / sum(|r| r.document_tokens).max(1.0),
            kl: average(|r| r.kl),
            top1: average(|r| r.top1),
            f1: mean(group.iter().filter_map(|r| r.f1)),
        }
    }
}

/// The last record of each key, in the order of first appearance.
fn newest<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<&'r Record> {
    let mut kept: Vec<&Record> = Vec::new();
    for record in records {
        match kept.iter_mut().find(|k| k.key == record.key) {
            Some(slot) => *slot = record,
            None => kept.push(record),
        }
    }
    kept
}

/// Records by rule and ratio; no group is empty.
fn grouped<'r>(records: &[&'r Record]) -> Vec<Vec<&'r Record>> {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        let same =
            |g: &&mut Vec<&Record>| g[0].key.rule == record.key.rule && g[0].key.ratio == record.key.ratio;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups
}

/// Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {}, documents behind {}\n",
            self.model, self.data, self.anchor
        )?;
        let full = number(self.full_f1);
        writeln!(
            f,
            "| rule | ratio | repaired | KL | top-1 | F1 (full: {full}) | cases |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let Row {
                rule,
                ratio,
                cases,
                repaired,
                kl,
                top1,
                f1,
            } = row;
            let f1 = number(*f1);
            writeln!(
                f,
                "| {rule} | {ratio} | {repaired:.3} | {kl:.3} | {top1:.3} | {f1} | {cases} |"
            )?;
        }
        Ok(())
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::ledger::Key;

    fn record(case: &str, rule: &str, kl: f64) -> Record {
        let (model, anchor, data) = ("m".into(), "bos".into(), "d".into());
        let key = Key {
            model,
            anchor,
            data,
            case: case.into(),
            rule: rule.into(),
            ratio: 0.1,
        };
        let (f1, answer) = (None, None);
        Record {
            key,
            prompt_tokens: 100,
            document_tokens: 50,
            repaired: 5,
            compared: 1,
            kl,
            top1: 1.0,
            f1,
            answer,
        }
    }

    #[test]
    fn later_results_replace_earlier_ones_and_cases_are_averaged() {
        let all = [
            record("0", "query", 9.0),
            record("1", "query", 3.0),
            record("0", "query", 1.0),
            record("0", "heads", 5.0),
        ];
        let kept = newest(all.iter());
        let rows: Vec<Row> = grouped(&kept).iter().map(|group| Row::new(group)).collect();
        let seen: Vec<_> = rows
            .iter()
            .map(|r| (r.rule.as_str(), r.cases, r.kl, r.repaired))
            .collect();
        assert_eq!(seen, [("query", 2, 2.0, 0.1), ("heads", 1, 5.0, 0.1)]);
    }
}
