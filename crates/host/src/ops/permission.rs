//! What a run's policy says of a tool of somebody else's MCP server. The run machine decides about
//! our own tools, and asks a person before any foreign one under `ask`; whether a foreign tool only
//! reads is known when its server is asked, which is here.

use contract::{Code, Fault, Policy};

/// Lets a foreign tool through, or says why not.
pub(crate) fn allowed(policy: Policy, tool: &str, writes: bool) -> Result<(), Fault> {
    match (writes, policy) {
        // Under `ask` the machine has asked, and the answer was yes.
        (false, _) | (true, Policy::AllowAll | Policy::Ask) => Ok(()),
        (true, Policy::Deny | Policy::AllowReads) => {
            let shown: String = tool.chars().take(100).collect();
            let message = format!("{shown}: the run's policy allows reading only");
            Err(Fault::new(Code::PermissionDenied, message)
                .with_hint("run it with --permission allow-all"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_free_and_writing_is_not() {
        let rows = [
            (Policy::Deny, false),
            (Policy::AllowReads, false),
            (Policy::Ask, true),
            (Policy::AllowAll, true),
        ];
        for (policy, writing) in rows {
            assert!(allowed(policy, "x", false).is_ok(), "{policy:?}");
            assert_eq!(allowed(policy, "x", true).is_ok(), writing, "{policy:?}");
        }
    }
}
