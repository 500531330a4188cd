//! `ostler stop`: asks for the end of a run and waits for it.

use super::audience::Audience;
use super::follow::{Follow, Followed, OnInterrupt};
use super::target::Unnamed;
use super::{Context, Stopped};
use crate::args;
use crate::client::Client;
use crate::hosting::Purpose;
use crate::way::Way;
use contract::event::{Outcome, RunResult};
use contract::{Code, CommandId, Fault, RunId, TaskState, Wish};
use serde_json::json;
use std::process::ExitCode;

pub async fn stop(context: &Context, args: args::Stop) -> Result<ExitCode, Stopped> {
    let named = context.run_meant(args.run.as_deref(), Unnamed::Live).await?;
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let id = host::chance::command_id();
    let mut asking = Asking { id, run: named, at_once: args.now, stood_at: None };
    let (run, stood_at) = match way.ask(async |client| asking.put_to(client).await).await {
        Ok(Put { run, stood_at: Some(stood_at) }) => (run, stood_at),
        Ok(Put { run, stood_at: None }) => {
            way.finish().await;
            let cancelled = Outcome::Cancelled.word();
            match context.global.json {
                true => context.print_json(&json!({ "run_id": run, "outcome": cancelled }))?,
                false => {
                    context.print(&format!("{} {cancelled}, before it started", short(run)))?
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        Err(fault) => {
            way.finish().await;
            return Err(fault.into());
        }
    };
    let mut follow = Follow::new(way, run, OnInterrupt::Stop);
    follow.seen = stood_at;
    let followed = follow.until_its_end(&mut Audience::Nobody).await;
    follow.way.finish().await;
    if let Followed::Ended(result) = followed? {
        match context.global.json {
            true => context.print_json(&result)?,
            false => context.print(&format!("{} {}", short(run), ended(&result)))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The id of a run as people type it.
fn short(run: RunId) -> String {
    crate::render::tail(&run.to_string()).to_owned()
}

/// How a stopped run ended: it may have been done before the stop reached it.
fn ended(result: &RunResult) -> String {
    match result.outcome {
        Outcome::Cancelled => "stopped (cancelled)".to_owned(),
        outcome => format!("{} before the stop reached it", outcome.word().replace('_', " ")),
    }
}

/// The same stop, put to one host after the other until one has taken it.
struct Asking {
    id: CommandId,
    run: String,
    at_once: bool,
    /// The run's last event before anyone was asked. A host may take the stop and be gone before it
    /// says so; the run has then ended of it when the next one is looked at, and its result would be
    /// among what was seen already.
    stood_at: Option<u64>,
}

impl Asking {
    async fn put_to(&mut self, client: &Client) -> Result<Put, Fault> {
        let wish = Wish::Stop { reason: Code::Cancelled, at_once: self.at_once };
        let task = client.task_of_run(&self.run).await?;
        if let (TaskState::Waiting, Some(run)) = (task.state, task.run_id) {
            client.wish(run, self.id, &wish).await?;
            // It may have begun in the same moment; then it is stopped like any other.
            if client.task_of_run(&self.run).await?.state == TaskState::Cancelled {
                return Ok(Put { run, stood_at: None });
            }
            return Ok(Put { run, stood_at: Some(0) });
        }
        let row = client.run(&self.run).await?;
        let stood_at = *self.stood_at.get_or_insert(row.head_seq);
        client.wish(row.id, self.id, &wish).await?;
        Ok(Put { run: row.id, stood_at: Some(stood_at) })
    }
}

/// The stop is taken.
struct Put {
    run: RunId,
    /// None when it had not begun: then that is all there is to it.
    stood_at: Option<u64>,
}
