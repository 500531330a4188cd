//! Runs: what can be asked for, and what can be asked of them. Starting one is `start.rs`.

use super::agents;
use super::line;
use super::resume::Resume;
use super::who::Who;
use crate::blocking::{self, Bulkhead};
use crate::{Host, adopt, chance, clock, keepsake};
use contract::event::Outcome;
use contract::limits::{PAGE_ROWS_MAX, RUN_WAIT_MS, RUNS_SCANNED_MAX};
use contract::plan::{Adapter, Clocks};
use contract::state::{TaskState, WaitingFor};
use contract::{
    Code, CommandId, Event, Fault, Page, Policy, RunId, RunState, TaskId, Timestamp, Wish,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use store::{NewCommand, Room, RunRow, RunsPage, TaskRow, TraceReader};

pub use super::again::start;
pub use contract::money::Budget;
pub use engine::rules::fallback::Link;

/// What someone asks for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The run's id, when the caller chose it: asked for again, it is the same run and not another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The name of an agent, an adapter or a runtime.
    pub agent: String,
    pub prompt: String,
    pub cwd: PathBuf,
    /// The adapter, when the caller has resolved the name by its own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the prompt is put into, for every run of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<String>,
    /// The relayed tools that are offered; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Who carries out what the agent calls.
    #[serde(default)]
    pub tools_by: ToolsBy,
    #[serde(default)]
    pub clocks: Clocks,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Policy>,
    #[serde(default)]
    pub budget: Budget,
    /// What all runs of its task may spend together.
    #[serde(default)]
    pub task_budget: Budget,
    /// Why another than the one that was asked for does it, in words for its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Where it works: in `cwd` itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Where>,
    /// The workspace of ours that an earlier run of its task left and that it goes on in. Nobody can
    /// ask for it from outside.
    #[serde(skip)]
    pub goes_on_in: Option<PathBuf>,
    /// The run's own part of `budget`, once what was set aside of shared budgets is in it as well.
    #[serde(skip)]
    pub own_budget: Budget,
    /// The budgets that end the run where they cannot be counted: its own, and its task's.
    #[serde(skip)]
    pub counted_budget: Budget,
    /// Whether a temporary workspace stays when the run has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Whether someone is there who can answer questions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attended: bool,
    /// The conversation of an earlier run that this one takes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Resumes that conversation although it was held in another directory; without this a new
    /// conversation starts there, with a hand-over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_cwd: bool,
    /// What the caller hands to the run: `{{context.name}}` in the configuration of its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<serde_json::Map<String, serde_json::Value>>,
    /// The caller's environment, as far as the agent may need it. Never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
}

/// Who carries out the relayed tools of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolsBy {
    /// We do, in the run's workspace.
    #[default]
    Host,
    /// Whoever asked for the run does, and sends the answers as wishes.
    Caller,
}

/// Where a run works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    /// In the directory that is named.
    Here,
    /// In a git worktree of its own, made from the repository that the directory is in.
    Worktree,
    /// In an empty directory of its own.
    Temporary,
}

/// What the host's own configuration says of a name.
#[derive(Debug, Clone)]
pub struct Named {
    pub adapter: Adapter,
    pub budget: Budget,
    /// What all its runs may spend together, for one whose budgets the configuration does not have.
    pub budgets: Vec<super::limits::SharedBudget>,
    pub prompt_template: Option<String>,
    pub system_prompt: Option<String>,
    pub tools: Option<Vec<String>>,
    /// Where it works, when nobody says otherwise.
    pub cwd: Option<PathBuf>,
    /// Its runs at once.
    pub concurrency: Option<u32>,
    /// Who goes on when it cannot, in this order.
    pub fallback: Vec<Link>,
    pub workspace: Option<Where>,
}

