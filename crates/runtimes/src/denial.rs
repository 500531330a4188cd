//! What an agent is told when a request of its own is denied.

/// Without a reason from the user.
pub const DENIED: &str = "This was not permitted. Do not try it in another way; go on without it, or \
                          say in your answer what could not be done.";

/// With the reason that the user gave.
pub fn denied_because(reason: &str) -> String {
    format!("The user did not permit this, and says: {reason}")
}
