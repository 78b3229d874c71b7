//! Loads a model and starts an engine on it.

use std::{cell::RefCell, sync::Arc};

use anyhow::{Context, Result};
use medley_backend::Backend;
use medley_backend_mistralrs::{
    ComputeDevice, LoadError, LoadOptions, Loaded, ModelInfo, PoolSize, Progress, ProgressFn, open,
};
use medley_chat::Dialect;
use medley_engine::{Engine, EngineConfig};
use medley_generate::Generate;
use medley_kv::{Namespace, NamespaceBuilder, PAGE_TOKENS, Source, TokenId, pages_for};
use medley_prompt::{Anchor, Composer, Tokenizer};
use medley_shadow::Rate;

use super::{
    dialect::dialect,
    source::Choice,
    text::{self, Bytes},
    vocabulary,
};
use crate::{
    config::{self, Asked, Limits, ModelConfig},
    progress::{Meter, Unit},
    settings::{Misconfigured, Origin},
};

/// How much runs in a step of the engine.
#[derive(Clone, Copy)]
struct Steps {
    /// Rows while nothing is being streamed: enough to keep the matrix products busy.
    rows: usize,
    /// Rows beside running streams: their tokens come that much later.
    mixed: usize,
}

impl Steps {
    const CPU: Self = Self {
        rows: 512,
        mixed: 128,
    };
    const CUDA: Self = Self {
        rows: 8192,
        mixed: 1024,
    };

    fn of(device: ComputeDevice) -> Self {
        match device {
            ComputeDevice::Cpu => Self::CPU,
            ComputeDevice::Cuda(_) => Self::CUDA,
        }
    }
}

/// A model that answers.
pub struct Running {
    /// Runs requests.
    pub engine: Arc<dyn Generate>,
    /// Makes prompts.
    pub composer: Arc<Composer>,
    /// How it chats.
    pub chat: Option<Arc<Dialect>>,
    /// What computes.
    pub device: ComputeDevice,
    /// Names all that decides how good blended answers are: model, number format, anchor and rule.
    pub identity: String,
}

/// What a server needs of its model beside the configuration of the model.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// Text at which plain prompts are split.
    pub separator: Option<String>,
    /// How the model chats.
    pub chat: config::Chat,
    /// Share of blended requests that are also run exactly.
    pub shadow_rate: Rate,
}

/// Loads the model, the default one fetched first if it has to be, and starts its engine. Takes seconds or minutes
/// and shows progress.
pub fn start(choice: &Choice, config: &ModelConfig, serving: &Serving) -> Result<Running> {
    let source = choice.present(config)?;
    let device = super::device::resolve(config.device);
    let options = LoadOptions {
        device,
        pool: pool(device, config),
        threads: Some(config.threads),
        max_model_len: config.limits.max_model_len.as_ref().map(|asked| asked.value),
        progress: Some(progress()),
        ..LoadOptions::default()
    };
    let refuse = |e| refused(e, device, choice, config, &source.to_string());
    let opened = open(&source, &options).map_err(refuse)?;
    check_length(config.limits.max_model_len.as_ref(), opened.context_length())?;
    check_layer(&config.blend.check_layer, opened.layers())?;
    let loaded = opened.load(&options).map_err(refuse)?;
    run(loaded, device, choice, config, serving)
}

fn pool(device: ComputeDevice, config: &ModelConfig) -> PoolSize {
    match device {
        ComputeDevice::Cpu => PoolSize::Bytes(config.host_cache.value.0),
        ComputeDevice::Cuda(_) => PoolSize::Utilization(config.gpu_memory),
    }
}

