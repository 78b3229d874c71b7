//! A progress bar on standard error; lines of the log where that is no terminal.

use std::{cell::Cell, io::IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// Counts steps of a measurement.
pub(crate) struct Steps {
    bar: Option<ProgressBar>,
    total: usize,
    done: Cell<usize>,
}

impl Steps {
    /// A bar of `total` steps.
    pub(crate) fn new(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| styled(total));
        Self {
            bar,
            total,
            done: Cell::new(0),
        }
    }

    /// Says what runs now.
    pub(crate) fn now(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => tracing::info!(done = self.done.get(), of = self.total, "{what}"),
        }
    }

    /// Counts a step.
    pub(crate) fn step(&self) {
        self.done.set(self.done.get() + 1);
        self.bar.iter().for_each(|bar| bar.inc(1));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn styled(total: usize) -> ProgressBar {
    let bar = ProgressBar::new(total as u64);
    match ProgressStyle::with_template("[{wide_bar}] {pos}/{len} ({eta}) {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
