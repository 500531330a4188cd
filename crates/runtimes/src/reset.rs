//! When a limit ends, read from what agents and providers write about it: `resets 3pm
//! (Europe/London)`, `try again in 2 hours 5 minutes`, `reset after 2h39m12s`, `retry-after: 3600`,
//! a date of HTTP, seconds since 1970. The one place where such words are read; it knows no time, so a
//! clock stays a clock (`engine::rules::reset` says which moment it shows). What is not understood is
//! nothing, never a guess.

use contract::Timestamp;
use contract::reset::{Clock, Day, Reset};

/// How much of a text is looked at: the words that count stand near the trouble.
const TEXT_CHARS_MAX: usize = 4_000;
/// How many words after the mark may belong to a time.
const WORDS_MAX: usize = 16;
const SECOND_MS: u64 = 1_000;
/// From this on a bare number counts from 1970: in seconds, or in milliseconds.
const EPOCH_SECONDS_MIN: u64 = 1_000_000_000;
const EPOCH_MS_MIN: u64 = 1_000_000_000_000;
/// Whatever is later than this is no time of ours.
const EPOCH_MS_MAX: u64 = 10_000_000_000_000;

/// What stands before a time, the more particular first.
const MARKS: &[&str] = &[
    "limit reached|",
    "retry-after",
    "retry_after",
    "retryafter",
    "retrydelay",
    "resets_at",
    "resetsat",
    "reset_at",
    "try again",
    "retry after",
    "retry in",
    "available again",
    "will reset",
    "resets",
    "reset",
];

/// What may stand between the mark and the time.
const FILLERS: &[&str] =
    &["at", "on", "in", "after", "about", "approximately", "time", "is", "~", ":", "-"];

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// When the limit ends that a text tells of.
pub fn read(text: &str) -> Option<Reset> {
    let lower: String = text.chars().take(TEXT_CHARS_MAX).collect::<String>().to_lowercase();
    MARKS.iter().find_map(|mark| {
        lower.match_indices(mark).find_map(|(at, mark)| {
            let words = words(&lower[at + mark.len()..]);
            told(&words, mark.starts_with("retry"))
        })
    })
}

/// How long to wait, where a span was told.
pub fn wait_ms(text: &str) -> Option<u64> {
    match read(text)? {
        Reset::After { ms } => Some(ms),
        Reset::At(_) | Reset::Clock(_) => None,
    }
}

/// A moment in seconds or milliseconds since 1970.
pub fn since_epoch(number: u64) -> Option<Timestamp> {
    let ms = match number {
        EPOCH_MS_MIN..EPOCH_MS_MAX => number,
        EPOCH_SECONDS_MIN..EPOCH_MS_MIN => number.checked_mul(SECOND_MS)?,
        _ => return None,
    };
    i64::try_from(ms).ok().filter(|_| ms < EPOCH_MS_MAX).map(Timestamp)
}

fn words(text: &str) -> Vec<&str> {
    let ends = |c: char| c.is_whitespace() || ",()[]{};\"'|=·∙•".contains(c);
    text.split(ends)
        .map(|word| word.trim_start_matches(':').trim_end_matches(['.', ':', '!', '?']))
        .filter(|word| !word.is_empty())
        .take(WORDS_MAX)
        .collect()
}

/// `bare` numbers are seconds, where the mark says that they are.
fn told(words: &[&str], bare: bool) -> Option<Reset> {
    let begin = words.iter().position(|word| !FILLERS.contains(word))?;
    let words = &words[begin..];
    let first = *words.first()?;
    if let Ok(number) = first.parse::<u64>()
        && let Some(at) = since_epoch(number)
    {
        return Some(Reset::At(at));
    }
    if let Some(at) = written(first).or_else(|| http_date(words)) {
        return Some(Reset::At(at));
    }
    if let Some(ms) = span_ms(words) {
        return Some(Reset::After { ms });
    }
    match first.parse::<f64>() {
        Ok(seconds) if bare && (0.0..1e9).contains(&seconds) => {
            Some(Reset::After { ms: (seconds * 1_000.0) as u64 })
        }
        _ => clock(words).map(Reset::Clock),
    }
}

/// `2026-11-16T15:00:00Z`.
fn written(word: &str) -> Option<Timestamp> {
    let dated = word.len() >= 19 && word.as_bytes().get(4) == Some(&b'-') && word.contains('t');
    let upper = word.to_uppercase();
    dated.then(|| serde_json::from_value(serde_json::Value::from(upper)).ok()).flatten()
}

/// `wed 21 oct 2026 07:28:00 gmt`, without its commas.
fn http_date(words: &[&str]) -> Option<Timestamp> {
    let begin = usize::from(words.first()?.starts_with(|c: char| c.is_ascii_alphabetic()));
    let [day, month, year, time, "gmt" | "utc", ..] = words.get(begin..)? else { return None };
    let day: i64 = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = i64::try_from(MONTHS.iter().position(|name| *name == *month)?).ok()? + 1;
    let year: i64 = year.parse().ok().filter(|year| (1970..9999).contains(year))?;
    let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().flatten()?);
    let in_range =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61).contains(&second);
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    in_range.then(|| Timestamp(seconds * 1_000))
}

