//! A task of the queue as its runs see it: the request that is made of it, what its agent is told of
//! why it was woken, what was said of it before, and what the end of a run means for it. Everything
//! comes from the task's row, so a run that another host began is gone on with in the same way.

use super::agents;
use super::fallback::{self, HandedOver, Way, Ways};
use super::gate::Candidate;
use super::mention;
use super::resume::{self, Resume};
use super::run::{Budget, Named, RunRequest, ToolsBy, stored};
use crate::{Host, chance};
use contract::event::{Body, Comment, Event, Origin, RunResult};
use contract::state::Review;
use contract::{Code, CommandId, Fault, RunId, TaskId, Timestamp, limits};
use engine::rules::errand::{Ended, Next, after};
use engine::rules::handover::handover;
use runtimes::registry;
use serde_json::{Map, Value};
use std::path::PathBuf;
use store::{Follow, RunRow, Seal, TaskRow};

use super::tool::Standing;

/// Why a run of a task is there, in the words of the agent's environment.
pub(crate) mod wake {
    /// A person asked for the run itself.
    pub const RUN: &str = "run";
    pub const TASK: &str = "task";
    pub const RETRY: &str = "retry";
    pub const CONTINUED: &str = "continued";
    pub const REJECTED: &str = "rejected";
    pub const REOPENED: &str = "reopened";
    pub const COMMENT: &str = "comment";
    pub const ANSWERED: &str = "answered";
    pub const FALLBACK: &str = "fallback";
}

/// What an agent is asked when it ran out of turns and may go on.
const GO_ON: &str = "Continue the task where you stopped.";

/// What a run has of its task beside the request.
#[derive(Debug, Clone)]
pub(crate) struct Errand {
    pub review: Review,
    pub tries: u32,
    pub body: String,
    /// Whether its agent's chain has another way than this run's.
    pub others: bool,
    pub wake: Wake,
    /// Its parent, and what had to be done before it.
    pub linked: Vec<TaskId>,
    /// What the client that added the task hands to its runs.
    pub context: Map<String, Value>,
}

/// The reason for which a run of a task is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wake {
    pub reason: String,
    /// The comment that woke the agent.
    pub comment: Option<String>,
    /// The run about which a person decided, and the decision: `rejected` or `answered`.
    pub approval: Option<(RunId, String)>,
    /// The number of mentions by agents that led here, one after the other.
    pub hops: u32,
}

impl Wake {
    pub fn of(reason: &str) -> Self {
        Self { reason: reason.to_owned(), ..Self::default() }
    }

    /// A comment on a task.
    pub fn comment(id: CommandId, hops: u32) -> Self {
        Self { comment: Some(id.to_string()), hops, ..Self::of(wake::COMMENT) }
    }

    /// As a task's row keeps it: the reason, then `name=value`.
    pub fn text(&self) -> String {
        let mut text = self.reason.clone();
        if let Some(comment) = &self.comment {
            text.push_str(&format!(" comment={comment}"));
        }
        if let Some((run, status)) = &self.approval {
            text.push_str(&format!(" approval={run} status={status}"));
        }
        if self.hops > 0 {
            text.push_str(&format!(" hops={}", self.hops));
        }
        text
    }

    /// Reads what `text` wrote, and what rows of earlier versions have: a bare id is a comment.
    pub fn read(text: &str) -> Self {
        let mut words = text.split(' ');
        let mut wake = Self::of(words.next().unwrap_or(wake::TASK));
        let (mut approval, mut status) = (None, None);
        for word in words {
            match word.split_once('=') {
                None => wake.comment = Some(word.to_owned()),
                Some(("comment", id)) => wake.comment = Some(id.to_owned()),
                Some(("approval", run)) => approval = run.parse().ok(),
                Some(("status", word)) => status = Some(word.to_owned()),
                Some(("hops", hops)) => wake.hops = hops.parse().unwrap_or_default(),
                // A later version wrote it.
                Some(_) => {}
            }
        }
        wake.approval = approval.zip(status);
        wake
    }
}

/// The task of a run, if the queue starts it.
pub(crate) async fn of(host: &Host, task: TaskId) -> Result<Option<Errand>, Fault> {
    let row = host.store().task(task).await.map_err(stored)?;
    let Some(row) = row.filter(|row| row.by_queue) else { return Ok(None) };
    let mut linked = host.store().dependencies(task).await.map_err(stored)?;
    linked.extend(row.parent.filter(|parent| !linked.contains(parent)));
    // An agent that is not known any more has no chain either.
    let others = fallback::ways(host, &row).await.is_ok_and(|ways| ways.others());
    Ok(Some(Errand {
        review: row.review,
        tries: row.tries,
        wake: Wake::read(row.wake.as_deref().unwrap_or(wake::TASK)),
        linked,
        context: context_of(&row),
        body: row.body,
        others,
    }))
}

/// The `context` of a task. One that cannot be read is none: it was checked before it was stored.
pub(crate) fn context_of(task: &TaskRow) -> Map<String, Value> {
    let kept = task.context.as_deref().map(serde_json::from_str::<Map<String, Value>>);
    kept.and_then(Result::ok).unwrap_or_default()
}

