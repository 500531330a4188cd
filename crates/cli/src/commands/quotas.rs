//! `ostler quotas`: whether runs start with each account, until when not, and a person's word against
//! it.

use super::{Context, Stopped};
use crate::args::{Quotas, QuotasWhat};
use crate::{render, terminal};
use host::ops::quota::QuotaView;
use std::process::ExitCode;

pub async fn quotas(context: &Context, args: Quotas) -> Result<ExitCode, Stopped> {
    match args.what {
        None => list(context, args.fresh).await,
        Some(QuotasWhat::Clear { scope }) => clear(context, &scope).await,
    }
}

async fn list(context: &Context, fresh: bool) -> Result<ExitCode, Stopped> {
    let path = if fresh { "/api/v1/quotas?fresh=true" } else { "/api/v1/quotas" };
    let rows: Vec<QuotaView> = context.ask(async |client| Ok(client.all(path).await?)).await?;
    if context.global.json {
        context.print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        context.print("no quota information yet (no agent has reported one)")?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let columns = surroundings.columns_to_fill();
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let now = host::clock::now().wall;
    context.print_rendered(&render::quotas_table(&rows, now, columns, colour))?;
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.error.as_ref()?))) {
        context.print(&format!("{}: the provider could not be asked: {why}", row.scope))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn clear(context: &Context, scope: &str) -> Result<ExitCode, Stopped> {
    let row = context.ask(async |client| Ok(client.clear_quota(scope).await?)).await?;
    match context.global.json {
        true => context.print_json(&row)?,
        false => context.print(&format!("runs start again with {}", row.scope))?,
    }
    Ok(ExitCode::SUCCESS)
}
