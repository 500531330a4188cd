//! `ostler runs`: what ran and what runs.

use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::Purpose;
use crate::render::{self, RunRow};
use crate::terminal;
use crate::way::Way;
use contract::limits;
use host::ops::task::TaskView;
use serde_json::Value;
use std::io::Write as _;
use std::process::ExitCode;

pub async fn runs(context: &Context, args: args::Runs) -> Result<ExitCode, Stopped> {
    if let Some(args::RunsVerb::Delete(args::RunToDelete { run, force })) = &args.verb {
        return delete(context, run, *force).await;
    }
    let ask = async |client: &Client| {
        let rows = client.runs(args.limit, args.live).await?;
        let waiting = client.waiting(args.limit).await?;
        Ok((rows, waiting, client.get::<Value>("/api/v1/host").await?))
    };
    let (rows, waiting, host) = context.ask(ask).await?;
    if let Some(warning) = warning(&host["store"]) {
        // Who reads the list only is not kept from it.
        let _ = writeln!(std::io::stderr(), "{warning}");
    }
    if context.global.json {
        let waiting = waiting.iter().filter_map(as_json);
        let rows = rows.iter().filter_map(|row| serde_json::to_value(row).ok());
        context.print_json(&waiting.chain(rows).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() && waiting.is_empty() {
        context.print(match args.live {
            true => "nothing is running",
            false => "nothing has run here yet; try: ostler run demo \"hello\"",
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = host::clock::now().wall;
    let waiting = waiting.into_iter().rev().filter_map(|task| in_line(task, now));
    let shown: Vec<RunRow> = waiting.chain(rows.into_iter().map(|row| shown(row, now))).collect();
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    context.print_rendered(&render::runs_table(&shown, now, surroundings.columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

/// What runs now and what waits: the live runs, and how many approvals are open.
pub async fn status(context: &Context) -> Result<ExitCode, Stopped> {
    let live = args::Runs { verb: None, limit: limits::PAGE_ROWS_MAX, live: true };
    let shown = runs(context, live).await?;
    if context.global.json {
        return Ok(shown);
    }
    let open = context.ask(async |client| Ok(client.asks().await?.len())).await?;
    match open {
        0 => {}
        1 => context.print("\n? 1 request waits for your approval: ostler approvals")?,
        many => context
            .print(&format!("\n? {many} requests wait for your approval: ostler approvals"))?,
    }
    Ok(shown)
}

async fn delete(context: &Context, run: &str, force: bool) -> Result<ExitCode, Stopped> {
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
            context.print(&format!("deleted {}", deleted["deleted"].as_str().unwrap_or(run)))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person must know besides, when the store cannot be written to.
fn warning(store: &Value) -> Option<String> {
    let (code, since) = (store["code"].as_str()?, store["since"].as_str()?);
    Some(format!(
        "warning: the store is in trouble ({code}) since {since}: live runs go on, nothing new is started"
    ))
}

/// A run that waits for a slot, in the words of those that have begun.
fn as_json(task: &TaskView) -> Option<Value> {
    let mut row = serde_json::to_value(task).ok()?;
    row["task"] = row["id"].take();
    row["id"] = serde_json::to_value(task.run_id?).ok()?;
    row.as_object_mut()?.remove("run_id");
    Some(row)
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
        tokens: 0,
        effective_nanousd: None,
        prompt: task.title,
    })
}

fn shown(row: store::RunRow, now: contract::Timestamp) -> RunRow {
    let totals = row.totals.unwrap_or_default();
    RunRow {
        id: row.id,
        started_at: row.started_at,
        agent: row.agent,
        outcome: row.outcome,
        place: None,
        duration_ms: row.ended_at.unwrap_or(now).since(row.started_at),
        tokens: totals.tokens.total(),
        effective_nanousd: totals.effective_nanousd,
        prompt: row.prompt_preview,
    }
}
