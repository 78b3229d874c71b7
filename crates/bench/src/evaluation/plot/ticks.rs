//! Marks of a logarithmic axis.

use std::ops::Range;

/// 1, 2 and 5 times the powers of ten that lie in a range of positive numbers; 3 and 7 times them too if it is less
/// than a decade.
pub(super) fn ticks(range: &Range<f64>) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let digits: &[f64] = if range.end < 10.0 * range.start {
        &[1.0, 2.0, 3.0, 5.0, 7.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let of = |decade: i32| digits.iter().map(move |digit| times_power(*digit, decade));
    decades
        .flat_map(of)
        .filter(|tick| (range.start..=range.end).contains(tick))
        .collect()
}

/// The number nearest to `digit · 10^decade`, so that it prints in a few digits.
fn times_power(digit: f64, decade: i32) -> f64 {
    if decade < 0 {
        digit / 10f64.powi(-decade)
    } else {
        digit * 10f64.powi(decade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_numbers_within_the_range() {
        let texts = |range| ticks(&range).iter().map(f64::to_string).collect::<Vec<_>>();
        assert_eq!(texts(0.018..1.3), ["0.02", "0.05", "0.1", "0.2", "0.5", "1"]);
        assert_eq!(texts(2.0..25.0), ["2", "5", "10", "20"]);
        assert_eq!(texts(0.06..0.4), ["0.07", "0.1", "0.2", "0.3"]);
    }
}
