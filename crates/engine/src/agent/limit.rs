//! Recognises the provider's usage limits in messages of coding agents: the table of wordings, and the time in them.
//!
//! Pure: the time of the message and the time zone of this machine are arguments. Used only on the
//! program's own messages about a failed turn, never on an answer: a model may write about limits.

use std::path::Path;

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time},
    tz::{self, TimeZone},
};

/// A limit that a coding agent reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldLimit {
    /// It is lifted by itself.
    Usage {
        /// When, in seconds since 1970; `None` if the message does not say.
        resets_at: Option<u64>,
    },
    /// The user has to pay or to change a setting.
    Account,
}

/// How a wording begins, in lower case, and whether the user has to act unless it names a time. The first match
/// counts, so more specific wordings come first.
const WORDINGS: &[(&str, bool)] = &[
    ("you've hit your monthly spend limit", true),
    ("you've hit your org's monthly", true),
    ("you're out of usage credits", true),
    ("you're out of extra usage", true),
    ("your org is out of usage", true),
    ("your seat type doesn't include", true),
    ("your usage allocation has been disabled", true),
    ("your group's usage limit is set to", true),
    ("this service is disabled for your org", true),
    ("usage credit limit reached", true),
    ("spend limit reached", true),
    // "session limit", "weekly limit", "Opus limit", "Sonnet limit", "usage limit", "limit".
    ("you've hit your", false),
    ("you have hit your", false),
    ("you've reached your", false),
    // Of the API: "your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
    ("you have reached your specified", false),
    ("claude ai usage limit reached", false),
    ("claude code usage limit reached", false),
    ("claude usage limit reached", false),
    ("usage limit reached", false),
    ("limit reached", false),
    ("session limit reached", false),
    ("5-hour limit reached", false),
    ("weekly limit reached", false),
    ("opus limit reached", false),
    ("opus weekly limit reached", false),
    ("sonnet limit reached", false),
    ("sonnet weekly limit reached", false),
];

/// What Claude puts before messages of the API, in lower case.
const BEFORE: [&str; 3] =
    ["api error: request rejected (429) · ", "api error: 429 ", "api error: 400 "];

/// A time of day that has passed by less than this means today, not tomorrow: Claude may report it late, and
/// clocks differ. A limit without a date lasts some hours at most.
const JUST_PASSED: SignedDuration = SignedDuration::from_hours(1);
/// A date without a year that is longer ago than this is in the next year.
const DATE_PASSED: SignedDuration = SignedDuration::from_hours(180 * 24);

/// The limit that `words` report. `said_at` is the time of the message, `local` the zone of a time without one.
pub(super) fn told(words: &str, said_at: Timestamp, local: &TimeZone) -> Option<ToldLimit> {
    let words = words.trim().replace('’', "'").to_lowercase();
    let start = BEFORE.iter().find_map(|before| words.strip_prefix(before)).unwrap_or(&words);
    let (_, is_account) = WORDINGS.iter().find(|(wording, _)| start.starts_with(wording))?;
    let resets_at = epoch(start).or_else(|| {
        let seconds = Clause::read(start)?.time(said_at, local)?.as_second();
        u64::try_from(seconds).ok()
    });
    Some(match resets_at {
        None if *is_account => ToldLimit::Account,
        resets_at => ToldLimit::Usage { resets_at },
    })
}

/// When the file with a message was written last: needed to interpret a time of day without a date.
pub(super) fn said_at(path: &Path) -> Timestamp {
    let modified = path.metadata().and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|time| time.try_into().ok()).unwrap_or_default()
}

/// `18th` is 18.
fn ordinal(word: &str) -> &str {
    ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
}

/// Converts a time to seconds since 1970. Some messages give it in seconds, some in milliseconds.
pub(super) fn seconds(time: u64) -> u64 {
    const YEAR_5000: u64 = 100_000_000_000;
    if time > YEAR_5000 { time / 1000 } else { time }
}

/// `…limit reached|1794770000`.
fn epoch(words: &str) -> Option<u64> {
    let (_, after) = words.rsplit_once('|')?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(seconds)
}

/// The parts of `resets Nov 20, 2026, 3:30pm (America/Chicago)`.
#[derive(Debug, Default)]
struct Clause {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    time: Option<Time>,
    zone: Option<String>,
}

