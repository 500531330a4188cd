//! `ostler watch`: a run as it happens, from its beginning. Leaving it leaves the run alone.

use super::audience::Audience;
use super::follow::{Follow, Followed, OnInterrupt};
use super::{Context, Stopped};
use crate::args;
use crate::hosting::{self, Purpose, Reached};
use crate::render::Detail;
use contract::Code;
use std::process::ExitCode;

/// How many hosts may go away in a row before that is a fault.
const HOSTS_MAX: u32 = 5;

pub async fn watch(context: &Context, args: args::OneRun) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let Reached { mut client, mut hosting } = hosting::reach(&place, &Purpose::Act).await?;
    let mut found = client.run(&args.run).await;
    for _ in 0..HOSTS_MAX {
        // The host made room for another, or died, just as it was found.
        let gone = found.as_ref().is_err_and(|fault| fault.code == Code::RemoteUnavailable);
        if !gone || hosting.is_some() {
            break;
        }
        Reached { client, hosting } = hosting::reach(&place, &Purpose::Act).await?;
        found = client.run(&args.run).await;
    }
    let followed = match found {
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
