//! How documents are treated unless a request says otherwise.

use std::str::FromStr;

use medley_bench::calibration::Target;
use medley_kv::{BlendMode, BlendOptions, Ratio, ReportDetail, Strategy, UnknownName};

use super::Asked;
use crate::settings::{Layers, Misconfigured, Origin, fallback};

/// What documents are computed behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The model's first token.
    Bos,
    /// The first token and a neutral passage.
    Neutral,
    /// The first token and the text of a file.
    File {
        /// The file, as it was given.
        path: String,
        /// Its text.
        text: String,
    },
}

impl Anchor {
    /// The label of the anchor that documents have if nothing is said.
    pub fn default_label() -> String {
        fallback("blend-anchor").unwrap_or_default().to_owned()
    }

    /// The name by which results tell it from others.
    pub fn label(&self) -> &str {
        match self {
            Self::Bos => "bos",
            Self::Neutral => "neutral",
            Self::File { path, .. } => path,
        }
    }
}

/// Blending defaults and the anchor.
#[derive(Clone, Debug, PartialEq)]
pub struct Blend {
    /// Defaults of requests.
    pub options: BlendOptions,
    /// Whether the ratio is what the model needs, and the number in the options stands for it until that is known.
    pub auto_ratio: bool,
    /// How far answers may be from a full prefill's.
    pub target: Target,
    /// What documents are computed behind.
    pub anchor: Anchor,
    /// The check layer once more: only a model can prove it wrong.
    pub check_layer: Asked<u32>,
}

impl Blend {
    /// Checks the settings called `blend-…`.
    pub fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        let ratio = layers.required("blend-ratio", ratio)?;
        let options = BlendOptions {
            mode: layers.required("blend-mode", named::<BlendMode>)?,
            ratio: ratio.unwrap_or(BlendOptions::default().ratio),
            strategy: layers.required("blend-strategy", named::<Strategy>)?,
            hops: layers.required("blend-hops", |text| passes(text, 0))?,
            rounds: layers.required("blend-rounds", |text| passes(text, 1))?,
            check_layer: layers.required("blend-check-layer", check_layer)?,
            report: ReportDetail::Summary,
        };
        let name = "blend-check-layer";
        let origin = layers
            .given(name)
            .map_or(Origin::Default(name), |given| given.origin);
        Ok(Self {
            options,
            auto_ratio: ratio.is_none(),
            target: layers.required("blend-target-kl", target)?,
            anchor: layers.required("blend-anchor", anchor)?,
            check_layer: Asked {
                value: options.check_layer,
                origin,
            },
        })
    }
}

fn named<T: FromStr<Err = UnknownName>>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|e: UnknownName| format!("is none of {}", e.expected))
}

/// `None` for `auto`.
fn ratio(text: &str) -> Result<Option<Ratio>, &'static str> {
    if text == "auto" {
        return Ok(None);
    }
    let value = text.parse().ok().and_then(|value| Ratio::new(value).ok());
    value.map(Some).ok_or("is not a number from 0 to 1")
}

fn target(text: &str) -> Result<Target, &'static str> {
    let kl = text.parse().ok().filter(|kl: &f64| kl.is_finite() && *kl > 0.0);
    let kl = kl.ok_or("is not a number greater than 0")?;
    Ok(Target {
        kl,
        ..Target::default()
    })
}

fn passes(text: &str, least: u8) -> Result<u8, String> {
    let most = BlendOptions::MOST_PASSES;
    let passes = text.parse().ok().filter(|passes| (least..=most).contains(passes));
    passes.ok_or_else(|| format!("is not a whole number from {least} to {most}"))
}

fn check_layer(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(0) => Err("is a layer that is exact by construction: the first to compare is 1"),
        Ok(layer) => Ok(layer),
        Err(_) => Err("is not a layer's number, at least 1"),
    }
}

fn anchor(text: &str) -> Result<Anchor, String> {
    match text {
        "bos" => Ok(Anchor::Bos),
        "neutral" => Ok(Anchor::Neutral),
        path => {
            let read = std::fs::read_to_string(path).map(|text| Anchor::File {
                path: path.to_owned(),
                text,
            });
            read.map_err(|e| format!("is neither bos nor neutral nor a file that can be read: {e}"))
        }
    }
}
