//! Where a value was given, and the error that names it.

use std::{fmt, path::PathBuf};

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A command-line flag, without its dashes.
    Flag(&'static str),
    /// A plain argument of a command.
    Argument(&'static str),
    /// An environment variable.
    Variable(String),
    /// A key of the configuration file.
    File(PathBuf, String),
    /// Nowhere: the built-in default of the setting.
    Default(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Argument(command) => f.write_str(command),
            Self::Variable(name) => f.write_str(name),
            Self::File(path, key) if key.is_empty() => write!(f, "{}", path.display()),
            Self::File(path, key) => write!(f, "{}: {key}", path.display()),
            Self::Default(name) => write!(f, "the default of --{name}"),
        }
    }
}

/// A configuration that can't be run: exit code 64. Its text says where the value was given and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misconfigured {
    origin: Origin,
    reason: String,
}

impl Misconfigured {
    /// `reason` says what is wrong with the value given at `origin`, and what would be right.
    pub fn new(origin: &Origin, reason: impl fmt::Display) -> Self {
        Self {
            origin: origin.clone(),
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.reason)
    }
}

impl std::error::Error for Misconfigured {}