/// What was said of a task before this run, by people and by agents.
pub(crate) async fn said_before(host: &Host, task: TaskId) -> Result<Standing, Fault> {
    let mut said = Vec::new();
    for event in host.store().comments(task).await.map_err(stored)? {
        // What people say while a run is at work is an event of it too.
        if let Ok(Event { ts, body, origin: Origin::Agent, .. }) =
            serde_json::from_slice(&event.bytes)
        {
            said.push((ts, body));
        }
    }
    for row in host.store().comments_of(task).await.map_err(stored)? {
        said.push((row.at, Body::Comment(Comment { text: row.text, mentions: row.mentions })));
    }
    said.sort_by_key(|(at, _)| *at);
    let progress = host.store().last_progress(task).await.map_err(stored)?;
    let progress = progress.and_then(|event| serde_json::from_slice::<Event>(&event.bytes).ok());
    let mut standing = Standing::default();
    let all = said.into_iter().map(|(_, body)| body).chain(progress.map(|event| event.body));
    all.for_each(|body| standing.note(&body));
    Ok(standing)
}

/// A task with what its agent stands for now.
pub(crate) struct Resolved {
    pub candidate: Candidate,
    pub named: Named,
}

/// Finds what the agent of a task stands for, and where it is to work.
pub(crate) async fn resolve(host: &Host, task: &TaskRow) -> Result<Resolved, Fault> {
    let named = agents::named(host, &task.agent).await?;
    let cwd = task.cwd.as_ref().map(PathBuf::from).or_else(|| named.cwd.clone());
    let cwd = cwd.ok_or_else(|| {
        let message = format!("no working directory is given for '{}'", task.agent);
        Fault::new(Code::BadWorkspace, message)
            .with_hint(format!("give --cwd, or set agents.{}.cwd", task.agent))
    })?;
    Ok(Resolved::of(task.id, task.agent.clone(), cwd, named))
}

impl Resolved {
    pub fn of(task: TaskId, agent: String, cwd: PathBuf, named: Named) -> Self {
        let adapter = &named.adapter;
        let candidate = Candidate {
            task,
            agent,
            adapter: adapter.name.clone(),
            runtime: adapter.runtime.clone(),
            provider: None,
            account: adapter.account.clone(),
            billing: adapter.billing,
            cwd,
        };
        Self { candidate, named }
    }
}

/// What is asked of the agent. A later run of a task resumes the task's last good conversation. Where
/// there is none, the agent is told the task again with what is known of the work so far, as is an
/// agent that takes over from another.
pub(crate) async fn request(
    host: &Host,
    task: &TaskRow,
    ways: &Ways,
    way: &Way,
) -> Result<RunRequest, Fault> {
    let resolved = &way.resolved;
    let mut handed = ways.handed_over(host, way).await?;
    let mut resume = None;
    let mut runs = host.store().task_runs(task.id).await.map_err(stored)?;
    runs.retain(|run| run.outcome.is_some());
    if handed.is_none() {
        match earlier(host, &runs, resolved).await? {
            Earlier::Resumed(run) => resume = Some(run),
            Earlier::HandedOver(past) => handed = Some(past),
            Earlier::Nothing => {}
        }
    }
    let next = next_prompt(host, task, &runs).await?;
    let prompt = match (next, &resume) {
        (None, None) => task.prompt.clone(),
        (None, Some(_)) => continued(runs.last()),
        (Some(next), Some(_)) => next,
        (Some(next), None) => format!("{}\n\n{next}", task.prompt),
    };
    let (prompt, tree) = match handed {
        Some(HandedOver { past, tree }) => (handover(&past, &prompt), tree),
        None => (prompt, None),
    };
    // Nobody is beside it who would have told it what it is.
    let template = resolved.named.prompt_template.as_deref().unwrap_or(agents::PROMPT_TEMPLATE);
    let request = RunRequest {
        run_id: None,
        agent: resolved.candidate.agent.clone(),
        prompt,
        cwd: resolved.candidate.cwd.clone(),
        adapter: None,
        title: Some(task.title.clone()),
        system_prompt: None,
        model: None,
        prompt_template: Some(template.to_owned()),
        tools: None,
        tools_by: ToolsBy::Host,
        clocks: Default::default(),
        permission: None,
        budget: Budget::default(),
        // What its task and those above it may spend is in their rows.
        task_budget: Budget::default(),
        fallback: way.note(task, ways.last_code()),
        goes_on_in: tree,
        own_budget: Default::default(),
        counted_budget: Default::default(),
        workspace: None,
        keep: false,
        attended: false,
        resume,
        force_cwd: false,
        // It is in the task's row, with the errand.
        context: None,
        environment: None,
    };
    Ok(match &way.link {
        // What the name stands for is found by the name.
        None => request,
        Some(_) => of_link(request, &resolved.named),
    })
}

/// A request that says itself what its link stands for.
fn of_link(request: RunRequest, named: &Named) -> RunRequest {
    RunRequest {
        adapter: Some(named.adapter.clone()),
        budget: request.budget.over(named.budget),
        system_prompt: named.system_prompt.clone(),
        tools: named.tools.clone(),
        workspace: named.workspace,
        ..request
    }
}

