//! What an option's text may say, and what it says once read.

use std::{fmt, time::Duration};

use foundation::Bytes;

/// The form of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Present or absent; `true` or `false` in files and variables.
    Switch,
    /// Any text.
    Text,
    /// A level of logging, or levels of single targets: `debug`, `server=debug,warn`.
    LogFilter,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Texts separated by commas; an array in files. The flag may also be repeated.
    List,
    /// A whole number in the closed range.
    Count {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A number of bytes: `1073741824`, `512MiB`, `4GB`.
    Bytes,
    /// A part of a whole, above 0 up to 1: `0.9`.
    Part,
    /// How many times something: at least 1, or 0 for no bound: `2.5`.
    Times,
    /// A duration in seconds: `30`, `0.5`.
    Seconds,
}

/// A value read from a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Text`], [`Kind::LogFilter`] and [`Kind::Choice`].
    Text(String),
    /// Of [`Kind::List`].
    List(Vec<String>),
    /// Of [`Kind::Count`].
    Count(u64),
    /// Of [`Kind::Bytes`].
    Bytes(Bytes),
    /// Of [`Kind::Part`].
    Part(f32),
    /// Of [`Kind::Times`].
    Times(f32),
    /// Of [`Kind::Seconds`].
    Seconds(Duration),
}

impl Kind {
    /// Reads a text. The error says what was wanted.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let value = match self {
            Kind::Switch => parse_switch(text).map(Value::Switch),
            Kind::Text => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
            Kind::LogFilter => is_log_filter(text).then(|| Value::Text(text.to_owned())),
            Kind::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::List => parse_list(text).map(Value::List),
            Kind::Count { min, max } => {
                text.parse().ok().filter(|count| (min..=max).contains(count)).map(Value::Count)
            }
            Kind::Bytes => parse_bytes(text).map(|count| Value::Bytes(Bytes(count))),
            Kind::Part => parse_part(text).map(Value::Part),
            Kind::Times => parse_times(text).map(Value::Times),
            Kind::Seconds => parse_seconds(text).map(Value::Seconds),
        };
        value.ok_or_else(|| self.wanted())
    }

    /// What a text must look like, for error messages and help.
    pub fn wanted(self) -> String {
        match self {
            Kind::Switch => "true or false".into(),
            Kind::Text => "a non-empty text".into(),
            Kind::LogFilter => format!(
                "one of {}, or levels of single targets such as server=debug,warn",
                LOG_LEVELS.join(", ")
            ),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::List => "texts separated by commas, none empty".into(),
            Kind::Count { min, max: u64::MAX } => format!("a whole number of at least {min}"),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Bytes => "a number of bytes such as 1048576, 512MiB or 4GB".into(),
            Kind::Part => "a number above 0, up to 1, such as 0.9".into(),
            Kind::Times => "a number of at least 1 such as 2.5, or 0".into(),
            Kind::Seconds => "a number of seconds such as 30 or 0.5".into(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => f.pad(if *on { "yes" } else { "no" }),
            Value::Text(text) => f.pad(text),
            Value::List(texts) => f.pad(&texts.join(", ")),
            Value::Count(count) => f.pad(&count.to_string()),
            Value::Bytes(bytes) => f.pad(&bytes.to_string()),
            Value::Part(part) => f.pad(&part.to_string()),
            Value::Times(times) => f.pad(&times.to_string()),
            Value::Seconds(time) => f.pad(&format!("{} s", time.as_secs_f64())),
        }
    }
}

/// How much is logged, least first.
const LOG_LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// A bare word is a level: taken for a target, a mistyped level would silence everything.
fn is_log_filter(text: &str) -> bool {
    let is_level = |word: &str| LOG_LEVELS.contains(&word.to_ascii_lowercase().as_str());
    text.split(',').map(str::trim).all(|part| match part.rsplit_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(part),
    })
}

fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn parse_list(text: &str) -> Option<Vec<String>> {
    let items: Vec<String> = text.split(',').map(|item| item.trim().to_owned()).collect();
    (!items.iter().any(String::is_empty)).then_some(items)
}

/// The suffixes of a byte count and what they multiply by.
const BYTE_UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = BYTE_UNITS
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
        .unwrap_or((text, 1));
    let number = number.trim();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let bytes = plain_decimal(number)? * unit as f64;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

fn parse_part(text: &str) -> Option<f32> {
    let part = plain_decimal(text)? as f32;
    (part > 0.0 && part <= 1.0).then_some(part)
}

fn parse_times(text: &str) -> Option<f32> {
    let times = plain_decimal(text)? as f32;
    (times == 0.0 || (1.0..=1e6).contains(&times)).then_some(times)
}

fn parse_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(plain_decimal(text.strip_suffix('s').unwrap_or(text).trim())?).ok()
}

/// A number written with digits and one point: no sign, no exponent, no `inf`.
fn plain_decimal(text: &str) -> Option<f64> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let bytes = |text: &str| Kind::Bytes.parse(text).ok();
        assert_eq!(bytes("32MiB"), Some(Value::Bytes(Bytes::mib(32))));
        assert_eq!(bytes("1.5 GiB"), Some(Value::Bytes(Bytes(3 << 29))));
        assert_eq!(bytes("4GB"), Some(Value::Bytes(Bytes(4_000_000_000))));
        assert_eq!(bytes("17"), Some(Value::Bytes(Bytes(17))));
        assert_eq!(Kind::Seconds.parse("0.5"), Ok(Value::Seconds(Duration::from_millis(500))));
        assert_eq!(Kind::Part.parse("0.9"), Ok(Value::Part(0.9)));
        assert_eq!(Kind::Times.parse("2.5"), Ok(Value::Times(2.5)));
        assert_eq!(Kind::Times.parse("0"), Ok(Value::Times(0.0)));
        assert_eq!(Kind::List.parse("a, b"), Ok(Value::List(vec!["a".into(), "b".into()])));
        assert_eq!(Kind::Switch.parse("yes"), Ok(Value::Switch(true)));
    }

    #[test]
    fn refuses_the_rest_and_says_what_it_wants() {
        let count = Kind::Count { min: 1, max: 65535 };
        for text in ["0", "65536", "-1", "8e3", "", "eight"] {
            assert_eq!(count.parse(text), Err("a whole number from 1 to 65535".into()), "{text}");
        }
        for text in ["-1", "1e9", "inf", "GiB", "99999999999TiB", "1.2.3MB"] {
            assert!(Kind::Bytes.parse(text).is_err(), "{text}");
        }
        for text in ["-1", "nan", "1e400", "soon"] {
            assert!(Kind::Seconds.parse(text).is_err(), "{text}");
        }
        for text in ["0", "1.01", "-0.5", "90%", "1e-1", "nan"] {
            assert!(Kind::Part.parse(text).is_err(), "{text}");
        }
        for text in ["0.5", "-1", "inf", "twice"] {
            assert!(Kind::Times.parse(text).is_err(), "{text}");
        }
        assert!(Kind::List.parse("a,,b").is_err());
        assert!(Kind::Choice(&["auto", "cpu"]).parse("gpu").is_err());
        assert!(Kind::Text.parse("  ").is_err());
        for text in ["loud", "server", "=debug", "server=loud", "info,", ""] {
            assert!(Kind::LogFilter.parse(text).is_err(), "{text}");
        }
        assert!(Kind::LogFilter.parse("loud").unwrap_err().contains("off, error, warn, info"));
        assert!(Kind::LogFilter.parse("warn, server=debug").is_ok());
    }
}
