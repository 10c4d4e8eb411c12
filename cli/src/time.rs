//! Times and durations as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use dauer::Timestamp;
use dauer_proto::time::{MILLIS_MAX, MILLIS_MIN, from_millis, to_millis_ceil};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time now, by this computer.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A time in UTC, as in RFC 3339.
pub(crate) fn show(at: Timestamp) -> String {
    from_millis(at.0.clamp(MILLIS_MIN, MILLIS_MAX)).to_string()
}

/// Reads a time: RFC 3339, `+DURATION` from now or `-DURATION` ago.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Some(ahead) = text.strip_prefix('+') {
        return Ok(now().after(parse_duration(ahead)?));
    }
    if let Some(ago) = text.strip_prefix('-') {
        let ago = i64::try_from(parse_duration(ago)?.as_millis()).unwrap_or(i64::MAX);
        return Ok(Timestamp(now().0.saturating_sub(ago)));
    }
    let at = text.parse::<dauer_proto::Timestamp>().ok();
    let at = at.and_then(|at| to_millis_ceil(&at).ok());
    at.map(Timestamp).ok_or_else(|| {
        "use a time like 2026-12-24T18:00:00Z or 2026-12-24, +2h for in two hours, or -2h for two hours ago".into()
    })
}

/// Reads a duration like `500ms`, `30s`, `1h30m` or `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration; use a number with ms, s, m, h or d, like 30s or 1h30m");
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = tail.find(|character: char| character.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs);
        let part = match unit {
            "ms" => Some(Duration::from_millis(number)),
            "s" => seconds(1),
            "m" => seconds(MINUTE),
            "h" => seconds(HOUR),
            "d" => seconds(DAY),
            _ => None,
        };
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = tail;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// How long something is, in at most two units.
pub(crate) fn roughly(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min {} s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE),
        _ => format!("{} d {} h", seconds / DAY, seconds % DAY / HOUR),
    }
}

/// How times are printed for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeStyle {
    /// How far they are from now, like `5 min 3 s ago`.
    Relative,
    /// In UTC, like `2026-12-24T18:00:00Z`.
    Iso,
    /// In the time zone of this computer, like `2026-12-24 19:00:00+01:00`.
    Local,
}

/// How times are printed, and what is now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dates {
    pub(crate) style: TimeStyle,
    pub(crate) now: Timestamp,
}

impl Dates {
    /// A time.
    pub(crate) fn show(self, at: Timestamp) -> String {
        match self.style {
            TimeStyle::Relative => self.far(at),
            TimeStyle::Iso => show(at),
            TimeStyle::Local => local(at),
        }
    }

    /// A time and how far it is from now.
    pub(crate) fn due(self, at: Timestamp) -> String {
        let time = if self.style == TimeStyle::Local { local(at) } else { show(at) };
        format!("{time} ({})", self.far(at))
    }

    /// So many characters have room for any time of this style that occurs.
    pub(crate) fn width(self) -> usize {
        match self.style {
            TimeStyle::Relative => "in 999 d 23 h".len(),
            TimeStyle::Iso => "2026-12-24T18:00:00.000Z".len(),
            TimeStyle::Local => "2026-12-24 18:00:00+01:00".len(),
        }
    }

    fn far(self, at: Timestamp) -> String {
        match at > self.now {
            true => format!("in {}", roughly(at.since(self.now))),
            false => format!("{} ago", roughly(self.now.since(at))),
        }
    }
}

/// A time in the time zone of this computer, to the second; in UTC where it has no zone.
fn local(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string(),
        Err(_) => show(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let cases = [("500ms", 500), ("30s", 30_000), ("1h30m", 5_400_000), ("7d", 604_800_000), ("0s", 0)];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "30", "s", "1x", "-1s", "1.5h", "99999999999999999999s", "18446744073709551615d", "1s "]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_absolute_or_from_now() {
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(Timestamp(1_000)));
        assert_eq!(parse_time("1970-01-01T01:00:00.5+01:00"), Ok(Timestamp(500)));
        assert_eq!(parse_time("1970-01-02"), Ok(Timestamp(86_400_000)));
        let (before, hour) = (now(), Duration::from_secs(HOUR));
        let (ahead, ago) = (parse_time("+1h").unwrap(), parse_time("-1h").unwrap());
        assert!(ahead >= before.after(hour) && ahead <= now().after(hour));
        assert!(ago.after(hour) >= before && ago.after(hour) <= now());
        for text in ["", "tomorrow", "2026-13-01", "+", "-x", "99999-01-01T00:00:00Z"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_utc_with_their_distance() {
        let at = Timestamp(1_700_000_000_123);
        assert_eq!(show(at), "2023-11-14T22:13:20.123Z");
        let dates = |style, past: i64| Dates { style, now: Timestamp(at.0 + past) };
        let iso = TimeStyle::Iso;
        assert_eq!(dates(iso, -7_260_000).due(at), "2023-11-14T22:13:20.123Z (in 2 h 1 min)");
        assert_eq!(dates(iso, 90_000).due(at), "2023-11-14T22:13:20.123Z (1 min 30 s ago)");
        assert_eq!(dates(iso, 90_000).show(at), "2023-11-14T22:13:20.123Z");
        let relative = TimeStyle::Relative;
        assert_eq!(dates(relative, 90_000).show(at), "1 min 30 s ago");
        assert_eq!(dates(relative, -7_260_000).show(at), "in 2 h 1 min");
        assert_eq!(dates(relative, -7_260_000).due(at), "2023-11-14T22:13:20.123Z (in 2 h 1 min)");
        assert_eq!(parse_time(&show(at)), Ok(at));
    }
}
