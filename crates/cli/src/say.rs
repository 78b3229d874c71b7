//! What is said to people, on standard output and standard error.
//!
//! Whoever listens may have gone (`medley serve 2>&1 | head`): that is no reason to stop, so failures to write are
//! ignored. Nothing in this crate prints in another way.

use std::{
    fmt::Arguments,
    io::{self, Write},
};

/// A line on standard output: what a command was asked for.
pub fn result(line: Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line on standard error: what is good to know.
pub fn note(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
