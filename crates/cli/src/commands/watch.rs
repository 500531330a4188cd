//! `ostler watch`: a run as it happens, from its beginning. Leaving it leaves the run alone.

use super::audience::Audience;
use super::follow::{Follow, Followed, OnInterrupt};
use super::target::Unnamed;
use super::{Context, Stopped, intro, line};
use crate::args;
use crate::hosting::Purpose;
use crate::render::Detail;
use crate::way::Way;
use contract::Code;
use std::process::ExitCode;

pub async fn watch(context: &Context, args: args::LiveRun) -> Result<ExitCode, Stopped> {
    let named = context.run_meant(args.run.as_deref(), Unnamed::Live).await?;
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let run = match line::begun(&mut way, &named).await {
        Ok(Some(run)) => run,
        Ok(None) => {
            if let Some(hosting) = way.hosting {
                hosting.leave().await;
            }
            return Ok(ExitCode::from(Code::Cancelled.row().exit));
        }
        Err(fault) => {
            way.finish().await;
            return Err(fault.into());
        }
    };
    let mut follow = Follow::new(way, run, OnInterrupt::Leave);
    let mut audience = Audience::of(context, Detail::Usual);
    let id = run.to_string();
    // The header can do without the row, for example while hosts change.
    if let Ok(row) = follow.way.ask(async |client| client.run(&id).await).await {
        audience.introduce(intro::of_row(&row, &place));
    }
    let followed = follow.until_its_end(&mut audience).await;
    audience.finish();
    match (&followed, follow.way.hosting) {
        (Ok(Followed::Left), Some(hosting)) => hosting.leave_to_background(&place).await,
        (_, Some(hosting)) => hosting.finish_unless_interrupted().await,
        (_, None) => {}
    }
    Ok(match followed? {
        Followed::Ended(_) => ExitCode::SUCCESS,
        Followed::Left => ExitCode::from(Code::Cancelled.row().exit),
    })
}
