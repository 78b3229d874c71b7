//! The validated configuration: everything typed, every default resolved.

mod blend;
mod chat;
mod http;
mod paths;
mod units;

use std::{convert::Infallible, num::NonZeroUsize, path::PathBuf, thread};

pub use blend::{Anchor, Blend};
pub use chat::Chat;
pub use http::Http;
pub use paths::model_dir;
pub use units::{Bytes, Time};
#[cfg(test)]
pub use units::{SIZES, TIMES};

use medley_server::Gate;
use medley_shadow::Rate;

use crate::settings::{Layers, Misconfigured, Origin};

/// A value that only a loaded model can prove wrong, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<T> {
    /// The value.
    pub value: T,
    /// Where it was given.
    pub origin: Origin,
}

/// How much runs and waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of prompt and answer together; the model's context if not given.
    pub max_model_len: Option<Asked<usize>>,
    /// Requests that run at the same time.
    pub max_sequences: usize,
    /// Requests that wait.
    pub max_queue: usize,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// CUDA if it is built in and there, else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// A CUDA device, by its number.
    Cuda(usize),
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What every command that runs a model needs.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The model, as a path or a hub id; the fetched default one if not given.
    pub model: Option<Asked<String>>,
    /// Where fetched models are kept.
    pub model_dir: PathBuf,
    /// What computes.
    pub device: Device,
    /// Share of a GPU's memory that may be taken.
    pub gpu_memory: f32,
    /// Threads that compute.
    pub threads: usize,
    /// How much runs and waits.
    pub limits: Limits,
    /// Memory for KV.
    pub host_cache: Asked<Bytes>,
    /// How documents are treated unless a request says otherwise.
    pub blend: Blend,
    /// Form of the log.
    pub log_format: LogFormat,
    /// Least severe level that is logged.
    pub log_level: tracing::Level,
}

/// What the server needs besides.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Names of the model, the first one shown; the model's own if empty.
    pub names: Vec<String>,
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Who may ask, how much and for how long.
    pub http: Http,
    /// Text at which plain prompts are split.
    pub separator: Option<String>,
    /// How the model chats.
    pub chat: Chat,
    /// What happens to ratios below what the model needs.
    pub gate: Gate,
    /// Share of blended requests that are also run exactly.
    pub shadow_rate: Rate,
    /// Time that running requests have to finish.
    pub shutdown_timeout: Time,
}

impl ModelConfig {
    /// Checks the settings of all commands that run a model.
    pub fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        Ok(Self {
            device: layers.required("device", device)?,
            gpu_memory: layers.required("gpu-memory-utilization", share)?,
            model: asked(layers, "model", layers.optional("model", text)?),
            model_dir: model_dir(layers)?,
            threads: threads(layers)?,
            limits: Limits::new(layers)?,
            host_cache: host_cache(layers)?,
            blend: Blend::new(layers)?,
            log_format: layers.required("log-format", log_format)?,
            log_level: layers.required("log-level", log_level)?,
        })
    }
}

impl Limits {
    fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        Ok(Self {
            max_model_len: asked(
                layers,
                "max-model-len",
                layers.optional("max-model-len", positive)?,
            ),
            max_sequences: layers.required("max-num-seqs", positive)?,
            max_queue: layers.required("max-queue", |text| {
                text.parse::<usize>().map_err(|_| "is not a whole number")
            })?,
        })
    }
}

impl ServerConfig {
    /// Checks the settings of the server.
    pub fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        Ok(Self {
            names: names(layers)?,
            host: layers.required("host", text)?,
            port: layers.required("port", |text| {
                text.parse::<u16>().map_err(|_| "is not a number from 0 to 65535")
            })?,
            http: Http::new(layers)?,
            separator: separator(layers)?,
            chat: Chat::new(layers)?,
            gate: layers.required("blend-gate", gate)?,
            shadow_rate: layers.required("blend-shadow-rate", shadow_rate)?,
            shutdown_timeout: layers.required("shutdown-timeout", str::parse::<Time>)?,
        })
    }
}