impl RunRequest {
    /// With what the host knows of the agent, where the caller gave the name alone.
    pub(crate) async fn completed(self, host: &Host) -> Result<(Self, Adapter), Fault> {
        if let Some(adapter) = self.adapter.clone() {
            return Ok((self, adapter));
        }
        let Named { adapter, budget, prompt_template, system_prompt, tools, workspace, .. } =
            agents::named(host, &self.agent).await?;
        let request = Self {
            budget: self.budget.over(budget),
            prompt_template: self.prompt_template.or(prompt_template),
            system_prompt: self.system_prompt.or(system_prompt),
            tools: self.tools.or(tools),
            workspace: self.workspace.or(workspace),
            ..self
        };
        Ok((request, adapter))
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    pub run_id: RunId,
    pub task_id: TaskId,
}

/// What becomes of a request for now.
#[derive(Debug, Clone)]
pub enum Asked {
    Started(Started),
    Waiting(Waiting),
}

/// A run that waits for a slot of its adapter. It is asked for again under the same id, or it is
/// cancelled: what it takes to start it is stored nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    pub run_id: RunId,
    pub task_id: TaskId,
    pub waiting_for: WaitingFor,
    /// The adapter whose slots are taken.
    pub pool: String,
    /// Its place in line, from 1.
    pub place: u64,
    pub taken: u64,
    pub places: u32,
}

/// A fault of the store, in the words of the fault table.
pub(crate) fn stored(error: store::Error) -> Fault {
    match error {
        // A host closes its store when it leaves, and the next one has it.
        store::Error::Closed => Fault::new(Code::RemoteUnavailable, "this host is shutting down")
            .with_hint("try again; the next host answers"),
        store::Error::Damaged { ref blob } => {
            let file = format!("blobs/{}/{blob}", blob.get(..2).unwrap_or_default());
            Fault::new(error.code(), error.to_string())
                .with_hint(format!("put {file} of the data directory back from a backup"))
        }
        error => Fault::new(error.code(), error.to_string()),
    }
}

/// Which runs are listed; those that fit everything that is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only those that have not ended.
    pub live: bool,
    pub agent: Option<String>,
    pub state: Option<RunState>,
    pub outcome: Option<Outcome>,
    /// Only those that began then or later.
    pub since: Option<Timestamp>,
    pub cwd: Option<String>,
}

impl RunFilter {
    fn fits(&self, run: &RunRow) -> bool {
        self.agent.as_ref().is_none_or(|agent| *agent == run.agent)
            && self.state.is_none_or(|state| state == run.state)
            && self.outcome.is_none_or(|outcome| Some(outcome) == run.outcome)
            && self.since.is_none_or(|since| run.started_at >= since)
            && self.cwd.as_ref().is_none_or(|cwd| *cwd == run.cwd)
    }
}

