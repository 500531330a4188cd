//! What a run's policy says of a relayed tool. Pure. Reading and reporting are free under every
//! policy; what changes something outside the run needs `allow-all` or a person's word.

use contract::Policy;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Denied,
    /// A person must be asked first.
    Ask,
}

/// Whether a tool may be carried out. A run without a policy asks.
pub fn may(policy: Option<Policy>, writes: bool) -> Verdict {
    match (writes, policy) {
        (false, _) | (true, Some(Policy::AllowAll)) => Verdict::Allowed,
        (true, Some(Policy::Deny | Policy::AllowReads)) => Verdict::Denied,
        (true, Some(Policy::Ask) | None) => Verdict::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_free_and_writing_is_not() {
        let policies = [
            (Some(Policy::Deny), Verdict::Denied),
            (Some(Policy::AllowReads), Verdict::Denied),
            (Some(Policy::Ask), Verdict::Ask),
            (None, Verdict::Ask),
            (Some(Policy::AllowAll), Verdict::Allowed),
        ];
        for (policy, writing) in policies {
            assert_eq!(may(policy, false), Verdict::Allowed, "{policy:?}");
            assert_eq!(may(policy, true), writing, "{policy:?}");
        }
    }
}