fn run(
    loaded: Loaded,
    device: ComputeDevice,
    choice: &Choice,
    config: &ModelConfig,
    serving: &Serving,
) -> Result<Running> {
    let Loaded {
        backend,
        info,
        tokenizer: source,
    } = loaded;
    let bad = |e: anyhow::Error| Misconfigured::new(&choice.origin, format!("the model's tokenizer: {e:#}"));
    let template = text::chat_template(&source);
    let tokenizer = text::tokenizer(source).map_err(bad)?;
    vocabulary::check(&tokenizer, info.vocab).map_err(|e| Misconfigured::new(&choice.origin, e))?;
    let anchor = match &config.blend.anchor {
        config::Anchor::Bos => Anchor::Bos,
        config::Anchor::Neutral => Anchor::Neutral,
        config::Anchor::File { text, .. } => Anchor::Text(text.clone()),
    };
    let composer = Composer::new(tokenizer.clone(), &anchor, serving.separator.as_deref());
    let composer = composer.map_err(|e| Misconfigured::new(&choice.origin, e))?;
    let template = template.as_deref().or(tokenizer.chat_template());
    let chat = dialect(&serving.chat, template, &tokenizer)?;
    let end_of_text = end_of_text(&info, &tokenizer);
    let identity = identity(&info, &*backend, &config.blend);
    let mut engine = engine_config(&info, end_of_text, &*backend, device, &config.limits);
    engine.resident_pages -=
        pages_of_checks(engine.resident_pages, engine.max_model_len, serving.shadow_rate);
    let engine = Engine::start(backend, engine, Arc::new(Bytes(tokenizer)));
    Ok(Running {
        engine: Arc::new(engine.context("can't start the engine")?),
        composer: Arc::new(composer),
        chat,
        device,
        identity,
    })
}

/// What the engine is told of a model on a device.
pub(super) fn engine_config(
    info: &ModelInfo,
    end_of_text: Arc<[TokenId]>,
    backend: &dyn Backend,
    device: ComputeDevice,
    limits: &Limits,
) -> EngineConfig {
    let steps = Steps::of(device);
    EngineConfig {
        max_model_len: length_in(backend.pages(), info.context_length),
        max_sequences: limits.max_sequences,
        max_queue: limits.max_queue,
        step_rows: steps.rows,
        mixed_step_rows: steps.mixed,
        // Running requests push residents out as they need pages.
        resident_pages: backend.pages(),
        namespace: namespace(info, backend),
        resident_source: match device {
            ComputeDevice::Cpu => Source::Host,
            ComputeDevice::Cuda(_) => Source::Gpu,
        },
        end_of_text,
        unsupported: None,
    }
}

/// Pages that residents leave to shadow checks, which take free ones only: as many as the longest prompt has, but no
/// more than an eighth of the pool. Checks of prompts that do not fit are dropped.
fn pages_of_checks(pages: usize, longest: usize, rate: Rate) -> usize {
    match rate {
        Rate::NONE => 0,
        _ => pages_for(longest).min(pages / 8),
    }
}

/// All that decides a KV entry's bits besides tokens and tenant. The anchor is part of each document's key.
fn namespace(info: &ModelInfo, backend: &dyn Backend) -> Namespace {
    fields(info, backend).build()
}

fn fields(info: &ModelInfo, backend: &dyn Backend) -> NamespaceBuilder {
    Namespace::builder()
        .field("model", info.fingerprint)
        .field("rope", &info.rope)
        .field("recipe", &info.recipe)
        .field("kv", backend.geometry().dtype.name())
}

fn identity(info: &ModelInfo, backend: &dyn Backend, blend: &config::Blend) -> String {
    let options = &blend.options;
    let rule = format!(
        "{} {} {} {}",
        options.strategy, options.hops, options.rounds, options.check_layer
    );
    let anchor = match &blend.anchor {
        config::Anchor::File { text, .. } => text,
        named => named.label(),
    };
    fields(info, backend)
        .field("anchor", anchor)
        .field("rule", rule)
        .build()
        .id()
}

/// What the tokenizer and the model's own configuration say, each token once.
fn end_of_text(info: &ModelInfo, tokenizer: &Tokenizer) -> Arc<[TokenId]> {
    let mut tokens = tokenizer.end_of_text().to_vec();
    tokens.extend(info.eos_tokens.iter().copied().map(TokenId));
    let mut seen = std::collections::BTreeSet::new();
    tokens.into_iter().filter(|token| seen.insert(*token)).collect()
}

/// A model that can't be loaded is a configuration that can't be run, except where the network failed.
fn refused(
    error: LoadError,
    device: ComputeDevice,
    choice: &Choice,
    config: &ModelConfig,
    source: &str,
) -> anyhow::Error {
    if error.concerns_device() {
        let reason = format!("{:#}", anyhow::Error::from(error));
        return Misconfigured::new(&Origin::Flag("device"), reason).into();
    }
    let origin = match &error {
        LoadError::Hub { .. } => return error.into(),
        LoadError::Pool(_) if device != ComputeDevice::Cpu => {
            let origin = Origin::Flag("gpu-memory-utilization");
            return Misconfigured::new(&origin, format!("{source}: {error}")).into();
        }
        LoadError::Pool(_) => {
            let asked = &config.host_cache;
            let pool = format!("{:?}", PoolSize::Bytes(asked.value.0));
            let reason = error.to_string().replace(&pool, &asked.value.to_string());
            return Misconfigured::new(&asked.origin, format!("{source}: {reason}")).into();
        }
        _ => &choice.origin,
    };
    let reason = format!("{:#}", anyhow::Error::from(error));
    let reason = if reason.contains(source) {
        reason
    } else {
        format!("{source}: {reason}")
    };
    Misconfigured::new(origin, reason).into()
}

