//! The ways to do a task: its agent's own, and the links of its chain in their order. Which of them is
//! shut to this task is read off its runs by a rule (`engine::rules::fallback`); whether an account is
//! used up or someone has a hand free is asked where the run is started (`dispatch.rs`). A chain is
//! opt-in: without one there is one way, and nothing here reads more than the task.

use super::agents;
use super::errand::{self, Resolved};
use super::resume;
use super::run::{Link, Named, stored};
use crate::Host;
use crate::trees::Tree;
use contract::{Code, Fault, RunId, limits};
use engine::rules::fallback::{Standing, Went, is_left, standing};
use engine::rules::handover::Past;
use std::path::PathBuf;
use store::{RunRow, RunsPage, TaskRow};

/// One way to do a task.
pub(crate) struct Way {
    /// `None` is the agent's own.
    pub link: Option<Link>,
    pub resolved: Resolved,
    pub standing: Standing,
}

/// The ways to do a task, and the runs of it that went them since a person last had a say.
pub(crate) struct Ways {
    pub all: Vec<Way>,
    /// Those that have ended, oldest first.
    went: Vec<RunRow>,
}

/// What the next run of a task takes over from the last, which went another way.
pub(crate) struct HandedOver {
    pub past: Past,
    /// The workspace of ours that the last run left, where there is one.
    pub tree: Option<PathBuf>,
}

impl HandedOver {
    /// Collects the past of these runs of a task, the oldest first.
    pub async fn of(host: &Host, runs: &[RunId]) -> Result<Self, Fault> {
        let past = resume::past(host, runs).await?;
        let last = match runs.last() {
            Some(run) => host.store().run(*run).await.map_err(stored)?,
            None => None,
        };
        let cwd = last.map(|row| PathBuf::from(row.cwd));
        let tree =
            cwd.filter(|cwd| host.inner.trees.of(cwd).as_ref().is_some_and(Tree::can_be_entered));
        // The prompt of the next run has the task itself.
        Ok(Self { past: Past { task: String::new(), ..past }, tree })
    }
}

/// Finds the ways. A link that names nobody who is known is none.
pub(crate) async fn ways(host: &Host, task: &TaskRow) -> Result<Ways, Fault> {
    let own = errand::resolve(host, task).await?;
    let chain = own.named.fallback.clone();
    let mut all = vec![Way { link: None, resolved: own, standing: Standing::Open }];
    if chain.is_empty() {
        return Ok(Ways { all, went: Vec::new() });
    }
    for link in chain {
        if let Some(resolved) = follow(host, &all[0].resolved, &link).await {
            all.push(Way { link: Some(link), resolved, standing: Standing::Open });
        }
    }
    let went = went(host, task).await?;
    for way in &mut all {
        let mine = went.iter().filter(|run| way.made(run));
        let ended: Vec<Went> =
            mine.map(|run| (run.code, run.ended_at.unwrap_or(run.started_at))).collect();
        way.standing = standing(&ended);
    }
    // A conversation is gone on with by the one who had it.
    let had = task.resumes.and_then(|run| went.iter().find(|row| row.id == run));
    if let Some(place) = had.and_then(|row| all.iter().position(|way| way.made(row))) {
        all[..=place].rotate_right(1);
    }
    Ok(Ways { all, went })
}

/// The runs of a task since a person last had a say: there are at most as many as its tries.
async fn went(host: &Host, task: &TaskRow) -> Result<Vec<RunRow>, Fault> {
    let mut runs = host.store().task_runs(task.id).await.map_err(stored)?;
    runs.retain(|run| run.outcome.is_some());
    let resumed = runs.iter().position(|run| Some(run.id) == task.resumes);
    let since = runs.len().saturating_sub(task.tries as usize);
    Ok(runs.split_off(since.min(resumed.unwrap_or(since))))
}

/// What a link stands for in place of the agent's own. Another adapter does the agent's work as the
/// agent would: with its words, its tools, its permission and in its place. Another agent has its own,
/// but for the place.
async fn follow(host: &Host, own: &Resolved, link: &Link) -> Option<Resolved> {
    let (agent, named) = match link {
        Link::Agent(agent) => {
            let named = agents::named(host, agent).await.ok()?;
            (agent.clone(), Named { fallback: Vec::new(), ..named })
        }
        Link::Adapter { adapter, model } => {
            let mut adapter = agents::named(host, adapter).await.ok()?.adapter;
            let of_agent = &own.named.adapter;
            adapter.model = model.clone().or(adapter.model);
            adapter.permission = of_agent.permission.or(adapter.permission);
            if !of_agent.skills.is_empty() {
                adapter.skills.clone_from(&of_agent.skills);
                adapter.skills_dir.clone_from(&of_agent.skills_dir);
            }
            let agent = own.candidate.agent.clone();
            (agent, Named { adapter, fallback: Vec::new(), ..own.named.clone() })
        }
    };
    Some(Resolved::of(own.candidate.task, agent, own.candidate.cwd.clone(), named))
}

impl Way {
    /// Whether a run went this way.
    fn made(&self, run: &RunRow) -> bool {
        let adapter = &self.resolved.named.adapter;
        self.link.is_some() == run.fallback.is_some()
            && run.agent == self.resolved.candidate.agent
            && run.adapter == adapter.name
            && (self.link.is_none() || run.model == adapter.model)
    }

    /// For people.
    pub fn name(&self) -> String {
        match &self.link {
            None => format!("agent {}", self.resolved.candidate.agent),
            Some(link) => link.name(),
        }
    }

    /// What a run that goes this way says of itself; `None` when it is the agent's own.
    pub fn note(&self, task: &TaskRow, code: Option<Code>) -> Option<String> {
        let link = self.link.as_ref()?;
        let why = code.map_or("its quota is used up", Code::word);
        Some(format!("{} continues for agent {} ({why})", link.name(), task.agent))
    }
}

impl Ways {
    /// Whether there is more than the agent's own.
    pub fn is_chain(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether another way is left than the one that a run goes now.
    pub fn others(&self) -> bool {
        let spent = |way: &&Way| matches!(way.standing, Standing::Spent(_));
        is_left(self.all.len(), self.all.iter().filter(spent).count())
    }

    /// How the last run ended.
    pub fn last_code(&self) -> Option<Code> {
        self.went.last().and_then(|run| run.code)
    }

    /// The way that a run went which is there.
    pub fn of(&self, run: &RunRow) -> Option<&Way> {
        self.all.iter().find(|way| way.made(run))
    }

    /// What a run that goes this way takes over, when the last run went another.
    pub async fn handed_over(&self, host: &Host, way: &Way) -> Result<Option<HandedOver>, Fault> {
        if self.went.last().is_none_or(|last| way.made(last)) {
            return Ok(None);
        }
        let runs: Vec<_> = self.went.iter().map(|run| run.id).collect();
        HandedOver::of(host, &runs).await.map(Some)
    }
}

/// Whether an agent of a chain has a hand free. The agent of a task itself is asked before.
pub(crate) async fn has_a_hand_free(host: &Host, way: &Way) -> Result<bool, Fault> {
    let Some(Link::Agent(agent)) = &way.link else { return Ok(true) };
    let places = way.resolved.named.concurrency.filter(|places| *places > 0);
    let places = places.unwrap_or(limits::AGENT_RUNS_MAX) as usize;
    let (mut before, mut busy) = (None, 0);
    loop {
        let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
        let rows = host.store().runs(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { return Ok(busy < places) };
        before = Some(last.id);
        busy += rows.iter().filter(|row| row.agent == *agent).count();
    }
}
