//! `ostler status`: what runs, what waits and what needs attention, on one screen. Everything is read
//! through the API, from lists that other commands show in full; each line names that command.

use super::{Context, Stopped, runs};
use crate::args;
use crate::client::Client;
use crate::render::{self, Attention};
use crate::terminal;
use contract::event::BudgetLevel;
use contract::view::RunView;
use contract::{Fault, Outcome, TaskState, limits};
use host::HostRole;
use host::configuration::ConfigurationState;
use host::ops::limits::BudgetView;
use host::ops::quota::{QuotaState, QuotaView};
use host::ops::task::TaskView;
use serde::Serialize;
use serde_json::Value;
use std::process::ExitCode;

/// Failures that are older need no attention any more.
const FAILED_WITHIN_MS: i64 = 24 * 3600 * 1000;

/// The answer of `ostler status --json`.
#[derive(Debug, Serialize)]
struct Status {
    running: Vec<RunView>,
    approvals: usize,
    /// Tasks that wait for a person's review.
    review: Vec<TaskView>,
    queued: Vec<TaskView>,
    waiting: Vec<TaskView>,
    failed_24h: usize,
    /// The quotas under which no run starts now.
    quotas_blocked: Vec<QuotaView>,
    budgets_used_up: Vec<BudgetView>,
    store: Value,
    host: Option<HostRole>,
    configuration: Option<ConfigurationState>,
}

pub async fn status(context: &Context) -> Result<ExitCode, Stopped> {
    let status = context.ask(async |client| Ok(look(client).await?)).await?;
    if context.global.json {
        context.print_json(&status)?;
        return Ok(ExitCode::SUCCESS);
    }
    let live = args::Runs { limit: limits::PAGE_ROWS_MAX, live: true, ..args::Runs::default() };
    runs::runs(context, live).await?;
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let lines = render::attention_lines(&attention(&status), host::clock::now().wall, colour);
    if !lines.is_empty() {
        context.print_rendered(&format!("\n{lines}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn look(client: &Client) -> Result<Status, Fault> {
    let tasks = async |state: TaskState| {
        let rows: Vec<TaskView> =
            client.all(&format!("/api/v1/tasks?state={}", state.word())).await?;
        // A run that waits for a slot is among the runs.
        Ok::<_, Fault>(rows.into_iter().filter(|row| row.run_id.is_none()).collect())
    };
    let host: Value = client.get("/api/v1/host").await?;
    let quotas: Vec<QuotaView> = client.all("/api/v1/quotas").await?;
    let budgets: Vec<BudgetView> = client.get("/api/v1/budgets").await?;
    let since = host::clock::now().wall.plus_ms(-FAILED_WITHIN_MS);
    let recent: Vec<RunView> = client.all(&format!("/api/v1/runs?since={since}")).await?;
    let has_failed = |row: &&RunView| {
        matches!(row.outcome, Some(Outcome::Failed | Outcome::TimedOut | Outcome::Lost))
    };
    Ok(Status {
        running: client.runs(limits::PAGE_ROWS_MAX, true).await?,
        approvals: client.asks().await?.len(),
        review: tasks(TaskState::Review).await?,
        queued: tasks(TaskState::Queued).await?,
        waiting: tasks(TaskState::Waiting).await?,
        failed_24h: recent.iter().filter(has_failed).count(),
        quotas_blocked: quotas.into_iter().filter(|row| row.state != QuotaState::Open).collect(),
        budgets_used_up: budgets.into_iter().filter(|row| row.level == BudgetLevel::Hard).collect(),
        store: host["store"].clone(),
        host: serde_json::from_value(host["role"].clone()).ok(),
        // An older host does not say.
        configuration: serde_json::from_value(host["configuration"].clone()).ok(),
    })
}

/// Lists the matters that need attention, the most urgent first.
fn attention(status: &Status) -> Vec<Attention> {
    let mut found = Vec::new();
    if let Some(code) = status.store["code"].as_str() {
        found.push(Attention::StoreFailed { code: code.to_owned() });
    }
    if let Some(configuration) = &status.configuration {
        if let Some(refused) = &configuration.refused {
            found.push(Attention::ConfigurationRefused { message: refused.message.clone() });
        }
        found.push(Attention::RestartNeeded(configuration.restart_for.clone()));
    }
    found.push(Attention::Approvals(status.approvals));
    found.push(Attention::Reviews(status.review.len()));
    found.push(Attention::Failed(status.failed_24h));
    for quota in &status.quotas_blocked {
        found.push(Attention::Quota { scope: quota.scope.clone(), state: quota.state });
    }
    for budget in &status.budgets_used_up {
        let (scope, window) = (budget.budget.scope.clone(), budget.budget.window.word());
        found.push(Attention::Budget { scope, window, ends_at: budget.ends_at });
    }
    let oldest = |rows: &[TaskView]| rows.iter().map(|row| row.created_at).min();
    found.push(Attention::Waiting {
        queued: status.queued.len(),
        waiting: status.waiting.len(),
        oldest: oldest(&status.queued).into_iter().chain(oldest(&status.waiting)).min(),
        is_served: status.host == Some(HostRole::Server),
    });
    found
}
