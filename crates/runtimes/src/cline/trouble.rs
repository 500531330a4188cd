//! What this agent's words mean. It names the class of an error (`auth`, mostly `unknown`) and gives
//! the provider's words without its status. What is common to all providers is asked of `provider`.

use crate::{ExitEvidence, headless, provider};
use contract::Code;
use contract::event::StopReason;

/// Words that are this agent's own, the more particular first.
const WORDS: &[(&str, Code)] =
    &[("insufficient credits", Code::Billing), ("insufficient balance", Code::Billing)];

/// Last words of a run that never began.
const AT_EXIT: &[(&str, Code)] = &[
    ("not authenticated", Code::AuthRequired),
    ("authentication required", Code::AuthRequired),
    ("missing api key", Code::AuthRequired),
    ("requires a prompt argument", Code::Usage),
];

/// The meaning of an error of the provider.
pub(super) fn of(class: Option<&str>, text: &str) -> Code {
    provider::in_words(text, WORDS)
        .or_else(|| provider::of_words(text))
        .or(match class {
            Some("auth") => Some(Code::AuthFailed),
            Some("rate_limit") => Some(Code::RateLimited),
            Some("context_window" | "context_length") => Some(Code::ContextOverflow),
            Some(_) | None => None,
        })
        .unwrap_or(Code::UpstreamError)
}

/// What the reason of an end means, with the code of the error that was told before.
pub(super) fn of_end(reason: Option<&str>, failed: Option<Code>) -> (StopReason, Option<Code>) {
    match reason {
        Some("completed") => (StopReason::EndTurn, None),
        Some("aborted") => (StopReason::Cancelled, Some(Code::Cancelled)),
        Some("max_iterations" | "mistake_limit") => (StopReason::MaxTurns, Some(Code::MaxTurns)),
        Some("error") => (StopReason::Error, Some(failed.unwrap_or(Code::UpstreamError))),
        Some(_) | None => (StopReason::Error, Some(failed.unwrap_or(Code::AgentFailed))),
    }
}

/// What the last words mean when there was no result.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    headless::at_exit(evidence, &[], AT_EXIT)
}

#[cfg(test)]
mod tests {
    use super::super::Cline;
    use super::*;
    use crate::trial;

    #[test]
    fn every_error_has_its_code() {
        let rows = [
            (Some("auth"), "Incorrect API key provided: x", Code::AuthFailed),
            (Some("auth"), "", Code::AuthFailed),
            (Some("unknown"), "Rate limit reached for m", Code::RateLimited),
            (Some("unknown"), "The server is currently overloaded", Code::Overloaded),
            (Some("unknown"), "You have insufficient credits.", Code::Billing),
            (Some("unknown"), "JSON parsing failed", Code::UpstreamError),
            (None, "", Code::UpstreamError),
        ];
        for (class, text, expected) in rows {
            assert_eq!(of(class, text), expected, "{class:?} {text}");
        }
    }

    #[test]
    fn an_exit_says_something_only_by_its_words() {
        let rows = [
            (Some(1), "Not authenticated. Run cline auth.", Some(Code::AuthRequired)),
            (Some(0), "Not authenticated. Run cline auth.", None),
            (None, "Not authenticated. Run cline auth.", None),
            (Some(1), "", None),
        ];
        trial::assert_exits_mean(&Cline, &rows);
    }
}
