//! Carrying out the tools of `ostler mcp`: each is a request or two to the host's API, whose answer is
//! given on as a small view (`views.rs`). A request that may have to be repeated to the next host has an
//! id of its own, so it is done once.

use super::tools::{
    AddTask, Answer, Apply, CommentTask, Costs, Detail, HireAgent, ListRuns, ListRuntimes,
    ListTasks, Nothing, OneRun, OneTask, RejectTask, Say, ShowDiff, ShowRun, StartRun, ToolName,
    WaitRun,
};
use super::views;
use crate::client::{Client, escaped};
use crate::config::{self, Config};
use crate::way::Way;
use contract::event::{self, Body};
use contract::view::RunView;
use contract::{AskId, Code, Fault, Page, RunId, RunState, Surface, Wish, misread};
use futures::StreamExt as _;
use host::ops::agents::{Hire, Saved};
use host::ops::apply::ApplyRequest;
use host::ops::ask;
use host::ops::diff::Diff;
use host::ops::run::{Asked, RunRequest};
use host::ops::task::decide::Words;
use host::ops::task::{TaskSheet, TaskView};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use store::CostRow;

/// Rows of a list whose length nobody says.
const LISTED: u32 = 20;
/// The longest list.
const LISTED_MAX: u32 = 100;
/// How often a run that waits for a slot is asked for before it is given up.
const TURNS_MAX: u32 = 5;
/// The last events of a run in which its result and the error before it are looked for.
const ENDING_EVENTS: u64 = 10;
/// The longest patch that an answer holds.
const PATCH_BYTES_MAX: usize = 20_000;
/// Between two of those, where the host answered at once.
const TURN_PAUSE: Duration = Duration::from_secs(1);
/// The number of times that the list of approvals is read after an answer, before the answer is reported
/// as accepted but not yet delivered.
const TAKEN_LOOKS_MAX: u32 = 40;
/// Between two of those looks.
const TAKEN_PAUSE: Duration = Duration::from_millis(50);

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let at = error.path().to_string();
        let wrong = misread::in_words(&error.into_inner().to_string(), &at);
        Fault::new(Code::Usage, format!("{wrong} in the arguments"))
    })
}

/// The place that tools act from.
pub(super) struct Here<'a> {
    /// The directory that this server was started in.
    pub cwd: &'a Path,
    /// Its environment.
    pub vars: &'a BTreeMap<String, String>,
    pub config: &'a Config,
}

