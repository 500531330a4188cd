//! What an agent's errors mean. A refusal has a code of JSON-RPC, of the protocol, or simply an HTTP
//! status, and free words in its message and its data; the words tell most. Some agents end a turn
//! well after their model failed and only say so in text: which of them do, and how it is known, is
//! told by their own folders (`lane::Confession`). Reads no clock.

use super::lane::Confession;
use super::wire::Refusal;
use crate::{provider, registry};
use contract::Code;
use serde_json::Value;

/// What the protocol calls a missing login.
const AUTH_REQUIRED: i64 = -32_000;
/// What JSON-RPC itself complains of: not JSON, no request, no such method, wrong parameters.
const UNSPOKEN: [i64; 4] = [-32_700, -32_600, -32_601, -32_602];
/// Errors of a wish for a model that a run survives: the agent goes on with its own choice.
const MODEL_SURVIVES: [i64; 4] = [-32_603, -32_602, -32_601, -32_002];

/// Phrases of these agents, before those that all agents share.
const PHRASES: &[(&str, Code)] = &[
    ("contextoverflow", Code::ContextOverflow),
    ("exceeds model limit", Code::ContextOverflow),
    ("exceeds the maximum number of tokens", Code::ContextOverflow),
    ("prompt as too long", Code::ContextOverflow),
];

/// Words with which a line tells that the provider limits the rate.
const LIMIT_WORDS: [&str; 4] = ["rate_limit", "rate limit", "http 429", "too many requests"];
/// Words of a line that tells how much of a limit is left.
const NOTICE_WORDS: [&str; 3] = ["used_percent", "remaining", "\"allowed\""];
/// Words of a line about a request that is sent again.
const RETRY_WORDS: [&str; 4] = ["retry", "retries", "attempt", "backoff"];
/// The longest line that is read for them: a longer one may quote a conversation.
const LIMIT_NOTICE_BYTES_MAX: usize = 2048;

/// Whether a line that the protocol does not have tells that the provider limits the rate. A notice of
/// how much is left names the limit too, and is none.
pub(super) fn tells_limit(line: &str) -> bool {
    let Some(line) = Some(line).filter(|line| line.len() <= LIMIT_NOTICE_BYTES_MAX) else {
        return false;
    };
    let lower = line.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    says(&LIMIT_WORDS) && !says(&NOTICE_WORDS)
}

/// Whether a line of a log tells that a request is sent again because the provider limits the rate.
pub(super) fn tells_retry(line: &str) -> bool {
    let lower = line.to_lowercase();
    tells_limit(line) && RETRY_WORDS.iter().any(|word| lower.contains(word))
}

/// What a refusal means; `None` of the words and the code alike is the agent's own failure.
pub(super) fn code(refusal: &Refusal) -> Code {
    let number = refusal.code.unwrap_or_default();
    if number == AUTH_REQUIRED {
        return Code::AuthRequired;
    }
    let text = said(refusal);
    let status = u64::try_from(number).ok().filter(|status| (400..600).contains(status));
    of_text(status, &text).unwrap_or(match UNSPOKEN.contains(&number) {
        true => Code::ProtocolError,
        false => Code::AgentFailed,
    })
}

/// What free words mean, with a status that is known or stands among them.
pub(super) fn of_text(status: Option<u64>, text: &str) -> Option<Code> {
    let lower = text.to_lowercase();
    let phrase = PHRASES.iter().find(|(phrase, _)| lower.contains(phrase)).map(|(_, code)| *code);
    phrase.or_else(|| provider::of(status.or_else(|| status_in(&lower)), &lower))
}

/// A number of three digits that stands where agents put a status: first, or after that word.
fn status_in(lower: &str) -> Option<u64> {
    let words = ["http ", "status: ", "status ", "error: "];
    let after = words
        .iter()
        .flat_map(|word| lower.match_indices(word).map(|(at, _)| &lower[at + word.len()..]));
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|number| (400..600).contains(number))
    };
    std::iter::once(lower).chain(after).find_map(number)
}

/// Everything a refusal says.
pub(super) fn said(refusal: &Refusal) -> String {
    let data = match &refusal.data {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Null) | None => None,
        Some(data) => Some(data.to_string()),
    };
    let parts: Vec<_> = refusal.message.iter().chain(&data).map(String::as_str).collect();
    parts.join(": ")
}

/// Whether a wish for a model was refused in a way that the run survives.
pub(super) fn model_survives(refusal: &Refusal) -> bool {
    refusal.code.is_some_and(|code| MODEL_SURVIVES.contains(&code))
}

/// Whether this agent may tell the history of a session after it said that the session is open.
pub(super) fn tells_late(agent: Option<&str>) -> bool {
    let mut late = registry::by_acp().iter().filter_map(|laned| laned.aside.tells_late);
    agent.is_some_and(|agent| late.any(|name| name == agent))
}

/// Whether this agent confesses a failure of its model by such a text.
pub(super) fn confesses(agent: Option<&str>, text: &str) -> bool {
    confession(agent).is_some_and(|confession| text.starts_with(confession.failure))
}

/// Whether this is a remark of the agent's own and no word of the model.
pub(super) fn remarks(agent: Option<&str>, text: &str) -> bool {
    confession(agent).is_some_and(|confession| text.starts_with(confession.remark))
}

/// How the agent of this name confesses, if it does.
fn confession(agent: Option<&str>) -> Option<Confession> {
    let agent = agent?;
    let mut all = registry::by_acp().iter().filter_map(|laned| laned.aside.confession);
    all.find(|confession| confession.agent == agent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_refusal_has_its_code() {
        let rows = [
            (-32_000, "Authentication required", Value::Null, Code::AuthRequired),
            (401, r#"{"error":{"code":401,"message":"no"}}"#, Value::Null, Code::AuthFailed),
            (
                -32_603,
                "Internal error: Agent error",
                json!("429 Slow down, please"),
                Code::RateLimited,
            ),
            (-32_603, "Internal error: Rate limit reached for x", Value::Null, Code::RateLimited),
            (
                -32_603,
                "Internal error: too large",
                json!({ "errorName": "ContextOverflowError" }),
                Code::ContextOverflow,
            ),
            (-32_601, "Method not found", Value::Null, Code::ProtocolError),
            (-32_603, "Internal error", json!({ "details": "odd" }), Code::AgentFailed),
        ];
        for (number, message, data, expected) in rows {
            let message = Some(message.to_owned());
            let refusal = Refusal { code: Some(number), message, data: Some(data) };
            assert_eq!(code(&refusal), expected, "{refusal:?}");
        }
    }

    #[test]
    fn a_text_that_begins_like_an_error_counts_only_of_agents_that_confess_so() {
        assert!(confesses(Some("Copilot"), "Error: 429 Rate limit reached"));
        assert!(!confesses(Some("Copilot"), "An Error: 429"));
        assert!(!confesses(Some("another"), "Error: 429 Rate limit reached"));
        assert!(!confesses(None, "Error: 429"));
        assert!(remarks(Some("Copilot"), "Info: Operation cancelled by user"));
    }
}
