//! What this agent's words mean, in its document and on stderr. None of its failures was recorded,
//! so they are read by the words that all providers share, and by a few of its own that others told
//! of.

use crate::provider::{self, in_words};
use crate::{ExitEvidence, headless};
use contract::Code;
use contract::event::StopReason;
use serde_json::Value;

/// Words that are this agent's own, the more particular first.
const WORDS: &[(&str, Code)] = &[
    ("appears to have disappeared", Code::BadWorkspace),
    ("no api key found", Code::AuthRequired),
    ("unknown model", Code::ModelNotFound),
    ("insufficient credits", Code::Billing),
    ("context overflow", Code::ContextOverflow),
    ("context_overflow", Code::ContextOverflow),
    ("compaction_failure", Code::ContextOverflow),
    ("model_not_found", Code::ModelNotFound),
];

/// The meaning of an error in its document, which is a text or an object with a kind and words.
pub(super) fn of(error: &Value) -> (Code, String) {
    let part = |name: &str| headless::part(error, name).unwrap_or_default();
    let words = match error {
        Value::String(words) => words.clone(),
        _ => part("message").to_owned(),
    };
    let kind = part("kind");
    let code = in_words(&words, WORDS).or_else(|| provider::of_words(&words));
    let code = code.or_else(|| in_words(kind, WORDS)).or_else(|| provider::of_words(kind));
    let code = code.or((kind == "auth").then_some(Code::AuthFailed));
    (code.unwrap_or(Code::AgentFailed), words)
}

/// What the reason of an end means.
pub(super) fn of_end(reason: Option<&str>) -> (StopReason, Option<Code>) {
    match reason {
        Some("stop" | "end_turn") => (StopReason::EndTurn, None),
        Some("length" | "max_tokens") => (StopReason::MaxTokens, Some(Code::AnswerCut)),
        Some("refusal" | "content_filter") => (StopReason::Refusal, Some(Code::ModelRefusal)),
        Some("aborted") => (StopReason::Cancelled, Some(Code::Cancelled)),
        Some("error") => (StopReason::Error, Some(Code::UpstreamError)),
        Some(_) | None => (StopReason::Error, Some(Code::EndedWithoutResult)),
    }
}

/// What the last words mean when there was no document.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    headless::at_exit(evidence, &[], WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::Openclaw;
    use super::*;
    use crate::trial;
    use serde_json::json;

    #[test]
    fn every_error_has_its_code() {
        let rows = [
            (json!({"message": "Rate limit reached"}), Code::RateLimited),
            (json!({"message": "x", "kind": "rate_limit"}), Code::RateLimited),
            (json!({"message": "x", "kind": "auth"}), Code::AuthFailed),
            (json!({"message": "x", "kind": "context_overflow"}), Code::ContextOverflow),
            (json!("No API key found for provider \"x\""), Code::AuthRequired),
            (json!("workspace /w appears to have disappeared"), Code::BadWorkspace),
            (json!({"message": "something"}), Code::AgentFailed),
            (json!({}), Code::AgentFailed),
            (json!(7), Code::AgentFailed),
        ];
        for (error, expected) in rows {
            assert_eq!(of(&error).0, expected, "{error}");
        }
    }

    #[test]
    fn an_exit_says_something_only_by_its_words() {
        let rows = [
            (Some(1), "Error: workspace appears to have disappeared", Some(Code::BadWorkspace)),
            (Some(1), "[memory] sync failed", None),
            (Some(0), "Error: workspace appears to have disappeared", None),
            (None, "Error: workspace appears to have disappeared", None),
        ];
        trial::assert_exits_mean(&Openclaw, &rows);
    }
}
