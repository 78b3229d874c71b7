//! How frequencies are stretched for contexts longer than the trained one.

use std::f64::consts::TAU;

/// A change of the frequencies `theta^(-2i/dim)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RopeScaling {
    /// As trained.
    #[default]
    None,
    /// Position interpolation: every frequency divided by `factor`.
    Linear {
        /// How much longer the context is.
        factor: f32,
    },
    /// Llama 3.1: long wavelengths are divided by `factor`, short ones stay, those between are blended.
    Llama3 {
        /// Divisor of the longest wavelengths.
        factor: f32,
        /// Wavelengths over `original_context / low_freq_factor` are divided.
        low_freq_factor: f32,
        /// Wavelengths under `original_context / high_freq_factor` stay.
        high_freq_factor: f32,
        /// Trained context, in tokens.
        original_context: usize,
    },
    /// YaRN (arXiv 2309.00071, section 3.2 and equations 17 to 22): pairs that turn often within the trained
    /// context stay, pairs that turn seldom are divided by `factor`, with a ramp over the pair's index between.
    Yarn {
        /// How much longer the context is.
        factor: f32,
        /// Trained context, in tokens.
        original_context: usize,
        /// Turns within the trained context above which a pair stays; 32 in the paper.
        beta_fast: f32,
        /// Turns below which a pair is divided; 1 in the paper.
        beta_slow: f32,
        /// The magnitude, if the model states one; otherwise `0.1 ln(factor) + 1`.
        attention_factor: Option<f32>,
    },
    /// One divisor a pair (GGUF's `rope_freqs.weight`).
    Factors(Vec<f32>),
}

impl RopeScaling {
    /// Radians a position for each of the `dim / 2` pairs.
    pub(super) fn frequencies(&self, dim: usize, theta: f64) -> Vec<f64> {
        let plain = (0..dim / 2).map(|i| theta.powf(-((2 * i) as f64) / dim as f64));
        match *self {
            Self::None => plain.collect(),
            Self::Linear { factor } => plain.map(|f| f / f64::from(factor)).collect(),
            Self::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_context,
            } => {
                let low = f64::from(low_freq_factor);
                let high = f64::from(high_freq_factor);
                plain
                    .map(|f| llama3(f, f64::from(factor), low, high, original_context as f64))
                    .collect()
            }
            Self::Yarn {
                factor,
                original_context,
                beta_fast,
                beta_slow,
                ..
            } => {
                let pair = |turns: f32| pair_of_turns(dim, theta, original_context as f64, f64::from(turns));
                let first = pair(beta_fast).floor().max(0.0);
                let last = pair(beta_slow).ceil().min((dim - 1) as f64);
                let factor = f64::from(factor);
                plain
                    .enumerate()
                    .map(|(i, f)| blend(f / factor, f, ramp(i as f64, first, last)))
                    .collect()
            }
            Self::Factors(ref factors) => {
                assert_eq!(factors.len(), dim / 2, "one factor a pair");
                plain
                    .zip(factors)
                    .map(|(f, &factor)| f / f64::from(factor))
                    .collect()
            }
        }
    }

    /// The factor on queries and on keys.
    pub(super) fn magnitude(&self) -> f32 {
        match *self {
            Self::Yarn {
                attention_factor: Some(magnitude),
                ..
            } => magnitude,
            Self::Yarn { factor, .. } if factor > 1.0 => (0.1 * f64::from(factor).ln() + 1.0) as f32,
            _ => 1.0,
        }
    }
}

fn llama3(frequency: f64, factor: f64, low: f64, high: f64, context: f64) -> f64 {
    let turns = context * frequency / TAU;
    if turns > high {
        frequency
    } else if turns < low {
        frequency / factor
    } else {
        blend(frequency / factor, frequency, 1.0 - (turns - low) / (high - low))
    }
}

/// The (fractional) pair that turns `turns` times within the trained context.
fn pair_of_turns(dim: usize, theta: f64, context: f64, turns: f64) -> f64 {
    dim as f64 * (context / (turns * TAU)).ln() / (2.0 * theta.ln())
}

/// 0 up to `first`, 1 from `last`.
fn ramp(x: f64, first: f64, last: f64) -> f64 {
    let width = if first == last { 0.001 } else { last - first };
    ((x - first) / width).clamp(0.0, 1.0)
}

/// `divided` at 1, `plain` at 0.
fn blend(divided: f64, plain: f64, share: f64) -> f64 {
    divided * share + plain * (1.0 - share)
}
