//! Values of arguments: durations, amounts, scopes, policies. Each parser's error says what is
//! expected.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use contract::plan::Limit;
use contract::{Policy, Scope, Timestamp};

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
