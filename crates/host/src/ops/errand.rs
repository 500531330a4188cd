//! A task of the queue as its runs see it: the request that is made of it, what its agent is told of
//! why it was woken, what was said of it before, and what the end of a run means for it. Everything
//! comes from the task's row, so a run that another host began is gone on with in the same way.

use super::agents;
use super::fallback::{self, HandedOver, Way, Ways};
use super::gate::Candidate;
use super::resume::Resume;
use super::run::{Budget, Named, RunRequest, ToolsBy, stored};
use crate::{Host, chance};
use contract::event::{Body, Comment, Event, Origin, RunResult};
use contract::state::Review;
use contract::{Code, Fault, RunId, TaskId, Timestamp};
use engine::rules::errand::{Ended, Next, after};
use engine::rules::handover::handover;
use runtimes::registry;
use std::path::PathBuf;
use store::{Follow, Seal, TaskRow};

use super::tool::Standing;

/// Why a run of a task is there, in the words of the agent's environment.
pub(crate) mod wake {
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
}

#[derive(Debug, Clone)]
pub(crate) struct Wake {
    pub reason: String,
    pub comment: Option<String>,
    /// Its parent, and what had to be done before it.
    pub linked: Vec<TaskId>,
}

/// The task of a run, if the queue starts it.
pub(crate) async fn of(host: &Host, task: TaskId) -> Result<Option<Errand>, Fault> {
    let row = host.store().task(task).await.map_err(stored)?;
    let Some(row) = row.filter(|row| row.by_queue) else { return Ok(None) };
    let mut linked = host.store().dependencies(task).await.map_err(stored)?;
    linked.extend(row.parent);
    // An agent that is not known any more has no chain either.
    let others = fallback::ways(host, &row).await.is_ok_and(|ways| ways.others());
    let told = row.wake.as_deref().unwrap_or(wake::TASK);
    let (reason, comment) = match told.split_once(' ') {
        Some((reason, comment)) => (reason.to_owned(), Some(comment.to_owned())),
        None => (told.to_owned(), None),
    };
    Ok(Some(Errand {
        review: row.review,
        tries: row.tries,
        body: row.body,
        others,
        wake: Wake { reason, comment, linked },
    }))
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

/// What is asked of the agent. A conversation is taken up where one is meant and can be; where it
/// cannot, the task itself is said again with what came of it. Who takes over from another is told
/// what is known of the work so far.
pub(crate) async fn request(
    host: &Host,
    task: &TaskRow,
    ways: &Ways,
    way: &Way,
) -> Result<RunRequest, Fault> {
    let resolved = &way.resolved;
    let mut handed = ways.handed_over(host, way).await?;
    let mut resume = None;
    if let Some(run) = task.resumes.filter(|_| handed.is_none()) {
        match earlier(host, run, resolved).await? {
            Earlier::Resumed(run) => resume = Some(run),
            Earlier::HandedOver => handed = Some(HandedOver::of(host, &[run]).await?),
            Earlier::Unknown => {}
        }
    }
    let prompt = match (&task.next_prompt, &resume) {
        (None, _) => task.prompt.clone(),
        (Some(next), Some(_)) => next.clone(),
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

/// The way in which the next run of a task continues an earlier one.
enum Earlier {
    /// The agent resumes its own conversation.
    Resumed(Resume),
    /// The conversation was held with another runtime: its content is told to a new one.
    HandedOver,
    /// No conversation was kept, or the agent cannot resume one.
    Unknown,
}

async fn earlier(host: &Host, run: RunId, resolved: &Resolved) -> Result<Earlier, Fault> {
    let adapter = &resolved.named.adapter;
    let runtime = registry::of(adapter)?;
    let Some(held) = host.store().conversation_of(run).await.map_err(stored)? else {
        return Ok(Earlier::Unknown);
    };
    let (held, wanted) = (held.runtime, registry::kept_as(&runtime, adapter));
    Ok(if held != wanted && !registry::differ_by_lane(&held, &wanted) {
        Earlier::HandedOver
    } else if runtime.card().can.resume {
        Earlier::Resumed(Resume::Run(run.to_string()))
    } else {
        Earlier::Unknown
    })
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
            word.to_owned()
        }),
    }
}
