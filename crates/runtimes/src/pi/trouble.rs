//! What this agent's words mean. Errors of the provider begin with their status, as in `429: {…}`;
//! the exit is 0 after all of them. What is common to all providers is asked of `provider`.

use crate::{ExitEvidence, headless, provider};
use contract::Code;

/// Words that mean something else here than elsewhere, the more particular first.
const WORDS: &[(&str, Code)] =
    &[("no api key found", Code::AuthRequired), ("content_filter", Code::ModelRefusal)];

/// Last words of a run that never began.
const AT_EXIT: &[(&str, Code)] = &[("no api key found", Code::AuthRequired)];

/// Words by which the conversation that was to be taken up is not known.
pub(super) const SESSION_UNKNOWN: &[&str] = &["no session found"];

/// The meaning of an error of the provider.
pub(super) fn of(text: &str) -> Code {
    let status = || text.split_once(':').and_then(|(status, _)| provider::status(status));
    provider::in_words(text, WORDS)
        .or_else(|| provider::of(status(), text))
        .unwrap_or(Code::UpstreamError)
}

/// What the last words mean when it did not settle.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    headless::at_exit(evidence, SESSION_UNKNOWN, AT_EXIT)
}

#[cfg(test)]
mod tests {
    use super::super::Pi;
    use super::*;
    use crate::trial;

    #[test]
    fn every_error_of_the_provider_has_its_code() {
        let rows = [
            (r#"401: {"message":"Incorrect API key provided"}"#, Code::AuthFailed),
            (
                r#"400: {"type":"insufficient_quota","code":"billing_hard_limit_reached"}"#,
                Code::Billing,
            ),
            (r#"429: {"type":"insufficient_quota"}"#, Code::ProviderQuota),
            (r#"429: {"message":"slow down"}"#, Code::RateLimited),
            ("503: {}", Code::Overloaded),
            ("404: no such model", Code::ModelNotFound),
            ("Provider finish_reason: content_filter", Code::ModelRefusal),
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
            (Some(1), "No session found matching 'x'", Some(Code::NativeSessionUnknown)),
            (Some(1), "No API key found for anthropic.", Some(Code::AuthRequired)),
            (Some(0), "No session found matching 'x'", None),
            (Some(143), "", None),
            (None, "No API key found for anthropic.", None),
        ];
        trial::assert_exits_mean(&Pi, &rows);
    }
}
