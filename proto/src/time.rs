//! Timestamps to and from milliseconds since the epoch.
//!
//! dauer counts in whole milliseconds. Going there rounds up, because a timer rounded down would fire early and an
//! orchestration would see a time before the one it asked for.

use prost_types::Timestamp;

use crate::{Invalid, Problem};

const MILLIS_PER_SECOND: i64 = 1_000;
const NANOS_PER_MILLI: i32 = 1_000_000;
const NANOS_PER_SECOND: i32 = 1_000_000_000;

/// 0001-01-01T00:00:00Z, the first second that protobuf, and so every SDK, allows.
const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z, the last second that protobuf, and so every SDK, allows.
const SECONDS_MAX: i64 = 253_402_300_799;

/// The first millisecond a valid timestamp can have.
pub const MILLIS_MIN: i64 = SECONDS_MIN * MILLIS_PER_SECOND;
/// The last millisecond a valid timestamp can have.
pub const MILLIS_MAX: i64 = SECONDS_MAX * MILLIS_PER_SECOND + (MILLIS_PER_SECOND - 1);

/// Milliseconds since the epoch, rounded up to the next whole one.
///
/// The very last moment rounds down to [`MILLIS_MAX`]: .NET writes "never" as the last 100 ns of the year 9999, which
/// must stay a time that can be written back.
///
/// # Errors
/// When the time is outside the years 1 to 9999, or the nanoseconds are outside a second. The error has an empty
/// field, for the caller to name with [`Invalid::within`].
pub fn to_millis_ceil(timestamp: &Timestamp) -> Result<i64, Invalid> {
    let Timestamp { seconds, nanos } = *timestamp;
    let in_range = (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) && (0..NANOS_PER_SECOND).contains(&nanos);
    if !in_range {
        return Err(Invalid::new("", Problem::TimeOutOfRange { seconds, nanos }));
    }
    // Nanoseconds count forward from the second also before the epoch, so rounding up needs no second case.
    let millis = i64::from((nanos + (NANOS_PER_MILLI - 1)) / NANOS_PER_MILLI);
    Ok((seconds * MILLIS_PER_SECOND + millis).min(MILLIS_MAX))
}

/// The timestamp of a millisecond. Exact for every `i64`, but only [`MILLIS_MIN`] to [`MILLIS_MAX`] are valid times.
pub fn from_millis(millis: i64) -> Timestamp {
    let seconds = millis.div_euclid(MILLIS_PER_SECOND);
    // The remainder is 0 to 999, so neither the conversion nor the product can overflow.
    let nanos = millis.rem_euclid(MILLIS_PER_SECOND) as i32 * NANOS_PER_MILLI;
    Timestamp { seconds, nanos }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rounds_up_to_whole_milliseconds() {
        let cases = [
            (0, 0, 0),
            (0, 1, 1),
            (0, 999_999, 1),
            (0, 1_000_000, 1),
            (0, 1_000_001, 2),
            (0, 999_000_001, 1_000),
            (1, 500_000_000, 1_500),
            (-1, 0, -1_000),
            (-1, 1, -999),
            (-1, 999_999_999, 0),
            (SECONDS_MIN, 0, MILLIS_MIN),
            (SECONDS_MAX, 999_000_000, MILLIS_MAX),
            (SECONDS_MAX, 999_999_900, MILLIS_MAX),
        ];
        for (seconds, nanos, millis) in cases {
            assert_eq!(to_millis_ceil(&Timestamp { seconds, nanos }), Ok(millis), "{seconds} s {nanos} ns");
        }
    }

    #[test]
    fn rejects_times_that_are_none() {
        let cases = [
            (0, -1),
            (0, NANOS_PER_SECOND),
            (0, i32::MIN),
            (0, i32::MAX),
            (SECONDS_MIN - 1, 0),
            (SECONDS_MAX + 1, 0),
            (i64::MIN, 0),
            (i64::MAX, 0),
        ];
        for (seconds, nanos) in cases {
            let invalid = to_millis_ceil(&Timestamp { seconds, nanos }).unwrap_err();
            assert_eq!(invalid.problem, Problem::TimeOutOfRange { seconds, nanos });
        }
    }

    #[test]
    fn milliseconds_before_the_epoch_keep_nanos_positive() {
        assert_eq!(from_millis(-1), Timestamp { seconds: -1, nanos: 999_000_000 });
        assert_eq!(from_millis(-1_000), Timestamp { seconds: -1, nanos: 0 });
        assert_eq!(from_millis(1_001), Timestamp { seconds: 1, nanos: 1_000_000 });
    }

    proptest! {
        #[test]
        fn valid_milliseconds_round_trip(millis in MILLIS_MIN..=MILLIS_MAX) {
            prop_assert_eq!(to_millis_ceil(&from_millis(millis)), Ok(millis));
        }

        #[test]
        fn no_number_panics(millis: i64, seconds: i64, nanos: i32) {
            let _ = from_millis(millis);
            let _ = to_millis_ceil(&Timestamp { seconds, nanos });
        }
    }
}
