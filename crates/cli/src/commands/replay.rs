//! `ostler replay`: a run's transcript with the pauses it had, faster when asked.

use super::audience::Audience;
use super::target::Unnamed;
use super::{Context, Stopped, intro};
use crate::args;
use crate::render::Detail;
use contract::{Code, Fault, Timestamp};
use futures::StreamExt as _;
use std::process::ExitCode;
use std::time::Duration;

/// A pause longer than this is shown as this: nobody wants to wait for a model to think twice.
const PAUSE_MAX: Duration = Duration::from_secs(3);

pub async fn replay(context: &Context, args: args::Replay) -> Result<ExitCode, Stopped> {
    if !args.speed.is_finite() || args.speed < 0.0 {
        let message = format!("--speed {}: give a number from 0 up", args.speed);
        return Err(Fault::new(Code::Usage, message).into());
    }
    let given = context.run_meant(args.run.as_deref(), Unnamed::Here).await?;
    let place = context.place()?;
    // Kept over a change of host, so that the next one goes on where the last one stopped.
    let mut audience = Audience::of(context, Detail::Usual);
    let mut before: Option<Timestamp> = None;
    let mut seen = 0;
    context
        .ask(async |client| {
            let row = client.run(&given).await?;
            let run = row.id;
            audience.introduce(intro::of_row(&row, &place));
            let mut events = client.events(run, seen).await?;
            while let Some(received) = events.next().await {
                let received = received?;
                let ts = received.event()?.ts;
                tokio::time::sleep(pause(before.replace(ts), ts, args.speed)).await;
                audience.hear(&received)?;
                seen = received.seq;
                if let Audience::Nobody = audience {
                    break;
                }
            }
            audience.finish();
            Ok(())
        })
        .await?;
    Ok(ExitCode::SUCCESS)
}

fn pause(before: Option<Timestamp>, now: Timestamp, speed: f64) -> Duration {
    let (Some(before), true) = (before, speed > 0.0) else { return Duration::ZERO };
    Duration::from_secs_f64(now.since(before) as f64 / 1000.0 / speed).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_shrink_with_speed_and_are_bounded() {
        let ms = |before: Option<i64>, now, speed| {
            pause(before.map(Timestamp), Timestamp(now), speed).as_millis()
        };
        assert_eq!(
            [ms(None, 5_000, 1.0), ms(Some(0), 500, 1.0), ms(Some(0), 500, 2.0)],
            [0, 500, 250]
        );
        assert_eq!(
            [ms(Some(0), 500, 0.0), ms(Some(0), 900_000, 1.0), ms(Some(9), 0, 1.0)],
            [0, 3_000, 0]
        );
    }
}