fn gate(text: &str) -> Result<Gate, &'static str> {
    match text {
        "off" => Ok(Gate::Off),
        "warn" => Ok(Gate::Warn),
        "refuse" => Ok(Gate::Refuse),
        _ => Err("is none of off, warn, refuse"),
    }
}

fn names(layers: &Layers) -> Result<Vec<String>, Misconfigured> {
    let Some(given) = layers.given("served-model-name") else {
        return Ok(Vec::new());
    };
    if given.texts.iter().any(|name| name.trim().is_empty()) {
        return Err(Misconfigured::new(&given.origin, "a name is empty"));
    }
    Ok(given.texts)
}

/// Nothing as a separator switches off the one that LMCache's variables bring. Where they bring none it is a mistake.
fn separator(layers: &Layers) -> Result<Option<String>, Misconfigured> {
    let name = "blend-separator";
    let Some(given) = layers.given(name) else {
        return Ok(None);
    };
    let text = given.texts.concat();
    match (text.is_empty(), layers.inherits(name)) {
        (false, _) => Ok(Some(text)),
        (true, true) => Ok(None),
        (true, false) => Err(Misconfigured::new(
            &given.origin,
            "the separator is empty: leave it out to split no prompts",
        )),
    }
}

fn threads(layers: &Layers) -> Result<usize, Misconfigured> {
    let all = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Ok(layers.optional("threads", positive)?.unwrap_or_else(all))
}

fn positive(text: &str) -> Result<usize, &'static str> {
    text.parse::<NonZeroUsize>()
        .map(NonZeroUsize::get)
        .map_err(|_| "is not a whole number of at least 1")
}

fn text(text: &str) -> Result<String, Infallible> {
    Ok(text.to_owned())
}

/// `value` with the origin of what was given for `name`.
fn asked<T>(layers: &Layers, name: &str, value: Option<T>) -> Option<Asked<T>> {
    Some(Asked {
        value: value?,
        origin: layers.given(name)?.origin,
    })
}

fn host_cache(layers: &Layers) -> Result<Asked<Bytes>, Misconfigured> {
    let value: Bytes = layers.required("host-cache-size", str::parse)?;
    let origin = layers
        .given("host-cache-size")
        .map_or(Origin::Flag("host-cache-size"), |given| given.origin);
    if value.0 == 0 {
        return Err(Misconfigured::new(
            &origin,
            "running requests need some memory for KV",
        ));
    }
    Ok(Asked { value, origin })
}

fn device(text: &str) -> Result<Device, &'static str> {
    const EXPECTED: &str = "is none of auto, cpu, cuda, cuda:N";
    match (text, text.strip_prefix("cuda")) {
        ("auto", _) => Ok(Device::Auto),
        ("cpu", _) => Ok(Device::Cpu),
        (_, Some(_)) if !cfg!(feature = "cuda") => {
            Err("is not built into this binary: build it with `--features cuda`, or use auto or cpu")
        }
        (_, Some("")) => Ok(Device::Cuda(0)),
        (_, Some(number)) => {
            let number = number.strip_prefix(':').and_then(|number| number.parse().ok());
            number.map(Device::Cuda).ok_or(EXPECTED)
        }
        (_, None) => Err(EXPECTED),
    }
}

fn share(text: &str) -> Result<f32, &'static str> {
    let share = text.parse::<f32>().ok();
    share
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or("is not a number above 0 and at most 1")
}

fn shadow_rate(text: &str) -> Result<Rate, &'static str> {
    let rate = text.parse().ok().and_then(|rate| Rate::new(rate).ok());
    rate.ok_or("is not a number from 0 to 1")
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("is neither text nor json"),
    }
}

fn log_level(text: &str) -> Result<tracing::Level, &'static str> {
    text.parse()
        .map_err(|_| "is none of error, warn, info, debug, trace")
}

#[cfg(test)]
mod tests;
