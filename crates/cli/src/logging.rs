//! The log on standard error.

use std::{
    io::{self, IsTerminal},
    sync::OnceLock,
};

use anyhow::Error;
use tracing::Level;

use crate::{config::LogFormat, say};

/// The form of the log, once it runs.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Starts logging; a second call changes nothing.
pub fn start(format: LogFormat, level: Level) {
    if FORMAT.set(format).is_err() {
        return;
    }
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        // Would be said on the standard error that is gone, which is a panic.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    // Fails only where a log is running already.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// Whether standard error is for people alone: pictures may be drawn on it.
pub fn is_for_people() -> bool {
    io::stderr().is_terminal() && !is_json()
}

/// Says why the process ends, in the form of the log.
pub fn failure(error: &Error) {
    if is_json() {
        tracing::error!(error = format!("{error:#}"), "medley ends");
    } else {
        say::note(format_args!("medley: {error:#}"));
    }
}

fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}