/// Days from 1970 to a day of the calendar. Years are counted from March, so that the odd day of a
/// leap year is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2h39m12s`, `2 hours 5 minutes`, `1 day 1 hour`, `a day`, `34.07s`, `5466ms`.
fn span_ms(words: &[&str]) -> Option<u64> {
    let mut sum_ms: Option<u64> = None;
    let mut rest = words.iter().copied().filter(|word| *word != "and").peekable();
    while let Some(word) = rest.next() {
        let parts = match joined(word) {
            Some(parts_ms) => Some(parts_ms),
            None => match (number(word), rest.peek().and_then(|unit| unit_ms(unit))) {
                (Some(number), Some(unit_ms)) => {
                    rest.next();
                    Some(product_ms(number, unit_ms))
                }
                _ => None,
            },
        };
        let Some(ms) = parts else { break };
        sum_ms = Some(sum_ms.unwrap_or(0).saturating_add(ms));
    }
    sum_ms
}

/// Numbers with their units in one word.
fn joined(word: &str) -> Option<u64> {
    let mut rest = word;
    let mut sum_ms: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        sum_ms = sum_ms.saturating_add(product_ms(number(digits)?, unit_ms(unit)?));
        rest = after;
    }
    (!word.is_empty()).then_some(sum_ms)
}

fn number(word: &str) -> Option<f64> {
    match word {
        "a" | "an" | "one" => Some(1.0),
        word if word.starts_with(|c: char| c.is_ascii_digit()) => {
            word.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
        }
        _ => None,
    }
}

/// The cast saturates: an absurdly long time is the longest there is.
fn product_ms(number: f64, unit_ms: u64) -> u64 {
    (number * unit_ms as f64).round() as u64
}

fn unit_ms(word: &str) -> Option<u64> {
    Some(match word {
        "ms" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND_MS,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND_MS,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * SECOND_MS,
        "d" | "day" | "days" => 86_400 * SECOND_MS,
        "w" | "week" | "weeks" => 7 * 86_400 * SECOND_MS,
        _ => return None,
    })
}

/// `3pm europe/london`, `15:00 utc`, `3:05 pm`, `oct 6 1pm europe/london`, `nov 20th 2026 3:15 pm`.
fn clock(words: &[&str]) -> Option<Clock> {
    let (day, words) = match day(words) {
        Some((day, rest)) => (Some(day), rest),
        None => (None, words),
    };
    let begin = words.iter().position(|word| !FILLERS.contains(word))?;
    let (first, rest) = words.get(begin..)?.split_first()?;
    let (time, half, rest) = match (halved(first), rest.split_first()) {
        ((time, Some(half)), _) => (time, Some(half), rest),
        ((time, None), Some((half @ (&"am" | &"pm"), rest))) => (time, Some(*half), rest),
        ((time, None), _) => (time, None, rest),
    };
    let (hour, minute) = match time.split_once(':') {
        // Seconds are not worth a word.
        Some((hour, minute)) => (hour, minute.split(':').next().unwrap_or(minute)),
        // Without minutes or a half of the day it is a number like any other.
        None if half.is_some() => (time, "0"),
        None => return None,
    };
    let (hour, minute): (u8, u8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("pm") => hour % 12 + 12,
        Some(_) => hour % 12,
        None => hour,
    };
    if hour > 23 || minute > 59 {
        return None;
    }
    Some(Clock { hour, minute, zone: rest.first().and_then(|word| zone(word)), day })
}

/// The time of `3pm` and its half of the day.
fn halved(word: &str) -> (&str, Option<&str>) {
    for half in ["am", "pm"] {
        if let Some(time) = word.strip_suffix(half) {
            return (time, Some(half));
        }
    }
    (word, None)
}

/// A day before the time, and what follows it.
fn day<'a, 'b>(words: &'b [&'a str]) -> Option<(Day, &'b [&'a str])> {
    let month = |word: &str| {
        let place = MONTHS.iter().position(|name| word.starts_with(name))?;
        word.chars().all(|c| c.is_ascii_alphabetic()).then_some(place as u8 + 1)
    };
    let of_month = |word: &str| {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        digits.parse::<u8>().ok().filter(|day| (1..=31).contains(day))
    };
    let (one, two) = (words.first()?, words.get(1)?);
    let (month, day) = match (month(one), month(two)) {
        (Some(month), _) => (month, of_month(two)?),
        (None, Some(month)) => (month, of_month(one)?),
        (None, None) => return None,
    };
    let year = words.get(2).and_then(|word| word.parse::<i16>().ok());
    let year = year.filter(|year| (1970..=9999).contains(year));
    let rest = &words[if year.is_some() { 3 } else { 2 }..];
    Some((Day { year, month, day }, rest))
}

