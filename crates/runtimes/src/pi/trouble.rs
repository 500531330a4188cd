//! What this agent's words mean. Errors of the provider begin with their status, as in `429: {…}`;
//! the exit is 0 after all of them. What is common to all providers is asked of `provider`.

use crate::{ExitEvidence, provider};
use contract::Code;

/// Words that mean something else here than elsewhere, the more particular first.
const WORDS: &[(&str, Code)] =
    &[("no api key found", Code::AuthRequired), ("content_filter", Code::ModelRefusal)];

/// Words by which the conversation that was to be taken up is not known.
const SESSION_UNKNOWN: &str = "no session found";

/// The meaning of an error of the provider.
pub(super) fn of(text: &str) -> Code {
    in_words(text).or_else(|| provider::of(status_in(text), text)).unwrap_or(Code::UpstreamError)
}

fn in_words(text: &str) -> Option<Code> {
    let text = text.to_lowercase();
    WORDS.iter().find(|(words, _)| text.contains(words)).map(|(_, code)| *code)
}

/// Whether a line says that the conversation to be taken up is not known.
pub(super) fn session_unknown(line: &str) -> bool {
    line.to_lowercase().contains(SESSION_UNKNOWN)
}

/// What the last words mean when it did not settle.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    evidence.exit_code.filter(|exit| *exit != 0)?;
    if evidence.stderr_tail.lines().any(session_unknown) {
        return Some(Code::NativeSessionUnknown);
    }
    in_words(evidence.stderr_tail).filter(|code| *code == Code::AuthRequired)
}

fn status_in(text: &str) -> Option<u64> {
    let (status, _) = text.split_once(':')?;
    status.trim().parse().ok().filter(|status| (100..600).contains(status))
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
