//! Times and sizes as people type them: `30`, `1.5m`, `2h`; `10G`, `512MiB`. Pure text to
//! values; a bad one is reported with an example of a good one.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Ten years: longer than any node stays up, and far from overflowing a clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Reads a time: a bare number is seconds, as timeout(1) has it; else `1.5m`, `2h`, `1d`,
/// `200ms`.
///
/// # Errors
///
/// The text is no time, or too long a one.
pub fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is not a time; write 30 (seconds), 1.5m, 2h or 1d");
    let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let seconds = format!("0{text}s");
    let value = humantime::parse_duration(if number { &seconds } else { text }).ok();
    value.map(|v| v.min(LONGEST)).ok_or_else(bad)
}

/// A time as it would be typed, exact: `1.5s`.
pub fn time_text(duration: Duration) -> String {
    let exact = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    format!("{}s", exact.trim_end_matches('0').trim_end_matches('.'))
}

/// Reads a size in bytes. Units are binary, as Slurm has them: `10G` is 10 x 2^30; `KiB`,
/// `MB` and the like too.
///
/// # Errors
///
/// The text is no size, or too large a one.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is not a size; write 10G, 512M or a number of bytes");
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(bad()),
    };
    // Whole numbers stay exact; a fraction of a unit is as good as a double can hold it.
    let bytes = match number.parse::<u64>() {
        Ok(number) => number.checked_mul(1 << shift).ok_or_else(bad)?,
        Err(_) => (number.parse::<f64>().map_err(|_| bad())? * (1u64 << shift) as f64) as u64,
    };
    if bytes < 1 << 60 {
        Ok(bytes)
    } else {
        Err(bad())
    }
}

/// A size as it would be typed: `10G`, `4864M`, or a number of bytes.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ => bytes.to_string(),
    }
}

/// A whole number of digits alone: `parse` takes a sign, too.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A number with its noun: `1 program`, `2 programs`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// How long a call waited: `0.5 s`, `42 s`, `12 min`.
pub fn waited(duration: Duration) -> String {
    if duration < Duration::from_secs(10) {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        brief(duration)
    }
}

/// The time now, in Unix seconds.
pub fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// A time as a person reads it: `45 s`, `12 min`, `3 h 05`, `2 d`.
pub fn brief(duration: Duration) -> String {
    let s = duration.as_secs();
    match s {
        0..=119 => format!("{s} s"),
        120..=7199 => format!("{} min", s / 60),
        7200..=172_799 => format!("{} h {:02}", s / 3600, s % 3600 / 60),
        _ => format!("{} d", s / 86_400),
    }
}

/// The time from one moment to another one, both in Unix seconds, as a person reads it. A clock may
/// have been set back.
pub fn between(from: u64, to: u64) -> String {
    brief(Duration::from_secs(to.saturating_sub(from)))
}

#[cfg(test)]
#[path = "quantity_properties.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use super::{brief, counted, size, size_text, time, waited};
    use std::time::Duration;

    #[test]
    fn times() {
        for (typed, ms) in [
            ("30", 30_000),
            ("0", 0),
            ("0.5", 500),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("200ms", 200),
            // Ten years are the longest.
            ("315360000", 315_360_000_000),
            ("315360001", 315_360_000_000),
            ("20y", 315_360_000_000),
        ] {
            assert_eq!(time(typed), Ok(Duration::from_millis(ms)), "{typed}");
        }
        for typed in ["", "abc", "-1", "1..2", ".", "1e9", "inf", "30x"] {
            assert!(time(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (typed, bytes) in [
            ("0", 0),
            ("10G", 10 << 30),
            ("10GiB", 10 << 30),
            ("10GB", 10 << 30),
            ("1.5k", 1536),
            ("128M", 128 << 20),
            ("2T", 2 << 40),
            ("1048575TiB", 1_048_575 << 40),
        ] {
            assert_eq!(size(typed), Ok(bytes), "{typed}");
        }
        assert_eq!(
            [0, 1536, 10 << 30, 4864 << 20].map(size_text),
            ["0".to_owned(), "1536".into(), "10G".into(), "4864M".into()]
        );
        #[rustfmt::skip]
        let cases = [
            "", "G", "-1", "10X", "10 Gig", "1e5", "9999999999T", "1048576T", "10i", "1GiiB", "1bb",
            "99999999999999999999",
        ];
        for typed in cases {
            assert!(size(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn nouns_follow_their_number() {
        let programs = [0, 1, 2].map(|number| counted(number, "program"));
        assert_eq!(programs, ["0 programs", "1 program", "2 programs"]);
    }

    #[test]
    fn times_for_people() {
        let s = Duration::from_secs;
        assert_eq!(
            [Duration::from_millis(500), s(10), s(42)].map(waited),
            ["0.5 s", "10 s", "42 s"]
        );
        assert_eq!(
            [
                brief(s(45)),
                brief(s(720)),
                brief(s(11_100)),
                brief(s(200_000))
            ],
            ["45 s", "12 min", "3 h 05", "2 d"]
        );
    }
}
