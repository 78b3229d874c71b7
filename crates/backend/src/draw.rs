//! Choosing a token from logits, the same way wherever it is computed.
//!
//! Masses are integers: `exp((logit - greatest) / temperature)` in multiples of 2⁻⁴⁰. Their sums do not depend on an
//! order. Top-k keeps the `k` greatest logits, top-p the fewest of those, greatest first, whose mass reaches the share;
//! of equal logits the lower token comes first. The draw then goes through what is left in the order of tokens.

use medley_kv::TokenId;

/// What a token is drawn by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Index into [`crate::Batch::rows`].
    pub row: usize,
    /// Divides logits; 0 takes the most likely token.
    pub temperature: f32,
    /// Tokens that are kept; 0 keeps all.
    pub top_k: u32,
    /// Share of their mass that is kept, from 0 to 1; at least one token is.
    pub top_p: f32,
    /// Where the draw falls, from 0 to below 1.
    pub at: f64,
}

impl Draw {
    /// A draw that takes the most likely token.
    pub fn greedy(row: usize) -> Self {
        Self {
            row,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            at: 0.0,
        }
    }

    /// Whether it takes the most likely token.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= f32::EPSILON
    }
}

/// A token that may be drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    token: u32,
    logit: f32,
    mass: u64,
}

/// The token of the greatest logit: the first of equals; NaN is below everything.
pub fn most_likely(logits: &[f32]) -> TokenId {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > best.1 {
            best = (token, logit);
        }
    }
    TokenId(best.0 as u32)
}

/// The token that `draw` takes from a row's logits.
pub fn draw(logits: &[f32], draw: &Draw) -> TokenId {
    let best = most_likely(logits);
    let greatest = logits.get(best.0 as usize).copied().unwrap_or(f32::NAN);
    if draw.is_greedy() || !greatest.is_finite() {
        return best;
    }
    let left = candidates(logits, greatest, draw);
    let total: u64 = left.iter().map(|c| c.mass).sum();
    let target = ((draw.at * total as f64) as u64).min(total.saturating_sub(1));
    let mut before = 0;
    let drawn = left.iter().find(|c| {
        before += c.mass;
        target < before
    });
    drawn.map_or(best, |c| TokenId(c.token))
}

/// Tokens that top-k and top-p leave, in the order of their ids.
fn candidates(logits: &[f32], greatest: f32, draw: &Draw) -> Vec<Candidate> {
    let mass = |logit: f32| {
        let share = (f64::from(logit - greatest) / f64::from(draw.temperature)).exp();
        // NaN becomes 0.
        (share * 2f64.powi(40)).round() as u64
    };
    let candidate = |(token, &logit): (u32, &f32)| Candidate {
        token,
        logit: if logit.is_nan() { f32::NEG_INFINITY } else { logit },
        mass: mass(logit),
    };
    let mut all: Vec<_> = (0..).zip(logits).map(candidate).collect();
    let top_k = draw.top_k as usize;
    if top_k > 0 && top_k < all.len() {
        all.select_nth_unstable_by(top_k - 1, order);
        all.truncate(top_k);
    }
    if draw.top_p < 1.0 {
        let kept: u64 = all.iter().map(|c| c.mass).sum();
        let wanted = (f64::from(draw.top_p) * kept as f64) as u64;
        shrink_to_nucleus(&mut all, wanted.max(1));
    }
    all.sort_unstable_by_key(|c| c.token);
    all
}

