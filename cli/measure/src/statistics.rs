//! Medians and percentiles: pure functions over what was measured.

/// The value below which `percent` of the values lie, by the nearest rank; 0 of nothing. Sorts the values.
pub(super) fn percentile(values: &mut [f64], percent: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (percent / 100.0 * count(values.len())).ceil().max(1.0);
    // At least 1, and a percentage of a length: it fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let index = rank as usize - 1;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// The value in the middle; of an even number of them the mean of the two. Sorts the values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(below), Some(above)) if values.len().is_multiple_of(2) => below.midpoint(*above),
        (_, Some(value)) => *value,
        (_, None) => 0.0,
    }
}

/// Which of several runs is the median one by `rate`; of an even number the slower of the two in the middle.
pub(super) fn median_index(rates: &[f64]) -> usize {
    let mut order: Vec<usize> = (0..rates.len()).collect();
    order.sort_unstable_by(|left, right| rates[*left].total_cmp(&rates[*right]));
    order.get(rates.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// `part` of `whole`; 0 when there is no whole.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(super) fn count(number: impl TryInto<u64>) -> f64 {
    number.try_into().unwrap_or(u64::MAX) as f64
}

/// Rounded to so many places: figures that a reader compares, not all digits of a division.
pub(super) fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50.0), 50.0);
        assert_eq!(percentile(&mut values, 99.0), 99.0);
        assert_eq!(percentile(&mut values, 100.0), 100.0);
        assert_eq!(percentile(&mut values, 0.0), 1.0);
        assert_eq!(percentile(&mut [3.0, 1.0], 50.0), 1.0);
        assert_eq!(percentile(&mut [3.0, 1.0], 51.0), 3.0);
        assert_eq!(percentile(&mut [7.0], 99.0), 7.0);
        assert_eq!(percentile(&mut [], 99.0), 0.0);
    }

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(median(&mut [8.0]), 8.0);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn the_median_run_is_one_of_the_runs() {
        assert_eq!(median_index(&[30.0, 10.0, 20.0]), 2);
        assert_eq!(median_index(&[10.0, 20.0]), 0);
        assert_eq!(median_index(&[1.0]), 0);
        assert_eq!(median_index(&[]), 0);
    }

    #[test]
    fn a_ratio_to_nothing_is_nothing() {
        assert_eq!(ratio(1.0, 4.0), 0.25);
        assert_eq!(ratio(1.0, 0.0), 0.0);
        assert_eq!(rounded(2.0 / 3.0, 3), 0.667);
    }
}
