//! The decoder's shape from `config.json`.

use std::path::{Path, PathBuf};

use mistralrs_quant::QuantizedConfig;
use serde::Deserialize;

use super::rope::RawRope;
use crate::config::{Config, check_window};
use crate::rope::{Pairs, RopeConfig};
use crate::{Architecture, LoadError};

/// `config.json`, as far as it matters.
#[derive(Deserialize)]
pub(super) struct RawConfig {
    #[serde(skip)]
    pub path: PathBuf,
    model_type: String,
    num_hidden_layers: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    rms_norm_eps: f64,
    max_position_embeddings: usize,
    rope_theta: Option<f64>,
    rope_scaling: Option<RawRope>,
    /// The newer name of `rope_scaling`.
    rope_parameters: Option<RawRope>,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    partial_rotary_factor: Option<f64>,
    #[serde(default)]
    pub tie_word_embeddings: Option<bool>,
    #[serde(default)]
    pub eos_token_id: TokenIds,
    pub quantization_config: Option<QuantizedConfig>,
}

/// None, one or several token ids.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum TokenIds {
    #[default]
    None,
    One(u32),
    Many(Vec<u32>),
}

impl TokenIds {
    pub fn ids(&self) -> Vec<u32> {
        match self {
            Self::None => Vec::new(),
            Self::One(id) => vec![*id],
            Self::Many(ids) => ids.clone(),
        }
    }
}

impl RawConfig {
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path).map_err(LoadError::read(path))?;
        // An unknown architecture may lack any key, so its name is looked at first.
        let json: serde_json::Value = parse(path, &text)?;
        if let Some(name) = json.get("model_type").and_then(|name| name.as_str()) {
            Architecture::from_model_type(name)?;
        }
        Ok(Self {
            path: path.to_owned(),
            ..parse(path, &text)?
        })
    }

    pub fn config(&self, limit: Option<usize>) -> Result<Config, LoadError> {
        let architecture = Architecture::from_model_type(&self.model_type)?;
        self.refuse_foreign()?;
        let context = self.max_position_embeddings;
        self.check_window(architecture, limit.unwrap_or(context).min(context))?;
        let heads = self.num_attention_heads;
        let rope = self.rope_scaling.as_ref().or(self.rope_parameters.as_ref());
        let scaling = rope.map(|rope| rope.scaling(context)).transpose()?;
        let nested_theta = rope.and_then(|rope| rope.rope_theta);
        Config {
            architecture,
            layers: self.num_hidden_layers,
            width: self.hidden_size,
            inner: self.intermediate_size,
            heads,
            kv_heads: self.num_key_value_heads.unwrap_or(heads),
            head_dim: self.head_dim.or(self.hidden_size.checked_div(heads)).unwrap_or(0),
            vocab: self.vocab_size,
            epsilon: self.rms_norm_eps as f32,
            context,
            rope: RopeConfig {
                theta: self.rope_theta.or(nested_theta).unwrap_or(10_000.0),
                pairs: Pairs::Halves,
                scaling: scaling.unwrap_or(crate::rope::Scaling::None),
            },
        }
        .check()
    }

    fn refuse_foreign(&self) -> Result<(), LoadError> {
        let refuse = |feature: String, supported: &str| Err(LoadError::unsupported(feature, supported));
        match (self.hidden_act.as_deref(), self.partial_rotary_factor) {
            (Some(other), _) if other != "silu" => return refuse(format!("hidden_act {other:?}"), "silu"),
            (_, Some(factor)) if factor != 1.0 => {
                return refuse(
                    format!("partial_rotary_factor {factor}"),
                    "rotations of whole heads",
                );
            }
            _ => {}
        }
        if self.mlp_bias == Some(true) || self.attention_bias == Some(true) {
            return refuse(
                "attention_bias or mlp_bias".to_owned(),
                "biases on queries, keys and values of qwen2",
            );
        }
        Ok(())
    }

    /// Qwen states a window that is off by default; for the others a stated window is in use.
    fn check_window(&self, architecture: Architecture, length: usize) -> Result<(), LoadError> {
        let used = match architecture {
            Architecture::Llama => self.use_sliding_window.unwrap_or(true),
            Architecture::Qwen2 | Architecture::Qwen3 => self.use_sliding_window.unwrap_or(false),
        };
        check_window("sliding_window", self.sliding_window.filter(|_| used), length)
    }
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<T, LoadError> {
    serde_json::from_str(text).map_err(|error| LoadError::config(path.display().to_string(), error))
}
