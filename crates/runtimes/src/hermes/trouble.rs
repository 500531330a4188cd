//! What this agent's words mean. It prints what went wrong in place of the answer, as in
//! `HTTP 401: …`; the report says only that something did. What is common to all providers is asked
//! of `provider`.

use crate::acp::lane::ToldRetry;
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

/// What its log on stderr says before it waits, by ACP: `Retrying API call in 600s (attempt 1/3) …
/// error=…`. The one-shot mode switches its log off.
const RETRYING: &str = " agent.conversation_loop: Retrying API call in ";
const ERROR: &str = " error=";

/// The retry that a line of its log tells.
pub(super) fn retry(line: &str) -> Option<ToldRetry> {
    let (_, told) = line.split_once(RETRYING)?;
    let (wait, told) = told.split_once("s (attempt ")?;
    let (_, said) = told.split_once(ERROR)?;
    let wait_ms = wait.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0);
    // The cast saturates: an absurdly long wait is the longest there is.
    let wait_ms = wait_ms.map(|seconds| (seconds * 1000.0) as u64);
    let status = said.strip_prefix("Error code: ").and_then(|code| code.split_once(" - "));
    let status = status.and_then(|(code, _)| provider::status(code));
    let code = provider::of(status, said).unwrap_or(Code::UpstreamError);
    let is_limit = matches!(code, Code::RateLimited | Code::ProviderQuota);
    Some(ToldRetry { code, said: said.to_owned(), wait_ms, is_limit, terminal: false })
}

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
