//! The decoder's shape from `config.json`.

use std::path::{Path, PathBuf};

use mistralrs_quant::QuantizedConfig;
use serde::{Deserialize, Deserializer};

use super::positions::RawPositions;
use crate::config::{Config, check_window};
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
    #[serde(flatten)]
    positions: RawPositions,
    /// The outer level is whether the key is there: `null` may say something else than nothing.
    #[serde(default, deserialize_with = "present")]
    sliding_window: Option<Option<usize>>,
    use_sliding_window: Option<bool>,
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
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
            rope: self.positions.rope(context)?,
        }
        .check()
    }

    fn refuse_foreign(&self) -> Result<(), LoadError> {
        let refuse = |feature: String, supported: &str| Err(LoadError::unsupported(feature, supported));
        if let Some(other) = self.hidden_act.as_deref().filter(|act| *act != "silu") {
            return refuse(format!("hidden_act {other:?}"), "silu");
        }
        if self.mlp_bias == Some(true) || self.attention_bias == Some(true) {
            return refuse(
                "attention_bias or mlp_bias".to_owned(),
                "biases on queries, keys and values of qwen2",
            );
        }
        Ok(())
    }

    /// Qwen states a window that is off by default; for the others a stated window is in use. Mistral has one
    /// without saying so, and knows no switch for it.
    fn check_window(&self, architecture: Architecture, length: usize) -> Result<(), LoadError> {
        if self.model_type == "mistral" {
            return match self.sliding_window {
                None => check_window(
                    "sliding_window, absent from a mistral configuration,",
                    Some(MISTRAL_WINDOW),
                    length,
                ),
                Some(stated) => check_window("sliding_window", stated, length),
            };
        }
        let used = match architecture {
            Architecture::Llama => self.use_sliding_window.unwrap_or(true),
            Architecture::Qwen2 | Architecture::Qwen3 => self.use_sliding_window.unwrap_or(false),
        };
        let stated = self.sliding_window.flatten();
        check_window("sliding_window", stated.filter(|_| used), length)
    }
}

/// What transformers' Mistral takes where `sliding_window` is absent.
const MISTRAL_WINDOW: usize = 4096;

/// Called only for a key that is there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<usize>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<T, LoadError> {
    serde_json::from_str(text).map_err(|error| LoadError::config(path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A configuration with a context of 32768, and these keys besides or instead.
    fn raw(keys: &Value) -> RawConfig {
        let mut config = json!({
            "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128,
            "num_attention_heads": 4, "vocab_size": 100, "rms_norm_eps": 1e-5, "max_position_embeddings": 32768,
        });
        for (key, value) in keys.as_object().expect("an object") {
            config[key] = value.clone();
        }
        serde_json::from_value(config).expect("well-formed")
    }

    fn refusal(keys: &Value, limit: Option<usize>) -> String {
        raw(keys).config(limit).expect_err("it is refused").to_string()
    }

    #[test]
    fn mistral_without_a_stated_window_has_one_of_4096() {
        let silent = json!({"model_type": "mistral"});
        let text = refusal(&silent, None);
        assert!(
            text.contains("sliding_window") && text.contains("absent") && text.contains("4096"),
            "{text}"
        );
        refusal(&silent, Some(4097));
        raw(&silent).config(Some(4096)).expect("the window cuts nothing");
        raw(&json!({"model_type": "mistral", "max_position_embeddings": 4096}))
            .config(None)
            .expect("the context ends at the window");
        raw(&json!({"model_type": "mistral", "sliding_window": null}))
            .config(None)
            .expect("null is no window");
        raw(&json!({})).config(None).expect("llama has no window");
    }

    #[test]
    fn a_stated_window_is_refused_where_it_is_in_use() {
        let window = |family: &str, used: Value| json!({"model_type": family, "sliding_window": 1024, "use_sliding_window": used});
        for (family, used) in [
            ("llama", Value::Null),
            ("qwen2", true.into()),
            ("mistral", false.into()),
        ] {
            let text = refusal(&window(family, used), None);
            assert!(text.contains("sliding_window = 1024"), "{family}: {text}");
        }
        for (family, used) in [
            ("llama", false.into()),
            ("qwen2", Value::Null),
            ("qwen3", false.into()),
        ] {
            raw(&window(family, used)).config(None).expect(family);
        }
    }

    #[test]
    fn rotary_keys_reach_the_decoder_from_wherever_they_stand() {
        let nested = json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}});
        assert_eq!(raw(&nested).config(None).expect("supported").rope.theta, 5e5);
        assert_eq!(
            raw(&json!({"rope_theta": 1e6}))
                .config(None)
                .expect("supported")
                .rope
                .theta,
            1e6
        );
        assert!(refusal(&json!({"partial_rotary_factor": 0.5}), None).contains("partial_rotary_factor 0.5"));
        assert!(refusal(&json!({"hidden_act": "gelu"}), None).contains("gelu"));
    }
}
