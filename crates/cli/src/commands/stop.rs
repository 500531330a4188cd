//! `ostler stop`: asks for the end of a run and waits for it.

use super::audience::Audience;
use super::follow::{Follow, Followed, OnInterrupt};
use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::Purpose;
use crate::way::Way;
use contract::{Code, CommandId, Fault, RunId, Wish};
use std::process::ExitCode;

pub async fn stop(context: &Context, args: args::Stop) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let id = host::chance::command_id();
    let (run, seen) = match way.ask(async |client| ask(client, id, &args).await).await {
        Ok(found) => found,
        Err(fault) => {
            way.finish().await;
            return Err(fault.into());
        }
    };
    let mut follow = Follow::new(way, run, OnInterrupt::Stop);
    follow.seen = seen;
    let followed = follow.until_its_end(&mut Audience::Nobody).await;
    follow.way.finish().await;
    if let Followed::Ended(result) = followed? {
        match context.global.json {
            true => context.print_json(&result)?,
            false => context.print(&format!("{run} {}", result.outcome.word()))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(client: &Client, id: CommandId, args: &args::Stop) -> Result<(RunId, u64), Fault> {
    let row = client.run(&args.run).await?;
    client.wish(row.id, id, &Wish::Stop { reason: Code::Cancelled, at_once: args.now }).await?;
    Ok((row.id, row.head_seq))
}
