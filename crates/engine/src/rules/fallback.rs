//! Who takes over when an agent cannot go on: the first of its chain that could do better. Opt-in:
//! without a chain nobody takes over. A rule over what is known of a task's runs; whether an account is
//! used up, and whether the next one is free, paid for and installed, is asked by whoever starts it.

use super::retry::next_retry;
use contract::fault::Retry;
use contract::{Code, Timestamp};
use serde::{Deserialize, Serialize};

/// One link of a chain: another agent, or another adapter with perhaps another model. An adapter with
/// another `account` is how another account is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    Agent(String),
    Adapter {
        adapter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

impl Link {
    /// For people, and for what is kept of what was tried.
    pub fn name(&self) -> String {
        match self {
            Self::Agent(agent) => format!("agent {agent}"),
            Self::Adapter { adapter, model: None } => format!("adapter {adapter}"),
            Self::Adapter { adapter, model: Some(model) } => {
                format!("adapter {adapter} with {model}")
            }
        }
    }
}

/// Whether another account, model, adapter or agent can do what this one could not. A fault of the
/// task, of its directory or of a person's will follows the task wherever it goes.
pub fn helps(code: Code) -> bool {
    matches!(
        code,
        Code::ProviderQuota
            | Code::RateLimited
            | Code::Overloaded
            | Code::UpstreamError
            | Code::AuthRequired
            | Code::AuthFailed
            | Code::Billing
            | Code::ModelNotFound
            | Code::ModelRefusal
            | Code::ContextOverflow
            | Code::NotInstalled
            | Code::SpawnFailed
            | Code::RemoteUnavailable
            | Code::RemoteLost
    )
}

/// How one way to do a task stands, by the runs of the task that went it since a person last had a
/// say. Whether its account is used up is known to the breaker of that account, and not asked here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Open,
    /// What went wrong may mend itself by then.
    Until(Timestamp),
    /// It ended with what only a person can mend, and is not gone again.
    Spent(Code),
}

/// A run that went a way: how it ended, and when.
pub type Went = (Option<Code>, Timestamp);

/// How a way stands after the runs that went it, oldest first.
pub fn standing(went: &[Went]) -> Standing {
    let Some((Some(code), ended_at)) = went.last().copied() else { return Standing::Open };
    if !helps(code) {
        return Standing::Open;
    }
    match code.row().retry {
        Retry::AtReset => Standing::Open,
        Retry::Backoff => {
            let before = went.len().saturating_sub(1);
            // Spread was already put on the task's own wait; this one only keeps a way shut.
            match next_retry(code, u32::try_from(before).unwrap_or(u32::MAX), 0.5) {
                Some(wait_ms) => {
                    let wait_ms = i64::try_from(wait_ms).unwrap_or(i64::MAX);
                    Standing::Until(ended_at.plus_ms(wait_ms))
                }
                None => Standing::Spent(code),
            }
        }
        Retry::No
        | Retry::Once
        | Retry::Resume
        | Retry::Requeue
        | Retry::AfterFix
        | Retry::Person => Standing::Spent(code),
    }
}

/// Whether there is another way than the one that was just gone: how many there are, and how many of
/// the others are spent.
pub const fn is_left(ways: usize, spent: usize) -> bool {
    ways > spent + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn a_way_stands_as_its_last_run_left_it() {
        let minutes = |n: i64| Standing::Until(NOW.plus_ms(n * 60_000));
        let overloaded = (Some(Code::Overloaded), NOW);
        let rows: &[(&[Went], Standing)] = &[
            (&[], Standing::Open),
            (&[(None, NOW)], Standing::Open),
            // Its account's breaker knows until when.
            (&[(Some(Code::ProviderQuota), NOW)], Standing::Open),
            (&[overloaded], minutes(2)),
            (&[overloaded, overloaded], minutes(10)),
            (&[overloaded; 5], Standing::Spent(Code::Overloaded)),
            (&[(Some(Code::AuthFailed), NOW), overloaded], minutes(10)),
            (&[(Some(Code::AuthFailed), NOW)], Standing::Spent(Code::AuthFailed)),
            (&[(Some(Code::ModelNotFound), NOW)], Standing::Spent(Code::ModelNotFound)),
            (&[(Some(Code::NotInstalled), NOW)], Standing::Spent(Code::NotInstalled)),
            // What follows the task wherever it goes shuts no way.
            (&[(Some(Code::ProcessCrashed), NOW)], Standing::Open),
            (&[(Some(Code::AgentFailed), NOW)], Standing::Open),
        ];
        for (went, expected) in rows {
            assert_eq!(standing(went), *expected, "{went:?}");
        }
    }

    #[test]
    fn another_account_helps_with_what_is_an_accounts_and_not_with_what_is_the_tasks() {
        let helped: Vec<&str> =
            Code::ALL.iter().filter(|code| helps(**code)).map(|code| code.word()).collect();
        assert_eq!(
            helped,
            [
                "not_installed",
                "spawn_failed",
                "auth_required",
                "auth_failed",
                "billing",
                "provider_quota",
                "rate_limited",
                "overloaded",
                "upstream_error",
                "model_refusal",
                "model_not_found",
                "context_overflow",
                "remote_unavailable",
                "remote_lost",
            ]
        );
    }

    #[test]
    fn without_a_chain_there_is_no_other_way() {
        assert!(!is_left(1, 0));
        assert!(is_left(2, 0) && !is_left(2, 1));
    }
}