pub(super) async fn perform(
    way: &mut Way<'_>,
    tool: ToolName,
    args: Value,
    here: &Here<'_>,
) -> Result<Value, Fault> {
    let cwd = here.cwd;
    match tool {
        ToolName::ListRuntimes => list_runtimes(&read(args)?, here),
        ToolName::HireAgent => hire(way, read(args)?).await,
        ToolName::WaitRun => {
            let WaitRun { run, .. } = read(args)?;
            way.ask(async |client| look(client, &run).await).await
        }
        ToolName::ShowDiff => {
            let ShowDiff { run, patch } = read(args)?;
            let patch = patch.unwrap_or(true);
            let path = format!("/api/v1/runs/{}/diff?patch={patch}", escaped(&run));
            let diff: Diff = way.ask(async |client| client.get(&path).await).await?;
            Ok(shortened(diff))
        }
        ToolName::Apply => {
            let Apply { run } = read(args)?;
            let request = ApplyRequest::default();
            let applied = way.ask(async |client| client.apply(&run, &request).await).await?;
            Ok(json!({ "applied": applied }))
        }
        ToolName::Costs => {
            let Costs { by, since } = read(args)?;
            let mut path = format!("/api/v1/costs?by={}", escaped(by.as_deref().unwrap_or("day")));
            if let Some(since) = since {
                path.push_str(&format!("&since={}", escaped(&since)));
            }
            let page: Page<CostRow> = way.ask(async |client| client.get(&path).await).await?;
            Ok(json!({ "costs": page.items.iter().map(views::cost).collect::<Vec<_>>() }))
        }
        ToolName::ListTasks => list_tasks(way, read(args)?).await,
        ToolName::ShowTask => {
            let OneTask { task } = read(args)?;
            let path = format!("/api/v1/tasks/{}", escaped(&task));
            let sheet: TaskSheet = way.ask(async |client| client.get(&path).await).await?;
            Ok(json!({ "task": views::task_details(&sheet) }))
        }
        ToolName::AddTask => add(way, read(args)?, cwd).await,
        ToolName::CommentTask => {
            let CommentTask { task, text } = read(args)?;
            // Under one id, so that a host that is lost on the way leaves no second one.
            let id = Some(host::chance::command_id());
            let words = Words { id, text: Some(text), mentions: Vec::new() };
            decide(way, &task, "comment", words).await
        }
        ToolName::RejectTask => {
            let RejectTask { task, reason } = read(args)?;
            let words = Words { text: Some(reason), ..Words::default() };
            decide(way, &task, "reject", words).await
        }
        ToolName::ApproveTask => bare(way, args, "approve").await,
        ToolName::CancelTask => bare(way, args, "cancel").await,
        ToolName::RetryTask => bare(way, args, "retry").await,
        ToolName::ReopenTask => bare(way, args, "reopen").await,
        ToolName::ListAgents => {
            let Nothing {} = read(args)?;
            let agents = way.ask(async |client| client.agents().await).await?;
            Ok(json!({ "agents": agents.iter().map(views::agent).collect::<Vec<_>>() }))
        }
        ToolName::ListRuns => {
            let ListRuns { limit, live, agent, outcome, since, after } = read(args)?;
            let limit = limit.unwrap_or(LISTED).min(LISTED_MAX);
            let mut path = format!("/api/v1/runs?limit={limit}&live={live}");
            let outcome = outcome.map(|outcome| outcome.word().to_owned());
            let given =
                [("agent", agent), ("outcome", outcome), ("since", since), ("before", after)];
            for (name, value) in given {
                path.extend(value.map(|value| format!("&{name}={}", escaped(&value))));
            }
            let page: Page<RunView> = way.ask(async |client| client.get(&path).await).await?;
            let runs: Vec<_> = page.items.iter().map(views::run).collect();
            Ok(json!({ "runs": runs, "next": page.next }))
        }
        ToolName::ShowRun => {
            let ShowRun { run, after } = read(args)?;
            way.ask(async |client| show(client, &run, after).await).await
        }
        ToolName::StartRun => start(way, read(args)?, cwd).await,
        ToolName::Say => {
            let Say { run, text } = read(args)?;
            let run = wish(way, &run, Wish::Say { text }).await?;
            Ok(json!({ "run_id": run, "next": "call wait_run with this run_id" }))
        }
        ToolName::StopRun => {
            let OneRun { run } = read(args)?;
            let stop = Wish::Stop { reason: Code::Cancelled, at_once: false };
            let run = wish(way, &run, stop).await?;
            Ok(json!({ "run_id": run, "next": "it is ending: call wait_run for its result" }))
        }
        ToolName::ListApprovals => {
            let Nothing {} = read(args)?;
            let asks = way.ask(async |client| client.asks().await).await?;
            Ok(json!({ "approvals": asks.iter().map(views::approval).collect::<Vec<_>>() }))
        }
        ToolName::Answer => {
            let Answer { approval, choice, reason } = read(args)?;
            let open = way.ask(async |client| ask::find(client.asks().await?, &approval)).await?;
            ask::check(&open, &choice)?;
            let (run, id) = (open.run_id, host::chance::command_id());
            let wish = Wish::Answer { ask_id: open.ask_id, option: choice, by: None, reason };
            way.ask(async |client| client.wish(run, id, &wish).await).await?;
            let taken = taken(way, open.ask_id).await?;
            Ok(json!({
                "approval_id": open.ask_id,
                "run_id": open.run_id,
                "taken": taken,
                "next": "call wait_run with this run_id",
            }))
        }
    }
}

async fn list_tasks(way: &mut Way<'_>, given: ListTasks) -> Result<Value, Fault> {
    let ListTasks { state, label, limit, after } = given;
    let limit = limit.unwrap_or(LISTED).min(LISTED_MAX);
    let mut path = format!("/api/v1/tasks?order=newest&handed_over=true&limit={limit}");
    let state = state.map(|state| state.word().to_owned());
    for (name, value) in [("state", state), ("label", label), ("after", after)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", escaped(&value)));
        }
    }
    let page: Page<TaskView> = way.ask(async |client| client.get(&path).await).await?;
    let tasks: Vec<_> = page.items.iter().map(views::task).collect();
    Ok(json!({ "tasks": tasks, "next": page.next }))
}

