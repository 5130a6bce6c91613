//! How long a step may print nothing, as written in frontmatter and on the command line.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long a child may print nothing before its reaper kills it as hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Timeout {
    seconds: u64,
}

impl Timeout {
    /// The default: 10 minutes, because builds and polling loops can be silent for long.
    pub const DEFAULT: Self = Self { seconds: 600 };

    /// A timeout in seconds; 0 is no limit.
    pub fn from_seconds(seconds: u64) -> Self {
        Self { seconds }
    }
}

impl From<u64> for Timeout {
    fn from(seconds: u64) -> Self {
        Self { seconds }
    }
}

impl From<Timeout> for u64 {
    fn from(timeout: Timeout) -> Self {
        timeout.seconds
    }
}

/// A text that is not a duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("expected seconds, or a number with `s`, `m` or `h` (`90`, `10m`, `2h`), not `{text}`")]
pub struct TimeoutError {
    text: String,
}

impl FromStr for Timeout {
    type Err = TimeoutError;

    fn from_str(text: &str) -> Result<Self, TimeoutError> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let unit = match text.strip_prefix(digits) {
            Some("" | "s") => 1,
            Some("m") => 60,
            Some("h") => 3600,
            _ => {
                return Err(TimeoutError { text: text.to_owned() });
            }
        };
        digits
            .parse::<u64>()
            .ok()
            .filter(|_| !digits.starts_with('+'))
            .and_then(|number| number.checked_mul(unit))
            .map(Self::from_seconds)
            .ok_or_else(|| TimeoutError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_reads_seconds_minutes_and_hours() {
        let seconds = |text: &str| text.parse::<Timeout>().map(u64::from);
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds("2h"), Ok(7200));
        for bad in [
            "",
            "m",
            "+5",
            "-1",
            "1.5",
            "10 m",
            "10d",
            "99999999999999999999",
            "9999999999999999999h",
        ] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
