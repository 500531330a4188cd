//! `ostler say` and `ostler interrupt`: commands for a live run. Each says what it did.

use super::target::{self, Unnamed};
use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::Purpose;
use crate::way::Way;
use contract::Wish;
use serde_json::json;
use std::process::ExitCode;

pub async fn say(context: &Context, args: args::Say) -> Result<ExitCode, Stopped> {
    let (run, text) = match &args.words[..] {
        [run, text] => (Some(run.as_str()), text.clone()),
        words => (None, words.concat()),
    };
    send(context, run, Wish::Say { text }, "message sent to").await
}

pub async fn interrupt(context: &Context, args: args::LiveRun) -> Result<ExitCode, Stopped> {
    send(context, args.run.as_deref(), Wish::Interrupt, "interrupt sent to").await
}

async fn send(
    context: &Context,
    run: Option<&str>,
    wish: Wish,
    told: &str,
) -> Result<ExitCode, Stopped> {
    let run = context.run_meant(run, Unnamed::Live).await?;
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let id = host::chance::command_id();
    let put = async |client: &Client| {
        let row = client.run(&run).await?;
        client.wish(row.id, id, &wish).await?;
        Ok(row)
    };
    let sent = way.ask(put).await;
    way.finish().await;
    let row = sent?;
    match context.global.json {
        true => context.print_json(&json!({ "run_id": row.id, "command_id": id }))?,
        false => context.print(&format!("{told} {}", target::candidate(&row)))?,
    }
    Ok(ExitCode::SUCCESS)
}