/// Greatest first; the lower token among equals.
fn order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Keeps the fewest greatest candidates whose mass reaches `wanted`, at least one. Sorts no more of the vocabulary than
/// it must: the nucleus is usually a few dozen tokens.
fn shrink_to_nucleus(all: &mut Vec<Candidate>, wanted: u64) {
    let mut head = 64;
    loop {
        head = head.min(all.len());
        if head < all.len() {
            all.select_nth_unstable_by(head - 1, order);
        }
        all[..head].sort_unstable_by(order);
        let mut mass = 0;
        let reached = all[..head].iter().position(|c| {
            mass += c.mass;
            mass >= wanted
        });
        match reached {
            Some(last) => return all.truncate(last + 1),
            None if head == all.len() => return,
            None => head *= 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, 2.0, -3.0];

    fn of(temperature: f32, top_k: u32, top_p: f32, at: f64) -> Draw {
        Draw {
            row: 0,
            temperature,
            top_k,
            top_p,
            at,
        }
    }

    /// Tokens at evenly spread places.
    fn draws(logits: &[f32], like: Draw, count: usize) -> Vec<u32> {
        let at = |i: usize| (i as f64 + 0.5) / count as f64;
        (0..count)
            .map(|i| draw(logits, &Draw { at: at(i), ..like }).0)
            .collect()
    }

    #[test]
    fn greedy_takes_the_lowest_id_among_equals() {
        assert_eq!(draw(&LOGITS, &Draw::greedy(0)), TokenId(1));
        assert_eq!(draw(&[f32::NAN, 1.0], &Draw::greedy(0)), TokenId(1));
        assert_eq!(draw(&[], &Draw::greedy(0)), TokenId(0));
    }

    #[test]
    fn top_k_and_top_p_leave_only_the_most_probable() {
        assert!(
            draws(&LOGITS, of(1.0, 2, 1.0, 0.0), 100)
                .iter()
                .all(|t| [1, 3].contains(t))
        );
        assert!(draws(&LOGITS, of(1.0, 0, 0.3, 0.0), 100).iter().all(|&t| t == 1));
        assert!(draws(&LOGITS, of(1.0, 0, 0.0, 0.0), 100).iter().all(|&t| t == 1));
        assert!(draws(&LOGITS, of(1.0, 1, 1.0, 0.0), 100).iter().all(|&t| t == 1));
    }

    #[test]
    fn draws_follow_the_distribution_in_the_order_of_ids() {
        let count = 40_000;
        let drawn = draws(&LOGITS, of(1.0, 0, 1.0, 0.0), count);
        assert!(drawn.is_sorted());
        let total: f64 = LOGITS.iter().map(|&l| f64::from(l).exp()).sum();
        for (token, &logit) in LOGITS.iter().enumerate() {
            let expected = f64::from(logit).exp() / total;
            let seen = drawn.iter().filter(|&&t| t == token as u32).count() as f64 / count as f64;
            assert!(
                (seen - expected).abs() < 1e-3,
                "token {token}: {seen}, not {expected}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_never_drawn() {
        let logits = [f32::NAN, 1.0, f32::NEG_INFINITY, 1.0];
        let drawn = draws(&logits, of(2.0, 0, 1.0, 0.0), 50);
        assert!(drawn.iter().all(|t| [1, 3].contains(t)));
        assert_eq!(draw(&[1.0, f32::INFINITY], &of(1.0, 0, 1.0, 0.99)), TokenId(1));
        assert_eq!(draw(&[f32::NEG_INFINITY; 3], &of(1.0, 0, 1.0, 0.5)), TokenId(0));
    }

    #[test]
    fn the_nucleus_is_the_one_that_sorting_everything_gives() {
        for seed in 0..60u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let count = (next() % 2000 + 1) as u32;
            let mut all: Vec<_> = (0..count)
                .map(|token| {
                    let mass = next() % 256 + 1;
                    Candidate {
                        token,
                        logit: mass as f32,
                        mass,
                    }
                })
                .collect();
            let wanted = next() % all.iter().map(|c| c.mass).sum::<u64>() + 1;
            let mut sorted = all.clone();
            sorted.sort_by(order);
            let mut mass = 0;
            let reached = sorted.iter().position(|c| {
                mass += c.mass;
                mass >= wanted
            });
            sorted.truncate(reached.map_or(sorted.len(), |last| last + 1));
            shrink_to_nucleus(&mut all, wanted);
            assert_eq!(all, sorted, "seed {seed}");
        }
    }
}
