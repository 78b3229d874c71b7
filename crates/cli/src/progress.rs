//! A progress bar on standard error; a few lines of the log where that is no terminal or the log is for machines.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressStyle};

use crate::logging;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Layers of a model.
    Layers,
}

/// Shows how far a piece of work has come.
pub struct Meter {
    label: String,
    total: u64,
    bar: Option<ProgressBar>,
    quarter: Cell<u64>,
}

impl Meter {
    /// A meter from 0 to `total`.
    pub fn new(label: impl Into<String>, total: u64, unit: Unit) -> Self {
        let label = label.into();
        let bar = logging::is_for_people().then(|| styled(&label, total, unit));
        if bar.is_none() {
            tracing::info!(percent = 0, "{label}");
        }
        Self {
            label,
            total,
            bar,
            quarter: Cell::new(0),
        }
    }

    /// The work has come to `done`.
    pub fn set(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done.min(self.total));
            return;
        }
        let quarter = 4 * done.min(self.total) / self.total.max(1);
        if quarter > self.quarter.get() {
            self.quarter.set(quarter);
            tracing::info!(percent = 25 * quarter, "{}", self.label);
        }
    }
}

/// The bar goes when the work is over, whether it succeeded or not.
impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn styled(label: &str, total: u64, unit: Unit) -> ProgressBar {
    let template = match unit {
        Unit::Bytes => "{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} ({eta})",
        Unit::Layers => "{msg} [{wide_bar}] {pos}/{len}",
    };
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
