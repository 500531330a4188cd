//! `ostler watch`: a run as it happens, from its beginning. Leaving it leaves the run alone.

use super::audience::Audience;
use super::follow::{Follow, Followed, OnInterrupt};
use super::{Context, Stopped};
use crate::args;
use crate::hosting::{self, Purpose, Reached};
use crate::render::Detail;
use contract::Code;
use std::process::ExitCode;

pub async fn watch(context: &Context, args: args::OneRun) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let Reached { client, hosting } = hosting::reach(&place, &Purpose::Act).await?;
    let followed = match client.run(&args.run).await {
        Err(fault) => Err(fault),
        Ok(row) => {
            let mut follow = Follow {
                place: &place,
                client,
                hosting,
                run: row.id,
                seen: 0,
                on_interrupt: OnInterrupt::Leave,
            };
            let followed = follow.until_its_end(&mut Audience::of(context, Detail::Usual)).await;
            if let Some(hosting) = follow.hosting {
                match followed {
                    Ok(Followed::Left) => hosting.leave().await,
                    _ => hosting.finish_unless_interrupted().await,
                }
            }
            return Ok(match followed? {
                Followed::Ended(_) => ExitCode::SUCCESS,
                Followed::Left => ExitCode::from(Code::Cancelled.row().exit),
            });
        }
    };
    if let Some(hosting) = hosting {
        hosting.finish_unless_interrupted().await;
    }
    followed.map_err(Stopped::from)
}
