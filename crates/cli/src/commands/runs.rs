//! `ostler runs`: what ran and what runs.

use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::render::{self, RunRow};
use crate::terminal;
use serde_json::Value;
use std::io::Write as _;
use std::process::ExitCode;

pub async fn runs(context: &Context, args: args::Runs) -> Result<ExitCode, Stopped> {
    let path = format!("/api/v1/runs?limit={}&live={}", args.limit, args.live);
    let ask = async |client: &Client| {
        let rows: Vec<store::RunRow> = client.get(&path).await?;
        Ok((rows, client.get::<Value>("/api/v1/host").await?))
    };
    let (rows, host) = context.ask(ask).await?;
    if let Some(warning) = warning(&host["store"]) {
        // Who reads the list only is not kept from it.
        let _ = writeln!(std::io::stderr(), "{warning}");
    }
    if context.global.json {
        context.print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        context.print(match args.live {
            true => "nothing is running",
            false => "nothing has run here yet; try: ostler run demo \"hello\"",
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = host::clock::now().wall;
    let shown: Vec<RunRow> = rows.into_iter().map(|row| shown(row, now)).collect();
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    context.print_rendered(&render::runs_table(&shown, now, surroundings.columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

/// What a person must know besides, when the store cannot be written to.
fn warning(store: &Value) -> Option<String> {
    let (code, since) = (store["code"].as_str()?, store["since"].as_str()?);
    Some(format!(
        "warning: the store is in trouble ({code}) since {since}: live runs go on, nothing new is started"
    ))
}

fn shown(row: store::RunRow, now: contract::Timestamp) -> RunRow {
    let totals = row.totals.unwrap_or_default();
    RunRow {
        id: row.id,
        started_at: row.started_at,
        agent: row.agent,
        outcome: row.outcome,
        duration_ms: row.ended_at.unwrap_or(now).since(row.started_at),
        tokens: totals.tokens.total(),
        effective_nanousd: totals.effective_nanousd,
        prompt: row.prompt_preview,
    }
}
