//! Chooses tokens from logits.

use fastrand::Rng;
use medley_backend::most_likely;
use medley_generate::{Sampling, TopLogprob};
use medley_kv::TokenId;

/// Draws the tokens of one request.
pub(crate) struct Sampler {
    sampling: Sampling,
    rng: Rng,
}

impl Sampler {
    /// A sampler whose draws follow from the seed, if there is one.
    pub(crate) fn new(sampling: Sampling) -> Self {
        Self {
            sampling,
            rng: sampling.seed.map_or_else(Rng::new, Rng::with_seed),
        }
    }

    /// Whether every draw is the most likely token.
    pub(crate) fn greedy(&self) -> bool {
        self.sampling.temperature <= f32::EPSILON
    }

    /// The next token; the lowest id among equals if greedy.
    pub(crate) fn sample(&mut self, logits: &[f32]) -> TokenId {
        if self.greedy() || logits.len() < 2 {
            return most_likely(logits);
        }
        let candidates = self.candidates(logits);
        let total: f64 = candidates.iter().map(|c| c.1).sum();
        let mut left = self.rng.f64() * total;
        for &(token, weight) in &candidates {
            left -= weight;
            if left < 0.0 {
                return token;
            }
        }
        candidates.last().map_or_else(|| most_likely(logits), |c| c.0)
    }

    /// Tokens that top-k and top-p leave, best first, with unnormalised probabilities.
    fn candidates(&self, logits: &[f32]) -> Vec<(TokenId, f64)> {
        let Sampling {
            temperature,
            top_p,
            top_k,
            ..
        } = self.sampling;
        let best = logits[most_likely(logits).0 as usize];
        let weight = |l: f32| (f64::from(l - best) / f64::from(temperature)).exp();
        let mut all: Vec<_> = (0..)
            .map(TokenId)
            .zip(logits.iter().map(|&l| weight(l)))
            .collect();
        if top_k == 0 && top_p >= 1.0 {
            return all;
        }
        let k = if top_k == 0 {
            all.len()
        } else {
            all.len().min(top_k as usize)
        };
        let kept = truncate_to_best(&mut all, k);
        let limit = f64::from(top_p) * kept;
        shrink_to_nucleus(&mut all, limit);
        all
    }
}

