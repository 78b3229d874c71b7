//! Draws of tokens, and their probabilities.

use fastrand::Rng;
use medley_backend::{Draw, most_likely};
use medley_generate::{Sampling, TopLogprob};
use medley_kv::TokenId;

/// The draws of one request. They follow from its seed, if there is one.
pub(crate) struct Sampler {
    sampling: Sampling,
    rng: Rng,
    at: f64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Self {
        let mut rng = sampling.seed.map_or_else(Rng::new, Rng::with_seed);
        let at = rng.f64();
        Self { sampling, rng, at }
    }

    /// The draw of the next token: the same until [`Sampler::advance`].
    pub(crate) fn draw(&self) -> Draw {
        Draw {
            row: 0,
            temperature: self.sampling.temperature,
            top_k: self.sampling.top_k,
            top_p: self.sampling.top_p,
            at: self.at,
        }
    }

    /// Goes on to the token after the next.
    pub(crate) fn advance(&mut self) {
        self.at = self.rng.f64();
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
    if count == 0 {
        return (of(logits[token.0 as usize]), Vec::new());
    }
    let mut top: Vec<u32> = (0..logits.len() as u32).collect();
    let order = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    let count = count.min(top.len());
    if count < top.len() {
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
    use medley_backend::draw;

    const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, 2.0, -3.0];

    fn draws(seed: u64, count: usize) -> Vec<u32> {
        let mut sampler = Sampler::new(Sampling {
            seed: Some(seed),
            ..Default::default()
        });
        let next = |_| {
            let token = draw(&LOGITS, &sampler.draw()).0;
            sampler.advance();
            token
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_seed_fixes_the_draws() {
        assert_eq!(draws(7, 50), draws(7, 50));
        assert_ne!(draws(7, 50), draws(8, 50));
    }

    #[test]
    fn draws_follow_the_distribution() {
        let (count, drawn) = (40_000, draws(3, 40_000));
        let total: f64 = LOGITS.iter().map(|&l| f64::from(l).exp()).sum();
        for (token, &logit) in LOGITS.iter().enumerate() {
            let expected = f64::from(logit).exp() / total;
            let seen = drawn.iter().filter(|&&t| t == token as u32).count() as f64 / f64::from(count);
            assert!(
                (seen - expected).abs() < 0.01,
                "token {token}: {seen}, not {expected}"
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
