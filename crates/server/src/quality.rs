//! How much of documents has to be recomputed for answers that are good enough, and what happens to requests for less.

use medley_kv::{BlendMode, BlendOptions, Ratio};

/// What happens to requests that ask for less than the model needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// They run, and nothing is said.
    Off,
    /// They run, and are counted.
    #[default]
    Warn,
    /// They are refused.
    Refuse,
}

/// What is known of the model's quality.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// The ratio that the model needs; `None` if it was not measured. 1 if no smaller one is enough.
    pub needed: Option<Ratio>,
    /// What happens to requests for less.
    pub gate: Gate,
}

impl Quality {
    /// The ratio that `auto` stands for: what the model needs, or else the server's default.
    pub(crate) fn auto(&self, default: Ratio) -> Ratio {
        self.needed.unwrap_or(default)
    }

    /// The ratio that a blended request falls short of, if it does and somebody wants to know.
    pub(crate) fn missed(&self, blend: &BlendOptions) -> Option<Ratio> {
        let needed = self.needed.filter(|_| self.gate != Gate::Off)?;
        (blend.mode == BlendMode::Auto && blend.ratio < needed).then_some(needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Ratio {
        Ratio::new(value).expect("from 0 to 1")
    }

    #[test]
    fn only_blended_requests_below_what_is_needed_fall_short() {
        let blend = |mode, asked| BlendOptions {
            mode,
            ratio: ratio(asked),
            ..BlendOptions::default()
        };
        let quality = Quality {
            needed: Some(ratio(0.2)),
            gate: Gate::Warn,
        };
        assert_eq!(quality.missed(&blend(BlendMode::Auto, 0.1)), Some(ratio(0.2)));
        assert_eq!(quality.missed(&blend(BlendMode::Auto, 0.2)), None);
        assert_eq!(quality.missed(&blend(BlendMode::Exact, 0.1)), None);
        let off = Quality {
            gate: Gate::Off,
            ..quality
        };
        assert_eq!(off.missed(&blend(BlendMode::Auto, 0.1)), None);
        assert_eq!(Quality::default().missed(&blend(BlendMode::Auto, 0.0)), None);
    }

    #[test]
    fn auto_is_what_is_needed_or_the_default() {
        let quality = Quality {
            needed: Some(ratio(0.3)),
            gate: Gate::Off,
        };
        assert_eq!(quality.auto(ratio(0.1)), ratio(0.3));
        assert_eq!(Quality::default().auto(ratio(0.1)), ratio(0.1));
    }
}