/// The way in which the next run of a task continues the earlier ones.
enum Earlier {
    /// The agent resumes its own conversation.
    Resumed(Resume),
    /// There is no conversation that the agent can resume: what is known is told to a new one.
    HandedOver(HandedOver),
    /// Nothing came of the earlier runs.
    Nothing,
}

/// Decides how a task goes on after these runs of it, which have ended; the oldest is first.
async fn earlier(host: &Host, runs: &[RunRow], resolved: &Resolved) -> Result<Earlier, Fault> {
    // Resumed, it would be too long again.
    let too_long = runs.last().is_some_and(|run| run.code == Some(Code::ContextOverflow));
    for run in runs.iter().rev().filter(|_| !too_long) {
        let Some(held) = host.store().conversation_of(run.id).await.map_err(stored)? else {
            continue;
        };
        let adapter = &resolved.named.adapter;
        let runtime = registry::of(adapter)?;
        let wanted = registry::kept_as(&runtime, adapter);
        let is_same = held.runtime == wanted || registry::differ_by_lane(&held.runtime, &wanted);
        if held.native_session.is_some() && is_same && resume::is_possible(&runtime.card()) {
            return Ok(Earlier::Resumed(Resume::Run(run.id.to_string())));
        }
        break;
    }
    let newest = runs.len().saturating_sub(limits::HANDOVER_RUNS_MAX);
    let runs: Vec<RunId> = runs[newest..].iter().map(|run| run.id).collect();
    let handed = HandedOver::of(host, &runs).await?;
    Ok(if handed.past.is_empty() { Earlier::Nothing } else { Earlier::HandedOver(handed) })
}

/// What the next run is asked, where that is not what the task says. Comments that came while the task
/// waited for its turn are told together.
async fn next_prompt(
    host: &Host,
    task: &TaskRow,
    runs: &[RunRow],
) -> Result<Option<String>, Fault> {
    let Some(next) = &task.next_prompt else { return Ok(None) };
    let reason = task.wake.as_deref().map(Wake::read).unwrap_or_default().reason;
    if reason != wake::COMMENT {
        return Ok(Some(next.clone()));
    }
    let since = runs.last().and_then(|run| run.ended_at).unwrap_or(task.created_at);
    let comments = host.store().comments_of(task.id).await.map_err(stored)?;
    let new = comments
        .into_iter()
        .filter(|comment| comment.at >= since && comment.author != mention::OSTLER);
    let texts: Vec<String> = new.map(|comment| comment.text).collect();
    Ok(Some(if texts.is_empty() { next.clone() } else { texts.join("\n\n") }))
}

/// What an agent is asked in the conversation of a run that ended before its work was done.
fn continued(last: Option<&RunRow>) -> String {
    match last.and_then(|run| run.code) {
        Some(code) => format!("The last run of this task ended with {}. {GO_ON}", code.word()),
        None => GO_ON.to_owned(),
    }
}

/// What follows the end of a run of it.
pub(crate) fn ended(
    tries_max: Option<u32>,
    errand: &Errand,
    result: &RunResult,
    launched: bool,
    resets_at: Option<Timestamp>,
    now: Timestamp,
) -> Next {
    after(&Ended {
        launched,
        outcome: result.outcome,
        code: result.code,
        resets_at,
        review: errand.review,
        tries: errand.tries,
        tries_max,
        others: errand.others,
        now,
        jitter01: chance::unit(),
    })
}

/// What is written into the task with that.
pub(crate) fn follow(
    errand: &Errand,
    run: RunId,
    next: &Next,
    message: &str,
    seal: &Seal,
) -> Follow {
    let on = next.resumes.then_some(GO_ON);
    Follow {
        until: next.until,
        note: (!message.is_empty()).then(|| seal.line(message.as_bytes())),
        code: None,
        tries: next.again.then_some(errand.tries + 1),
        prompt: on.map(|words| seal.given(words)),
        resumes: next.resumes.then_some(run),
        wake: next.again.then(|| {
            let word = match (next.resumes, next.falls_back) {
                (true, _) => wake::CONTINUED,
                (false, true) => wake::FALLBACK,
                (false, false) => wake::RETRY,
            };
            // However often it is tried again, it is as far from the person as before.
            Wake { hops: errand.wake.hops, ..Wake::of(word) }.text()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_is_read_as_it_was_written() {
        let id = chance::command_id();
        let run = chance::run_id();
        let rows = [
            Wake::of(wake::RETRY),
            Wake::comment(id, 0),
            Wake::comment(id, 2),
            Wake {
                approval: Some((run, "answered".to_owned())),
                ..Wake { reason: wake::ANSWERED.to_owned(), ..Wake::comment(id, 1) }
            },
        ];
        for row in rows {
            assert_eq!(Wake::read(&row.text()), row, "{}", row.text());
        }
        // As rows of the first version have it.
        assert_eq!(Wake::read(&format!("comment {id}")), Wake::comment(id, 0));
        assert_eq!(Wake::read("task later=1 approval=no status=x"), Wake::of("task"));
    }
}
