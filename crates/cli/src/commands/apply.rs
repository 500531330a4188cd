//! `ostler apply`: brings the work of a run back from its worktree into the checkout that it came
//! from, merged or as changes that are not committed.

use super::target::Unnamed;
use super::{Context, Stopped};
use crate::hosting::Purpose;
use crate::way::Way;
use crate::{args, render};
use host::ops::apply::{Applied, ApplyHow, ApplyRequest};
use std::process::ExitCode;

pub async fn apply(context: &Context, args: args::Apply) -> Result<ExitCode, Stopped> {
    let how = if args.patch { ApplyHow::Patch } else { ApplyHow::Merge };
    let run = context.run_meant(args.run.as_deref(), Unnamed::Worktree).await?;
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let request = ApplyRequest { how };
    let applied = way.ask(async |client| client.apply(&run, &request).await).await;
    way.finish().await;
    let applied = applied?;
    match context.global.json {
        true => context.print_json(&applied)?,
        false => context.print(&told(&applied))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn told(Applied { run_id, given }: &Applied) -> String {
    let id = run_id.to_string();
    let id = render::tail(&id);
    let files = match given.files {
        0 => return format!("{id}: nothing was changed; the worktree is removed"),
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let into = given.into.display();
    let mut text = match (&given.how, &given.commit) {
        (ApplyHow::Merge, Some(commit)) => {
            format!(
                "applied {id}: merged {files} into {into}, which is at {} now",
                &commit[..commit.len().min(12)]
            )
        }
        (ApplyHow::Merge, None) => format!("applied {id}: merged {files} into {into}"),
        (ApplyHow::Patch, _) => {
            format!("applied {id}: changed {files} in {into}; nothing is committed")
        }
    };
    if let Some(branch) = &given.branch {
        text.push_str(&format!("\nthe agent's own commits are on {branch}"));
    }
    text
}
