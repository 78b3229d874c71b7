//! Where fetched models are kept.

use std::path::{Path, PathBuf};

use crate::settings::{Layers, Misconfigured, Origin};

/// `--model-dir`, or a folder of the user's cache.
pub fn model_dir(layers: &Layers) -> Result<PathBuf, Misconfigured> {
    if let Some(given) = layers.given("model-dir") {
        return Ok(PathBuf::from(given.texts.concat()));
    }
    let environment = layers.environment();
    let cache = match (environment.get("XDG_CACHE_HOME"), environment.get("HOME")) {
        (Some(cache), _) if Path::new(cache).is_absolute() => PathBuf::from(cache),
        (_, Some(home)) => Path::new(home).join(".cache"),
        (_, None) => {
            return Err(Misconfigured::new(
                &Origin::Flag("model-dir"),
                "must be given where HOME is not set",
            ));
        }
    };
    Ok(cache.join("medley").join("models"))
}