/// Hands a task over. Where its agent works nowhere of its own, it is done in this directory.
async fn add(way: &mut Way<'_>, given: AddTask, cwd: &Path) -> Result<Value, Fault> {
    let mut new = Map::new();
    // Asked for again after a change of host, it is the same task.
    new.insert("id".to_owned(), json!(host::chance::task_id()));
    new.insert("title".to_owned(), json!(given.title));
    new.insert("labels".to_owned(), json!(given.labels));
    for (name, value) in [
        ("body", given.body.map(Value::from)),
        ("agent", given.agent.map(Value::from)),
        ("cwd", given.cwd.map(|given| json!(cwd.join(given)))),
        ("review", given.review.map(|review| json!(review))),
        ("priority", given.priority.map(Value::from)),
        ("key", given.key.map(Value::from)),
    ] {
        new.extend(value.map(|value| (name.to_owned(), value)));
    }
    let mut after = Vec::new();
    for task in &given.after {
        after.push(way.ask(async |client| client.task(task).await).await?.id);
    }
    new.insert("after".to_owned(), json!(after));
    let nowhere = !new.contains_key("cwd");
    let put = async |client: &Client, new: &Map<String, Value>| {
        client.send::<TaskView>("/api/v1/tasks", new).await
    };
    let added = match way.ask(async |client| put(client, &new).await).await {
        Err(fault) if nowhere && fault.code == Code::BadWorkspace => {
            new.insert("cwd".to_owned(), json!(cwd));
            way.ask(async |client| put(client, &new).await).await
        }
        added => added,
    }?;
    let mut answer = json!({ "task": views::task(&added) });
    if !way.ask(async |client| Ok(client.serves().await)).await? {
        answer["warning"] = "no server is running, so nothing starts this task; \
            ask the person to start `ostler serve`"
            .into();
    }
    Ok(answer)
}

/// What is decided without a word.
async fn bare(way: &mut Way<'_>, args: Value, verb: &str) -> Result<Value, Fault> {
    let OneTask { task } = read(args)?;
    decide(way, &task, verb, Words::default()).await
}

async fn decide(way: &mut Way<'_>, task: &str, verb: &str, words: Words) -> Result<Value, Fault> {
    let decided = way.ask(async |client| client.decide(task, verb, &words).await).await?;
    Ok(json!({ "task": views::task(&decided) }))
}

async fn show(client: &Client, run: &str, after: u64) -> Result<Value, Fault> {
    let row = client.run(run).await?;
    let path = format!("/api/v1/runs/{}?view=transcript&after={after}", escaped(run));
    let transcript: Value = client.get(&path).await?;
    let (entries, next) = (&transcript["entries"], &transcript["next"]);
    Ok(json!({ "run": views::run(&row), "entries": entries, "next": next }))
}

async fn wish(way: &mut Way<'_>, run: &str, wish: Wish) -> Result<RunId, Fault> {
    let id = host::chance::command_id();
    let put = async |client: &Client| {
        let row = client.run(run).await?;
        client.wish(row.id, id, &wish).await?;
        Ok(row.id)
    };
    way.ask(put).await
}

/// Waits until an approval that was answered is not open any more, so that the next look at its run does
/// not tell it again.
async fn taken(way: &mut Way<'_>, answered: AskId) -> Result<bool, Fault> {
    for _ in 0..TAKEN_LOOKS_MAX {
        let open = way.ask(async |client| client.asks().await).await?;
        if open.iter().all(|ask| ask.ask_id != answered) {
            return Ok(true);
        }
        tokio::time::sleep(TAKEN_PAUSE).await;
    }
    Ok(false)
}

