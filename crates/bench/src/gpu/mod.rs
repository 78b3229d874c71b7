//! Speed of an engine on a GPU, at its door: from the submission of token ids to the first token, and between tokens.
//!
//! The work is that of the published numbers for vLLM beside which results are printed; those were measured on one H200
//! with the shape of Llama 3.1 8B in bf16 (vLLM 0.22.1, its defaults, 2026-12-01). Every ratio to a full prefill comes
//! from the same run.

mod prompts;
mod report;
mod work;

use std::path::Path;

use anyhow::{Context, Result};
use medley_generate::Generate;
use medley_kv::Ratio;

pub use report::{Report, Row};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds; medians are over them.
    pub rounds: usize,
    /// Ratios at which documents in a new order are blended.
    pub ratios: Vec<Ratio>,
    /// Only work whose name contains one of these; all if there are none.
    pub only: Vec<String>,
    /// What relative error the kernels were found to have, before anything was timed.
    pub relative_error: Option<f64>,
}

/// Measures everything and returns the table.
pub async fn run(engine: &dyn Generate, options: &Options) -> Result<Report> {
    work::Bench::new(engine, options).run().await
}

/// Writes the rows as a JSON list.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(&report.rows)? + "\n";
    std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}
