//! Times and durations for display.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

/// A local time from milliseconds since 1970.
pub(crate) fn stamp(milliseconds: u64) -> String {
    let time = Timestamp::from_millisecond(i64::try_from(milliseconds).unwrap_or(i64::MAX));
    let time = time.unwrap_or_default().to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A duration: `7s`, `3m09s`, `2h05m`, `3d04h`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// How long something took, with tenths of a second while those matter: `0.3s`, `12s`, `3m09s`.
pub(crate) fn elapsed(milliseconds: u64) -> String {
    match milliseconds {
        0..10_000 => format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => duration(Duration::from_millis(milliseconds)),
    }
}

/// The rough age of something: `7s`, `3m`, `2h`, `5d`.
pub(crate) fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let of = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([of(7), of(189), of(7500), of(273_600)], ["7s", "3m09s", "2h05m", "3d04h"]);
        assert_eq!([elapsed(42), elapsed(9_990), elapsed(12_345)], ["0.0s", "9.9s", "12s"]);
        assert_eq!([age(59_000), age(61_000), age(90_000_000)], ["59s", "1m", "1d"]);
    }
}
