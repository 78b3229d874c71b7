//! Results as JSON lines: appended as they come, read at the start.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::case::Case;
use crate::Subject;

/// What a result is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// The model.
    pub model: String,
    /// What its documents stand behind.
    pub anchor: String,
    /// The file of cases, without folder and extension.
    pub data: String,
    /// The case.
    pub case: String,
    /// The rule; `full` for the exact prefill.
    pub rule: String,
    /// The ratio that was asked for.
    pub ratio: f32,
}

/// The result of one rule at one ratio on one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What it is of.
    #[serde(flatten)]
    pub key: Key,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of its documents.
    pub document_tokens: usize,
    /// Document tokens that were recomputed in their context.
    pub repaired: usize,
    /// Rows that ran for the first token, probes included; earlier results do not know it.
    #[serde(default)]
    pub rows: Option<usize>,
    /// Positions that were compared.
    pub compared: usize,
    /// Mean KL(full ‖ this) in nats per token.
    pub kl: f64,
    /// Share of positions with the same most probable token.
    pub top1: f64,
    /// F1 of the own greedy answer, if it was asked for.
    pub f1: Option<f64>,
    /// The own greedy answer, if it was asked for.
    pub answer: Option<String>,
}

impl Key {
    /// The key of a rule at a ratio on a case.
    pub(super) fn new(subject: &Subject, data: &str, case: &Case, rule: &str, ratio: f32) -> Self {
        Self {
            model: subject.name.clone(),
            anchor: subject.anchor.clone(),
            data: data.to_owned(),
            case: case.id.clone(),
            rule: rule.to_owned(),
            ratio,
        }
    }
}

/// All results of a file that is complete.
pub(super) fn read(path: &Path) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<Vec<Record>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let records: Result<Vec<Record>, _> = lines.map(serde_json::from_str).collect();
    records.with_context(|| format!("{} holds other lines than results", path.display()))
}

/// The file of results.
pub(super) struct Ledger {
    file: File,
    records: Vec<Record>,
}

impl Ledger {
    /// Opens or begins a file. A last line that was cut by an interruption is dropped.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("can't make the folder of {shown}"))?;
        }
        let text = if path.exists() {
            std::fs::read_to_string(path)?
        } else {
            String::new()
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let records = parse(&text[..whole], path)?;
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("can't write {shown}"))?;
        file.set_len(whole as u64)?;
        Ok(Self { file, records })
    }

    /// Whether a result is there, with an answer if it must have one.
    pub(super) fn has(&self, key: &Key, with_answer: bool) -> bool {
        self.records
            .iter()
            .any(|r| r.key == *key && (r.f1.is_some() || !with_answer))
    }

    /// Adds a result.
    pub(super) fn append(&mut self, record: Record) -> Result<()> {
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .context("can't write the results")?;
        self.records.push(record);
        Ok(())
    }

    /// All results; later ones of the same key replace earlier ones.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }
}

/// A result for tests: 50 document tokens of 100, 5 of them repaired, at 0.1.
#[cfg(test)]
pub(super) fn sample(case: &str, rule: &str, kl: f64) -> Record {
    let key = Key {
        model: "m".into(),
        anchor: "bos".into(),
        data: "d".into(),
        case: case.into(),
        rule: rule.into(),
        ratio: 0.1,
    };
    Record {
        key,
        prompt_tokens: 100,
        document_tokens: 50,
        repaired: 5,
        rows: None,
        compared: 1,
        kl,
        top1: 1.0,
        f1: None,
        answer: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rule: &str, f1: Option<f64>) -> Record {
        Record {
            f1,
            answer: f1.map(|_| "a".into()),
            ..sample("0", rule, 0.5)
        }
    }

    #[test]
    fn results_survive_an_interruption_without_the_line_that_it_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub").join("results.jsonl");
        let mut ledger = Ledger::open(&path).expect("a new file");
        ledger.append(record("query", None)).expect("written");
        ledger.file.write_all(b"{\"model\":\"m").expect("half a line");
        let mut again = Ledger::open(&path).expect("read again");
        assert_eq!(again.records(), [record("query", None)]);
        again.append(record("heads", Some(0.5))).expect("written");
        assert_eq!(Ledger::open(&path).expect("read").records().len(), 2);
    }

    #[test]
    fn results_that_do_not_know_their_rows_are_read() {
        let line = r#"{"model":"m","anchor":"bos","data":"d","case":"0","rule":"query","ratio":0.1,"prompt_tokens":100,
            "document_tokens":50,"repaired":5,"compared":1,"kl":0.5,"top1":1.0,"f1":null,"answer":null}"#;
        let read = parse(&line.replace('\n', " "), Path::new("x")).expect("a result");
        assert_eq!(read, [record("query", None)]);
    }

    #[test]
    fn a_result_without_an_answer_is_missing_where_answers_are_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ledger = Ledger::open(&folder.path().join("r.jsonl")).expect("a new file");
        ledger.append(record("query", None)).expect("written");
        let key = record("query", None).key;
        assert!(ledger.has(&key, false) && !ledger.has(&key, true));
        assert!(!ledger.has(&Key { ratio: 0.2, ..key }, false));
    }
}
