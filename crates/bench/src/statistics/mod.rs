//! Means, medians and percentiles of measured values, and how sure a mean is.

mod bootstrap;

pub use bootstrap::Interval;

/// The value below which `share` (0 to 1) of the values lie, linearly interpolated between neighbours; `None`
/// without values. NaN sorts last.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// The middle value; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// The mean; `None` without values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentiles_interpolate_and_end_at_the_extremes() {
        let values: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.0), Some(0.0));
        assert_eq!(percentile(&values, 0.95), Some(9.5));
        assert_eq!(percentile(&values, 1.0), Some(10.0));
        assert_eq!(percentile(&values, 2.0), Some(10.0));
    }

    #[test]
    fn the_mean_of_nothing_is_nothing() {
        assert_eq!(mean([]), None);
        assert_eq!(mean([1.0, 2.0]), Some(1.5));
    }
}
