//! `ostler approvals` and `ostler answer`: the questions of live runs, answered from anywhere.

use super::{Context, Stopped};
use crate::args;
use crate::hosting::Purpose;
use crate::render;
use crate::way::Way;
use contract::{Fault, Wish};
use host::ops::ask::{self, OpenAsk};
use std::process::ExitCode;

pub async fn approvals(context: &Context) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let asks = way.ask(async |client| client.asks().await).await;
    way.finish().await;
    let asks = asks?;
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
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let answered = put(&mut way, &args).await;
    way.finish().await;
    let ask = answered?;
    if context.global.json {
        context.print_json(&ask)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the question first: once it is answered it is not open any more, and the same answer may
/// have to be given again to the next host.
async fn put(way: &mut Way<'_>, args: &args::Answer) -> Result<OpenAsk, Fault> {
    let ask = way.ask(async |client| ask::find(client.asks().await?, &args.ask)).await?;
    ask::check(&ask, &args.choice)?;
    let wish = Wish::Answer { ask_id: ask.ask_id, option: args.choice.clone(), by: None };
    let id = host::chance::command_id();
    way.ask(async |client| client.wish(ask.run_id, id, &wish).await).await?;
    Ok(ask)
}
