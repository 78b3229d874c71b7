//! The environment, read once.

use std::collections::BTreeMap;

/// A snapshot of the environment variables.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. Bytes that are not UTF-8 are replaced.
    pub fn capture() -> Self {
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        Self(
            std::env::vars_os()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        )
    }

    /// The names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a variable. An empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }
}
