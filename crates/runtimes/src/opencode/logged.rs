//! Reads the log that this agent and those made from it write to stderr with `--print-logs`: one line
//! of `name=value` pairs for each entry. Only the errors of the model's own stream are of interest,
//! because each of them is a retry that nothing on stdout tells. Errors of the small model, which
//! makes titles, are not: it may be of another provider, and the run goes on without it.

use crate::provider;
use crate::reset;
use contract::Code;
use contract::reset::Reset;

/// The message of an entry about a request that failed.
const STREAM_ERROR: &str = "message=\"stream error\"";
/// The field that holds the error.
const ERROR: &str = " error.error=";
/// The name that the library for models gives such an error.
const ERROR_NAMES: [&str; 2] = ["AI_APICallError: ", "AI_RetryError: "];

/// A failed request that the agent sends again by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub code: Code,
    /// The provider's words.
    pub said: String,
    /// How long the provider says to wait.
    pub wait_ms: Option<u64>,
}

/// Whether a line of stderr is an entry of the log.
pub(crate) fn is_entry(line: &str) -> bool {
    line.starts_with("timestamp=") && line.contains(" level=")
}

/// The retry that a line of stderr tells; `None` of every other line.
pub(crate) fn retry(line: &str) -> Option<Retry> {
    if !is_entry(line) || !line.contains(STREAM_ERROR) || line.contains(" small=true ") {
        return None;
    }
    let (_, value) = line.split_once(ERROR)?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter::<String>();
    let said = values.next().and_then(Result::ok).unwrap_or_else(|| value.to_owned());
    let said = ERROR_NAMES.iter().find_map(|name| said.strip_prefix(name)).unwrap_or(&said);
    let code = provider::of_words(said).unwrap_or(Code::UpstreamError);
    let wait_ms = match reset::read(said) {
        Some(Reset::After { ms }) => Some(ms),
        Some(Reset::At(_) | Reset::Clock(_)) | None => None,
    };
    // A quota that a provider names with a wait is judged by that wait.
    let code = match (code, wait_ms) {
        (Code::ProviderQuota, Some(_)) => Code::RateLimited,
        (code, _) => code,
    };
    Some(Retry { code, said: said.to_owned(), wait_ms })
}

impl Retry {
    /// Whether the agent is held back by its provider. Other errors are tried again a few times
    /// within two minutes, and the last one is told on stdout.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self.code, Code::RateLimited | Code::ProviderQuota)
    }

    /// Whether waiting is in vain: of a used-up quota without a wait this agent keeps the provider's
    /// `retry-after`, hours too, without a word.
    pub(crate) fn is_terminal(&self) -> bool {
        self.code == Code::ProviderQuota
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(small: bool, error: &str) -> String {
        format!(
            "timestamp=2026-11-19T22:36:06.970Z level=ERROR run=7e1cbdf6 message=\"stream error\" \
             providerID=scripted modelID=fake-model session.id=ses_x small={small} agent=build \
             mode=primary error.error={}",
            serde_json::Value::from(error)
        )
    }

    #[test]
    fn errors_of_the_stream_are_retries() {
        let quota = "You exceeded your current quota, please check your plan and billing details.";
        let rows = [
            (format!("AI_APICallError: {quota}"), Code::ProviderQuota, None, true),
            (
                format!("AI_APICallError: {quota} Please retry in 20s."),
                Code::RateLimited,
                Some(20_000),
                false,
            ),
            (
                "AI_APICallError: Rate limit reached. Please try again in 2h.".to_owned(),
                Code::RateLimited,
                Some(7_200_000),
                false,
            ),
            (
                "AI_APICallError: The server had an error".to_owned(),
                Code::UpstreamError,
                None,
                false,
            ),
            (
                "AI_APICallError: currently overloaded \"x\"".to_owned(),
                Code::Overloaded,
                None,
                false,
            ),
        ];
        for (error, code, wait_ms, terminal) in rows {
            let retry = retry(&line(false, &error)).unwrap();
            assert_eq!((retry.code, retry.wait_ms, retry.is_terminal()), (code, wait_ms, terminal));
            assert!(error.ends_with(&retry.said), "{error}: {}", retry.said);
        }
    }

    #[test]
    fn other_lines_are_no_retries() {
        let small = line(true, "AI_APICallError: You exceeded your current quota");
        let info = line(false, "AI_APICallError: x").replace("stream error", "process");
        let quoted = format!("tool said: {}", line(false, "You exceeded your current quota"));
        for line in
            [small.as_str(), &info, &quoted, "", "You exceeded your current quota", "timestamp="]
        {
            assert_eq!(retry(line), None, "{line}");
        }
    }
}
