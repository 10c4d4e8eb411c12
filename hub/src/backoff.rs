//! Growing delays with jitter, so that hosts that failed together do not come back together.

use std::time::Duration;

/// The delay before attempt `attempts` (from 1): doubled each time, between half and the whole of that at random.
pub(crate) fn delay(min: Duration, max: Duration, attempts: u32, random: u64) -> Duration {
    let doubled = min.saturating_mul(1 << attempts.saturating_sub(1).min(20));
    let full = doubled.min(max);
    let half = full / 2;
    let span = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_millis(random % (span + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_doubles_up_to_its_maximum_and_is_at_least_half() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(60));
        for (attempts, full) in [(1, 100), (2, 200), (3, 400), (10, 51_200), (11, 60_000), (u32::MAX, 60_000)]
        {
            for random in [0, 7, u64::MAX] {
                let millis = delay(min, max, attempts, random).as_millis();
                assert!((full / 2..=full).contains(&millis), "attempt {attempts}: {millis} ms, full {full}");
            }
        }
    }
}