fn check_length(asked: Option<&Asked<usize>>, context: usize) -> Result<(), Misconfigured> {
    match asked {
        Some(Asked { value, origin }) if *value > context => Err(Misconfigured::new(
            origin,
            format!("the model's context is {context} tokens, less than {value}"),
        )),
        _ => Ok(()),
    }
}

/// A model of one layer has none to compare: only who asks for it is told.
fn check_layer(asked: &Asked<u32>, layers: usize) -> Result<(), Misconfigured> {
    if (asked.value as usize) < layers || matches!(asked.origin, Origin::Default(_)) {
        return Ok(());
    }
    Err(Misconfigured::new(
        &asked.origin,
        format!(
            "`{}` is not a layer to compare: this model's are 1 to {}",
            asked.value,
            layers.saturating_sub(1)
        ),
    ))
}

/// Tokens that prompt and answer may have: no more than the KV memory of `pages` holds.
fn length_in(pages: usize, context: usize) -> usize {
    let held = pages.saturating_mul(PAGE_TOKENS);
    if held < context {
        tracing::warn!(
            context,
            held,
            "the memory for KV holds less than the model's context, so requests may have no more than that: \
             --host-cache-size gives it more (on a GPU --gpu-memory-utilization), --max-model-len a smaller context"
        );
    }
    held.min(context)
}

/// One meter for the download of each file and one for the weights.
fn progress() -> ProgressFn {
    let meter: RefCell<Option<(String, Meter)>> = RefCell::new(None);
    Box::new(move |step| {
        let (label, done, total, unit) = match step {
            Progress::Download { file, done, total } => {
                (format!("fetching {file}"), done, total, Unit::Bytes)
            }
            Progress::Weights { done, total } => (
                "loading the model".to_owned(),
                done as u64,
                total as u64,
                Unit::Layers,
            ),
        };
        let mut meter = meter.borrow_mut();
        if meter.as_ref().is_none_or(|(shown, _)| *shown != label) {
            *meter = Some((label.clone(), Meter::new(label, total, unit)));
        }
        meter.iter().for_each(|(_, meter)| meter.set(done));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_context_is_refused_where_it_was_given() {
        let asked = Asked {
            value: 9000,
            origin: Origin::Flag("max-model-len"),
        };
        let refused = check_length(Some(&asked), 8192)
            .expect_err("too long")
            .to_string();
        assert!(refused.starts_with("--max-model-len: "), "{refused}");
        assert_eq!(check_length(Some(&asked), 9000), Ok(()));
        assert_eq!(check_length(None, 1), Ok(()));
    }

    #[test]
    fn a_check_layer_that_the_model_has_not_is_refused_where_it_was_given() {
        let asked = |value, origin| Asked { value, origin };
        let flag = |value| asked(value, Origin::Flag("blend-check-layer"));
        let refused = check_layer(&flag(30), 30).expect_err("too deep").to_string();
        assert!(
            refused.starts_with("--blend-check-layer: ") && refused.contains("1 to 29"),
            "{refused}"
        );
        assert_eq!(check_layer(&flag(29), 30), Ok(()));
        let default = asked(1, Origin::Default("blend-check-layer"));
        assert_eq!(check_layer(&default, 1), Ok(()));
    }

    #[test]
    fn pages_are_left_to_shadow_checks_where_there_are_any() {
        assert_eq!(pages_of_checks(800, 8192, Rate::NONE), 0);
        assert_eq!(pages_of_checks(8000, 8192, Rate::ALL), 128);
        assert_eq!(pages_of_checks(800, 8192, Rate::ALL), 100);
    }

    #[test]
    fn requests_may_be_as_long_as_the_memory_for_kv() {
        assert_eq!(length_in(10, 8192), 640);
        assert_eq!(length_in(128, 8192), 8192);
        assert_eq!(length_in(usize::MAX, 8192), 8192);
    }
}
