//! Rules by name.

use std::{fmt, str::FromStr};

use medley_kv::{BlendMode, BlendOptions, Ratio, ReportDetail, Strategy};

/// A way to choose the tokens that are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `None` repairs nothing.
    strategy: Option<Strategy>,
    hops: u8,
    rounds: u8,
}

/// A text that names no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown rule {:?}: expected none, auto, heads, deviation or query, query with +hopsN or +roundsN",
            self.0
        )
    }
}

impl std::error::Error for Unknown {}

impl Rule {
    /// The rule that these options ask for, `auto` resolved.
    pub fn resolved(options: &BlendOptions) -> Self {
        let rule = medley_blend::Rule::resolve(options);
        Self {
            strategy: Some(rule.strategy),
            hops: rule.hops,
            rounds: rule.rounds,
        }
    }

    /// Whether it repairs anything, so that a ratio makes sense.
    pub fn repairs(self) -> bool {
        self.strategy.is_some()
    }

    /// Its name, which parses to it.
    pub fn label(self) -> String {
        let mut label = self.strategy.map_or("none", Strategy::name).to_owned();
        if self.hops > 0 {
            label.push_str(&format!("+hops{}", self.hops));
        }
        if self.rounds > 1 {
            label.push_str(&format!("+rounds{}", self.rounds));
        }
        label
    }

    /// What a request has to ask for.
    pub fn options(self, ratio: Ratio, check_layer: u32) -> BlendOptions {
        BlendOptions {
            mode: BlendMode::Auto,
            ratio: if self.repairs() { ratio } else { Ratio::ZERO },
            strategy: self.strategy.unwrap_or(Strategy::Heads),
            hops: self.hops,
            rounds: self.rounds,
            check_layer,
            report: ReportDetail::Summary,
        }
    }
}

impl FromStr for Rule {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = || Unknown(text.to_owned());
        let mut parts = text.trim().split('+');
        let strategy = match parts.next().unwrap_or_default() {
            "none" => None,
            name => Some(name.parse::<Strategy>().map_err(|_| unknown())?),
        };
        let mut rule = Self {
            strategy,
            hops: 0,
            rounds: 1,
        };
        for part in parts {
            let number = |prefix: &str| part.strip_prefix(prefix).and_then(|n| n.parse::<u8>().ok());
            match (number("hops"), number("rounds")) {
                (Some(hops), _) if hops > 0 => rule.hops = hops,
                (_, Some(rounds)) if rounds > 0 => rule.rounds = rounds,
                _ => return Err(unknown()),
            }
        }
        let refined = rule.hops > 0 || rule.rounds > 1;
        if refined && strategy != Some(Strategy::Query) {
            Err(unknown())
        } else {
            Ok(rule)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "none",
            "auto",
            "heads",
            "deviation",
            "query",
            "query+hops1",
            "query+hops2+rounds3",
        ] {
            assert_eq!(name.parse::<Rule>().map(Rule::label).as_deref(), Ok(name));
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "best",
            "query+",
            "query+hops",
            "query+hops0",
            "query+rounds0",
            "heads+hops1",
            "none+rounds2",
        ] {
            assert!(name.parse::<Rule>().is_err(), "{name:?} accepted");
        }
    }

    #[test]
    fn a_rule_without_repairs_asks_for_ratio_zero() {
        let none: Rule = "none".parse().expect("a rule");
        assert_eq!(none.options(Ratio::ONE, 1).ratio, Ratio::ZERO);
    }
}