/// A page of the runs that fit, newest first, behind `before`. At most `RUNS_SCANNED_MAX` runs are
/// looked at for one page, so a page can be short although there are more: `next` says so.
pub async fn list(
    host: &Host,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Result<Page<RunRow>, Fault> {
    let (mut items, mut before, mut scanned) = (Vec::new(), before, 0);
    while scanned < RUNS_SCANNED_MAX {
        let read = PAGE_ROWS_MAX.min(RUNS_SCANNED_MAX - scanned);
        let page = RunsPage { before, limit: read, unsettled_only: filter.live };
        let rows = host.store().runs(page).await.map_err(stored)?;
        scanned += rows.len();
        let is_last = rows.len() < read;
        // Runs begin in the order of their ids, but for those that waited for a slot meanwhile.
        let is_past = |run: &RunRow| {
            filter.since.is_some_and(|since| run.started_at.plus_ms(RUN_WAIT_MS) < since)
        };
        let is_done = is_last || rows.last().is_some_and(is_past);
        for row in rows {
            if items.len() == limit {
                return Ok(Page { next: before.map(|id| id.to_string()), items });
            }
            before = Some(row.id);
            if filter.fits(&row) {
                items.push(row);
            }
        }
        if is_done {
            return Ok(Page { items, next: None });
        }
    }
    Ok(Page { items, next: before.map(|id| id.to_string()) })
}

/// The time that a person means by `since`: RFC 3339, a day, or an age such as 90s, 10m, 2h or 7d.
pub fn since(given: &str) -> Result<Timestamp, Fault> {
    let exact = || serde_json::from_value::<Timestamp>(given.into()).ok();
    let age = || {
        let (unit, ms) = [('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)]
            .into_iter()
            .find(|(unit, _)| given.ends_with(*unit))?;
        let count: i64 = given.strip_suffix(unit)?.parse::<u32>().ok()?.into();
        Some(clock::now().wall.plus_ms(-count.saturating_mul(ms)))
    };
    exact().or_else(|| super::money::midnight(given)).or_else(age).ok_or_else(|| {
        let shown: String = given.chars().take(40).collect();
        Fault::new(Code::Usage, format!("invalid value for `since`: '{shown}'")).with_hint(
            "give a date such as 2026-11-01, an RFC 3339 time, or an age such as 2h or 7d",
        )
    })
}

pub async fn get(host: &Host, run: RunId) -> Result<RunRow, Fault> {
    match host.store().run(run).await.map_err(stored)? {
        Some(row) => Ok(row),
        None => {
            not_deleted(host, run).await?;
            Err(not_begun(run, host.store().task_of(run).await.map_err(stored)?))
        }
    }
}

/// Says so of a run that was there and was deleted.
pub async fn not_deleted(host: &Host, run: RunId) -> Result<(), Fault> {
    match host.store().was_deleted(run).await.map_err(stored)? {
        true => Err(Fault::new(Code::NotFound, format!("{run} was deleted"))
            .with_hint("what it spent is still part of `ostler costs`")),
        false => Ok(()),
    }
}

/// Why there is nothing of a run to be seen.
fn not_begun(run: RunId, task: Option<TaskRow>) -> Fault {
    match task {
        Some(task) if task.state == TaskState::Waiting => {
            let pool = task.pool.unwrap_or_default();
            Fault::new(Code::Conflict, format!("{run} waits for a slot of '{pool}'"))
                .with_hint("it starts when one is free; `ostler runs` shows its place")
        }
        Some(task) => {
            Fault::new(Code::NotFound, format!("{run} never started: it was {}", task.state.word()))
        }
        None => Fault::new(Code::NotFound, format!("there is no run {run}")),
    }
}

/// The run that a person means: its whole id, a beginning or an end of it, or a beginning of the
/// eight digits that lists show, whatever fits no other. Of a task it is the newest run.
pub async fn find(host: &Host, given: &str) -> Result<RunId, Fault> {
    if let Ok(run) = given.parse() {
        return match host.store().task_of(run).await.map_err(stored)? {
            Some(_) => Ok(run),
            None => Err(not_begun(run, None)),
        };
    }
    let found = host.store().find_runs(given, CANDIDATES_MAX).await.map_err(stored)?;
    match found[..] {
        [run] => Ok(run),
        [] => newest_of(host, given).await,
        _ => {
            let mut lines = Vec::new();
            for run in found {
                let row = host.store().run(run).await.map_err(stored)?;
                lines.push(candidate(&run.to_string(), row.map(|row| row.prompt_preview)));
            }
            Err(ambiguous("run", given, &lines))
        }
    }
}

/// How many candidates are listed when a part of an id fits several.
pub(super) const CANDIDATES_MAX: usize = 6;

/// An id with the beginning of its title.
pub(super) fn candidate(id: &str, title: Option<String>) -> String {
    let title: String = title.unwrap_or_default().chars().take(60).collect();
    format!("{id}  {}", title.lines().next().unwrap_or_default())
}

/// A part of an id fits several runs or tasks.
pub(super) fn ambiguous(what: &str, given: &str, candidates: &[String]) -> Fault {
    let given: String = given.chars().take(80).collect();
    Fault::new(Code::NotFound, format!("more than one {what} matches '{given}'"))
        .with_detail(candidates.join("\n"))
        .with_hint("give more digits; the last eight digits of an ID are enough")
}

/// The newest run of the one task that fits.
async fn newest_of(host: &Host, given: &str) -> Result<RunId, Fault> {
    let tasks = match given.parse() {
        Ok(task) => vec![task],
        // No whole id: it may be a part of one.
        Err(_) => host.store().find_tasks(given, 2).await.map_err(stored)?,
    };
    let [task] = tasks[..] else {
        return Err(Fault::new(Code::NotFound, format!("there is no run '{given}'")));
    };
    let runs = host.store().runs_of(task, 1).await.map_err(stored)?;
    if let Some(run) = runs.first() {
        return Ok(*run);
    }
    Err(match host.store().task(task).await.map_err(stored)? {
        // It was started directly, and its run would have had the same digits.
        Some(row) if !row.by_queue => not_begun(RunId::new(task.uuid()), Some(row)),
        _ => Fault::new(Code::NotFound, format!("there is no run of the task '{given}' yet"))
            .with_hint("`ostler task show` says what it waits for"),
    })
}

/// Refuses at once what the agent is known not to take; what is not known yet waits in the inbox.
fn possible(host: &Host, run: RunId, wish: &Wish) -> Result<(), Fault> {
    let live = host.inner.live();
    let Some(live) = live.get(&run).map(|live| &live.shown).filter(|shown| shown.heard) else {
        return Ok(());
    };
    let (taken, what) = match wish {
        Wish::Say { .. } => (live.takes_messages, "messages"),
        Wish::Interrupt => (live.takes_interrupts, "interrupts"),
        Wish::Stop { .. }
        | Wish::Answer { .. }
        | Wish::ToolResult { .. }
        | Wish::Budget { .. }
        | Wish::Unknown => return Ok(()),
    };
    match taken {
        true => Ok(()),
        false => Err(Fault::new(
            Code::NotSupported,
            format!(
                "this agent does not accept {what} during a \
             run"
            ),
        )
        .with_hint("stop it, or wait for its end and run again")),
    }
}

/// Puts a wish into a run's inbox; its driver takes it from there. The same id again is the same
/// wish, whoever hosts by then.
pub async fn wish(
    host: &Host,
    run: RunId,
    id: Option<CommandId>,
    wish: Wish,
    by: &Who,
) -> Result<(), Fault> {
    if wish == Wish::Unknown {
        return Err(Fault::new(Code::Usage, "the command is not known to this version"));
    }
    // A stop is kept for whoever takes the run over. Anything else may hold secrets, which only its
    // driver knows.
    if !matches!(wish, Wish::Stop { .. }) {
        host.inner.adopted(Some(run)).await?;
    }
    possible(host, run, &wish)?;
    let wish = match wish {
        // Whatever was sent: who answers is known by the token.
        Wish::Answer { ask_id, option, by: _, reason } => {
            Wish::Answer { ask_id, option, by: Some(by.to_string()), reason }
        }
        wish => wish,
    };
    let command = contract::Command {
        id: id.unwrap_or_else(chance::command_id),
        run_id: run,
        asked_at: clock::now().wall,
        wish,
    };
    // A wish holds what a person typed, and its run's secrets may be in it.
    let seal = seal_of(host, run).await?;
    let new = NewCommand {
        id: command.id,
        run,
        asked_at: command.asked_at,
        wish: seal.json(&command.wish),
    };
    let stops = matches!(command.wish, Wish::Stop { .. });
    if let Wish::Answer { ask_id, option, .. } = &command.wish {
        let about = serde_json::json!({ "run_id": run, "ask_id": ask_id, "option": option });
        host.inner.audit.answered(command.asked_at, by, about);
    }
    if host.store().run(run).await.map_err(stored)?.is_none() {
        let task = host.store().task_of(run).await.map_err(stored)?;
        match stops && line::leave(host, run).await? {
            true => return Ok(()),
            // It may have begun meanwhile; otherwise there is nobody to wish something of.
            false if host.store().run(run).await.map_err(stored)?.is_some() => {}
            false => return Err(not_begun(run, task)),
        }
    }
    let put = match command.wish {
        Wish::Stop { .. } => host.store().command_from_reserve(new).await,
        Wish::Say { .. }
        | Wish::Interrupt
        | Wish::Answer { .. }
        | Wish::ToolResult { .. }
        | Wish::Budget { .. }
        | Wish::Unknown => host.store().command(new).await.map(|()| Room::Ordinary),
    };
    host.inner.heed_room(put).map_err(|error| match error.code() {
        Code::Conflict => Fault::new(Code::Conflict, format!("{run} has already ended"))
            .with_hint(format!("look at it with `ostler show {run}`")),
        _ => stored(error),
    })?;
    if stops {
        adopt::end_unlaunched(host, run).await?;
    }
    Ok(())
}

/// Its events behind a number, as far as one page goes.
pub async fn events(
    host: &Host,
    run: RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, Fault> {
    let stored_events = host.store().events(run, after, limit).await.map_err(stored)?;
    let read = |event: &store::StoredEvent| {
        serde_json::from_slice(&event.bytes).map_err(|error| {
            let message = format!("reading event {} of {run}: {error}", event.seq);
            Fault::new(Code::InternalError, message)
        })
    };
    stored_events.iter().map(read).collect()
}

/// The launch plan as it was stored before the spawn: sealed.
pub async fn plan(host: &Host, run: RunId) -> Result<Vec<u8>, Fault> {
    host.store()
        .plan(run)
        .await
        .map_err(stored)?
        .ok_or_else(|| Fault::new(Code::NotFound, format!("there is no run {run}")))
}

/// What is kept of its raw output: sealed, line by line.
pub async fn trace(host: &Host, run: RunId) -> Result<TraceReader, Fault> {
    let row = get(host, run).await?;
    host.store().read_trace(row.id).map_err(stored)?.ok_or_else(|| {
        Fault::new(Code::NotFound, format!("no trace of {run} is kept"))
            .with_hint("its adapter has `trace` off, or the agent printed nothing")
    })
}

/// A blob that an event names.
pub async fn blob(host: &Host, hash: &str) -> Result<Vec<u8>, Fault> {
    let (store, name) = (host.store().clone(), hash.to_owned());
    blocking::spawn(Bulkhead::Data, "read blob", move || store.blob(&name))
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("reading a blob: {error}")))?
        .map_err(stored)?
        .ok_or_else(|| {
            Fault::new(
                Code::NotFound,
                format!("there is no blob '{}'", hash.chars().take(80).collect::<String>()),
            )
        })
}

/// What must be kept out of the wishes of a run: of one that is not driven here at the moment, as its host
/// left it beside the spool for the next one.
async fn seal_of(host: &Host, run: RunId) -> Result<store::Seal, Fault> {
    let house = Arc::clone(&host.inner);
    if house.is_here(run) {
        return Ok(house.seal_of(run));
    }
    let find = move || {
        let attempt = house.data.last_attempt(run);
        let secret = house.keepsake_secret(run, attempt);
        keepsake::find(&house.data.spool(run, attempt), &secret).map(store::Seal::new)
    };
    let found = blocking::spawn(Bulkhead::Data, "find run secrets", find).await;
    // A run without a spool has ended or was never launched: none of its secrets is known any more.
    let found = found.map_err(|error| {
        Fault::new(Code::InternalError, format!("reading the secrets of {run}: {error}"))
    })?;
    Ok(found.unwrap_or_default())
}
