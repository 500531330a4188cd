//! `ostler show`: a run's transcript again, its events, or its launch plan.

use super::audience::Audience;
use super::target::Unnamed;
use super::{Context, Stopped, intro};
use crate::args;
use crate::client::{Client, Received};
use crate::render::{self, Detail};
use crate::terminal::{self, json};
use contract::plan::LaunchPlan;
use contract::view::RunView;
use contract::{Code, Fault, RunId};
use futures::StreamExt as _;
use serde_json::{Map, Value};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// What was shown so far: a host may go away in the middle, and the next one goes on there.
struct Shown {
    audience: Audience,
    seq: u64,
    bytes: u64,
    /// Why a field stayed a preview that was to be shown whole: the first of them.
    amiss: Option<Fault>,
}

pub async fn show(context: &Context, args: args::Show) -> Result<ExitCode, Stopped> {
    let given = context.run_meant(args.run.as_deref(), Unnamed::Here).await?;
    let place = context.place()?;
    let detail = if args.debug { Detail::Debug } else { Detail::Usual };
    let mut shown =
        Shown { audience: Audience::of(context, detail), seq: 0, bytes: 0, amiss: None };
    context
        .ask(async |client| {
            let row = client.run(&given).await?;
            let run = row.id;
            shown.audience.introduce(intro::of_row(&row, &place));
            match (args.plan, args.raw) {
                (true, _) => plan(context, client, &row).await,
                (false, true) => raw(context, client, run, &mut shown).await,
                (false, false) => transcript(client, run, &args, &mut shown).await,
            }
        })
        .await?;
    match shown.amiss {
        Some(fault) => Err(fault.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

async fn plan(context: &Context, client: &Client, row: &RunView) -> Result<(), Stopped> {
    let path = format!("/api/v1/runs/{}/plan", row.id);
    if context.global.json {
        return context.print_json(&client.get::<Value>(&path).await?);
    }
    let plan: LaunchPlan = client.get(&path).await?;
    let surroundings = &context.surroundings;
    let home = surroundings.vars.get("HOME").map(Path::new);
    let columns = if surroundings.stdout_is_terminal { surroundings.columns } else { usize::MAX };
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    context.print_rendered(&render::launch_plan(&plan, row, home, (columns, colour)))?;
    Ok(())
}

async fn raw(
    context: &Context,
    client: &Client,
    run: RunId,
    shown: &mut Shown,
) -> Result<(), Stopped> {
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let is_terminal = context.surroundings.stdout_is_terminal;
    // A piece may end inside a character, a line does not; only whole lines count as shown.
    let mut held = Vec::new();
    let mut before = shown.bytes;
    let mut print = |lines: &[u8]| {
        let known = usize::try_from(before).unwrap_or(usize::MAX).min(lines.len());
        before -= known as u64;
        shown.bytes += (lines.len() - known) as u64;
        match is_terminal {
            true => out.write_all(json(&String::from_utf8_lossy(&lines[known..]), true).as_bytes()),
            false => out.write_all(&lines[known..]),
        }
    };
    let written = client
        .trace(run, |piece| {
            held.extend_from_slice(piece);
            let whole = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let lines: Vec<u8> = held.drain(..whole).collect();
            print(&lines)
        })
        .await;
    let rest = if matches!(written, Ok(Ok(()))) { print(&held) } else { Ok(()) };
    rest.and_then(|()| out.flush()).map_err(crate::terminal::Gone::from)?;
    written?.map_err(crate::terminal::Gone::from)?;
    Ok(())
}

async fn transcript(
    client: &Client,
    run: RunId,
    args: &args::Show,
    shown: &mut Shown,
) -> Result<(), Stopped> {
    let Shown { audience, seq, amiss, .. } = shown;
    let mut events = client.events(run, *seq).await?;
    while let Some(received) = events.next().await {
        let received = match args.full {
            true => whole(client, received?, amiss).await?,
            false => received?,
        };
        audience.hear(&received)?;
        *seq = received.seq;
        if let Audience::Nobody = audience {
            break;
        }
    }
    audience.finish();
    Ok(())
}

/// The event with its blobs put back where they were cut out. One that is gone or damaged leaves its
/// preview and its name: the rest of the run is shown all the same, and what is amiss said at the end.
async fn whole(
    client: &Client,
    received: Received,
    amiss: &mut Option<Fault>,
) -> Result<Received, Fault> {
    let unreadable = |error: serde_json::Error| {
        Fault::new(Code::ParseFailed, format!("event {} of the host: {error}", received.seq))
    };
    let mut event: Map<String, Value> =
        serde_json::from_slice(&received.bytes).map_err(unreadable)?;
    if event.get("truncated") != Some(&Value::Bool(true)) {
        return Ok(received);
    }
    let cut: Vec<String> =
        event.keys().filter_map(|name| name.strip_suffix("_blob")).map(str::to_owned).collect();
    let mut missing = false;
    for field in cut {
        let name = format!("{field}_blob");
        let Some(hash) = event[&name]["hash"].as_str() else { continue };
        let bytes = match client.bytes(&format!("/api/v1/blobs/{hash}")).await {
            Ok(bytes) => bytes,
            Err(fault) if matches!(fault.code, Code::NotFound | Code::StoreUnreadable) => {
                amiss.get_or_insert(fault);
                missing = true;
                continue;
            }
            Err(fault) => return Err(fault),
        };
        event.remove(&name);
        let text = String::from_utf8_lossy(&bytes);
        // A text was kept as it is, anything else as JSON.
        let value = match event.get(&field) {
            Some(Value::String(_))
                if serde_json::from_str::<Value>(&text).map_or(true, |value| value.is_number()) =>
            {
                Value::String(text.into_owned())
            }
            _ => serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned())),
        };
        event.insert(field, value);
    }
    if !missing {
        event.remove("truncated");
    }
    let bytes = serde_json::to_vec(&event).map_err(unreadable)?;
    Ok(Received { seq: received.seq, bytes })
}
