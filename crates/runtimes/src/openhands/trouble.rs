//! What this agent's words mean. An error of the conversation has the name of its class and the
//! words of the provider; what is wrong before the first turn is told in words alone, with exit 1.
//! What is common to all providers is asked of `provider`.

use crate::provider;
use contract::Code;

/// Names of classes, for errors whose words tell nothing.
const CLASSES: &[(&str, Code)] = &[
    ("AuthenticationError", Code::AuthFailed),
    ("PermissionDenied", Code::AuthFailed),
    ("RateLimit", Code::RateLimited),
    ("ContextWindow", Code::ContextOverflow),
    // The context is too long, and nothing is left that could be taken out of it.
    ("NoCondensationAvailable", Code::ContextOverflow),
    ("NotFound", Code::ModelNotFound),
    ("MaxIterations", Code::MaxTurns),
    ("ServiceUnavailable", Code::Overloaded),
    ("ContentPolicy", Code::ModelRefusal),
    ("APIConnection", Code::UpstreamError),
    ("InternalServerError", Code::UpstreamError),
    ("BadGateway", Code::UpstreamError),
    ("Timeout", Code::UpstreamError),
    ("APIError", Code::UpstreamError),
    ("BadRequest", Code::UpstreamError),
    ("LLMNoResponse", Code::EndedWithoutResult),
];

/// The meaning of an error of the conversation: by the words where they tell something, else by the
/// name of its class.
pub(super) fn of(class: &str, detail: &str) -> Code {
    // A class whose name says it all is not outweighed by a word in a message.
    let named = CLASSES.iter().find(|(name, _)| class.contains(name)).map(|(_, code)| *code);
    match named {
        Some(code @ (Code::MaxTurns | Code::AuthFailed)) => code,
        Some(code) => provider::of_words(detail).unwrap_or(code),
        None => provider::of_words(detail).unwrap_or(Code::AgentFailed),
    }
}

/// The meaning of a line that comes before the agent begins to work.
pub(super) fn before_the_turn(line: &str) -> Option<Code> {
    let unset = line.contains("Missing required environment variable")
        || line.contains("Headless mode requires existing settings");
    unset.then_some(Code::AuthRequired)
}
