//! Who takes over when an agent cannot go on: the next of its chain that was not tried and that could
//! do better. Opt-in: without a chain nobody takes over. A rule over what is known; whether the next
//! one is free, paid for and installed is asked by whoever starts it.

use contract::Code;
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

/// The next link that was not tried, and its place; `None` when there is none or none would help.
pub fn next<'a>(code: Code, chain: &'a [Link], tried: &[String]) -> Option<(usize, &'a Link)> {
    if !helps(code) {
        return None;
    }
    chain.iter().enumerate().find(|(_, link)| !tried.contains(&link.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Vec<Link> {
        vec![
            Link::Adapter { adapter: "second".to_owned(), model: None },
            Link::Adapter { adapter: "second".to_owned(), model: Some("small".to_owned()) },
            Link::Agent("colleague".to_owned()),
        ]
    }

    #[test]
    fn the_chain_is_gone_along_once_and_only_where_it_helps() {
        let chain = chain();
        let mut tried = Vec::new();
        let mut gone = Vec::new();
        while let Some((_, link)) = next(Code::ProviderQuota, &chain, &tried) {
            gone.push(link.name());
            tried.push(link.name());
        }
        assert_eq!(gone, ["adapter second", "adapter second with small", "agent colleague"]);
        assert_eq!(next(Code::ProviderQuota, &[], &[]), None, "it is opt-in");
        for code in [Code::AgentFailed, Code::Cancelled, Code::BudgetExceeded, Code::BadWorkspace] {
            assert_eq!(next(code, &chain, &[]), None, "{code}");
        }
    }
}
