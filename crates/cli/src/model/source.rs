//! Which model is meant.

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

/// The model that the configuration names.
pub fn choose(config: &ModelConfig) -> Result<Choice, Misconfigured> {
    let Some(asked) = &config.model else {
        return Ok(Choice {
            source: None,
            origin: Origin::Default("model"),
        });
    };
    let source = ModelSource::parse(&asked.value).map_err(|e| Misconfigured::new(&asked.origin, e))?;
    Ok(Choice {
        source: Some(source),
        origin: asked.origin.clone(),
    })
}

impl Choice {
    /// What clients call the model unless it is given names.
    pub fn name(&self) -> String {
        let stem = |path: &std::path::Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
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
