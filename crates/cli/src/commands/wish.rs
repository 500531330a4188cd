//! `ostler say` and `ostler interrupt`: wishes for a live run that do not end it.

use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::Purpose;
use crate::way::Way;
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
    let mut way = Way::find(&place, Purpose::Act).await?;
    let id = host::chance::command_id();
    let put = async |client: &Client| {
        let row = client.run(run).await?;
        client.wish(row.id, id, &wish).await
    };
    let wished = way.ask(put).await;
    way.finish().await;
    wished?;
    Ok(ExitCode::SUCCESS)
}
