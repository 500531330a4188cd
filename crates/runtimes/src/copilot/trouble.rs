//! What this agent's words mean. It names the kind of an error (`authentication`, `rate_limit`,
//! `query`), gives the provider's status where there was one, and says the rest in words. What is
//! common to all providers is asked of `provider`.

use crate::{ExitEvidence, headless, provider};
use contract::Code;

/// Words that are this agent's own, the more particular first.
const WORDS: &[(&str, Code)] = &[
    ("insufficient credits", Code::Billing),
    ("prompt as too long", Code::ContextOverflow),
    ("no response was returned", Code::EndedWithoutResult),
];

/// Last words of a run that never began.
const AT_EXIT: &[(&str, Code)] = &[
    ("no authentication information found", Code::AuthRequired),
    ("from --model flag is not available", Code::ModelNotFound),
];

/// Words by which the conversation that was to be taken up is not known.
pub(super) const SESSION_UNKNOWN: &[&str] = &[
    "no session or task matched",
    "no session, task, or name matched",
    "was found but could not be loaded",
];

/// The meaning of an error of the provider or of the agent itself.
pub(super) fn of(kind: Option<&str>, status: Option<u64>, text: &str) -> Code {
    provider::in_words(text, WORDS)
        .or_else(|| provider::of_words(text))
        .or_else(|| of_kind(kind?))
        .or_else(|| provider::of_status(status?))
        .unwrap_or(Code::UpstreamError)
}

fn of_kind(kind: &str) -> Option<Code> {
    match kind {
        "authentication" | "authorization" => Some(Code::AuthFailed),
        "quota" => Some(Code::ProviderQuota),
        "rate_limit" => Some(Code::RateLimited),
        "context_limit" => Some(Code::ContextOverflow),
        _ => None,
    }
}

/// What the last words mean when there was no result.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    headless::at_exit(evidence, SESSION_UNKNOWN, AT_EXIT)
}

#[cfg(test)]
mod tests {
    use super::super::Copilot;
    use super::*;
    use crate::trial;

    #[test]
    fn every_error_has_its_code() {
        let rows = [
            (Some("query"), Some(400), "400 You have insufficient credits.", Code::Billing),
            (
                Some("rate_limit"),
                Some(429),
                "429 You exceeded your current quota",
                Code::ProviderQuota,
            ),
            (Some("rate_limit"), Some(429), "slow down", Code::RateLimited),
            (Some("quota"), Some(402), "", Code::ProviderQuota),
            (Some("authentication"), None, "", Code::AuthFailed),
            (
                Some("query"),
                None,
                "The provider rejected the prompt as too long",
                Code::ContextOverflow,
            ),
            (
                Some("query"),
                None,
                "No response was returned. Send your message again",
                Code::EndedWithoutResult,
            ),
            (Some("query"), Some(503), "503", Code::Overloaded),
            (None, Some(500), "", Code::UpstreamError),
            (None, None, "", Code::UpstreamError),
        ];
        for (kind, status, text, expected) in rows {
            assert_eq!(of(kind, status, text), expected, "{kind:?} {status:?} {text}");
        }
    }

    #[test]
    fn an_exit_says_something_only_by_its_words() {
        let rows = [
            (Some(1), "Error: No session or task matched 'x'", Some(Code::NativeSessionUnknown)),
            (Some(1), "Error: No authentication information found.", Some(Code::AuthRequired)),
            (
                Some(1),
                "Error: Model \"x\" from --model flag is not available.",
                Some(Code::ModelNotFound),
            ),
            (Some(0), "Error: No authentication information found.", None),
            (None, "Error: No authentication information found.", None),
            (Some(1), "", None),
        ];
        trial::assert_exits_mean(&Copilot, &rows);
    }
}
