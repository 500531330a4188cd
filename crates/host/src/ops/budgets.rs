//! Which budgets a run spends from: those of the whole house, those of its agent, and those of its task
//! and of every task above it, so that what is handed on is charged to the whole tree. They are
//! changed while the house works: whoever waits for one is looked at again, and live runs ask again for more.
//! What is left of them, and who may start, is `limits.rs`.

use super::agents;
use super::limits::{SharedAmounts, SharedBudget, Window, look_again};
use super::run::{Budget, stored};
use crate::Host;
use contract::limits::BUDGETS_MAX;
use contract::state::{AgentState, WaitingFor};
use contract::{Fault, TaskId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use store::{AgentRow, TaskRow};

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
            all.extend(of_hired(host, &row.name, Some(&row)));
        }
    }
    all.truncate(BUDGETS_MAX);
    Ok(all)
}

/// The budgets that a run of a task spends from, and the tasks that are charged.
pub(super) async fn charged(
    host: &Host,
    agent: &str,
    task: TaskId,
) -> Result<(Vec<SharedBudget>, Tree), Fault> {
    let row = host.store().agent(agent).await.map_err(stored)?;
    let lineage = host.store().lineage(task).await.map_err(stored)?;
    let tree = tree(task, Budget::default(), &lineage);
    Ok((spent_from(host, agent, row.as_ref(), &tree), tree))
}

/// The budgets that a run spends from, by the row of its agent if it has one.
pub(super) fn spent_from(
    host: &Host,
    agent: &str,
    row: Option<&AgentRow>,
    tree: &Tree,
) -> Vec<SharedBudget> {
    let own = agent_scope(agent);
    let ours = |budget: &SharedBudget| budget.scope == GLOBAL || budget.scope == own;
    let mut budgets: Vec<_> = host.inner.budgets.all().into_iter().filter(ours).collect();
    budgets.extend(of_hired(host, agent, row));
    budgets.extend(tree.iter().filter_map(|(task, budget)| of_task(*task, *budget)));
    budgets.truncate(BUDGETS_MAX);
    budgets
}

/// Those of an agent that was hired; one of the configuration has its own there.
fn of_hired(host: &Host, agent: &str, row: Option<&AgentRow>) -> Vec<SharedBudget> {
    if host.inner.book.has(agent) || row.is_none_or(|row| row.spec.is_none()) {
        return Vec::new();
    }
    agents::named_by(host, agent, row).map(|named| named.budgets).unwrap_or_default()
}

/// What a task may spend together with those below it, if that is limited.
pub(super) fn of_task(task: TaskId, budget: Budget) -> Option<SharedBudget> {
    let limit = amounts(budget);
    let (scope, window) = (task_scope(task), Window::Lifetime);
    let limited = limit != SharedAmounts::default();
    limited.then_some(SharedBudget { scope, window, limit, quota_percent: None })
}

/// A task and those above it, with what each may spend.
pub(super) type Tree = Vec<(TaskId, Budget)>;

/// The tree by the rows there are: a run that someone asked for has no task yet. `given` is what was
/// said with the run.
pub(super) fn tree(task: TaskId, given: Budget, lineage: &[TaskRow]) -> Tree {
    let kept = |row: &TaskRow| -> Budget {
        let kept = row.budget.as_deref().and_then(|json| serde_json::from_str(json).ok());
        kept.unwrap_or_default()
    };
    let (own, above) = match lineage.split_first() {
        Some((own, above)) => (given.over(kept(own)), above),
        None => (given, lineage),
    };
    let above = above.iter().map(|row| (row.id, kept(row)));
    [(task, own)].into_iter().chain(above).collect()
}

/// As it is kept with a task: nothing where nothing is limited.
pub(super) fn kept(budget: Budget) -> Option<String> {
    (budget != Budget::default()).then(|| serde_json::to_string(&budget).unwrap_or_default())
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
    let Budget { nanousd, tokens, turns, ms, best_effort: _ } = budget;
    SharedAmounts { nanousd, tokens, turns, ms }
}