impl Clause {
    /// Parses the text after `reset`, `regain access` or `try again at`, in lower case.
    fn read(words: &str) -> Option<Self> {
        let after = ["reset", "regain access", "try again at"]
            .iter()
            .find_map(|word| words.split_once(word))?
            .1;
        let line = after.lines().next().unwrap_or_default();
        let (line, zone) = match line.split_once('(') {
            Some((line, zone)) => (line, zone.split_once(')').map(|(zone, _)| zone.to_owned())),
            None => (line, None),
        };
        let mut clause = Self { zone, ..Self::default() };
        let is_space = |c: char| c.is_whitespace() || c == ',';
        let mut parts = line.split(is_space).filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let half = parts.peek().copied().unwrap_or_default();
            if !clause.take(part.trim_end_matches('.'), half.trim_end_matches('.')) {
                break;
            }
        }
        (clause.time.is_some() || clause.day.is_some()).then_some(clause)
    }

    /// Parses one word of the clause, with the word after it; `false` if it does not belong to the clause.
    fn take(&mut self, word: &str, next: &str) -> bool {
        if let Ok(date) = word.parse::<Date>() {
            (self.year, self.month, self.day) =
                (Some(date.year()), Some(date.month()), Some(date.day()));
        } else if let Some(month) = month(word) {
            self.month = Some(month);
        } else if let (Some(_), None, Ok(day)) = (self.month, self.day, ordinal(word).parse()) {
            self.day = Some(day);
        } else if let (Some(_), None, Ok(year @ 2000..)) = (self.day, self.year, word.parse()) {
            self.year = Some(year);
        } else if let (None, Some(time)) = (self.time, time(word, next)) {
            self.time = Some(time);
        } else if word == "utc" {
            self.zone = Some("UTC".to_owned());
        } else {
            return matches!(word, "s" | "at" | "on" | "am" | "pm");
        }
        true
    }

    /// The time that the clause means in a message of `said_at`.
    fn time(&self, said_at: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        let zone = match &self.zone {
            Some(name) => tz::db().get(name).ok()?,
            None => local.clone(),
        };
        let today = said_at.to_zoned(zone.clone()).date();
        let at = |date: Date| {
            let time = self.time.unwrap_or(Time::midnight());
            Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp())
        };
        let (Some(month), Some(day)) = (self.month, self.day) else {
            let time = at(today)?;
            let is_over = time < said_at.checked_sub(JUST_PASSED).ok()?;
            return if is_over { at(today.tomorrow().ok()?) } else { Some(time) };
        };
        let of_year = |year: i16| at(Date::new(year, month, day).ok()?);
        let time = of_year(self.year.unwrap_or(today.year()))?;
        let is_over = self.year.is_none() && time < said_at.checked_sub(DATE_PASSED).ok()?;
        if is_over { of_year(today.year().checked_add(1)?) } else { Some(time) }
    }
}

