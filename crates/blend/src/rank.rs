//! Taking the best of ranked candidates.
//!
//! The order is total: by score, then by place. So a choice does not depend on how it is computed.

use std::cmp::Ordering;

/// The `count` indices below `scores.len()` with the largest scores that are not `taken`, ascending. Equal scores:
/// lower index first. NaN is larger than every number.
pub(crate) fn best(scores: &[f64], taken: &[bool], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| !taken[i]).collect();
    let count = count.min(order.len());
    let better = |&a: &usize, &b: &usize| descending(scores[a], scores[b]).then(a.cmp(&b));
    if 0 < count && count < order.len() {
        order.select_nth_unstable_by(count - 1, better);
    }
    order.truncate(count);
    order.sort_unstable();
    order
}

fn descending(a: f64, b: f64) -> Ordering {
    // Any NaN, whatever its sign, stands at the top of the total order; both zeros are one.
    let place = |x: f64| {
        if x.is_nan() {
            f64::NAN.copysign(1.0)
        } else {
            x + 0.0
        }
    };
    place(b).total_cmp(&place(a))
}

/// `mass` divided by its sum; all zeros stay zeros.
pub(crate) fn normalised(mass: &[f64]) -> Vec<f64> {
    let sum: f64 = mass.iter().sum();
    let factor = if sum > 0.0 { sum.recip() } else { 0.0 };
    mass.iter().map(|m| m * factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lower_place_and_taken_ones_are_left_out() {
        assert_eq!(best(&[1.0, 2.0, 2.0, 2.0, 0.0], &[false; 5], 2), [1, 2]);
        assert_eq!(
            best(&[1.0, 2.0, 2.0, 2.0, 0.0], &[false, true, false, false, false], 3),
            [0, 2, 3]
        );
        assert_eq!(best(&[1.0, 2.0], &[false; 2], 5), [0, 1]);
        assert_eq!(best(&[1.0, 2.0], &[false; 2], 0), [0usize; 0]);
        assert_eq!(best(&[-0.0, 0.0], &[false; 2], 1), [0]);
    }

    #[test]
    fn nan_of_either_sign_is_the_largest() {
        let scores = [f64::INFINITY, 1.0, -f64::NAN, f64::NAN];
        assert_eq!(best(&scores, &[false; 4], 1), [2]);
        assert_eq!(best(&scores, &[false; 4], 2), [2, 3]);
        assert_eq!(best(&scores, &[false; 4], 3), [0, 2, 3]);
    }

    #[test]
    fn nothing_normalises_to_nothing() {
        assert_eq!(normalised(&[0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(normalised(&[1.0, 3.0]), [0.25, 0.75]);
    }
}
