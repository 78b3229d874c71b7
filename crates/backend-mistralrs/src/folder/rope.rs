//! `rope_scaling` of `config.json`. What is not understood completely is refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::LoadError;
use crate::rope::{SUPPORTED, Scaling};

/// `rope_scaling` (or `rope_parameters`) as written.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RawRope {
    /// Newer configurations keep the base here.
    pub rope_theta: Option<f64>,
    /// Newer configurations keep it here.
    pub partial_rotary_factor: Option<f64>,
    rope_type: Option<String>,
    /// The older name of `rope_type`; many configurations have both.
    #[serde(rename = "type")]
    old_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    truncate: Option<bool>,
    /// All other keys.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Says how a model was made, not how it is run.
const HARMLESS: [&str; 1] = ["finetuned"];

impl RawRope {
    /// `key` is the object's own, for messages. `context` stands in for an original context that is not stated.
    pub fn scaling(&self, key: &str, context: usize) -> Result<Scaling, LoadError> {
        self.refuse_layer_types(key)?;
        let scaling = self.known_scaling(key, context)?;
        self.refuse_rest(key)?;
        Ok(scaling)
    }

    fn known_scaling(&self, key: &str, context: usize) -> Result<Scaling, LoadError> {
        let original = self.original_max_position_embeddings;
        let missing = |name: &str| LoadError::config(format!("{key}.{name}"), "it is missing");
        let required = |name: &str, value: Option<f64>| value.ok_or_else(|| missing(name));
        match self.rope_type.as_deref().or(self.old_type.as_deref()) {
            None if self.has_numbers() => Err(missing("rope_type")),
            None | Some("default") => Ok(Scaling::None),
            Some("linear") => Ok(Scaling::Linear {
                factor: required("factor", self.factor)?,
            }),
            Some("llama3") => Ok(Scaling::Llama3 {
                factor: required("factor", self.factor)?,
                low: required("low_freq_factor", self.low_freq_factor)?,
                high: required("high_freq_factor", self.high_freq_factor)?,
                original: original.ok_or_else(|| missing("original_max_position_embeddings"))?,
            }),
            Some("yarn") if self.is_plain_yarn() => Ok(Scaling::Yarn {
                factor: required("factor", self.factor)?,
                original: original.unwrap_or(context),
                beta_fast: self.beta_fast.unwrap_or(32.0),
                beta_slow: self.beta_slow.unwrap_or(1.0),
                attention: self.attention_factor,
            }),
            Some("yarn") => Err(LoadError::unsupported(
                "yarn with mscale or without truncation",
                SUPPORTED,
            )),
            Some(other) => Err(LoadError::unsupported(
                format!("RoPE scaling {other:?}"),
                SUPPORTED,
            )),
        }
    }

    /// Whether a scaling is described, whatever it is called.
    fn has_numbers(&self) -> bool {
        let numbers = [
            self.factor,
            self.low_freq_factor,
            self.high_freq_factor,
            self.beta_fast,
            self.beta_slow,
            self.attention_factor,
        ];
        numbers.iter().any(Option::is_some) || !self.is_plain_yarn()
    }

    /// An object for each layer type instead of one for all.
    fn refuse_layer_types(&self, key: &str) -> Result<(), LoadError> {
        match self.rest.iter().find(|(_, value)| value.is_object()) {
            Some((layers, _)) => Err(LoadError::unsupported(
                format!("{key} by type of layer ({key}.{layers})"),
                "the same rotary positions in all layers",
            )),
            None => Ok(()),
        }
    }

    /// A key that is not known here may change every angle.
    fn refuse_rest(&self, key: &str) -> Result<(), LoadError> {
        let matters =
            |(name, value): &(&String, &Value)| !value.is_null() && !HARMLESS.contains(&name.as_str());
        match self.rest.iter().find(matters) {
            Some((name, value)) => Err(LoadError::unsupported(
                format!("{key}.{name} ({value})"),
                SUPPORTED,
            )),
            None => Ok(()),
        }
    }

    /// Whether no later addition to the paper's formulas is in use.
    fn is_plain_yarn(&self) -> bool {
        self.mscale.is_none() && self.mscale_all_dim.is_none() && self.truncate != Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(json: &str) -> Result<Scaling, LoadError> {
        serde_json::from_str::<RawRope>(json)
            .expect("well-formed")
            .scaling("rope_scaling", 4096)
    }

    #[test]
    fn every_supported_variant_is_read() {
        let llama3 = r#"{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}"#;
        let yarn = r#"{"type": "yarn", "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}"#;
        let cases = [
            (r#"{"rope_type": "default"}"#, Scaling::None),
            (
                r#"{"type": "linear", "factor": 2.0}"#,
                Scaling::Linear { factor: 2.0 },
            ),
            (
                llama3,
                Scaling::Llama3 {
                    factor: 8.0,
                    low: 1.0,
                    high: 4.0,
                    original: 8192,
                },
            ),
            (
                yarn,
                Scaling::Yarn {
                    factor: 4.0,
                    original: 32768,
                    beta_fast: 32.0,
                    beta_slow: 1.0,
                    attention: None,
                },
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(scaling(json).expect(json), expected);
        }
    }

    #[test]
    fn scalings_that_depend_on_the_prompt_are_refused_by_name() {
        for name in ["dynamic", "longrope", "su"] {
            let error = scaling(&format!(r#"{{"type": "{name}", "factor": 2.0}}"#)).expect_err(name);
            let text = error.to_string();
            assert!(
                matches!(error, LoadError::Unsupported { .. })
                    && text.contains(name)
                    && text.contains("yarn")
            );
        }
    }

    #[test]
    fn a_scaling_without_a_name_is_refused() {
        for json in [
            r#"{"factor": 2.0}"#,
            r#"{"rope_theta": 1e6, "factor": 4}"#,
            r#"{"low_freq_factor": 1.0}"#,
            r#"{"mscale": 1.0}"#,
        ] {
            let error = scaling(json).expect_err(json);
            assert!(error.to_string().contains("rope_scaling.rope_type"), "{error}");
        }
        for json in [
            "{}",
            r#"{"rope_theta": 1e6}"#,
            r#"{"rope_type": null, "factor": null}"#,
        ] {
            assert_eq!(scaling(json).expect(json), Scaling::None);
        }
    }

    #[test]
    fn positions_by_type_of_layer_are_refused() {
        let json = r#"{"full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}"#;
        let text = scaling(json).expect_err("two bases").to_string();
        assert!(
            text.contains("full_attention") && text.contains("type of layer"),
            "{text}"
        );
    }

    #[test]
    fn keys_that_may_change_the_angles_are_refused_and_harmless_ones_are_not() {
        for rest in [
            r#""attn_factor": 2.0"#,
            r#""mrope_section": [16, 24, 24]"#,
            r#""extrapolation_factor": 1"#,
        ] {
            let text = scaling(&format!(r#"{{"type": "yarn", "factor": 2, {rest}}}"#))
                .expect_err(rest)
                .to_string();
            let name = rest.split('"').nth(1).expect("quoted");
            assert!(text.contains(&format!("rope_scaling.{name}")), "{text}");
        }
        scaling(r#"{"type": "linear", "factor": 2, "finetuned": true, "attn_factor": null}"#)
            .expect("harmless");
    }
}
