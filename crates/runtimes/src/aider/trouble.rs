//! What this agent's words mean. Errors of the provider begin with the name of their class, as in
//! `litellm.RateLimitError: …`, and stand where the answer would; the exit is 0 after all of them.
//! What is common to all providers is asked of `provider`.

use crate::{ExitEvidence, provider};
use contract::Code;

/// Names of classes.
const CLASSES: &[(&str, Code)] = &[
    ("AuthenticationError", Code::AuthFailed),
    ("PermissionDeniedError", Code::AuthFailed),
    ("RateLimitError", Code::RateLimited),
    ("ContextWindowExceededError", Code::ContextOverflow),
    ("NotFoundError", Code::ModelNotFound),
    ("ServiceUnavailableError", Code::Overloaded),
    ("ContentPolicyViolationError", Code::ModelRefusal),
];

/// Of the context or of the answer: it does not say which.
const LIMIT_OF_TOKENS: &str = "has hit a token limit";

/// Words that are no error of the provider, and end the work all the same.
const WORDS: &[(&str, Code)] = &[
    (LIMIT_OF_TOKENS, Code::ContextOverflow),
    ("No LLM model was specified and no API keys were provided", Code::AuthRequired),
    ("Missing these environment variables", Code::AuthRequired),
    ("Empty response received from LLM", Code::EndedWithoutResult),
];

/// The meaning of a line that tells of an error; `None` for any other line.
pub(super) fn of(line: &str) -> Option<Code> {
    if let Some(error) = line.strip_prefix("litellm.") {
        let class = CLASSES.iter().find(|(name, _)| error.starts_with(name));
        let class = class.map(|(_, code)| *code);
        return Some(provider::of_words(error).or(class).unwrap_or(Code::UpstreamError));
    }
    WORDS.iter().find(|(words, _)| line.contains(words)).map(|(_, code)| *code)
}

pub(super) fn is_limit_of_tokens(line: &str) -> bool {
    line.contains(LIMIT_OF_TOKENS)
}

/// The wait in `Retrying in 0.2 seconds...`.
pub(super) fn wait_ms(line: &str) -> Option<u64> {
    let seconds = line.strip_prefix("Retrying in ")?.strip_suffix(" seconds...")?;
    let seconds: f64 = seconds.parse().ok()?;
    (0.0..86_400.0).contains(&seconds).then_some((seconds * 1000.0) as u64)
}

/// Its exits say nothing; what is wrong before the first message may be told on stderr alone.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    evidence.exit_code.filter(|exit| *exit != 0)?;
    evidence.stderr_tail.lines().rev().find_map(of)
}
