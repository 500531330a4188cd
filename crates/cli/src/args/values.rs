//! Values of arguments: durations, amounts, scopes, policies. Each parser's error says what is
//! expected.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use contract::plan::Limit;
use contract::{NanoUsd, Policy, Scope, Timestamp};

/// `90s`, `10m`, `2h`, `500ms`, or `unlimited`. A number without a unit is seconds.
pub fn limit(text: &str) -> Result<Limit, String> {
    const EXPECTED: &str = "expected a duration such as 500ms, 90s, 10m or 2h (a number alone is \
                            seconds), or unlimited";
    Limit::parse(text).ok_or_else(|| EXPECTED.to_owned())
}

/// A duration that may also be in days.
pub fn days(text: &str) -> Result<Limit, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days.filter(|days| *days > 0) {
        Some(days) => Ok(Limit::Ms(u64::from(days) * 24 * 3_600_000)),
        None => limit(text)
            .map_err(|_| "expected a duration such as 12h or 7d, or unlimited".to_owned()),
    }
}

/// The beginning of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    At(Timestamp),
    AgoMs(u64),
}

/// A day (UTC), a time, or an age.
pub fn since(text: &str) -> Result<Since, String> {
    let moment = |text: String| serde_json::from_value::<Timestamp>(text.into()).ok();
    let is_day = text.len() == 10;
    let at = moment(text.to_owned())
        .or_else(|| is_day.then(|| moment(format!("{text}T00:00:00Z"))).flatten());
    match (at, days(text)) {
        (Some(at), _) => Ok(Since::At(at)),
        (None, Ok(Limit::Ms(ms))) => Ok(Since::AgoMs(ms)),
        (None, Ok(Limit::Unlimited) | Err(_)) => Err(
            "expected a day such as 2026-11-01, a time such as 2026-11-01T09:00:00Z, or an age \
             such as 2h or 7d"
                .to_owned(),
        ),
    }
}

/// How much of something may be spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Unlimited,
    Of(f64),
}

pub fn amount(text: &str) -> Result<Amount, String> {
    match text.parse::<f64>() {
        _ if text == "unlimited" => Ok(Amount::Unlimited),
        Ok(amount) if amount > 0.0 && amount < 1e12 => Ok(Amount::Of(amount)),
        _ => Err("expected a number above 0, or unlimited".to_owned()),
    }
}

/// Dollars of a run's budget.
pub fn usd(text: &str) -> Result<NanoUsd, String> {
    const EXPECTED: &str = "expected a number such as 2.5, from 0.0001 to 1000000";
    let usd = text.parse().ok().filter(|usd| (0.0001..=1e6).contains(usd));
    usd.and_then(NanoUsd::from_usd).ok_or_else(|| EXPECTED.to_owned())
}

/// Minutes of a run's budget, in milliseconds.
pub fn minutes(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a number such as 2.5, from 0.001 to 1000000";
    let minutes = text.parse::<f64>().ok().filter(|minutes| (0.001..=1e6).contains(minutes));
    minutes.map(|minutes| (minutes * 60_000.0) as u64).ok_or_else(|| EXPECTED.to_owned())
}

pub fn tokens(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a whole number from 1 to 1000000000000";
    let tokens = text.parse().ok().filter(|tokens| (1..=1_000_000_000_000).contains(tokens));
    tokens.ok_or_else(|| EXPECTED.to_owned())
}

pub fn turns(text: &str) -> Result<u32, String> {
    const EXPECTED: &str = "expected a whole number from 1 to 1000000";
    let turns = text.parse().ok().filter(|turns| (1..=1_000_000).contains(turns));
    turns.ok_or_else(|| EXPECTED.to_owned())
}

/// The `context` of a run or a task, as it is given on a command line.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextObject(pub serde_json::Map<String, serde_json::Value>);

pub fn object(text: &str) -> Result<ContextObject, String> {
    let read = serde_json::from_str(text).map(ContextObject);
    read.map_err(|error| format!("expected a JSON object such as {{\"ticket\": 7}}: {error}"))
}

pub fn review(text: &str) -> Result<contract::state::Review, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected none or person".to_owned())
}

pub fn scope(text: &str) -> Result<Scope, String> {
    Scope::from_word(text).ok_or_else(|| "expected viewer, operator or admin".to_owned())
}

/// The permission policies by their words, so that shells complete them.
pub fn policy() -> impl TypedValueParser<Value = Policy> {
    const POLICIES: [Policy; 4] = [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll];
    PossibleValuesParser::new(POLICIES.map(Policy::word)).map(|word| {
        // The parser before this one lets only the four words through.
        POLICIES.into_iter().find(|policy| policy.word() == word).unwrap_or(Policy::Deny)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_of_nothing_or_without_bounds_are_refused() {
        assert_eq!(usd("0.08"), Ok(NanoUsd(80_000_000)));
        assert_eq!(minutes("0.07"), Ok(4_200));
        assert_eq!((tokens("60000"), turns("3")), (Ok(60_000), Ok(3)));
        for text in ["0", "-1", "0.0000000001", "99999999999999999", "NaN", "inf", "x", ""] {
            assert!(usd(text).is_err() && minutes(text).is_err(), "{text}");
            assert!(tokens(text).is_err() && turns(text).is_err(), "{text}");
        }
    }
}
