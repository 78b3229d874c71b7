//! Which model is meant.

use std::{fs, io, path::Path};

use anyhow::Result;
use medley_backend_mistralrs::ModelSource;

use crate::{
    config::ModelConfig,
    fetch,
    settings::{Misconfigured, Origin},
};

/// A model and where it was named.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Where it comes from; `None` is the default model, which may have to be fetched.
    pub source: Option<ModelSource>,
    /// Where it was named.
    pub origin: Origin,
}

/// The model that the configuration names. A local one can be opened; nothing of it is read yet.
pub fn choose(config: &ModelConfig) -> Result<Choice, Misconfigured> {
    let Some(asked) = &config.model else {
        return Ok(Choice {
            source: None,
            origin: Origin::Default("model"),
        });
    };
    let source = ModelSource::parse(&asked.value).map_err(|e| Misconfigured::new(&asked.origin, e))?;
    open(&source).map_err(|reason| Misconfigured::new(&asked.origin, reason))?;
    Ok(Choice {
        source: Some(source),
        origin: asked.origin.clone(),
    })
}

/// Finds out at once whether a local model is there: loading begins only when the server listens already.
fn open(source: &ModelSource) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| format!("can't read {}: {error}", path.display());
    match source {
        ModelSource::Gguf(path) => fs::File::open(path).map(drop).map_err(|e| failed(path, e)),
        ModelSource::Folder(path) => {
            fs::read_dir(path).map_err(|e| failed(path, e))?;
            let config = path.join("config.json");
            fs::File::open(&config).map(drop).map_err(|e| failed(&config, e))
        }
        ModelSource::Hub { .. } => Ok(()),
    }
}

impl Choice {
    /// What clients call the model unless it is given names.
    pub fn name(&self) -> String {
        let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        match &self.source {
            None => stem(fetch::DEFAULT.file.as_ref()).unwrap_or_default(),
            Some(ModelSource::Hub { id, .. }) => id.clone(),
            Some(ModelSource::Gguf(path)) => stem(path).unwrap_or_default(),
            Some(ModelSource::Folder(path)) => {
                // `.` has no name of its own.
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default()
            }
        }
    }

    /// The source, the default model fetched if it has to be.
    pub(super) fn present(&self, config: &ModelConfig) -> Result<ModelSource> {
        match &self.source {
            Some(source) => Ok(source.clone()),
            None => {
                let fetched = fetch::fetch(fetch::DEFAULT, &config.model_dir)?;
                Ok(ModelSource::Gguf(fetched.path().to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_model_that_is_not_there_is_refused_before_anything_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let refused = |source| open(&source).expect_err("nothing is there");
        assert!(refused(ModelSource::Gguf(path("a.gguf"))).contains("a.gguf: "));
        assert!(refused(ModelSource::Folder(path("absent"))).contains("absent: "));
        assert!(refused(ModelSource::Folder(path("."))).contains("config.json: "));
        for name in ["a.gguf", "config.json"] {
            fs::write(path(name), "").expect("written");
        }
        assert_eq!(open(&ModelSource::Gguf(path("a.gguf"))), Ok(()));
        assert_eq!(open(&ModelSource::Folder(path("."))), Ok(()));
    }
}
