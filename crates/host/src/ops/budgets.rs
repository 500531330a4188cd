//! Which budgets a run spends from: those of the whole house, those of its agent, and those of its task
//! and of every task above it, so that what is handed on is charged to the whole tree. They are
//! changed while the house works: whoever waits for one is looked at again, and live runs ask again for more.
//! What is left of them, and who may start, is `limits.rs`.

use super::agents;
use super::limits::{SharedAmounts, SharedBudget, Window, look_again};
use super::run::{Budget, stored};
use crate::Host;
use contract::limits::{BUDGETS_MAX, SUBTASK_DEPTH_MAX};
use contract::state::{AgentState, WaitingFor};
use contract::{Fault, TaskId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

pub(crate) const GLOBAL: &str = "global";

/// The budgets of the configuration, as they are now.
pub(crate) struct Budgets {
    now: RwLock<Vec<SharedBudget>>,
    /// Rises with every change, of these or of an agent's or a task's own. Nobody has seen the first one yet.
    version: AtomicU64,
    /// Those that people were told are used up, until there is something left again.
    told: Mutex<BTreeSet<String>>,
}

impl Budgets {
    pub fn new(budgets: Vec<SharedBudget>) -> Self {
        let (now, version) = (RwLock::new(budgets), AtomicU64::new(1));
        Self { now, version, told: Mutex::default() }
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn all(&self) -> Vec<SharedBudget> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this is news: that a budget is used up, or that it is not any more.
    pub fn is_news(&self, name: &str, used_up: bool) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match used_up {
            true => told.insert(name.to_owned()),
            false => told.remove(name),
        }
    }
}

impl Host {
    /// From now on these are the budgets of the configuration. True when they were others before.
    pub async fn set_budgets(&self, budgets: Vec<SharedBudget>) -> Result<bool, Fault> {
        {
            let now = &self.inner.budgets.now;
            let mut now = now.write().unwrap_or_else(PoisonError::into_inner);
            if *now == budgets {
                return Ok(false);
            }
            *now = budgets;
        }
        changed(self).await?;
        Ok(true)
    }
}

/// A budget has changed: who waits for one is looked at again, and who runs may ask again.
pub(crate) async fn changed(host: &Host) -> Result<(), Fault> {
    host.inner.budgets.version.fetch_add(1, Ordering::AcqRel);
    look_again(host, WaitingFor::Budget).await
}

/// Every budget that outlasts tasks: of the configuration, and of those who were hired.
pub(super) async fn all(host: &Host) -> Result<Vec<SharedBudget>, Fault> {
    let mut all = host.inner.budgets.all();
    for row in host.store().agents("", BUDGETS_MAX).await.map_err(stored)? {
        if row.state != AgentState::Retired {
            all.extend(of_hired(host, &row.name).await);
        }
    }
    all.truncate(BUDGETS_MAX);
    Ok(all)
}

/// The budgets that a run spends from.
pub(super) async fn spent_from(
    host: &Host,
    agent: &str,
    tree: &[(TaskId, Budget)],
) -> Vec<SharedBudget> {
    let own = agent_scope(agent);
    let ours = |budget: &SharedBudget| budget.scope == GLOBAL || budget.scope == own;
    let mut budgets: Vec<_> = host.inner.budgets.all().into_iter().filter(ours).collect();
    budgets.extend(of_hired(host, agent).await);
    budgets.extend(tree.iter().filter_map(|(task, budget)| of_task(*task, *budget)));
    budgets.truncate(BUDGETS_MAX);
    budgets
}

/// Those of an agent that was hired; one of the configuration has its own there.
async fn of_hired(host: &Host, agent: &str) -> Vec<SharedBudget> {
    if host.inner.book.has(agent) {
        return Vec::new();
    }
    agents::named(host, agent).await.map(|named| named.budgets).unwrap_or_default()
}

/// What a task may spend together with those below it, if that is limited.
pub(super) fn of_task(task: TaskId, budget: Budget) -> Option<SharedBudget> {
    let limit = amounts(budget);
    let (scope, window) = (task_scope(task), Window::Lifetime);
    let limited = limit != SharedAmounts::default();
    limited.then_some(SharedBudget { scope, window, limit, quota_percent: None })
}

/// A task and those above it, with what each may spend. `given` is what was said with the run.
pub(super) async fn tree(
    host: &Host,
    task: TaskId,
    given: Budget,
) -> Result<Vec<(TaskId, Budget)>, Fault> {
    let mut tree = vec![(task, given)];
    let mut next = Some(task);
    while let Some(task) = next.filter(|_| tree.len() <= SUBTASK_DEPTH_MAX as usize + 1) {
        // A run that someone asked for has no task yet.
        let Some(row) = host.store().task(task).await.map_err(stored)? else { break };
        let kept = row.budget.as_deref().and_then(|json| serde_json::from_str(json).ok());
        if let Some((_, budget)) = tree.last_mut() {
            *budget = budget.over(kept.unwrap_or_default());
        }
        next = row.parent;
        tree.extend(next.map(|parent| (parent, Budget::default())));
    }
    Ok(tree)
}

pub(super) fn agent_scope(agent: &str) -> String {
    format!("agent:{agent}")
}

pub(super) fn task_scope(task: TaskId) -> String {
    format!("task:{task}")
}

/// The task that a scope belongs to, when it is one's own.
pub(super) fn task_of(scope: &str) -> Option<TaskId> {
    scope.strip_prefix("task:")?.parse().ok()
}

pub(super) fn amounts(budget: Budget) -> SharedAmounts {
    let Budget { nanousd, tokens, turns, ms } = budget;
    SharedAmounts { nanousd, tokens, turns, ms }
}
