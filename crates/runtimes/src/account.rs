//! How the quota of an account is asked for beside a run, where its provider answers such a question:
//! which file holds the login, where the question goes, and what the answer means. Nothing is read or
//! sent here; the host does both, and only for an adapter that is configured to.

use contract::event::Quota;

/// A question to a provider. Everything in it is public; the token is added by whoever sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The file of the login: `~/x`, or `${NAME:-~/y}/x`, by the agent's own variables.
    pub credentials: &'static str,
    /// Where in that file the token is, as a JSON pointer.
    pub token: &'static str,
    pub url: &'static str,
    pub headers: &'static [(&'static str, &'static str)],
}

/// A provider that can be asked.
pub trait Account: Sync {
    fn question(&self) -> Question;

    /// Reads an answer; `None` when there is no window in it that is known.
    fn read(&self, answer: &[u8]) -> Option<Quota>;
}
