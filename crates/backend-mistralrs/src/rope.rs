//! Rotary positions as the two formats describe them, checked and turned into the kernels' tables.
//!
//! Only scalings whose angles depend on the position alone are representable: where they also depend on the
//! length of the sequence (dynamic NTK, LongRoPE) stored keys would be wrong for another prompt.

use medley_kernels::cpu::rope::{RopeLayout, RopeScaling, RopeTable};

use crate::LoadError;

/// Rotary positions of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RopeConfig {
    /// Base of the angles' geometric progression.
    pub theta: f64,
    pub pairs: Pairs,
    pub scaling: Scaling,
}

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// `2i` and `2i + 1`.
    Interleaved,
    /// `i` and `i + d/2`.
    Halves,
}

/// How the angles differ from the plain progression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scaling {
    None,
    Linear {
        factor: f64,
    },
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: usize,
    },
    /// YaRN (arXiv:2309.00071); `attention` overrides the magnitude `0.1 ln(factor) + 1`.
    Yarn {
        factor: f64,
        original: usize,
        beta_fast: f64,
        beta_slow: f64,
        attention: Option<f64>,
    },
    /// Divisors of the angles, one for each pair.
    Factors(Vec<f32>),
}

/// What a refusal lists.
pub(crate) const SUPPORTED: &str = "rotary positions without scaling, linear, llama3 and yarn";

impl RopeConfig {
    pub fn check(&self, head_dim: usize) -> Result<(), LoadError> {
        let positive = |key: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(LoadError::config(key, format!("{value} is not positive"))),
        };
        positive("rope base - 1", self.theta - 1.0)?;
        match &self.scaling {
            Scaling::None => Ok(()),
            Scaling::Linear { factor } => positive("rope scaling factor", *factor),
            Scaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => {
                positive("rope scaling factor", *factor)?;
                positive("rope low_freq_factor", *low)?;
                positive("rope high_freq_factor - low_freq_factor", high - low)?;
                positive("rope original context", *original as f64)
            }
            Scaling::Yarn {
                factor,
                original,
                beta_fast,
                beta_slow,
                attention,
            } => {
                positive("rope scaling factor", *factor)?;
                positive("rope original context", *original as f64)?;
                positive("rope beta_slow", *beta_slow)?;
                positive("rope beta_fast", *beta_fast)?;
                positive("rope attention_factor", attention.unwrap_or(1.0))
            }
            Scaling::Factors(factors) if factors.len() != head_dim / 2 => {
                let problem = format!("{} factors for {} pairs", factors.len(), head_dim / 2);
                Err(LoadError::config("rope factors", problem))
            }
            Scaling::Factors(factors) => factors
                .iter()
                .try_for_each(|&factor| positive("rope factors", f64::from(factor))),
        }
    }

    /// Tables for heads of `head_dim` elements and positions below `length`.
    pub fn table(&self, head_dim: usize, length: usize) -> RopeTable {
        let layout = match self.pairs {
            Pairs::Interleaved => RopeLayout::Interleaved,
            Pairs::Halves => RopeLayout::Halves,
        };
        RopeTable::new(head_dim, self.theta, layout, self.scaling.kernel(), length)
    }

    /// Everything that decides a rotated key's bits, for cache keys.
    pub fn describe(&self) -> String {
        format!("{:?} theta={} scaling={:?}", self.pairs, self.theta, self.scaling)
    }
}

impl Scaling {
    fn kernel(&self) -> RopeScaling {
        match *self {
            Self::None => RopeScaling::None,
            Self::Linear { factor } => RopeScaling::Linear {
                factor: factor as f32,
            },
            Self::Llama3 {
                factor,
                low,
                high,
                original,
            } => RopeScaling::Llama3 {
                factor: factor as f32,
                low_freq_factor: low as f32,
                high_freq_factor: high as f32,
                original_context: original,
            },
            Self::Yarn {
                factor,
                original,
                beta_fast,
                beta_slow,
                attention,
            } => RopeScaling::Yarn {
                factor: factor as f32,
                original_context: original,
                beta_fast: beta_fast as f32,
                beta_slow: beta_slow as f32,
                attention_factor: attention.map(|factor| factor as f32),
            },
            Self::Factors(ref factors) => RopeScaling::Factors(factors.clone()),
        }
    }
}
