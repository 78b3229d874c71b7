//! Results summed up, as Markdown.

use std::fmt;

use super::{
    ledger::Record,
    row::{Group, Row},
};
use crate::statistics::Interval;

/// What the rows of a table have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The model.
    pub model: String,
    /// What its documents stand behind.
    pub anchor: String,
    /// The cases' file.
    pub data: String,
}

/// The means of all rules and ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What was measured.
    pub place: Place,
    /// The rule that others are compared with, at the same ratio.
    pub against: String,
    /// By rule and ratio, in the order in which they were first measured.
    pub rows: Vec<Row>,
}

impl Place {
    /// Where a result belongs.
    pub(super) fn of(record: &Record) -> Self {
        let key = &record.key;
        Self {
            model: key.model.clone(),
            anchor: key.anchor.clone(),
            data: key.data.clone(),
        }
    }
}

impl Table {
    /// Sums up the results of a place.
    pub(super) fn new(place: Place, records: &[&Record], against: &str) -> Self {
        let groups = grouped(records, |r| (r.key.rule.as_str(), r.key.ratio));
        let groups: Vec<Group<'_>> = groups.iter().map(|(_, records)| Group::newest(records)).collect();
        let row = |group: &Group<'_>| {
            let other =
                |other: &&Group<'_>| other.is(against, group.ratio()) && !group.is(against, group.ratio());
            group.row(groups.iter().find(other))
        };
        Self {
            place,
            against: against.to_owned(),
            rows: groups.iter().map(row).collect(),
        }
    }

    /// One table for each place, in the order in which they come.
    pub(super) fn all(records: &[Record], against: &str) -> Vec<Self> {
        let records: Vec<&Record> = records.iter().collect();
        grouped(&records, Place::of)
            .into_iter()
            .map(|(place, records)| Self::new(place, &records, against))
            .collect()
    }
}

/// Records by a key, in the order of first appearance; no group is empty.
fn grouped<'r, K: PartialEq>(
    records: &[&'r Record],
    key: impl Fn(&'r Record) -> K,
) -> Vec<(K, Vec<&'r Record>)> {
    let mut groups: Vec<(K, Vec<&Record>)> = Vec::new();
    for &record in records {
        let key = key(record);
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, group)) => group.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    groups
}

/// Markdown. Intervals of 95 % stand behind their means.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { model, anchor, data } = &self.place;
        writeln!(f, "{model} on {data}, documents behind {anchor}\n")?;
        let compared = self.rows.iter().any(|row| row.difference.is_some());
        let difference = if compared {
            format!(" KL less {}'s |", self.against)
        } else {
            String::new()
        };
        writeln!(
            f,
            "| rule | ratio | repaired | rows | KL | top-1 | F1 | cases |{difference}"
        )?;
        writeln!(
            f,
            "|---|---|---|---|---|---|---|---|{}",
            if compared { "---|" } else { "" }
        )?;
        for row in &self.rows {
            write!(f, "| {} ", cells(row).join(" | "))?;
            let last = if compared {
                format!("| {} ", interval(row.difference))
            } else {
                String::new()
            };
            writeln!(f, "{last}|")?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 8] {
    [
        row.rule.clone(),
        row.ratio.to_string(),
        format!("{:.3}", row.repaired),
        row.rows
            .map_or_else(|| "-".to_owned(), |rows| format!("{rows:.0}")),
        interval(Some(row.kl)),
        interval(Some(row.top1)),
        interval(row.f1),
        row.cases.to_string(),
    ]
}

/// `mean (low to high)`.
fn interval(value: Option<Interval>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |Interval { mean, low, high }| format!("{mean:.3} ({low:.3} to {high:.3})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::ledger::sample;

    #[test]
    fn places_and_rules_are_summed_up_apart() {
        let mut other = sample("0", "query", 7.0);
        other.key.anchor = "neutral".into();
        let all = [
            sample("0", "query", 2.0),
            other,
            sample("1", "query", 4.0),
            sample("0", "heads", 5.0),
        ];
        let tables = Table::all(&all, "heads");
        let seen: Vec<_> = tables
            .iter()
            .flat_map(|t| {
                t.rows
                    .iter()
                    .map(|r| (t.place.anchor.as_str(), r.rule.as_str(), r.cases, r.kl.mean))
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("bos", "query", 2, 3.0),
                ("bos", "heads", 1, 5.0),
                ("neutral", "query", 1, 7.0)
            ]
        );
    }

    #[test]
    fn markdown_shows_intervals_and_the_difference_where_there_is_one() {
        let mut query = sample("0", "query", 2.0);
        query.rows = Some(30);
        let alone = Table::all(&[query.clone()], "heads")[0].to_string();
        assert!(
            alone.ends_with(
                "| query | 0.1 | 0.100 | 30 | 2.000 (2.000 to 2.000) | 1.000 (1.000 to 1.000) | - | 1 |\n"
            ),
            "{alone}"
        );
        let both = Table::all(&[query, sample("0", "heads", 5.0)], "heads")[0].to_string();
        assert!(
            both.contains("| KL less heads's |") && both.contains("| -3.000 (-3.000 to -3.000) |"),
            "{both}"
        );
        assert!(both.ends_with("| - | 1 | - |\n"), "{both}");
    }
}
