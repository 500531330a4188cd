//! What this agent's words mean. Its failures are one line in plain words, on stderr by its
//! documentation and on standard output by reports of others, and an exit of 1 for all of them.
//! What is common to all providers is asked of `provider`.

use crate::{ExitEvidence, provider};
use contract::Code;

/// Words that mean something here, the more particular first. A plan that does not include a model
/// is the same to a run as a model that does not exist.
const WORDS: &[(&str, Code)] = &[
    ("cannot use this model", Code::ModelNotFound),
    ("named models unavailable", Code::ModelNotFound),
    ("authentication required", Code::AuthRequired),
    ("press any key to sign in", Code::AuthRequired),
    ("api key is invalid", Code::AuthFailed),
];

/// The meaning of a line that is no line of the protocol; `None` when it tells nothing.
pub(super) fn of(line: &str) -> Option<Code> {
    provider::in_words(line, WORDS).or_else(|| provider::of_words(line))
}

/// What the last words mean when there was no result: the first line that says something.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    evidence.exit_code.filter(|exit| *exit != 0)?;
    evidence.stderr_tail.lines().find_map(of)
}
