//! Rotary positions from the several places in which `config.json` may describe them.
//!
//! Whatever is stated twice must agree: which of two values counts differs between the programs that read such
//! files, and a wrong one only shows in bad answers.

use serde::Deserialize;

use super::rope::RawRope;
use crate::LoadError;
use crate::rope::{Pairs, RopeConfig, Scaling};

/// The base of configurations that state none.
const DEFAULT_THETA: f64 = 10_000.0;

/// The keys about rotary positions, as written.
#[derive(Deserialize)]
pub(super) struct RawPositions {
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    rope_scaling: Option<RawRope>,
    /// The newer name of `rope_scaling`, with the base inside.
    rope_parameters: Option<RawRope>,
}

impl RawPositions {
    /// `context` stands in for an original context that is not stated.
    pub fn rope(&self, context: usize) -> Result<RopeConfig, LoadError> {
        let scalings: Vec<_> = self
            .objects()
            .map(|(key, rope)| rope.scaling(key, context))
            .collect::<Result<_, _>>()?;
        self.check_partial()?;
        Ok(RopeConfig {
            theta: self.theta()?,
            pairs: Pairs::Halves,
            scaling: match scalings.as_slice() {
                [one, other] if one != other => return Err(differing("rope_scaling", "rope_parameters")),
                [] => Scaling::None,
                [first, ..] => first.clone(),
            },
        })
    }

    fn objects(&self) -> impl Iterator<Item = (&'static str, &RawRope)> {
        let named = [
            ("rope_scaling", &self.rope_scaling),
            ("rope_parameters", &self.rope_parameters),
        ];
        named
            .into_iter()
            .filter_map(|(key, rope)| rope.as_ref().map(|rope| (key, rope)))
    }

    fn theta(&self) -> Result<f64, LoadError> {
        let nested = self.objects().filter_map(|(_, rope)| rope.rope_theta);
        let mut stated = self.rope_theta.into_iter().chain(nested);
        let theta = stated.next();
        match stated.find(|other| Some(*other) != theta) {
            Some(_) => Err(differing("rope_theta", "rope_parameters.rope_theta")),
            None => Ok(theta.unwrap_or(DEFAULT_THETA)),
        }
    }

    fn check_partial(&self) -> Result<(), LoadError> {
        let nested = self.objects().filter_map(|(_, rope)| rope.partial_rotary_factor);
        let mut stated = self.partial_rotary_factor.into_iter().chain(nested);
        match stated.find(|factor| *factor != 1.0) {
            Some(factor) => Err(LoadError::unsupported(
                format!("partial_rotary_factor {factor}"),
                "rotations of whole heads",
            )),
            None => Ok(()),
        }
    }
}

fn differing(one: &str, other: &str) -> LoadError {
    LoadError::config(one, format!("it says something else than {other}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rope(keys: Value) -> Result<RopeConfig, LoadError> {
        let raw: RawPositions = serde_json::from_value(keys).expect("well-formed");
        raw.rope(4096)
    }

    #[test]
    fn the_base_is_taken_from_where_it_stands() {
        let theta = |keys| rope(keys).expect("supported").theta;
        assert_eq!(theta(json!({})), 10_000.0);
        assert_eq!(theta(json!({"rope_theta": 500_000})), 500_000.0);
        assert_eq!(theta(json!({"rope_parameters": {"rope_theta": 1e6}})), 1e6);
        assert_eq!(
            theta(json!({"rope_theta": null, "rope_scaling": {"rope_theta": 1e6}})),
            1e6
        );
        assert_eq!(
            theta(json!({"rope_theta": 1_000_000, "rope_parameters": {"rope_theta": 1e6}})),
            1e6
        );
    }

    #[test]
    fn two_bases_that_differ_are_refused() {
        for key in ["rope_parameters", "rope_scaling"] {
            let error = rope(json!({"rope_theta": 1e4, key: {"rope_theta": 1e6}})).expect_err(key);
            assert!(
                matches!(&error, LoadError::Config { key, .. } if key == "rope_theta"),
                "{error}"
            );
        }
        let nested = json!({"rope_scaling": {"rope_theta": 1e4}, "rope_parameters": {"rope_theta": 1e6}});
        rope(nested).expect_err("one of them is wrong");
    }

    #[test]
    fn two_scalings_count_only_if_they_are_the_same() {
        let linear = |factor: f64| json!({"rope_type": "linear", "factor": factor});
        let both = |one: Value, other: Value| rope(json!({"rope_scaling": one, "rope_parameters": other}));
        let read = both(linear(2.0), linear(2.0)).expect("they agree");
        assert_eq!(read.scaling, Scaling::Linear { factor: 2.0 });
        both(linear(2.0), linear(4.0)).expect_err("they differ");
        both(linear(2.0), json!({"rope_theta": 1e4})).expect_err("one has none");
        let read = both(Value::Null, linear(4.0)).expect("one is null");
        assert_eq!(read.scaling, Scaling::Linear { factor: 4.0 });
    }

    #[test]
    fn rotations_of_parts_of_heads_are_refused_wherever_they_are_stated() {
        for key in ["rope_parameters", "rope_scaling"] {
            let error = rope(json!({key: {"partial_rotary_factor": 0.25}})).expect_err(key);
            assert!(
                error.to_string().contains("partial_rotary_factor 0.25"),
                "{error}"
            );
            rope(json!({"partial_rotary_factor": 1, key: {"partial_rotary_factor": 1.0}})).expect(key);
        }
        rope(json!({"partial_rotary_factor": 0.5})).expect_err("half of each head");
    }
}
