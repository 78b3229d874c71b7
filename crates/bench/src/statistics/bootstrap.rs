//! Confidence intervals of means by the bootstrap (Efron 1979; percentile intervals).
//!
//! Whole cases are drawn again with replacement: what was measured within a case hangs together. The draws depend on
//! the number of cases alone, so a table says the same each time it is made.

use super::{mean, percentile};

/// Times that the cases are drawn again.
const RESAMPLES: usize = 2000;
/// Where the draws begin.
const SEED: u64 = 20_261_201;
/// Share of the resampled means that lie within an interval.
const CONFIDENCE: f64 = 0.95;

/// A mean over cases and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl Interval {
    /// The interval of the mean of one value a case; of a single case it is that value. `None` without cases.
    ///
    /// For the difference of two rules, give the differences case by case: rules differ less than cases do.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let mut resampled = || {
            let drawn = values.iter().map(|_| values[rng.usize(..values.len())]);
            mean(drawn)
        };
        let center = mean(values.iter().copied())?;
        let means: Option<Vec<f64>> = (0..RESAMPLES).map(|_| resampled()).collect();
        let means = means?;
        let outside = (1.0 - CONFIDENCE) / 2.0;
        Some(Self {
            mean: center,
            low: percentile(&means, outside)?,
            high: percentile(&means, 1.0 - outside)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(values: &[f64]) -> Interval {
        Interval::of(values).expect("cases")
    }

    #[test]
    fn nothing_has_no_interval_and_one_case_is_its_own() {
        assert_eq!(Interval::of(&[]), None);
        let one = Interval {
            mean: 0.25,
            low: 0.25,
            high: 0.25,
        };
        assert_eq!(Interval::of(&[0.25]), Some(one));
        assert_eq!(interval(&[0.25; 9]), one, "cases that agree leave no doubt");
    }

    /// Means of two draws of 0 and 1 are 0, 1/2, 1/2, 1: a quarter of them lies at either end.
    #[test]
    fn two_cases_are_as_far_apart_as_the_interval() {
        let two = Interval {
            mean: 0.5,
            low: 0.0,
            high: 1.0,
        };
        assert_eq!(interval(&[0.0, 1.0]), two);
    }

    /// The mean of 400 coins lies within 1.96 · 0.5 / √400 = 0.049 of a half in 95 of 100 draws.
    #[test]
    fn many_cases_have_the_interval_of_the_normal_distribution() {
        let coins: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let Interval { mean, low, high } = interval(&coins);
        assert_eq!(mean, 0.5);
        assert!(
            (low - 0.451).abs() < 0.006 && (high - 0.549).abs() < 0.006,
            "{low} {high}"
        );
    }

    #[test]
    fn intervals_hold_their_mean_repeat_themselves_and_shrink_with_cases() {
        let mut rng = fastrand::Rng::with_seed(7);
        for seed in 0..20 {
            let few: Vec<f64> = (0..12).map(|_| rng.f64()).collect();
            let many = few.repeat(9);
            let (wide, narrow) = (interval(&few), interval(&many));
            assert!(
                wide.low <= wide.mean && wide.mean <= wide.high,
                "round {seed}: {wide:?}"
            );
            assert_eq!(wide, interval(&few));
            assert!(
                narrow.high - narrow.low < 0.5 * (wide.high - wide.low),
                "round {seed}: {wide:?}, {narrow:?}"
            );
        }
    }
}
