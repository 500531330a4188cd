//! `ostler stop`: asks for the end of a run and waits for it.

use super::audience::Audience;
use super::follow::{Follow, Followed, OnInterrupt};
use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::{self, Purpose, Reached};
use contract::{Code, Fault, Wish};
use std::process::ExitCode;

pub async fn stop(context: &Context, args: args::Stop) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let Reached { client, hosting } = hosting::reach(&place, &Purpose::Act).await?;
    let asked = ask(&client, &args).await;
    let (run, seen) = match asked {
        Ok(found) => found,
        Err(fault) => {
            if let Some(hosting) = hosting {
                hosting.finish_unless_interrupted().await;
            }
            return Err(fault.into());
        }
    };
    let mut follow =
        Follow { place: &place, client, hosting, run, seen, on_interrupt: OnInterrupt::Stop };
    let followed = follow.until_its_end(&mut Audience::Nobody).await;
    if let Some(hosting) = follow.hosting {
        hosting.finish_unless_interrupted().await;
    }
    if let Followed::Ended(result) = followed? {
        match context.global.json {
            true => context.print_json(&result)?,
            false => context.print(&format!("{run} {}", result.outcome.word()))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(client: &Client, args: &args::Stop) -> Result<(contract::RunId, u64), Fault> {
    let row = client.run(&args.run).await?;
    client.wish(row.id, &Wish::Stop { reason: Code::Cancelled, at_once: args.now }).await?;
    Ok((row.id, row.head_seq))
}
