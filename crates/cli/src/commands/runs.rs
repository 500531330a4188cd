//! `ostler runs`: what ran and what runs.

use super::{Context, Stopped, add_dollars, target};
use crate::args::{self, Since};
use crate::client::Client;
use crate::hosting::{Place, Purpose};
use crate::render::{self, RunRow};
use crate::terminal;
use crate::way::Way;
use contract::view::RunView;
use contract::{Fault, Outcome, Timestamp};
use host::ops::task::TaskView;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub async fn runs(context: &Context, args: args::Runs) -> Result<ExitCode, Stopped> {
    if let Some(args::RunsVerb::Delete(args::RunToDelete { run, force })) = &args.verb {
        return delete(context, run, *force).await;
    }
    let place = context.place()?;
    let filter = Filter::new(&args, &place, host::clock::now().wall);
    let ask = async |client: &Client| {
        let rows = listed(client, &args, &filter).await?;
        let waiting = match filter.takes_waiting() {
            true => client.waiting(args.limit).await?,
            false => Vec::new(),
        };
        Ok((rows, waiting, client.get::<Value>("/api/v1/host").await?))
    };
    let (rows, waiting, host) = context.ask(ask).await?;
    if let Some(warning) = warning(&host["store"]) {
        // Who reads the list only is not kept from it.
        let _ = writeln!(std::io::stderr(), "{warning}");
    }
    if context.global.json {
        let waiting = waiting.iter().filter_map(as_json);
        let rows = rows.iter().filter_map(run_as_json);
        context.print_json(&waiting.chain(rows).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = host::clock::now().wall;
    let waiting: Vec<RunRow> =
        waiting.into_iter().rev().filter_map(|task| in_line(task, now)).collect();
    if rows.is_empty() && waiting.is_empty() {
        context.print(match (filter.is_empty(), args.live) {
            (_, true) => "nothing is running",
            (false, false) => "no such runs; `ostler runs` without filters lists all",
            (true, false) => "no runs yet; try: ostler run demo \"hello\"",
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.live && host["role"] == "background" && context.surroundings.stderr_is_terminal {
        terminal::remark(&format!("hosted in the background by process {}", host["pid"]));
    }
    let home = context.surroundings.vars.get("HOME").map(Path::new);
    let dir = |row: &RunView| {
        let source = host::trees::source_of(place.data.path(), Path::new(&row.cwd));
        let dir = source.unwrap_or_else(|| PathBuf::from(&row.cwd));
        render::home_relative(&dir, home)
    };
    let rows = rows.into_iter().map(|row| RunRow { dir: dir(&row), ..shown(row, now) });
    let shown: Vec<RunRow> = waiting.into_iter().chain(rows).collect();
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    context.print_rendered(&render::runs_table(&shown, now, surroundings.columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

/// How many requests wait for a person, and where to see them.
pub(super) fn approvals_line(open: usize) -> String {
    let wait = if open == 1 { "request waits" } else { "requests wait" };
    format!("? {open} {wait} for your approval: ostler approvals")
}

async fn delete(context: &Context, run: &str, force: bool) -> Result<ExitCode, Stopped> {
    let run = target::to_delete(run)?;
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let deleted = async {
        // Named in full first: asked for again, it may be gone already.
        let row = way.ask(async |client| client.run(run).await).await?;
        way.ask(async |client| client.delete_run(row.id, force).await).await
    };
    let deleted = deleted.await;
    way.finish().await;
    let deleted = deleted?;
    match context.global.json {
        true => context.print_json(&deleted)?,
        false => {
            let id = deleted["deleted"].as_str().unwrap_or(run);
            context.print(&format!("deleted {}", render::tail(id)))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person must know besides, when the store cannot be written to.
fn warning(store: &Value) -> Option<String> {
    let (code, since) = (store["code"].as_str()?, store["since"].as_str()?);
    Some(format!(
        "warning: the store has failed ({code}) since {since}: live runs continue, new runs are \
         not started"
    ))
}

/// A run that waits for a slot, in the words of those that have begun.
fn as_json(task: &TaskView) -> Option<Value> {
    let mut row = serde_json::to_value(task).ok()?;
    row["task"] = row["id"].take();
    row["id"] = serde_json::to_value(task.run_id?).ok()?;
    Some(row)
}

/// A run as JSON, its dollars beside the integers.
fn run_as_json(run: &RunView) -> Option<Value> {
    let mut row = serde_json::to_value(run).ok()?;
    add_dollars(&mut row["totals"]);
    Some(row)
}

/// The runs that are asked for, newest first.
async fn listed(
    client: &Client,
    args: &args::Runs,
    filter: &Filter<'_>,
) -> Result<Vec<RunView>, Fault> {
    if filter.is_empty() {
        return client.runs(args.limit, args.live).await;
    }
    let mut found = Vec::new();
    let mut before = None;
    while found.len() < args.limit {
        let page = client.runs_page(before.as_deref(), args.live).await?;
        let past = page.items.last().is_none_or(|row| filter.ends_before(row));
        found.extend(page.items.into_iter().filter(|row| filter.fits(row)));
        match page.next {
            Some(next) if !past => before = Some(next),
            _ => break,
        }
    }
    found.truncate(args.limit);
    Ok(found)
}

/// The filters of `ostler runs` beside `--live`.
struct Filter<'a> {
    here: Option<&'a Path>,
    agent: Option<&'a str>,
    failed: bool,
    since: Option<Timestamp>,
    data: &'a Path,
}

impl<'a> Filter<'a> {
    fn new(args: &'a args::Runs, place: &'a Place, now: Timestamp) -> Self {
        Self {
            here: args.here.then_some(place.surroundings.cwd.as_path()),
            agent: args.agent.as_deref(),
            failed: args.failed,
            since: args.since.map(|since| match since {
                Since::At(at) => at,
                Since::AgoMs(ms) => now.plus_ms(-i64::try_from(ms).unwrap_or(i64::MAX)),
            }),
            data: place.data.path(),
        }
    }

    fn is_empty(&self) -> bool {
        self.here.is_none() && self.agent.is_none() && !self.failed && self.since.is_none()
    }

    /// Whether runs that wait for a slot are listed too: of those only the agent is known.
    fn takes_waiting(&self) -> bool {
        self.is_empty()
    }

    fn fits(&self, row: &RunView) -> bool {
        let source = |cwd: &Path| host::trees::source_of(self.data, cwd);
        self.agent.is_none_or(|agent| row.agent == agent)
            && (!self.failed || row.outcome.is_some_and(|outcome| outcome != Outcome::Succeeded))
            && !self.ends_before(row)
            && self.here.is_none_or(|here| target::is_in(row, here, source))
    }

    /// Whether a run began before the period: every older one did too.
    fn ends_before(&self, row: &RunView) -> bool {
        self.since.is_some_and(|since| row.started_at < since)
    }
}

/// The same as a line of the table.
fn in_line(task: TaskView, now: contract::Timestamp) -> Option<RunRow> {
    Some(RunRow {
        id: task.run_id?,
        started_at: task.created_at,
        agent: task.agent.unwrap_or_default(),
        outcome: None,
        place: task.place,
        duration_ms: now.since(task.created_at),
        tokens: None,
        billing: None,
        effective_nanousd: None,
        prompt: task.title,
        dir: String::new(),
    })
}

fn shown(row: RunView, now: contract::Timestamp) -> RunRow {
    let totals = row.totals.unwrap_or_default();
    RunRow {
        id: row.id,
        started_at: row.started_at,
        agent: row.agent,
        outcome: row.outcome,
        place: None,
        duration_ms: row.ended_at.unwrap_or(now).since(row.started_at),
        tokens: row.usage.map(|usage| usage.total_tokens),
        billing: row.billing,
        effective_nanousd: totals.effective_nanousd,
        prompt: row.prompt_preview,
        dir: String::new(),
    }
}
