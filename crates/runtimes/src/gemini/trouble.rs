//! What this agent's words about its provider mean, on both streams and at the exit. It says "quota"
//! for a limit of a minute and for one of a day: whether it names a wait tells them apart. Pure
//! tables; what is common to all providers is asked of `provider`.

use crate::headless::says;
use crate::{ExitEvidence, provider};
use contract::Code;

/// Words of this agent, the more particular first.
const WORDS: &[(&str, Code)] = &[
    ("exhausted your", Code::ProviderQuota),
    ("terminalquotaerror", Code::ProviderQuota),
    ("retryablequotaerror: you exceeded", Code::RateLimited),
    ("please retry in", Code::RateLimited),
    ("suggested retry after", Code::RateLimited),
    ("exceeds the maximum number of tokens", Code::ContextOverflow),
    ("api key not valid", Code::AuthFailed),
    ("set an auth method", Code::AuthRequired),
    ("maximum session turns", Code::MaxTurns),
    ("max session turns", Code::MaxTurns),
];

/// Words by which the conversation that was to be taken up is not known.
pub(super) const SESSION_UNKNOWN: &[&str] =
    &["error resuming session", "invalid session identifier", "no previous sessions found"];

/// Beginnings of the lines of stderr that are about the provider; others may quote anything.
const ABOUT_THE_PROVIDER: [&str; 3] =
    ["Attempt ", "Error when talking to Gemini API", "Error generating content via API"];

/// A status of 400 and more leaves the process modulo 256: these exits are 400 to 511.
const EXIT_OF_STATUS: std::ops::RangeInclusive<i32> = 144..=255;

/// Exits that the agent documents: not logged in, and its own limit of turns.
const EXIT_AUTH: i32 = 41;
const EXIT_TURNS: i32 = 53;

/// The meaning of a message about the provider; `None` when its words tell nothing.
pub(super) fn of(text: &str) -> Option<Code> {
    with_status(status_in(text), text)
}

fn with_status(status: Option<u64>, text: &str) -> Option<Code> {
    provider::in_words(text, WORDS).or_else(|| provider::of(status, text))
}

/// Whether a line says that the conversation to be taken up is not known.
pub(super) fn session_unknown(line: &str) -> bool {
    says(line, SESSION_UNKNOWN)
}

/// Whether a line of stderr is about the provider.
pub(super) fn about_the_provider(line: &str) -> bool {
    ABOUT_THE_PROVIDER.iter().any(|words| line.starts_with(words))
}

/// What the exit means when no result was printed.
pub(super) fn at_exit(evidence: &ExitEvidence<'_>) -> Option<Code> {
    let exit = evidence.exit_code.filter(|exit| *exit != 0)?;
    let lines = || evidence.stderr_tail.lines();
    if lines().any(session_unknown) {
        return Some(Code::NativeSessionUnknown);
    }
    match exit {
        EXIT_AUTH => return Some(Code::AuthRequired),
        EXIT_TURNS => return Some(Code::MaxTurns),
        _ => {}
    }
    let last = lines().rfind(|line| about_the_provider(line));
    let status = EXIT_OF_STATUS.contains(&exit).then(|| exit.unsigned_abs() + 256).map(u64::from);
    match (status, last) {
        (None, None) => {
            lines().find_map(|line| of(line).filter(|code| *code == Code::AuthRequired))
        }
        (None, Some(line)) => Some(of(line).unwrap_or(Code::UpstreamError)),
        (Some(_), line) => with_status(status, line.unwrap_or_default()),
    }
}

/// The wait that a line names, as in `Retrying after 5466ms...`.
pub(super) fn wait_ms_in(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("Retrying after ")?;
    let (digits, _) = rest.split_once("ms")?;
    digits.trim().parse().ok()
}

/// The HTTP status that a message names: `"code":401`, or `status 503`.
fn status_in(text: &str) -> Option<u64> {
    let after = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        let rest = rest.trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        provider::status(&rest[..digits])
    };
    after("\"code\":").or_else(|| after("with status "))
}

#[cfg(test)]
mod tests {
    use super::super::Gemini;
    use super::*;
    use crate::trial;

    #[test]
    fn every_message_of_the_provider_has_its_code() {
        let rows = [
            ("You have exhausted your daily quota on this model.", Some(Code::ProviderQuota)),
            (
                "You exceeded your current quota, please check your plan and billing details. \
                 Please retry in 2s.",
                Some(Code::RateLimited),
            ),
            ("You exceeded your current quota.", Some(Code::ProviderQuota)),
            ("Attempt 1 failed with status 503. Retrying with backoff...", Some(Code::Overloaded)),
            (r#"{"error":{"code":500,"message":"An internal error"}}"#, Some(Code::UpstreamError)),
            (r#"{"error":{"code":403,"message":"no"}}"#, Some(Code::AuthFailed)),
            (
                r#"{"error":{"code": 404,"message":"models/x is not found"}}"#,
                Some(Code::ModelNotFound),
            ),
            (r#"{"error":{"code":99999999999999999999}}"#, None),
            ("[API Error: terminated]", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn an_exit_without_a_result_is_a_status_in_disguise() {
        let key = r#"Error when talking to Gemini API Full report available at: x _ApiError: {"error":{"code":400,"message":"Billing account is not active."}}"#;
        let rows = [
            (Some(0), "Error resuming session: Invalid session identifier \"x\".", None),
            (
                Some(42),
                "Error resuming session: Invalid session identifier \"x\".",
                Some(Code::NativeSessionUnknown),
            ),
            (Some(145), "", Some(Code::AuthFailed)),
            (Some(144), key, Some(Code::Billing)),
            (Some(173), "", Some(Code::RateLimited)),
            (
                Some(173),
                "Error when talking to Gemini API TerminalQuotaError: no",
                Some(Code::ProviderQuota),
            ),
            (Some(247), "", Some(Code::Overloaded)),
            (Some(41), "", Some(Code::AuthRequired)),
            (Some(53), "", Some(Code::MaxTurns)),
            (
                Some(1),
                "Error when talking to Gemini API TypeError: terminated",
                Some(Code::UpstreamError),
            ),
            (Some(1), "Please set an Auth method in your settings", Some(Code::AuthRequired)),
            // What a tool quoted is not what the provider said.
            (Some(1), "Error executing tool fetch: rate limit", None),
            (Some(1), "", None),
            (None, key, None),
        ];
        trial::assert_exits_mean(&Gemini, &rows);
    }

    #[test]
    fn a_wait_is_read_where_it_is_told() {
        assert_eq!(wait_ms_in("Suggested retry after 2s.. Retrying after 5466ms..."), Some(5466));
        assert_eq!(wait_ms_in("Attempt 1 failed. Retrying with backoff..."), None);
        assert_eq!(wait_ms_in("Retrying after 99999999999999999999999ms"), None);
    }
}
