//! Hired agents at the store's door: put, change, look up, list. A name is given once and for good,
//! because runs are known by it; a change is made only to what the caller saw. What a spec means is
//! the configuration's business, not ours. The statements are in `sqlite/agents.rs`.

use crate::{AgentChange, AgentRow, Error, NewAgent, Store};

impl Store {
    /// Keeps an agent under a name that nobody had.
    pub async fn put_agent(&self, agent: NewAgent) -> Result<(), Error> {
        self.shared.sqlite.put_agent(agent).await
    }

    /// Changes an agent that still is as the caller saw it.
    pub async fn change_agent(&self, change: AgentChange) -> Result<(), Error> {
        self.shared.sqlite.change_agent(change).await
    }

    pub async fn agent(&self, name: &str) -> Result<Option<AgentRow>, Error> {
        self.shared.sqlite.agent(name).await
    }

    /// By name, after one; a page of them.
    pub async fn agents(&self, after: &str, limit: usize) -> Result<Vec<AgentRow>, Error> {
        self.shared.sqlite.agents(after, limit).await
    }

    /// How many runs of each agent are not settled.
    pub async fn running(&self) -> Result<Vec<(String, u64)>, Error> {
        self.shared.sqlite.running().await
    }
}
