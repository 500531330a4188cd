//! `ostler background-host` (hidden): drives the runs of a data directory until none is left. Started by
//! commands whose runs outlive them (`background.rs`).

use super::{Context, Stopped};
use crate::hosting::{self, Purpose};
use crate::operator_log::LogFlags;
use contract::limits::BACKGROUND_LINGER_MS;
use contract::{Code, Fault};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

pub async fn background_host(context: &Context) -> Result<ExitCode, Stopped> {
    let failed = |error| Fault::new(Code::InternalError, format!("listening for signals: {error}"));
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    // Received and ignored: it has no terminal that could be closed.
    let _hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let place = context.place()?;
    place.start_log(&LogFlags::default())?;
    // A server or another background host drives the runs: there is nothing to do.
    let Some(hosting) = hosting::reach(&place, &Purpose::Background).await?.hosting else {
        return Ok(ExitCode::SUCCESS);
    };
    let linger = Duration::from_millis(BACKGROUND_LINGER_MS);
    let is_unused = async {
        loop {
            hosting.host().idle().await;
            tokio::time::sleep(linger).await;
            if hosting.is_idle_within(Duration::ZERO).await {
                return;
            }
        }
    };
    let ended = tokio::select! {
        _ = int.recv() => Ok(ExitCode::SUCCESS),
        _ = term.recv() => Ok(ExitCode::SUCCESS),
        () = hosting.handover_asked() => Ok(ExitCode::SUCCESS),
        () = is_unused => Ok(ExitCode::SUCCESS),
        fault = hosting.broken() => Err(fault.into()),
    };
    hosting.leave().await;
    ended
}
