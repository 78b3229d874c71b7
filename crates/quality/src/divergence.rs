//! Distance of next-token distributions.

/// How far a run's distributions are from the reference's, averaged over an answer's positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// Mean Kullback-Leibler divergence KL(reference ‖ other), in nats per token.
    pub kl: f64,
    /// Share of positions at which both prefer the same token.
    pub top1: f64,
}

impl Divergence {
    /// Compares logits position by position (`[positions][vocab]` each). `None` if the shapes differ or are empty.
    pub fn between(reference: &[Vec<f32>], other: &[Vec<f32>]) -> Option<Self> {
        let same =
            reference.len() == other.len() && reference.iter().zip(other).all(|(a, b)| a.len() == b.len());
        if reference.is_empty() || !same || reference.iter().any(Vec::is_empty) {
            return None;
        }
        let positions = reference.len() as f64;
        let pairs = || reference.iter().zip(other);
        let kl: f64 = pairs().map(|(a, b)| kl(a, b)).sum();
        let agreeing = pairs().filter(|(a, b)| best(a) == best(b)).count();
        Some(Self {
            kl: kl / positions,
            top1: agreeing as f64 / positions,
        })
    }
}

/// `Σ p (ln p - ln q)` of the two softmax distributions, in f64.
fn kl(p: &[f32], q: &[f32]) -> f64 {
    let (p_norm, q_norm) = (log_sum_exp(p), log_sum_exp(q));
    let term = |(&p, &q): (&f32, &f32)| {
        let ln_p = f64::from(p) - p_norm;
        let weight = ln_p.exp();
        // A token that the reference rules out adds nothing, whatever the other thinks of it.
        if weight == 0.0 {
            0.0
        } else {
            weight * (ln_p - (f64::from(q) - q_norm))
        }
    };
    p.iter().zip(q).map(term).sum()
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|&x| (f64::from(x) - f64::from(max)).exp())
        .sum();
    f64::from(max) + sum.ln()
}

/// The first of the largest.
fn best(logits: &[f32]) -> usize {
    logits
        .iter()
        .enumerate()
        .fold(0, |best, (i, x)| if *x > logits[best] { i } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_distributions_do_not_diverge_whatever_their_offset() {
        let a = vec![vec![1.0, 2.0, -3.0], vec![0.0, 0.5, 0.25]];
        let shifted = a
            .iter()
            .map(|row| row.iter().map(|x| x + 100.0).collect())
            .collect::<Vec<Vec<f32>>>();
        let d = Divergence::between(&a, &shifted).expect("comparable");
        assert!(d.kl.abs() < 1e-5, "{d:?}");
        assert_eq!(d.top1, 1.0);
    }

    #[test]
    fn the_divergence_follows_its_definition() {
        let logits = |p: &[f32]| p.iter().map(|p| p.ln()).collect::<Vec<f32>>();
        let (p, q) = (logits(&[0.5, 0.25, 0.25]), logits(&[0.25, 0.5, 0.25]));
        let by_hand = 0.5 * f64::ln(2.0) + 0.25 * f64::ln(0.5);
        let d = Divergence::between(&[p], &[q]).expect("comparable");
        assert!((d.kl - by_hand).abs() < 1e-6, "{} is not {by_hand}", d.kl);
        assert_eq!(d.top1, 0.0);
    }

    #[test]
    fn ruled_out_tokens_are_no_infinities() {
        let p = vec![vec![0.0, f32::NEG_INFINITY]];
        let d = Divergence::between(&p, &[vec![0.0, 0.0]]).expect("comparable");
        assert!((d.kl - f64::ln(2.0)).abs() < 1e-9, "{d:?}");
    }

    #[test]
    fn unequal_shapes_are_not_compared() {
        assert_eq!(Divergence::between(&[], &[]), None);
        assert_eq!(Divergence::between(&[vec![0.0]], &[]), None);
        assert_eq!(Divergence::between(&[vec![0.0]], &[vec![0.0, 1.0]]), None);
    }
}
