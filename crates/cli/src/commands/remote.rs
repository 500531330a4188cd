//! `ostler remote`: serves one local agent to callers elsewhere by ca-http-v1. It hosts its data
//! directory as `serve` does, so sessions are runs like any other, and outlive a restart: their
//! keepers hold them, and the next `ostler remote` of the directory goes on with them.

use super::{Context, Stopped};
use crate::args;
use crate::config;
use crate::hosting::{self, Purpose};
use contract::limits::SESSION_SILENCE_MS;
use contract::plan::Limit;
use contract::{Code, Fault};
use host::ops::session::{Sessions, Terms};
use host::supervise;
use server::remote::{Auth, Door, Files};
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Where to listen when nobody says.
const LISTEN: &str = "127.0.0.1:7718";

pub async fn remote(context: &Context, args: args::Remote) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    place.start_log(&args.log)?;
    // Before anything is hosted: what cannot be served is said at once.
    let resolved = config::resolve(&args.agent, &place.config)?;
    config::skills::known(&args.agent, &resolved.adapter)?;
    let listening = server::remote::listen(door(context, &args)?).await?;
    let terms = terms(context, &args)?;
    // The API of the owner has a port of its own, which only this machine reaches.
    let address = "127.0.0.1:0".to_owned();
    let door = Box::new(server::Door { address, ..server::Door::default() });
    let purpose = Purpose::Serve { door };
    let Some(hosting) = hosting::reach(&place, &purpose).await?.hosting else {
        return Err(Fault::new(Code::Conflict, "another process hosts this data directory")
            .with_hint("give this one its own directory with --data")
            .into());
    };
    let sessions = Sessions::open(hosting.host(), terms)?;
    let failed = |error| Fault::new(Code::InternalError, format!("listening for signals: {error}"));
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    context.print(&format!("{} listens on {}", args.agent, listening.url()))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = supervise::spawn(
        "remote listener",
        listening.serve(sessions, async {
            // A sender that is gone means the same.
            let _ = stopped.await;
        }),
    );
    let ended = tokio::select! {
        _ = int.recv() => Ok(ExitCode::SUCCESS),
        _ = term.recv() => Ok(ExitCode::SUCCESS),
        fault = hosting.broken() => Err(fault.into()),
    };
    // A listener that has stopped already needs no word.
    let _ = stop.send(());
    // Streams end with the host; what is still asked then is asked of the next one.
    hosting.leave().await;
    serving.abort();
    ended
}

/// How it is come to. Whoever may come can start an agent here, so that must be said.
fn door(context: &Context, args: &args::Remote) -> Result<Door, Fault> {
    let auth = match (&args.token_env, &args.client_ca, args.no_auth) {
        (Some(name), _, _) => Auth::Bearer(token(context, name)?),
        (None, Some(_), _) | (None, None, true) => Auth::Connected,
        (None, None, false) => {
            let message = "no way for callers to authenticate is given";
            return Err(Fault::new(Code::Usage, message).with_hint(
                "give --token-env NAME, --client-ca FILE with --cert and --key, or --no-auth",
            ));
        }
    };
    let tls = args.cert.clone().zip(args.key.clone()).map(|(cert, key)| Files {
        cert,
        key,
        client_ca: args.client_ca.clone(),
        client_name: args.client_name.clone(),
    });
    let address = args.listen.clone().unwrap_or_else(|| LISTEN.to_owned());
    let public_url = args.public_url.clone();
    Ok(Door { address, auth, tls, allow_insecure: args.allow_insecure, public_url })
}

fn token(context: &Context, name: &str) -> Result<String, Fault> {
    let value = context.surroundings.vars.get(name).map(|value| value.trim());
    match value.filter(|value| value.len() >= contract::limits::SECRET_BYTES_MIN) {
        Some(value) => Ok(value.to_owned()),
        None => {
            let message = format!("--token-env {name}: the variable holds no token");
            Err(Fault::new(Code::Usage, message).with_hint("set it to a long random string"))
        }
    }
}

fn terms(context: &Context, args: &args::Remote) -> Result<Terms, Fault> {
    let surroundings = &context.surroundings;
    let temporary = surroundings.vars.get("TMPDIR").map_or("/tmp", String::as_str);
    let mut terms = Terms::new(args.agent.clone(), Path::new(temporary).to_owned());
    terms.permission = args.permission;
    terms.dir = args.dir.as_deref().map(|dir| surroundings.cwd.join(dir));
    terms.live_max = args.max_sessions.unwrap_or(terms.live_max);
    terms.silence_ms = match args.silence {
        None => SESSION_SILENCE_MS,
        Some(Limit::Ms(ms)) => ms,
        Some(Limit::Unlimited) => u64::MAX,
    };
    Ok(terms)
}
