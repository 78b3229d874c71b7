//! Where a model comes from, as a person writes it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// One GGUF file.
    Gguf(PathBuf),
    /// A folder with `config.json`, `*.safetensors` and `tokenizer.json`.
    Folder(PathBuf),
    /// A repository of the model hub.
    Hub {
        /// `organisation/name`.
        id: String,
        /// A GGUF file in it; none means safetensors, or the repository's only GGUF file.
        file: Option<String>,
    },
}

/// A string that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a GGUF file, a model folder, nor a hub id (`org/name` or `org/name:file.gguf`)")]
pub struct UnknownSource(pub String);

impl ModelSource {
    /// Reads `path/to/file.gguf`, `path/to/folder`, `org/name` or `org/name:file.gguf`. What exists on disk is
    /// a path; else a name that ends in `.gguf` or begins like a path is one.
    pub fn parse(text: &str) -> Result<Self, UnknownSource> {
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        if path.is_file() {
            return Ok(Self::Gguf(path.to_owned()));
        }
        if let Some(hub) = hub_id(text) {
            return Ok(hub);
        }
        match (text.ends_with(".gguf"), text.starts_with(['/', '.', '~'])) {
            (true, _) => Ok(Self::Gguf(path.to_owned())),
            (false, true) => Ok(Self::Folder(path.to_owned())),
            (false, false) => Err(UnknownSource(text.to_owned())),
        }
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gguf(path) | Self::Folder(path) => path.display().fmt(f),
            Self::Hub { id, file: None } => f.write_str(id),
            Self::Hub { id, file: Some(file) } => write!(f, "{id}:{file}"),
        }
    }
}

fn hub_id(text: &str) -> Option<ModelSource> {
    let (id, file) = match text.split_once(':') {
        Some((id, file)) if file.ends_with(".gguf") => (id, Some(file.to_owned())),
        Some(_) => return None,
        None if text.ends_with(".gguf") => return None,
        None => (text, None),
    };
    let (organisation, name) = id.split_once('/')?;
    (hub_name(organisation) && hub_name(name)).then(|| ModelSource::Hub {
        id: id.to_owned(),
        file,
    })
}

fn hub_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(id: &str, file: Option<&str>) -> ModelSource {
        ModelSource::Hub {
            id: id.to_owned(),
            file: file.map(str::to_owned),
        }
    }

    #[test]
    fn names_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let parse = |text: &str| ModelSource::parse(text).expect("a source");
        assert_eq!(parse(&path.display().to_string()), ModelSource::Folder(path));
        assert_eq!(
            parse("absent/model.gguf"),
            ModelSource::Gguf("absent/model.gguf".into())
        );
        assert_eq!(parse("./absent"), ModelSource::Folder("./absent".into()));
        assert_eq!(parse("org/name"), hub("org/name", None));
        assert_eq!(parse("org/name:sub/a.gguf"), hub("org/name", Some("sub/a.gguf")));
        for text in ["", "name", "a/b/c", "org/name:file.bin", "org/"] {
            assert!(ModelSource::parse(text).is_err(), "{text}");
        }
    }
}