/// A run as `wait_run` tells it: where it stands, and its answer when it has ended.
async fn look(client: &Client, run: &str) -> Result<Value, Fault> {
    let row = client.run(run).await?;
    let asks = client.asks().await?;
    let open: Vec<_> =
        asks.iter().filter(|ask| ask.run_id == row.id).map(views::approval).collect();
    let mut told = json!({
        "done": row.state == RunState::Settled,
        "run": views::run(&row),
        "approvals": open,
    });
    if row.state == RunState::Settled {
        let (answer, hint) = ending(client, &row).await?;
        told["answer"] = json!(answer.as_deref().map(views::text));
        if let Some(hint) = hint {
            told["hint"] = hint.into();
        }
    }
    Ok(told)
}

/// The final answer of a run that has ended, and what to do about its failure, from its last events.
async fn ending(client: &Client, row: &RunView) -> Result<(Option<String>, Option<String>), Fault> {
    let mut events = client.events(row.id, row.head_seq.saturating_sub(ENDING_EVENTS)).await?;
    let mut error = None;
    while let Some(event) = events.next().await {
        let body = event?.event()?.body;
        if let Body::Result(result) = body {
            let hint = result.code.map(|code| hint(code, error.as_ref()));
            return Ok((result.text, hint));
        }
        if let Body::Error(told) = body {
            error = Some(told);
        }
    }
    Ok((None, None))
}

/// What to do about a failure: what was told with it, or the words of the fault table.
fn hint(code: Code, told: Option<&event::Error>) -> String {
    let own = told.filter(|told| told.code == code).and_then(|told| told.hint.clone());
    let fault = Fault { hint: own, ..Fault::new(code, code.row().message) };
    fault.hint_on(Surface::Tool).to_owned()
}

/// A diff whose patch fits an answer.
fn shortened(mut diff: Diff) -> Value {
    if let Some(patch) = &mut diff.patch
        && patch.len() > PATCH_BYTES_MAX
    {
        let end = (0..=PATCH_BYTES_MAX).rev().find(|end| patch.is_char_boundary(*end));
        patch.truncate(end.unwrap_or(0));
        diff.truncated = true;
    }
    json!(diff)
}

/// The runtimes whose program is here, with when to use each; the names of the others; the adapters of
/// the configuration. A runtime that needs an adapter is found through those alone.
fn list_runtimes(given: &ListRuntimes, here: &Here<'_>) -> Result<Value, Fault> {
    let path = here.vars.get("PATH").map(String::as_str);
    let cards = runtimes::registry::all().iter().map(|runtime| runtime.card());
    let cards = cards.filter(|card| !card.needs_adapter());
    let is_there = |program: &str| host::diagnose::find_program(program, path).is_some();
    let is_installed = |card: &contract::Card| {
        card.requires.first().is_none_or(|required| is_there(&required.binary))
    };
    if let Some(name) = &given.name {
        let Some(card) = runtimes::catalogue::find(name) else {
            let message = format!("there is no runtime '{name}'");
            return Err(Fault::new(Code::NotFound, message)
                .with_hint("call list_runtimes without a name for all of them"));
        };
        let mut one = match given.detail {
            Detail::Full => json!(card),
            Detail::Short => views::runtime(&card),
        };
        one["ready"] = is_installed(&card).into();
        return Ok(json!({ "runtime": one }));
    }
    let acp = runtimes::acp::cards::all().map(
        |known| json!({ "name": known.id, "label": known.label, "ready": is_there(known.binary) }),
    );
    let acp: Vec<_> = acp.collect();
    let adapters = here.config.file.adapters.iter().map(|(name, adapter)| {
        // Whether a remote is there is not known.
        let ready = match config::program(name, here.config) {
            Ok(program) => program.as_deref().map(is_there),
            // One that cannot be resolved cannot be started.
            Err(_) => Some(false),
        };
        views::adapter(name, adapter.kind.word(), ready)
    });
    let (installed, missing): (Vec<_>, Vec<_>) = cards.partition(is_installed);
    let mut described: Vec<_> = installed.iter().map(views::runtime).collect();
    described.iter_mut().for_each(|one| one["ready"] = true.into());
    if given.all {
        described.extend(missing.iter().map(|card| {
            let mut one = views::runtime(card);
            one["ready"] = false.into();
            one
        }));
    }
    let names: Vec<_> = missing.iter().map(|card| &card.id).collect();
    let adapters: Vec<_> = adapters.collect();
    Ok(json!({
        "runtimes": described,
        "adapters": adapters,
        "acp": acp,
        "not_installed": names,
    }))
}

