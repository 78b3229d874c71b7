//! When requests begin.

use std::time::Duration;

use fastrand::Rng;

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// So many clients, each of which sends its next request when the last one has ended.
    Closed {
        /// Clients.
        clients: usize,
    },
    /// At random, whatever the server does: gaps are exponentially distributed.
    Poisson {
        /// Mean requests per second.
        per_second: f64,
    },
}

/// The time to the next arrival of a Poisson process: `-ln(1 - u) / rate` for a uniform `u` below 1.
pub(super) fn gap(per_second: f64, rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_an_exponential_distribution() {
        let mut rng = Rng::with_seed(1);
        let gaps: Vec<f64> = (0..100_000).map(|_| gap(50.0, &mut rng).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 50.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() * 50.0 - 1.0).abs() < 0.02, "{variance}");
    }
}