/// A word that can be the name of a zone.
fn zone(word: &str) -> Option<String> {
    let named =
        word.contains('/') && word.chars().all(|c| c.is_ascii_alphabetic() || "/_-+".contains(c));
    let short = ["utc", "gmt", "z"].iter().any(|name| word.starts_with(name))
        || (2..=4).contains(&word.len()) && word.ends_with('t');
    (named || short).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match read(text) {
            None => "nothing".to_owned(),
            Some(Reset::At(at)) => at.to_string(),
            Some(Reset::After { ms }) => format!("after {ms}"),
            Some(Reset::Clock(Clock { hour, minute, zone, day })) => {
                let day = day.map(|Day { year, month, day }| match year {
                    Some(year) => format!("{year}-{month}-{day} "),
                    None => format!("{month}-{day} "),
                });
                let zone = zone.map(|zone| format!(" {zone}")).unwrap_or_default();
                format!("{}{hour:02}:{minute:02}{zone}", day.unwrap_or_default())
            }
        }
    }

    /// What agents and providers really write, and how it is read.
    const PHRASES: &[(&str, &str)] = &[
        ("Claude AI usage limit reached|1794773488", "2026-11-15T20:11:28.000Z"),
        ("5-hour limit reached ∙ resets 7:30pm (America/New_York)", "19:30 america/new_york"),
        ("You've hit your limit · resets 3pm (Europe/London)", "15:00 europe/london"),
        ("Weekly limit reached ∙ resets Oct 6, 1pm (Europe/London)", "10-6 13:00 europe/london"),
        ("Your limit will reset at 12am (America/Santiago).", "00:00 america/santiago"),
        ("You've hit your usage limit. Try again in 2 hours 5 minutes.", "after 7500000"),
        ("You've hit your usage limit. Try again at 3:05 PM.", "15:05"),
        ("… or try again at Nov 20th, 2026 3:15 PM.", "2026-11-20 15:15"),
        ("Try again in 1 day, 1 hour", "after 90000000"),
        ("Your quota will reset after 2h39m12s.", "after 9552000"),
        ("You exceeded your current quota. Quota resets after a day.", "after 86400000"),
        ("Please retry in 2s.", "after 2000"),
        ("retryDelay: '34.074824224s'", "after 34075"),
        ("Please try again in 6m0s. Visit your provider's page", "after 360000"),
        ("Rate limit reached. Please try again in 1.5s", "after 1500"),
        ("Retry-After: 3600", "after 3600000"),
        ("retry-after: Wed, 21 Oct 2026 07:28:00 GMT", "2026-10-21T07:28:00.000Z"),
        ("retry after 29 Feb 2028 00:00:00 GMT", "2028-02-29T00:00:00.000Z"),
        (r#"{"type":"usage_limit_reached","resets_at":1794773488}"#, "2026-11-15T20:11:28.000Z"),
        (r#"{"resetsAt":1794773488123}"#, "2026-11-15T20:11:28.123Z"),
        ("The limit resets at 15:00 UTC", "15:00 utc"),
        ("resets at 2026-11-16T15:00:00Z", "2026-11-16T15:00:00.000Z"),
        ("resets in 2h39m", "after 9540000"),
        ("available again at 09:30 GMT+2", "09:30 gmt+2"),
        ("try again in 18446744073709551615 days", "after 18446744073709551615"),
        ("try again in a while", "nothing"),
        ("Please try again later.", "nothing"),
        ("reset the conversation and 3 files", "nothing"),
        ("resets 13pm (Europe/London)", "nothing"),
        ("resets at 25:00 UTC", "nothing"),
        ("ERR_CONNRESET 443", "nothing"),
        ("hello", "nothing"),
        ("", "nothing"),
    ];

    #[test]
    fn every_phrase_is_read_as_it_is_meant() {
        let wrong: Vec<_> = PHRASES
            .iter()
            .map(|(text, expected)| (text, *expected, shown(text)))
            .filter(|(_, expected, shown)| expected != shown)
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    proptest::proptest! {
        #[test]
        fn any_words_after_any_mark_are_read_without_a_panic(
            mark in proptest::sample::select(MARKS),
            rest in "\\PC{0,40}|[0-9apm:, ]{0,20}|[0-9a-z]{0,12} (oct|nov) [0-9]{1,4} [0-9:]{1,8} gmt",
        ) {
            let _ = read(&format!("{mark} {rest}"));
        }
    }

    #[test]
    fn no_text_is_too_odd_to_be_looked_at() {
        for text in [
            "resets ",
            "resets ä",
            "retry-after:",
            "try again in in in",
            "resets |||",
            "ſresets 3Pm",
        ] {
            let _ = read(text);
        }
        let long = format!("resets {}", "9".repeat(100_000));
        assert_eq!(shown(&long), "nothing");
    }
}