/// Hires an agent with the keys that were given.
async fn hire(way: &mut Way<'_>, given: HireAgent) -> Result<Value, Fault> {
    let mut spec = Map::new();
    let budget =
        |window: &str, usd: Option<f64>| usd.map(|usd| json!({ "window": window, "usd": usd }));
    let budgets =
        [budget("run", given.budget_usd_per_run), budget("day", given.budget_usd_per_day)];
    let budgets: Vec<_> = budgets.into_iter().flatten().collect();
    for (key, value) in [
        ("adapter", json!(given.adapter)),
        ("model", json!(given.model)),
        ("systemPrompt", json!(given.system_prompt)),
        ("cwd", json!(given.cwd)),
        ("permission", json!(given.permission)),
        ("workspace", json!(given.workspace)),
        ("tools", json!(given.tools)),
        ("skills", json!(given.skills)),
        ("budgets", json!(budgets)),
    ] {
        if !value.is_null() && value != json!([]) {
            spec.insert(key.to_owned(), value);
        }
    }
    let hire = Hire { name: given.name, spec: Value::Object(spec) };
    let send = async |client: &Client| client.send::<Saved>("/api/v1/agents", &hire).await;
    let saved = way.ask(send).await?;
    Ok(json!({ "agent": views::agent(&saved.agent), "warnings": saved.warnings }))
}

/// Dollars as a budget has them.
fn nanousd(usd: f64) -> Result<i64, Fault> {
    let amount = usd * 1e9;
    match amount.is_finite() && amount > 0.0 && amount < i64::MAX as f64 {
        true => Ok(amount as i64),
        false => Err(Fault::new(Code::Usage, format!("budget_usd must be above 0, not {usd}"))),
    }
}

/// Minutes as a clock has them.
fn minutes(given: f64) -> Result<u64, Fault> {
    let ms = given * 60_000.0;
    match ms.is_finite() && ms >= 1.0 && ms < u64::MAX as f64 {
        true => Ok(ms as u64),
        false => {
            Err(Fault::new(Code::Usage, format!("timeout_minutes must be above 0, not {given}")))
        }
    }
}

async fn start(way: &mut Way<'_>, given: StartRun, cwd: &Path) -> Result<Value, Fault> {
    let mut asked = json!({
        // Asked for again, of this host or the next, it is the same run.
        "run_id": host::chance::run_id(),
        "agent": given.agent,
        "prompt": given.prompt,
        "cwd": cwd.join(given.cwd.unwrap_or_default()),
        "model": given.model,
        "permission": given.permission,
        "system_prompt": given.system_prompt,
        "budget": {
            "nanousd": given.budget_usd.map(nanousd).transpose()?,
            "tokens": given.budget_tokens,
        },
    });
    if given.worktree {
        asked["workspace"] = "worktree".into();
    }
    if let Some(run) = given.resume {
        asked["resume"] = json!({ "run": run });
    }
    if let Some(wall) = given.timeout_minutes.map(minutes).transpose()? {
        asked["clocks"] = json!({ "wall": { "ms": wall } });
    }
    let request: RunRequest = read(asked)?;
    for turn in 1.. {
        let waiting = match way.ask(async |client| client.start(&request).await).await? {
            Asked::Started(started) => {
                let mut answer = json!(started);
                answer["next"] = "call wait_run with this run_id".into();
                return Ok(answer);
            }
            Asked::Waiting(waiting) => waiting,
        };
        if turn == TURNS_MAX {
            let id = host::chance::command_id();
            let leave = Wish::Stop { reason: Code::Cancelled, at_once: false };
            way.ask(async |client| client.wish(waiting.run_id, id, &leave).await).await?;
            let message = format!("all {} slots of '{}' are taken", waiting.places, waiting.pool);
            return Err(Fault::new(Code::Conflict, message).with_hint("start it again later"));
        }
        tokio::time::sleep(TURN_PAUSE).await;
    }
    Err(Fault::new(Code::InternalError, "there are no more turns than numbers"))
}
