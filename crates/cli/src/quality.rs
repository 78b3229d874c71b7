//! The calibration of a model: read from where it was kept, or measured.

use std::{path::PathBuf, sync::Arc};

use anyhow::Result;
use medley_bench::{
    Subject,
    calibration::{self, Calibration},
};

use medley_backend_mistralrs::ComputeDevice;
use medley_kv::{BlendMode, Ratio};
use medley_server::{Gate, Quality};

use crate::{
    config::{ModelConfig, ServerConfig},
    model::Running,
    settings::{Misconfigured, Origin},
};

/// Where the calibration of this identity is kept: beside the fetched models.
pub fn path(config: &ModelConfig, identity: &str) -> PathBuf {
    let folder = config.model_dir.with_file_name("calibration");
    folder.join(format!("{identity}.json"))
}

/// The running model as something to measure.
pub fn subject(name: String, config: &ModelConfig, running: &Running) -> Subject {
    Subject {
        name,
        anchor: config.blend.anchor.label().to_owned(),
        engine: Arc::clone(&running.engine),
        composer: Arc::clone(&running.composer),
    }
}

/// What the server knows of its model: from the calibration that was kept, or one that is made now where it takes seconds or
/// something depends on it.
pub async fn of_server(
    config: &ModelConfig,
    server: &ServerConfig,
    name: &str,
    running: &Running,
) -> Result<Quality> {
    let (blend, gate) = (&config.blend, server.gate);
    let kept = Calibration::read(&path(config, &running.identity), &running.identity);
    let on_gpu = matches!(running.device, ComputeDevice::Cuda(_));
    let wanted = blend.options.mode == BlendMode::Auto && gate != Gate::Off;
    let found = match kept {
        Some(found) => Some(found),
        None if blend.auto_ratio || gate == Gate::Refuse || (on_gpu && wanted) => {
            tracing::info!("calibrating: how much has to be recomputed");
            let subject = subject(name.to_owned(), config, running);
            match measure(config, &subject, &running.identity).await {
                Ok(found) => Some(found),
                Err(error) if gate == Gate::Refuse => {
                    return Err(error.context("a gate that refuses needs a model that can be calibrated"));
                }
                // A context too short for the built-in prompts, or a pool: the model still answers.
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the model could not be calibrated");
                    None
                }
            }
        }
        None => None,
    };
    if found.as_ref().is_some_and(Calibration::is_useless) {
        let reason = "repairs bring this model's answers hardly closer to a full prefill";
        anyhow::ensure!(gate != Gate::Refuse, "{reason}: blending is no use with it");
        tracing::warn!("{reason}");
    }
    let needed = found.map(|found| found.needed(blend.target).unwrap_or(Ratio::ONE));
    let quality = Quality { needed, gate };
    report(config, &quality)?;
    Ok(quality)
}

/// Says what was found, and refuses a default that is refused to requests.
fn report(config: &ModelConfig, quality: &Quality) -> Result<()> {
    let blend = &config.blend;
    let Some(needed) = quality.needed.map(Ratio::get) else {
        tracing::info!(
            "not calibrated: `medley eval --calibrate` finds out how much this model has to recompute"
        );
        return Ok(());
    };
    let default = blend.options.ratio.get();
    let short = blend.options.mode == BlendMode::Auto && !blend.auto_ratio && default < needed;
    if blend.auto_ratio && needed >= 1.0 {
        tracing::warn!(
            "no ratio that was tried is enough for this model: auto recomputes all of every document, which takes longer than \
             no blending at all"
        );
    }
    tracing::info!(needed, target_kl = blend.target.kl, "calibrated");
    match quality.gate {
        Gate::Refuse if short => {
            let reason = format!(
                "{default} is below {needed}, what the model needs for --blend-target-kl {}",
                blend.target.kl
            );
            Err(Misconfigured::new(&Origin::Flag("blend-ratio"), reason).into())
        }
        Gate::Warn if short => {
            tracing::warn!(
                default,
                needed,
                "the default ratio is below what the model needs for the target"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Measures the model and keeps the result; what can't be kept is measured again the next time.
pub async fn measure(config: &ModelConfig, subject: &Subject, identity: &str) -> Result<Calibration> {
    let found = calibration::calibrate(subject, config.blend.options, identity.to_owned()).await?;
    let path = path(config, identity);
    if let Err(error) = found.write(&path) {
        tracing::warn!(error = format!("{error:#}"), "the calibration is not kept");
    }
    Ok(found)
}
