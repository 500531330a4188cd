//! Carrying out the tools of `ostler mcp`: each is a request or two to the host's API, and its answer
//! is given on as it came. What may have to be said again to the next host has an id of its own, so it
//! is done once.

use super::tools::{
    AddTask, Answer, CommentTask, ListRuns, ListTasks, Nothing, OneRun, OneTask, RejectTask, Say,
    ShowRun, StartRun, ToolName,
};
use crate::client::{Client, escaped};
use crate::way::Way;
use contract::{Code, Fault, Page, Wish};
use host::ops::ask;
use host::ops::run::{Asked, RunRequest};
use host::ops::task::decide::Words;
use host::ops::task::{TaskSheet, TaskView};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// Rows of a list whose length nobody says.
const LISTED: u32 = 20;
/// How often a run that waits for a slot is asked for before it is given up.
const TURNS_MAX: u32 = 5;
/// Between two of those, where the host answered at once.
const TURN_PAUSE: Duration = Duration::from_secs(1);

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Fault> {
    serde_json::from_value(args).map_err(|error| Fault::new(Code::Usage, error.to_string()))
}

pub(super) async fn perform(
    way: &mut Way<'_>,
    tool: ToolName,
    args: Value,
    cwd: &Path,
) -> Result<Value, Fault> {
    match tool {
        ToolName::ListTasks => list_tasks(way, read(args)?).await,
        ToolName::ShowTask => {
            let OneTask { task } = read(args)?;
            let path = format!("/api/v1/tasks/{}", escaped(&task));
            let sheet: TaskSheet = way.ask(async |client| client.get(&path).await).await?;
            Ok(json!({ "task": sheet }))
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
            Ok(json!({ "agents": agents }))
        }
        ToolName::ListRuns => {
            let ListRuns { limit, live } = read(args)?;
            let limit = limit.unwrap_or(LISTED) as usize;
            let runs = way.ask(async |client| client.runs(limit, live).await).await?;
            Ok(json!({ "runs": runs }))
        }
        ToolName::ShowRun => {
            let ShowRun { run, after } = read(args)?;
            way.ask(async |client| show(client, &run, after).await).await
        }
        ToolName::StartRun => start(way, read(args)?, cwd).await,
        ToolName::Say => {
            let Say { run, text } = read(args)?;
            wish(way, &run, Wish::Say { text }).await
        }
        ToolName::StopRun => {
            let OneRun { run } = read(args)?;
            wish(way, &run, Wish::Stop { reason: Code::Cancelled, at_once: false }).await
        }
        ToolName::ListApprovals => {
            let Nothing {} = read(args)?;
            let asks = way.ask(async |client| client.asks().await).await?;
            Ok(json!({ "approvals": asks }))
        }
        ToolName::Answer => {
            let Answer { ask, choice } = read(args)?;
            let open = way.ask(async |client| ask::find(client.asks().await?, &ask)).await?;
            ask::check(&open, &choice)?;
            let (run, id) = (open.run_id, host::chance::command_id());
            let wish = Wish::Answer { ask_id: open.ask_id, option: choice, by: None, reason: None };
            way.ask(async |client| client.wish(run, id, &wish).await).await?;
            Ok(json!({ "answered": open }))
        }
    }
}

async fn list_tasks(way: &mut Way<'_>, given: ListTasks) -> Result<Value, Fault> {
    let ListTasks { state, label, limit, after } = given;
    let mut path = format!("/api/v1/tasks?order=newest&limit={}", limit.unwrap_or(LISTED));
    let state = state.map(|state| state.word().to_owned());
    for (name, value) in [("state", state), ("label", label), ("after", after)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", escaped(&value)));
        }
    }
    let page: Page<TaskView> = way.ask(async |client| client.get(&path).await).await?;
    Ok(json!({ "tasks": page.items, "next": page.next }))
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
    let served = way.ask(async |client| Ok(client.serves().await)).await?;
    Ok(json!({ "task": added, "server_is_there": served }))
}

/// What is decided without a word.
async fn bare(way: &mut Way<'_>, args: Value, verb: &str) -> Result<Value, Fault> {
    let OneTask { task } = read(args)?;
    decide(way, &task, verb, Words::default()).await
}

async fn decide(way: &mut Way<'_>, task: &str, verb: &str, words: Words) -> Result<Value, Fault> {
    let decided = way.ask(async |client| client.decide(task, verb, &words).await).await?;
    Ok(json!({ "task": decided }))
}

async fn show(client: &Client, run: &str, after: u64) -> Result<Value, Fault> {
    let row = client.run(run).await?;
    let path = format!("/api/v1/runs/{}?view=transcript&after={after}", escaped(run));
    let transcript: Value = client.get(&path).await?;
    Ok(json!({ "run": row, "entries": transcript["entries"], "next": transcript["next"] }))
}

async fn wish(way: &mut Way<'_>, run: &str, wish: Wish) -> Result<Value, Fault> {
    let id = host::chance::command_id();
    let put = async |client: &Client| {
        let row = client.run(run).await?;
        client.wish(row.id, id, &wish).await?;
        Ok(row.id)
    };
    Ok(json!({ "run_id": way.ask(put).await? }))
}

async fn start(way: &mut Way<'_>, given: StartRun, cwd: &Path) -> Result<Value, Fault> {
    let request: RunRequest = read(json!({
        // Asked for again, of this host or the next, it is the same run.
        "run_id": host::chance::run_id(),
        "agent": given.agent,
        "prompt": given.prompt,
        "cwd": cwd.join(given.cwd.unwrap_or_default()),
        "model": given.model,
        "permission": given.permission,
    }))?;
    for turn in 1.. {
        let waiting = match way.ask(async |client| client.start(&request).await).await? {
            Asked::Started(started) => return Ok(json!(started)),
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
