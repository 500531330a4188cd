//! `ostler diff`: what a run changed in its worktree. On a terminal in colours, elsewhere as a patch
//! that other programs read; as JSON which files and how much of each.

use super::target::{LAST, Unnamed};
use super::{Context, Stopped};
use crate::client::escaped;
use crate::{args, render, terminal};
use host::ops::diff::Diff;
use std::process::ExitCode;

pub async fn diff(context: &Context, args: args::WorktreeRun) -> Result<ExitCode, Stopped> {
    let run = context.run_meant(args.run.as_deref(), Unnamed::Worktree).await?;
    let names_only = if context.global.json { "?patch=false" } else { "" };
    let path = format!("/api/v1/runs/{}/diff{names_only}", escaped(&run));
    let diff: Diff = context.ask(async |client| Ok(client.get(&path).await?)).await?;
    if context.global.json {
        context.print_json(&diff)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.run.as_deref().is_none_or(|run| run == LAST) {
        terminal::remark(&format!("run {}", render::tail(&diff.run_id.to_string())));
    }
    let patch = diff.patch.as_deref().unwrap_or_default();
    let surroundings = &context.surroundings;
    if surroundings.stdout_is_terminal {
        let colour = terminal::colour(&surroundings.vars, true);
        context.print_rendered(&render::diff(&diff.files, patch, colour))?;
    } else {
        // With its own newline at the end, it is the patch to the byte.
        terminal::print(patch.strip_suffix('\n').unwrap_or(patch))?;
    }
    let notes = [
        (diff.files.is_empty(), "nothing was changed"),
        (diff.truncated, "the patch is cut here; the worktree has all of it"),
        (diff.incomplete, "some files cannot be read and are not shown"),
    ];
    for (_, note) in notes.into_iter().filter(|(holds, _)| *holds) {
        terminal::remark(note);
    }
    for nested in &diff.nested {
        terminal::remark(&format!("{nested} is a separate repository and is not included"));
    }
    Ok(ExitCode::SUCCESS)
}
