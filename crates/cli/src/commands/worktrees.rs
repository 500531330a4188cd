//! `ostler worktrees`: the workspaces that were made for runs and are still kept, discarding one, and
//! removing those without work.

use super::{Context, Stopped, target};
use crate::args::{WorktreeToDiscard, WorktreesVerb};
use crate::client::Client;
use crate::hosting::Purpose;
use crate::way::Way;
use crate::{render, terminal};
use contract::Fault;
use host::ops::worktrees::{Pruned, WorktreeView};
use std::process::ExitCode;

pub async fn worktrees(
    context: &Context,
    verb: Option<WorktreesVerb>,
) -> Result<ExitCode, Stopped> {
    match verb.unwrap_or(WorktreesVerb::List) {
        WorktreesVerb::List => list(context).await,
        WorktreesVerb::Discard(args) => discard(context, &args).await,
        WorktreesVerb::Prune => prune(context).await,
    }
}

async fn list(context: &Context) -> Result<ExitCode, Stopped> {
    let rows: Vec<WorktreeView> =
        context.ask(async |client| Ok(client.all("/api/v1/worktrees").await?)).await?;
    if context.global.json {
        context.print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        context.print("no worktrees; `ostler run --worktree` makes one")?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let now = host::clock::now().wall;
    context.print_rendered(&render::worktrees(&rows, now, surroundings.columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

async fn discard(context: &Context, args: &WorktreeToDiscard) -> Result<ExitCode, Stopped> {
    let run = target::to_delete(&args.run)?;
    let discarded = act(context, async |client| client.discard(run, args.force).await).await?;
    match context.global.json {
        true => context.print_json(&discarded)?,
        false => {
            let work = match discarded.files {
                0 => String::new(),
                1 => " with 1 changed file".to_owned(),
                files => format!(" with {files} changed files"),
            };
            let id = discarded.run_id.to_string();
            context.print(&format!("discarded the worktree of {}{work}", render::tail(&id)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn prune(context: &Context) -> Result<ExitCode, Stopped> {
    let pruned: Pruned = act(context, async |client| {
        client.send("/api/v1/worktrees/prune", &serde_json::json!({})).await
    })
    .await?;
    if context.global.json {
        context.print_json(&pruned)?;
        return Ok(ExitCode::SUCCESS);
    }
    for row in &pruned.removed {
        let id = row.run_id.to_string();
        context.print(&format!("removed {} ({})", render::tail(&id), row.state.word()))?;
    }
    let worktrees = |n: usize| if n == 1 { "worktree" } else { "worktrees" };
    let removed = pruned.removed.len();
    let mut text = format!("{removed} {} removed", worktrees(removed));
    if pruned.kept > 0 {
        let kept = pruned.kept;
        text.push_str(&format!(
            ", {kept} kept: live, or with work that was not applied; `ostler worktrees` lists them"
        ));
    }
    context.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn act<T>(
    context: &Context,
    ask: impl AsyncFnMut(&Client) -> Result<T, Fault>,
) -> Result<T, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let answer = way.ask(ask).await;
    way.finish().await;
    Ok(answer?)
}