/// Best first; the lower id among equals.
fn order(a: &(TokenId, f64), b: &(TokenId, f64)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Keeps the `k` best candidates, in any order, and returns their mass.
fn truncate_to_best(all: &mut Vec<(TokenId, f64)>, k: usize) -> f64 {
    if k < all.len() {
        all.select_nth_unstable_by(k - 1, order);
        all.truncate(k);
        all.sort_unstable_by(order);
    }
    all.iter().map(|c| c.1).sum()
}

/// Keeps the fewest best candidates whose mass reaches `limit`, at least one, best first. Sorts no more of the
/// vocabulary than it must: the nucleus is usually a few dozen tokens.
fn shrink_to_nucleus(all: &mut Vec<(TokenId, f64)>, limit: f64) {
    let mut head = 64;
    loop {
        head = head.min(all.len());
        if head < all.len() {
            all.select_nth_unstable_by(head - 1, order);
        }
        all[..head].sort_unstable_by(order);
        let mut mass = 0.0;
        let reached = all[..head].iter().position(|c| {
            mass += c.1;
            mass >= limit
        });
        match reached {
            Some(last) => return all.truncate(last + 1),
            None if head == all.len() => return,
            None => head *= 8,
        }
    }
}

/// Natural log-probabilities: of `token`, and of the `count` most probable tokens, best first.
pub(crate) fn logprobs(logits: &[f32], token: TokenId, count: usize) -> (f32, Vec<TopLogprob>) {
    let best = f64::from(logits[most_likely(logits).0 as usize]);
    let lse = best
        + logits
            .iter()
            .map(|&l| (f64::from(l) - best).exp())
            .sum::<f64>()
            .ln();
    let of = |l: f32| (f64::from(l) - lse) as f32;
    let mut top: Vec<u32> = (0..logits.len() as u32).collect();
    let order = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    let count = count.min(top.len());
    if count > 0 && count < top.len() {
        top.select_nth_unstable_by(count - 1, order);
    }
    top.truncate(count);
    top.sort_unstable_by(order);
    let top = top.into_iter().map(|t| TopLogprob {
        token: TokenId(t),
        logprob: of(logits[t as usize]),
    });
    (of(logits[token.0 as usize]), top.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(sampling: Sampling, logits: &[f32], n: usize) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling);
        (0..n).map(|_| sampler.sample(logits).0).collect()
    }

    const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, 2.0, -3.0];

    #[test]
    fn greedy_takes_the_lowest_id_among_equals() {
        assert_eq!(
            draws(
                Sampling {
                    temperature: 0.0,
                    ..Default::default()
                },
                &LOGITS,
                3
            ),
            [1, 1, 1]
        );
    }

    #[test]
    fn a_seed_fixes_the_draws() {
        let sampling = Sampling {
            seed: Some(7),
            ..Default::default()
        };
        assert_eq!(draws(sampling, &LOGITS, 50), draws(sampling, &LOGITS, 50));
        let other = Sampling {
            seed: Some(8),
            ..Default::default()
        };
        assert_ne!(draws(sampling, &LOGITS, 50), draws(other, &LOGITS, 50));
    }

    #[test]
    fn top_k_and_top_p_leave_only_the_most_probable() {
        let top_k = Sampling {
            top_k: 2,
            seed: Some(1),
            ..Default::default()
        };
        assert!(draws(top_k, &LOGITS, 300).iter().all(|t| [1, 3].contains(t)));
        let top_p = Sampling {
            top_p: 0.3,
            seed: Some(1),
            ..Default::default()
        };
        assert!(draws(top_p, &LOGITS, 300).iter().all(|&t| t == 1));
        let zero = Sampling {
            top_p: 0.0,
            seed: Some(1),
            ..Default::default()
        };
        assert!(draws(zero, &LOGITS, 20).iter().all(|&t| t == 1));
    }

    #[test]
    fn the_nucleus_is_the_one_that_sorting_everything_gives() {
        for seed in 0..60 {
            let mut rng = Rng::with_seed(seed);
            let weights: Vec<f64> = (0..rng.usize(1..2000))
                .map(|_| f64::from(rng.u8(..)) + 0.5)
                .collect();
            let mut all: Vec<_> = (0..).map(TokenId).zip(weights).collect();
            let limit = rng.f64() * all.iter().map(|c| c.1).sum::<f64>();
            let mut sorted = all.clone();
            sorted.sort_by(order);
            let mut mass = 0.0;
            let reached = sorted.iter().position(|c| {
                mass += c.1;
                mass >= limit
            });
            sorted.truncate(reached.map_or(sorted.len(), |last| last + 1));
            shrink_to_nucleus(&mut all, limit);
            assert_eq!(all, sorted, "seed {seed}");
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        let n = 40_000;
        let drawn = draws(
            Sampling {
                seed: Some(3),
                ..Default::default()
            },
            &LOGITS,
            n,
        );
        let total: f64 = LOGITS.iter().map(|&l| f64::from(l).exp()).sum();
        for (token, &logit) in LOGITS.iter().enumerate() {
            let expected = f64::from(logit).exp() / total;
            let seen = drawn.iter().filter(|&&t| t == token as u32).count() as f64 / n as f64;
            assert!(
                (seen - expected).abs() < 0.01,
                "token {token}: {seen} instead of {expected}"
            );
        }
    }

    #[test]
    fn logprobs_are_normalised_and_ordered() {
        let (chosen, top) = logprobs(&LOGITS, TokenId(2), 5);
        let mass: f64 = top.iter().map(|t| f64::from(t.logprob).exp()).sum();
        assert!((mass - 1.0).abs() < 1e-6);
        assert_eq!(top.iter().map(|t| t.token.0).collect::<Vec<_>>(), [1, 3, 2, 0, 4]);
        assert_eq!(chosen, top[2].logprob);
    }
}
