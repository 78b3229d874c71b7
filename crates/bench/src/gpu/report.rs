//! The table.

use std::fmt;

use serde::Serialize;

use crate::machine::{Date, Machine};

/// One measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// What was done.
    pub work: String,
    /// Share of document tokens that were repaired, where it matters.
    pub ratio: Option<f64>,
    /// Time to the first token, or of a decoding step; median.
    pub medley_ms: f64,
    /// Time to the first token of a full prefill of a prompt as long.
    pub full_ms: Option<f64>,
    /// The same work on vLLM 0.22.1, one H200.
    pub vllm_ms: Option<f64>,
    /// Relative error of the kernels against an f64 reference.
    pub rel_err: Option<f64>,
    /// Requests a second, where several are in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Pages in use at the peak, where it matters, as multiples of one prompt's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<f64>,
    /// Date of the run.
    pub date: String,
    /// Commit of the build.
    pub commit: String,
}

/// All measurements of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order in which they were made.
    pub rows: Vec<Row>,
    machine: Machine,
    date: String,
}

impl Report {
    pub(super) fn new() -> Self {
        Self {
            rows: Vec::new(),
            machine: Machine::this(),
            date: Date::today().to_string(),
        }
    }

    pub(super) fn push(&mut self, row: Row) {
        let row = Row {
            date: self.date.clone(),
            commit: self.machine.commit.clone(),
            ..row
        };
        tracing::info!("{}", line(&row));
        self.rows.push(row);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}\n", self.machine.commit, self.date)?;
        writeln!(
            f,
            "| work | ratio | ms | full prefill / this | vLLM / this | more |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", line(row)))
    }
}

fn line(row: &Row) -> String {
    let times = |base: Option<f64>| {
        base.map_or_else(|| "-".to_owned(), |base| format!("{:.2}x", base / row.medley_ms))
    };
    let ratio = row
        .ratio
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let rate = row.requests_per_s.map(|rate| format!("{rate:.2} requests/s"));
    let copies = row.copies.map(|copies| format!("{copies:.2} copies"));
    let more: Vec<_> = rate.into_iter().chain(copies).collect();
    let ms = if row.medley_ms > 0.0 {
        format!("{:.2}", row.medley_ms)
    } else {
        "-".to_owned()
    };
    format!(
        "| {} | {ratio} | {ms} | {} | {} | {} |",
        row.work,
        times(row.full_ms),
        times(row.vllm_ms),
        more.join(", ")
    )
}
