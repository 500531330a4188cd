//! `ostler say` and `ostler interrupt`: wishes for a live run that do not end it.

use super::{Context, Stopped};
use crate::args;
use crate::hosting::{self, Purpose, Reached};
use contract::Wish;
use std::process::ExitCode;

pub async fn say(context: &Context, args: args::Say) -> Result<ExitCode, Stopped> {
    wish(context, &args.run, Wish::Say { text: args.text }).await
}

pub async fn interrupt(context: &Context, args: args::OneRun) -> Result<ExitCode, Stopped> {
    wish(context, &args.run, Wish::Interrupt).await
}

async fn wish(context: &Context, run: &str, wish: Wish) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let Reached { client, hosting } = hosting::reach(&place, &Purpose::Act).await?;
    let wished = match client.run(run).await {
        Ok(row) => client.wish(row.id, &wish).await,
        Err(fault) => Err(fault),
    };
    if let Some(hosting) = hosting {
        hosting.finish_unless_interrupted().await;
    }
    wished?;
    Ok(ExitCode::SUCCESS)
}
