//! `rope_scaling` of `config.json`.

use serde::Deserialize;

use crate::LoadError;
use crate::rope::{SUPPORTED, Scaling};

/// `rope_scaling` (or `rope_parameters`) as written.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RawRope {
    /// Newer configurations keep the base here.
    pub rope_theta: Option<f64>,
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
}

impl RawRope {
    /// `context` stands in for an original context that is not stated.
    pub fn scaling(&self, context: usize) -> Result<Scaling, LoadError> {
        let original = self.original_max_position_embeddings;
        match self.rope_type.as_deref().or(self.old_type.as_deref()) {
            None | Some("default") => Ok(Scaling::None),
            Some("linear") => Ok(Scaling::Linear {
                factor: required("factor", self.factor)?,
            }),
            Some("llama3") => Ok(Scaling::Llama3 {
                factor: required("factor", self.factor)?,
                low: required("low_freq_factor", self.low_freq_factor)?,
                high: required("high_freq_factor", self.high_freq_factor)?,
                original: required("original_max_position_embeddings", original)?,
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

    /// Whether no later addition to the paper's formulas is in use.
    fn is_plain_yarn(&self) -> bool {
        self.mscale.is_none() && self.mscale_all_dim.is_none() && self.truncate != Some(false)
    }
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, LoadError> {
    value.ok_or_else(|| LoadError::config(format!("rope_scaling.{key}"), "it is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(json: &str) -> Result<Scaling, LoadError> {
        serde_json::from_str::<RawRope>(json)
            .expect("well-formed")
            .scaling(4096)
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
}
