//! `ostler approvals` and `ostler answer`: the questions of live runs, answered from anywhere.

use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::{self, Purpose, Reached};
use crate::render;
use contract::Fault;
use host::ops::ask::OpenAsk;
use std::process::ExitCode;

pub async fn approvals(context: &Context) -> Result<ExitCode, Stopped> {
    let asks: Vec<OpenAsk> = act(context, async |client| client.get("/api/v1/asks").await).await?;
    if context.global.json {
        context.print_json(&asks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<String> = asks.iter().map(line).collect();
    match lines.is_empty() {
        true => context.print("nothing waits for an answer")?,
        false => context.print(&lines.join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn line(ask: &OpenAsk) -> String {
    let (ask_id, run_id) = (ask.ask_id.to_string(), ask.run_id.to_string());
    let (ask_id, run) = (render::tail(&ask_id), render::tail(&run_id));
    let title = render::one_line(&ask.title);
    format!("{ask_id}  run {run}  {title}  ostler answer {ask_id} allow|deny")
}

pub async fn answer(context: &Context, args: args::Answer) -> Result<ExitCode, Stopped> {
    let ask = act(context, async |client| client.answer(&args.ask, &args.choice).await).await?;
    if context.global.json {
        context.print_json(&ask)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the host, and becomes it if there is none: runs of a dead host have questions too.
async fn act<T>(
    context: &Context,
    ask: impl AsyncFnOnce(&Client) -> Result<T, Fault>,
) -> Result<T, Stopped> {
    let place = context.place()?;
    let Reached { client, hosting } = hosting::reach(&place, &Purpose::Act).await?;
    let answer = ask(&client).await;
    if let Some(hosting) = hosting {
        hosting.finish_unless_interrupted().await;
    }
    Ok(answer?)
}