/// `3pm`, `3:30pm`, `3:30 pm` (the half of the day is then the `next` word), `15:30`.
fn time(word: &str, next: &str) -> Option<Time> {
    let halves = |half: &'static str| word.strip_suffix(half).map(|rest| (rest, half));
    let (digits, half) = halves("am").or_else(|| halves("pm")).unwrap_or((word, next));
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, ""));
    let hour: i8 = hour.parse().ok()?;
    let minute: i8 = if minute.is_empty() { 0 } else { minute.parse().ok()? };
    let hour = match (half, hour) {
        ("am", 12) => 0,
        ("am", 1..=11) | ("pm", 12) => hour,
        ("pm", 1..=11) => hour + 12,
        ("am" | "pm", _) => return None,
        // A number alone is not a time.
        _ if digits.contains(':') => hour,
        _ => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let is_word = word.chars().all(|c| c.is_ascii_alphabetic());
    let index = MONTHS.iter().position(|month| is_word && word.starts_with(month))?;
    i8::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the words are said, in Berlin, where the clocks change on October 25, 2026.
    const SAID_AT: &str = "2026-11-16T20:30:00Z";

    fn told_at(words: &str, said_at: &str) -> Option<ToldLimit> {
        let local = tz::db().get("Europe/Berlin").unwrap();
        told(words, said_at.parse().unwrap(), &local)
    }

    /// The time that `words` name, in UTC.
    #[track_caller]
    fn reset(words: &str, said_at: &str) -> String {
        match told_at(words, said_at) {
            Some(ToldLimit::Usage { resets_at: Some(at) }) => {
                Timestamp::from_second(at.try_into().unwrap()).unwrap().to_string()
            }
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn time_in_a_known_wording_is_parsed() {
        for (words, expected) in [
            // Wordings of today, and the time of day in a zone.
            ("You've hit your limit · resets 3pm (America/Chicago)", "2026-11-16T21:00:00Z"),
            ("You've hit your session limit · resets 8:30pm (Asia/Tokyo)", "2026-11-17T11:30:00Z"),
            ("You've hit your weekly limit · resets 12am (UTC)", "2026-11-17T00:00:00Z"),
            ("You’ve hit your Opus limit · resets 12:50pm (Asia/Calcutta)", "2026-11-17T07:20:00Z"),
            (
                "You've hit your Sonnet limit · resets 2\u{202f}PM (Etc/GMT+5)",
                "2026-11-17T19:00:00Z",
            ),
            // The zone of this machine, where none is named.
            ("You've hit your usage limit · resets 11pm", "2026-11-16T22:00:00Z"),
            ("5-hour limit reached ∙ resets 3pm\n/upgrade to increase", "2026-11-17T14:00:00Z"),
            // Dates.
            (
                "You've hit your limit · resets Nov 20, 3pm (America/Chicago)",
                "2026-11-20T21:00:00Z",
            ),
            ("You've hit your limit · resets Jan 2, 2027, 3:30pm (UTC)", "2027-01-02T15:30:00Z"),
            ("Weekly limit reached ∙ resets Jan 7 at 9am", "2027-01-07T08:00:00Z"),
            ("Opus weekly limit reached ∙ resets Nov 18", "2026-11-17T23:00:00Z"),
            // Wordings of the past, and of the API.
            ("Claude AI usage limit reached|1794770000", "2026-11-15T19:13:20Z"),
            ("Claude AI usage limit reached|1794770000000", "2026-11-15T19:13:20Z"),
            (
                "Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).",
                "2026-11-17T18:00:00Z",
            ),
            (
                "You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM. View your usage",
                "2026-11-17T08:30:00Z",
            ),
            (
                "API Error: Request rejected (429) · Claude AI usage limit reached|1794770000",
                "2026-11-15T19:13:20Z",
            ),
            (
                "API Error: 400 You have reached your specified API usage limits. You will regain \
                 access on 2026-12-01 at 00:00 UTC.",
                "2026-12-01T00:00:00Z",
            ),
            // Codex: today, and another day.
            (
                "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit \
                 https://chatgpt.com/settings/usage to purchase more credits or try again at 11:19 PM.",
                "2026-11-16T22:19:00Z",
            ),
            (
                "You’ve hit your usage limit. Try again at Nov 22nd, 2026 7:19 AM.",
                "2026-11-22T06:19:00Z",
            ),
            // Money comes back by itself if a time is named.
            ("You're out of usage credits · resets Dec 1, 1am (UTC)", "2026-12-01T01:00:00Z"),
        ] {
            assert_eq!(reset(words, SAID_AT), expected, "{words}");
        }
    }

    #[test]
    fn time_that_has_just_passed_is_not_the_one_of_tomorrow() {
        let words = "You've hit your limit · resets 3pm (UTC)";
        assert_eq!(reset(words, "2026-11-16T15:59:00Z"), "2026-11-16T15:00:00Z");
        assert_eq!(reset(words, "2026-11-16T16:01:00Z"), "2026-11-17T15:00:00Z");
        let words = "You've hit your limit · resets Nov 16, 3pm (UTC)";
        assert_eq!(reset(words, "2026-11-17T15:00:00Z"), "2026-11-16T15:00:00Z");
    }

    #[test]
    fn time_of_day_counts_in_its_zone_across_a_change_of_clocks() {
        let words = "You've hit your limit · resets 9am (Europe/Berlin)";
        assert_eq!(reset(words, "2026-10-24T09:00:00Z"), "2026-10-25T08:00:00Z");
        assert_eq!(reset(words, "2026-10-23T09:00:00Z"), "2026-10-24T07:00:00Z");
    }

    #[test]
    fn limit_without_a_time_that_can_be_understood_is_a_limit_all_the_same() {
        for words in [
            "You've hit your limit",
            "You've hit your session limit · contact your admin to increase it",
            "You've hit your limit · resets soon",
            "You've hit your limit · resets 3pm (Nowhere/Else)",
            "You've hit your limit · resets 25pm (UTC)",
            "You've hit your limit · resets Feb 31, 3pm (UTC)",
            "You've reached your Fable 5 limit. /model to switch models.",
            "Claude AI usage limit reached|",
            "Session limit reached",
        ] {
            let expected = Some(ToldLimit::Usage { resets_at: None });
            assert_eq!(told_at(words, SAID_AT), expected, "{words}");
        }
    }

    #[test]
    fn limit_that_the_user_must_lift_is_an_account_limit() {
        for words in [
            "You've hit your monthly spend limit · raise it at claude.ai/settings/usage",
            "You've hit your org's monthly spend limit · ask your admin",
            "You're out of usage credits. /model to switch models.",
            "Your seat type doesn't include usage credits",
            "Your org is out of usage · contact your admin",
        ] {
            assert_eq!(told_at(words, SAID_AT), Some(ToldLimit::Account), "{words}");
        }
    }

    #[test]
    fn other_messages_are_not_a_limit() {
        for words in [
            "",
            "API Error: Request rejected (429) · slow down",
            "API Error: Server is temporarily limiting requests (not your usage limit) · busy",
            "This request would exceed your account's rate limit. Please try again later.",
            "Context limit reached · /compact or /clear to continue",
            "API Error: 500 the usage limit reached us|1794770000",
            "API Error: 400 You have reached your context budget for this tool",
            "You've used 80% of your weekly limit · resets 3pm (UTC)",
        ] {
            assert_eq!(told_at(words, SAID_AT), None, "{words}");
        }
    }
}
