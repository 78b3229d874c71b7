//! How far loading has come, and a terminal view of it.

use std::cell::RefCell;

use indicatif::{ProgressBar, ProgressStyle};

/// A step of loading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A file comes from the hub.
    Download {
        /// Its name in the repository.
        file: String,
        /// Bytes that have arrived.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Weights are unpacked.
    Weights {
        /// Decoder layers that are ready.
        done: usize,
        /// Decoder layers in all.
        total: usize,
    },
}

/// Is called with every step.
pub type ProgressFn = Box<dyn Fn(Progress)>;

/// Shows downloads as progress bars on standard error; shows nothing where that is no terminal.
pub fn terminal_progress() -> ProgressFn {
    let current: RefCell<Option<(String, ProgressBar)>> = RefCell::new(None);
    Box::new(move |progress| {
        let Progress::Download { file, done, total } = progress else {
            return;
        };
        let mut current = current.borrow_mut();
        let same = current.as_ref().is_some_and(|(shown, _)| *shown == file);
        if !same {
            *current = Some((file.clone(), bar(&file)));
        }
        if let Some((_, bar)) = current.as_ref() {
            bar.set_length(total);
            bar.set_position(done);
            if done == total {
                bar.finish();
            }
        }
    })
}

fn bar(file: &str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(file.to_owned());
    let template = "{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} ({eta})";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
