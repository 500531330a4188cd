//! What the makers of models answer when they do not answer: HTTP statuses and the words around
//! them, as faults. Dialects ask here, so that the same trouble has the same code whichever agent
//! ran into it. Reads no clock: times until a reset come out as they were told.

use contract::Code;

/// What an HTTP status of a model's provider means; `None` for one that is no trouble.
pub fn of_status(status: u64) -> Option<Code> {
    match status {
        200..=399 => None,
        401 => Some(Code::AuthFailed),
        402 => Some(Code::Billing),
        403 => Some(Code::AuthFailed),
        404 => Some(Code::ModelNotFound),
        413 => Some(Code::ContextOverflow),
        429 => Some(Code::RateLimited),
        503 | 529 => Some(Code::Overloaded),
        _ => Some(Code::UpstreamError),
    }
}

/// Words that tell one trouble from another, the more particular first: a quota answer says "429"
/// too, and a context that is too long is a bad request.
const WORDS: &[(&str, Code)] = &[
    // An account without credits has the type `insufficient_quota` too, and waiting fills neither.
    ("billing_hard_limit", Code::Billing),
    ("insufficient credits", Code::Billing),
    ("usage limit", Code::ProviderQuota),
    ("quota exceeded", Code::ProviderQuota),
    ("exceeded your current quota", Code::ProviderQuota),
    ("exhausted your capacity", Code::ProviderQuota),
    ("exhausted your daily quota", Code::ProviderQuota),
    ("insufficient_quota", Code::ProviderQuota),
    ("usage_limit_reached", Code::ProviderQuota),
    ("credit balance is too low", Code::Billing),
    ("insufficient credits", Code::Billing),
    ("payment required", Code::Billing),
    ("billing", Code::Billing),
    ("prompt is too long", Code::ContextOverflow),
    ("context_length_exceeded", Code::ContextOverflow),
    ("context length", Code::ContextOverflow),
    ("context window", Code::ContextOverflow),
    ("maximum context", Code::ContextOverflow),
    ("rate limit", Code::RateLimited),
    ("rate_limit", Code::RateLimited),
    ("too many requests", Code::RateLimited),
    ("resource_exhausted", Code::RateLimited),
    ("overloaded", Code::Overloaded),
    ("service unavailable", Code::Overloaded),
    ("authentication", Code::AuthFailed),
    ("unauthorized", Code::AuthFailed),
    ("invalid api key", Code::AuthFailed),
    ("invalid x-api-key", Code::AuthFailed),
    ("api key not valid", Code::AuthFailed),
    ("incorrect api key", Code::AuthFailed),
    ("not logged in", Code::AuthRequired),
    ("please run /login", Code::AuthRequired),
    ("model_not_found", Code::ModelNotFound),
    ("internal server error", Code::UpstreamError),
];

/// What a message of a provider, or of an agent about its provider, means; `None` when its words
/// tell nothing.
pub fn of_words(text: &str) -> Option<Code> {
    in_words(text, WORDS)
}

/// What words in a text mean, by a table in lower case whose more particular rows come first.
pub(crate) fn in_words(text: &str, table: &[(&str, Code)]) -> Option<Code> {
    let text = text.to_lowercase();
    table.iter().find(|(words, _)| text.contains(words)).map(|(_, code)| *code)
}

/// A text that is the HTTP status of an answer, and nothing else.
pub(crate) fn status(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|status| (100..600).contains(status))
}

/// By the words where they tell something, else by the status.
pub fn of(status: Option<u64>, text: &str) -> Option<Code> {
    of_words(text).or_else(|| status.and_then(of_status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_tell_more_than_the_status() {
        let rows = [
            (Some(429), "Rate limit reached for requests", Some(Code::RateLimited)),
            (Some(429), "You have hit your usage limit.", Some(Code::ProviderQuota)),
            (Some(400), "prompt is too long: 250000 tokens > 200000", Some(Code::ContextOverflow)),
            (Some(400), "Your credit balance is too low", Some(Code::Billing)),
            (Some(529), "", Some(Code::Overloaded)),
            (Some(500), "something", Some(Code::UpstreamError)),
            (Some(401), "", Some(Code::AuthFailed)),
            (None, "hello", None),
            (Some(200), "", None),
        ];
        for (status, text, expected) in rows {
            assert_eq!(of(status, text), expected, "{status:?} {text}");
        }
    }
}
