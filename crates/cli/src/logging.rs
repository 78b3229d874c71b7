//! The log on standard error.

use std::io::{self, IsTerminal};

use crate::config::{LogFormat, ModelConfig};

/// Starts logging; a second call changes nothing.
pub fn start(config: &ModelConfig) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(config.log_level)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    // Fails only where a log is running already.
    let _ = match config.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
