//! What this agent's words mean. Errors of the provider begin with their status, as in `429 Rate limit
//! reached`; what is common to all providers is asked of `provider`. Its retries are not told at all.

use crate::{ExitEvidence, headless, provider};
use contract::Code;

/// Words of the agent itself, not of a provider.
const WORDS: &[(&str, Code)] = &[
    ("content moderation", Code::ModelRefusal),
    ("insufficient permission", Code::PermissionDenied),
    ("factory_api_key", Code::AuthRequired),
];

/// Words by which the conversation that was to be taken up is not known.
pub(super) const SESSION_UNKNOWN: &[&str] = &["session not found"];

/// The meaning of an error.
pub(super) fn of(text: &str) -> Code {
    let status = || text.split_once(' ').and_then(|(status, _)| provider::status(status));
    provider::in_words(text, WORDS)
        .or_else(|| provider::of(status(), text))
        .unwrap_or(Code::UpstreamError)
}

/// What the last words mean when nothing told the end.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    headless::at_exit(evidence, SESSION_UNKNOWN, WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::Droid;
    use super::*;
    use crate::trial;

    #[test]
    fn every_error_has_its_code() {
        let rows = [
            ("401 Incorrect API key provided: x", Code::AuthFailed),
            ("400 You have insufficient credits.", Code::Billing),
            ("429 You exceeded your current quota, please check your plan", Code::ProviderQuota),
            ("429 slow down", Code::RateLimited),
            ("503 no", Code::Overloaded),
            ("404 no such model", Code::ModelNotFound),
            ("Overloaded", Code::Overloaded),
            ("failed due to the provider's content moderation policy", Code::ModelRefusal),
            ("Exec ended early: insufficient permission to proceed.", Code::PermissionDenied),
            ("Connection error.", Code::UpstreamError),
            ("", Code::UpstreamError),
        ];
        for (text, expected) in rows {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn an_exit_says_something_only_by_its_words() {
        let rows = [
            (Some(1), "Session not found: x", Some(Code::NativeSessionUnknown)),
            (Some(1), "set a valid FACTORY_API_KEY", Some(Code::AuthRequired)),
            (Some(1), "", None),
            (Some(0), "set a valid FACTORY_API_KEY", None),
            (None, "set a valid FACTORY_API_KEY", None),
        ];
        trial::assert_exits_mean(&Droid, &rows);
    }
}
