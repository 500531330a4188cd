//! `ostler serve`: hosts the data directory until told to stop. SIGHUP reloads the configuration (see
//! `reload.rs`). Live runs outlive it: their keepers
//! hold them, and the next host takes over.

use super::{Context, Stopped};
use crate::args;
use crate::hosting::{self, Purpose};
use crate::reload;
use contract::{Code, Fault, Scope};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Where to listen when nobody says.
const LISTEN: &str = "127.0.0.1:7717";

pub async fn serve(context: &Context, args: args::Serve) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    place.start_log(&args.log)?;
    let listen = args
        .listen
        .or_else(|| place.config.listen().map(str::to_owned))
        .unwrap_or_else(|| LISTEN.to_owned());
    let door = Box::new(place.config.door(listen));
    let reached = hosting::reach(&place, &Purpose::Serve { door }).await?;
    let Some(hosting) = reached.hosting else {
        return Err(Fault::new(Code::Conflict, "another process hosts this data directory").into());
    };
    let failed = |error| Fault::new(Code::InternalError, format!("listening for signals: {error}"));
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let hangup = signal(SignalKind::hangup()).map_err(failed)?;
    context.print(&format!("listening on {}", hosting.front()))?;
    tracing::info!(
        address = hosting.front(),
        data = %place.data.path().display(),
        config = place.config.path.as_deref().map(|path| path.display().to_string()),
        version = crate::version::TEXT,
        "server started"
    );
    if args.sign_in {
        let link = super::token::link(&reached.client, Scope::Admin).await?;
        context.print(&format!("sign in at {}", link.url))?;
    }
    let ended = tokio::select! {
        _ = int.recv() => {
            tracing::info!(signal = "SIGINT", live_runs = hosting.host().live_runs(), "server stopping");
            Ok(ExitCode::SUCCESS)
        }
        _ = term.recv() => {
            tracing::info!(signal = "SIGTERM", live_runs = hosting.host().live_runs(), "server stopping");
            Ok(ExitCode::SUCCESS)
        }
        // The next process reads the disk afresh; until then the keepers hold the runs.
        fault = hosting.broken() => Err(fault.into()),
        () = reload::follow(hosting.host().clone(), hosting.live().clone(), hangup) => {
            Ok(ExitCode::SUCCESS)
        }
    };
    hosting.leave().await;
    tracing::info!("server stopped; live runs go on under their keepers");
    ended
}
