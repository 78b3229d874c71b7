//! How many answers are checked, and the draw of each.

use std::sync::{Mutex, PoisonError};

use fastrand::Rng;

/// The share of blended requests that are checked, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// A rate that is not a number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the shadow rate must be a number from 0 to 1, not {0}")]
pub struct RateOutOfRange(pub f64);

impl Rate {
    /// No request.
    pub const NONE: Self = Self(0.0);
    /// Every request.
    pub const ALL: Self = Self(1.0);

    /// Checks the range; NaN is refused.
    pub fn new(value: f64) -> Result<Self, RateOutOfRange> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err(RateOutOfRange(value)),
        }
    }

    /// The value.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// One independent draw a request.
pub(crate) struct Draw {
    rate: Rate,
    rng: Mutex<Rng>,
}

impl Draw {
    /// Draws from a random seed.
    pub(crate) fn new(rate: Rate) -> Self {
        Self::from(rate, Rng::new())
    }

    fn from(rate: Rate, rng: Rng) -> Self {
        let rng = Mutex::new(rng);
        Self { rate, rng }
    }

    /// Whether the next one is checked.
    pub(crate) fn next(&self) -> bool {
        // A generator's state can't be left half-written.
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        rng.f64() < self.rate.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_outside_the_range_are_refused() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Rate::new(bad).is_err(), "{bad} accepted");
        }
        assert_eq!(Rate::new(0.0), Ok(Rate::NONE));
        assert_eq!(Rate::new(1.0), Ok(Rate::ALL));
    }

    #[test]
    fn the_share_that_is_drawn_is_the_rate() {
        const DRAWS: usize = 20_000;
        for (rate, seed) in [(0.0, 1), (0.01, 2), (0.3, 3), (1.0, 4)] {
            let draw = Draw::from(Rate(rate), Rng::with_seed(seed));
            let drawn = (0..DRAWS).filter(|_| draw.next()).count() as f64;
            let (expected, deviation) = (rate * DRAWS as f64, (rate * (1.0 - rate) * DRAWS as f64).sqrt());
            assert!(
                (drawn - expected).abs() <= 4.0 * deviation,
                "{drawn}, not {expected}"
            );
        }
    }
}
