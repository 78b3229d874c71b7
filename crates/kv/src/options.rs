//! What a request or the configuration asks of blending.

use std::{fmt, str::FromStr};

/// How documents are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlendMode {
    /// Reuse canonical document KV and repair some of it.
    Auto,
    /// Plain causal prefill; only exact prefixes are reused.
    Exact,
    /// Plain causal prefill; nothing is reused and nothing is stored.
    Off,
}

/// The rule that chooses which document tokens are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// What measures best at the ratio for its cost: `query`.
    Auto,
    /// The first tokens of every document.
    Heads,
    /// Largest key deviation at a check layer (CacheBlend's rule).
    Deviation,
    /// Tokens that the question row attends to most.
    Query,
}

/// How detailed the report of a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportDetail {
    /// Counts per request and per document.
    Summary,
    /// Also the repaired ranges of every document.
    Tokens,
}

/// A name that is none of the accepted ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {name:?}: expected one of {expected}")]
pub struct UnknownName {
    /// What was named.
    pub what: &'static str,
    /// The name that was given.
    pub name: String,
    /// The accepted names, comma-separated.
    pub expected: &'static str,
}

macro_rules! named {
    ($type:ty, $what:literal, $expected:literal, $($name:literal => $variant:path),* $(,)?) => {
        impl $type {
            /// The name as it stands in requests and reports.
            pub fn name(self) -> &'static str {
                match self { $($variant => $name),* }
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                match name {
                    $($name => Ok($variant),)*
                    _ => Err(UnknownName { what: $what, name: name.to_owned(), expected: $expected }),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named!(BlendMode, "blend mode", "auto, exact, off", "auto" => Self::Auto, "exact" => Self::Exact, "off" => Self::Off);
named!(
    Strategy, "blend strategy", "auto, heads, deviation, query",
    "auto" => Self::Auto, "heads" => Self::Heads, "deviation" => Self::Deviation, "query" => Self::Query,
);
named!(ReportDetail, "report detail", "summary, tokens", "summary" => Self::Summary, "tokens" => Self::Tokens);

/// The share of document tokens to repair, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Ratio(f32);

/// A ratio that is not a number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the recompute ratio must be a number from 0 to 1, not {0}")]
pub struct RatioOutOfRange(pub f64);

impl Ratio {
    /// Nothing is repaired.
    pub const ZERO: Self = Self(0.0);
    /// Everything is repaired: the result equals a full prefill up to rounding.
    pub const ONE: Self = Self(1.0);

    /// Checks the range; NaN is refused.
    pub fn new(value: f64) -> Result<Self, RatioOutOfRange> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value as f32))
        } else {
            Err(RatioOutOfRange(value))
        }
    }

    /// The value.
    pub fn get(self) -> f32 {
        self.0
    }

    /// The number of tokens that this share of `total` is, rounded to the nearest.
    pub fn of(self, total: usize) -> usize {
        ((f64::from(self.0) * total as f64).round() as usize).min(total)
    }
}

/// What a request asks of blending, every default resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlendOptions {
    /// How documents are treated.
    pub mode: BlendMode,
    /// Share of document tokens to repair.
    pub ratio: Ratio,
    /// Selection rule.
    pub strategy: Strategy,
    /// Further hops of `query`: tokens that chosen tokens attend to in other documents.
    pub hops: u8,
    /// Rounds of `query`: probe, repair a part, probe again. At least 1.
    pub rounds: u8,
    /// The layer whose keys `deviation` compares. At least 1: layer 0 is exact by construction.
    pub check_layer: u32,
    /// Detail of the report.
    pub report: ReportDetail,
}

impl BlendOptions {
    /// Most hops, and most rounds, that may be asked for: each is a pass over the documents.
    pub const MOST_PASSES: u8 = 8;
}

impl Default for BlendOptions {
    fn default() -> Self {
        Self {
            mode: BlendMode::Auto,
            ratio: Ratio(0.15),
            strategy: Strategy::Auto,
            hops: 0,
            rounds: 1,
            check_layer: 1,
            report: ReportDetail::Summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_outside_the_range_are_refused() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Ratio::new(bad).is_err(), "{bad} accepted");
        }
        assert_eq!(Ratio::new(0.1).map(|r| r.of(2050)), Ok(205));
        assert_eq!(Ratio::ONE.of(7), 7);
    }

    #[test]
    fn names_round_trip() {
        for s in [
            Strategy::Auto,
            Strategy::Heads,
            Strategy::Deviation,
            Strategy::Query,
        ] {
            assert_eq!(s.name().parse(), Ok(s));
        }
        assert!("Query".parse::<Strategy>().is_err());
    }
}
