//! What this agent's errors mean: by the name it gives them, then by the words and the status of the
//! provider, of which `provider` knows what is common to all. Its retries are not told at all. Pure
//! tables, no state.

use crate::provider::{self, in_words};
use crate::{ExitEvidence, headless};
use contract::Code;
use serde_json::Value;

/// Errors whose name alone tells what happened.
const NAMES: &[(&str, Code)] = &[
    ("ContextOverflowError", Code::ContextOverflow),
    ("ContentFilterError", Code::ModelRefusal),
    ("ProviderAuthError", Code::AuthRequired),
    ("ProviderModelNotFoundError", Code::ModelNotFound),
    ("MessageOutputLengthError", Code::AnswerCut),
    ("MessageAbortedError", Code::Cancelled),
];

/// Words of the agent itself, not of a provider.
const WORDS: &[(&str, Code)] = &[
    ("rejected permission", Code::PermissionDenied),
    ("rule which prevents you", Code::PermissionDenied),
    ("auto-rejected permission", Code::PermissionDenied),
    ("model not found", Code::ModelNotFound),
];

/// Words by which the conversation that was to be taken up is not known.
pub(super) const SESSION_UNKNOWN: &[&str] = &["session not found"];

/// The meaning of an error, and its words.
pub(super) fn of(error: &Value) -> (Code, String) {
    let (name, data) = (error["name"].as_str().unwrap_or_default(), &error["data"]);
    let message = error.as_str().or_else(|| data["message"].as_str()).unwrap_or(name).to_owned();
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    // The answer of the provider says more than the message that was made of it.
    let words = format!("{message}\n{}", data["responseBody"].as_str().unwrap_or_default());
    let code = named
        .or_else(|| in_words(&words, WORDS))
        .or_else(|| provider::of(data["statusCode"].as_u64(), &words))
        .unwrap_or(Code::UpstreamError);
    (code, message)
}

/// Whether a call failed because it was not permitted, and not because it went wrong.
pub(super) fn denied(error: &str) -> bool {
    in_words(error, WORDS) == Some(Code::PermissionDenied)
}

/// What the last words mean when no line told the end.
pub(crate) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    headless::at_exit(evidence, SESSION_UNKNOWN, WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::OpenCode;
    use super::*;
    use crate::trial;
    use serde_json::json;

    #[test]
    fn every_error_has_its_code_by_name_words_or_status() {
        let api = |status: u64, body: &str| json!({"name": "APIError", "data": {"message": "no", "statusCode": status, "responseBody": body}});
        let rows = [
            (json!({"name": "ContextOverflowError"}), Code::ContextOverflow),
            (json!({"name": "ContentFilterError"}), Code::ModelRefusal),
            (json!({"name": "ProviderAuthError"}), Code::AuthRequired),
            (json!({"name": "MessageAbortedError"}), Code::Cancelled),
            (api(401, ""), Code::AuthFailed),
            (api(429, ""), Code::RateLimited),
            (api(429, r#"{"type":"insufficient_quota"}"#), Code::ProviderQuota),
            (api(400, r#"{"code":"billing_hard_limit_reached"}"#), Code::Billing),
            (json!({"name": "UnknownError", "data": {"message": "Overloaded"}}), Code::Overloaded),
            (json!("run ended with an auto-rejected permission"), Code::PermissionDenied),
            (json!(null), Code::UpstreamError),
        ];
        for (error, expected) in rows {
            assert_eq!(of(&error).0, expected, "{error}");
        }
    }

    #[test]
    fn an_exit_says_something_only_by_its_words() {
        let rows = [
            (Some(1), "Error: Session not found", Some(Code::NativeSessionUnknown)),
            (Some(1), "Error: Model not found: a/b.", Some(Code::ModelNotFound)),
            (Some(0), "Error: Session not found", None),
            (Some(1), "", None),
            (None, "Error: Session not found", None),
        ];
        trial::assert_exits_mean(&OpenCode, &rows);
    }
}
