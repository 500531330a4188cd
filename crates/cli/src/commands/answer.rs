//! `ostler approvals` and `ostler answer`: the questions of live runs, answered from anywhere.

use super::{Context, Stopped};
use crate::args;
use crate::hosting::Purpose;
use crate::render::{self, AskRow};
use crate::terminal;
use crate::way::Way;
use contract::{Fault, Wish};
use host::ops::ask::{self, OpenAsk};
use std::process::ExitCode;

pub async fn approvals(context: &Context) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let asks = way.ask(async |client| client.asks().await).await;
    let named = match &asks {
        Ok(asks) if !context.global.json => asked_by(&mut way, asks).await,
        // No names are needed; the error is returned below.
        Ok(_) | Err(_) => Ok(Vec::new()),
    };
    way.finish().await;
    let (asks, named) = (asks?, named?);
    if context.global.json {
        context.print_named(&asks, ("ask_id", "approval_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if named.is_empty() {
        context.print("no requests wait for your approval")?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let columns = surroundings.columns_to_fill();
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let now = host::clock::now().wall;
    context.print_rendered(&render::asks_table(&named, now, columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

/// The questions with the names of those who ask.
async fn asked_by(way: &mut Way<'_>, asks: &[OpenAsk]) -> Result<Vec<AskRow>, Fault> {
    let mut rows = Vec::with_capacity(asks.len());
    for ask in asks {
        let run = way.ask(async |client| client.run(&ask.run_id.to_string()).await).await?;
        rows.push(AskRow { ask: ask.clone(), agent: run.agent });
    }
    Ok(rows)
}

pub async fn answer(context: &Context, args: args::Answer) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let answered = put(&mut way, &args).await;
    way.finish().await;
    let ask = answered?;
    match context.global.json {
        true => context.print_named(&ask, ("ask_id", "approval_id"))?,
        false => context.print(&format!(
            "{}: {}",
            render::one_line(&args.choice),
            render::one_line(&ask.title)
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the question first: once it is answered it is not open any more, and the same answer may
/// have to be given again to the next host.
async fn put(way: &mut Way<'_>, args: &args::Answer) -> Result<OpenAsk, Fault> {
    let ask = way.ask(async |client| ask::find(client.asks().await?, &args.ask)).await?;
    ask::check(&ask, &args.choice)?;
    let (option, reason) = (args.choice.clone(), args.reason.clone());
    let wish = Wish::Answer { ask_id: ask.ask_id, option, by: None, reason };
    let id = host::chance::command_id();
    way.ask(async |client| client.wish(ask.run_id, id, &wish).await).await?;
    Ok(ask)
}
