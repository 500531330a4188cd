//! What this agent's words mean. It prints what went wrong in place of the answer, as in
//! `HTTP 401: …`; the report says only that something did. What is common to all providers is asked
//! of `provider`.

use crate::{ExitEvidence, provider};
use contract::Code;

/// Words that mean something here, the more particular first.
const WORDS: &[(&str, Code)] = &[
    ("model declined to respond", Code::ModelRefusal),
    ("no inference provider configured", Code::AuthRequired),
    ("no llm provider configured", Code::AuthRequired),
];

/// How it says that the model gave it nothing, and calls the task completed all the same.
const NO_REPLY: &str = "⚠️ No reply:";

/// The meaning of a failure.
pub(super) fn of(words: &str) -> Code {
    known(words).unwrap_or(Code::AgentFailed)
}

/// The meaning of an answer that is none.
pub(super) fn in_place_of_an_answer(answer: &str) -> Option<Code> {
    answer.starts_with(NO_REPLY).then_some(Code::EndedWithoutResult)
}

/// What the last words mean when there was no report.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    evidence.exit_code.filter(|exit| *exit != 0)?;
    evidence.stderr_tail.lines().rev().find_map(|line| known(line.strip_prefix("hermes -z: ")?))
}

fn known(words: &str) -> Option<Code> {
    // As in `HTTP 401: …`.
    let status = || words.strip_prefix("HTTP ")?.split_once(':');
    let status = || provider::status(status()?.0);
    provider::in_words(words, WORDS).or_else(|| provider::of(status(), words))
}
