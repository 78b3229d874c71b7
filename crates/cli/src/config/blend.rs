//! How documents are treated unless a request says otherwise.

use medley_kv::{BlendMode, BlendOptions, Ratio, ReportDetail, Strategy};

use crate::settings::{Layers, Misconfigured};

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
    /// What documents are computed behind.
    pub anchor: Anchor,
}

impl Blend {
    /// Checks the settings called `blend-…`.
    pub fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        let options = BlendOptions {
            mode: layers.required("blend-mode", str::parse::<BlendMode>)?,
            ratio: layers.required("blend-ratio", ratio)?,
            strategy: layers.required("blend-strategy", str::parse::<Strategy>)?,
            hops: layers.required("blend-hops", small)?,
            rounds: layers.required("blend-rounds", |text| small(text).and_then(at_least_one))?,
            check_layer: layers.required("blend-check-layer", check_layer)?,
            report: ReportDetail::Summary,
        };
        Ok(Self {
            options,
            anchor: layers.required("blend-anchor", anchor)?,
        })
    }
}

fn ratio(text: &str) -> Result<Ratio, String> {
    let value: f64 = text
        .parse()
        .map_err(|_| "a number from 0 to 1 is wanted".to_owned())?;
    Ratio::new(value).map_err(|e| e.to_string())
}

fn small(text: &str) -> Result<u8, &'static str> {
    text.parse().map_err(|_| "a whole number from 0 to 255 is wanted")
}

fn at_least_one(value: u8) -> Result<u8, &'static str> {
    if value == 0 {
        Err("at least 1 is wanted")
    } else {
        Ok(value)
    }
}

fn check_layer(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(0) => Err("layer 0 is exact by construction and tells nothing: at least 1 is wanted"),
        Ok(layer) => Ok(layer),
        Err(_) => Err("a layer's number, at least 1, is wanted"),
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
            read.map_err(|e| format!("not bos, not neutral, and no file that can be read: {e}"))
        }
    }
}
