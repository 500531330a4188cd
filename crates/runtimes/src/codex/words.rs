//! What the agent's free words about its provider mean. It puts everything into one message: its own
//! phrases, HTTP statuses, and bodies of answers as raw JSON text. The newer shape adds a word of
//! its own (`codexErrorInfo`), which is asked first. Reads no clock: a time of day without a date is
//! left alone, and only spans become a wait.

use crate::provider;
use contract::Code;
use serde_json::Value;

/// Phrases of this agent, before those that all agents share: a body about credits names a quota
/// too, and a cut stream may quote anything.
const PHRASES: &[(&str, Code)] = &[
    ("billing_hard_limit", Code::Billing),
    ("insufficient credits", Code::Billing),
    ("at capacity", Code::Overloaded),
    ("high demand", Code::Overloaded),
    ("reason: max_output_tokens", Code::AnswerCut),
    ("reason: content_filter", Code::ModelRefusal),
    ("model is not supported", Code::ModelNotFound),
];

/// Phrases about a connection, after everything that says more.
const CONNECTION: &[&str] = &[
    "stream disconnected",
    "waiting for network",
    "connection failed",
    "error sending request",
    "reconnecting",
];

/// Words that say that a thread to be taken up is not there.
const UNKNOWN_THREAD: &[&str] =
    &["no rollout found", "thread not found", "conversation not found", "invalid thread id"];

/// What a trouble means; a turn that failed for an unknown reason is the agent's own failure.
pub(super) fn code(text: &str, info: Option<&Value>) -> Code {
    let lower = text.to_lowercase();
    let phrase = PHRASES.iter().find(|(phrase, _)| lower.contains(phrase)).map(|(_, code)| *code);
    let connection = || CONNECTION.iter().any(|phrase| lower.contains(phrase));
    info.and_then(named)
        .or(phrase)
        .or_else(|| provider::of(status(&lower), text))
        .or_else(|| connection().then_some(Code::UpstreamError))
        .unwrap_or(Code::AgentFailed)
}

/// What the agent's own word for a trouble means, or the status that it holds.
fn named(info: &Value) -> Option<Code> {
    let word = match info {
        Value::String(word) => word.as_str(),
        Value::Object(fields) => {
            let held = fields.values().find_map(|held| held.get("httpStatusCode")?.as_u64());
            return held.and_then(provider::of_status);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    match word {
        "contextWindowExceeded" => Some(Code::ContextOverflow),
        "usageLimitExceeded" => Some(Code::ProviderQuota),
        "serverOverloaded" => Some(Code::Overloaded),
        "unauthorized" => Some(Code::AuthFailed),
        "internalServerError" => Some(Code::UpstreamError),
        _ => None,
    }
}

/// The number after `status`, which stands before the words of the answer.
fn status(lower: &str) -> Option<u64> {
    let (_, after) = lower.split_once("status")?;
    let digits: String = after
        .trim_start_matches([':', ' '])
        .chars()
        .take_while(char::is_ascii_digit)
        .take(3)
        .collect();
    digits.parse().ok()
}

/// Whether the agent says that it tries again by itself.
pub(super) fn tries_again(text: &str) -> bool {
    text.starts_with("Reconnecting")
}

/// Whether a thread that was to be taken up is not known.
pub(super) fn thread_unknown(text: &str) -> bool {
    let lower = text.to_lowercase();
    UNKNOWN_THREAD.iter().any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_phrase_has_its_code() {
        let rows = [
            ("unexpected status 401 Unauthorized: Incorrect API key", None, Code::AuthFailed),
            ("exceeded retry limit, last status: 429 Too Many Requests", None, Code::RateLimited),
            ("You've hit your usage limit. Try again in 2 hours.", None, Code::ProviderQuota),
            ("Quota exceeded. Check your plan and billing details.", None, Code::ProviderQuota),
            ("unexpected status 500: odd", None, Code::UpstreamError),
            ("Reconnecting... waiting for network (odd)", None, Code::UpstreamError),
            ("Reconnecting... 1/5", None, Code::UpstreamError),
            ("something else", None, Code::AgentFailed),
            ("any", Some(json!("usageLimitExceeded")), Code::ProviderQuota),
            (
                "any",
                Some(json!({"httpConnectionFailed": {"httpStatusCode": 503}})),
                Code::Overloaded,
            ),
            ("at capacity", Some(json!("other")), Code::Overloaded),
        ];
        for (text, info, expected) in rows {
            assert_eq!(code(text, info.as_ref()), expected, "{text} {info:?}");
        }
    }
}
