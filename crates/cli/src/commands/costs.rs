//! `ostler costs`: what was spent, told apart as asked.

use super::{Context, Stopped, add_dollars};
use crate::args;
use crate::client::escaped;
use crate::{render, terminal};
use host::ops::limits::BudgetView;
use serde_json::Value;
use std::process::ExitCode;
use store::CostRow;

pub async fn costs(context: &Context, args: args::Costs) -> Result<ExitCode, Stopped> {
    let since = args.since.as_deref().map(|since| format!("&since={}", escaped(since)));
    let path = format!("/api/v1/costs?by={}{}", escaped(&args.by), since.unwrap_or_default());
    let (rows, budgets): (Vec<CostRow>, Vec<BudgetView>) = context
        .ask(async |client| Ok((client.all(&path).await?, client.get("/api/v1/budgets").await?)))
        .await?;
    if context.global.json {
        context.print_json(&rows.iter().filter_map(as_json).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let columns = surroundings.columns_to_fill();
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    match rows.is_empty() {
        true => context.print("nothing was spent")?,
        false => {
            let table = render::costs_table(&rows, columns, colour);
            context.print_rendered(&format!("{table}\n{}", render::costs_total(&rows)))?;
        }
    }
    if !budgets.is_empty() {
        let table = render::budgets_table(&budgets, columns, colour);
        context.print_rendered(&format!("\n{table}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(row: &CostRow) -> Option<Value> {
    let mut row = serde_json::to_value(row).ok()?;
    add_dollars(&mut row);
    Some(row)
}
