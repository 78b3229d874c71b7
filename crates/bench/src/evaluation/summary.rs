//! Sums up files of results without running anything.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use anyhow::Result;

use super::{
    ledger::{self, Record},
    row::FULL,
    table::Table,
};

/// A file of results, and a label for results of another build: `query` of a file labelled `plain` is shown as
/// `query (plain)` and never mixed with `query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    label: Option<String>,
    path: PathBuf,
}

/// `FILE` or `LABEL=FILE`.
impl FromStr for Results {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (label, path) = match text.split_once('=') {
            Some((label, path)) => (Some(label.to_owned()), path),
            None => (None, text),
        };
        Ok(Self {
            label,
            path: path.into(),
        })
    }
}

impl Results {
    fn read(&self) -> Result<Vec<Record>> {
        let mut records = ledger::read(&self.path)?;
        for record in &mut records {
            record.key.rule = self.labelled(&record.key.rule);
        }
        Ok(records)
    }

    /// A full prefill is the same whatever chooses the repairs.
    fn labelled(&self, rule: &str) -> String {
        match &self.label {
            Some(label) if rule != FULL => format!("{rule} ({label})"),
            _ => rule.to_owned(),
        }
    }
}

/// One table for each model, set and anchor of the files; rules are compared with `against` at the same ratio.
pub fn summarise(files: &[Results], against: &str) -> Result<Vec<Table>> {
    let mut records = Vec::new();
    for file in files {
        records.append(&mut file.read()?);
    }
    Ok(Table::all(&records, against))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::ledger::sample;

    #[test]
    fn labelled_results_stay_apart_from_others_of_their_rule() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, kl: f64| {
            let lines = ["full", "query"].map(|rule| {
                let line = serde_json::to_string(&sample("0", rule, kl)).expect("JSON");
                line + "\n"
            });
            let path = folder.path().join(name);
            std::fs::write(&path, lines.concat()).expect("written");
            path.display().to_string()
        };
        let files = [format!("plain={}", file("a", 2.0)), file("b", 1.0)].map(|text| {
            let Ok(results) = text.parse::<Results>();
            results
        });
        let tables = summarise(&files, "query").expect("results");
        let seen: Vec<_> = tables[0]
            .rows
            .iter()
            .map(|r| (r.rule.as_str(), r.cases, r.kl.mean))
            .collect();
        assert_eq!(
            seen,
            [("full", 1, 1.0), ("query (plain)", 1, 2.0), ("query", 1, 1.0)]
        );
        assert_eq!(tables[0].rows[1].difference.map(|d| d.mean), Some(1.0));
    }
}
