//! What a command does while a run waits for a slot: it says so, asks again and again, and takes the
//! place away with it when its person has had enough. What is asked for goes with every question,
//! because no host keeps it.

use super::follow::{Interrupts, handover_asked};
use crate::render::{clean, ordinal, tail};
use crate::way::Way;
use contract::{Code, Fault, RunId, TaskState, Wish};
use host::ops::run::{Asked, RunRequest, Started, Waiting};
use std::io::Write as _;
use std::time::Duration;

/// How often whoever watches a run that waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The least time from one question to the next.
const ASK_AGAIN_MS: u64 = 1_000;
/// How many hosts may go away in a row before that is a fault.
const HOSTS_MAX: u32 = 20;

/// Asks for a run until it has begun.
pub async fn started(way: &mut Way<'_>, request: &RunRequest) -> Result<Started, Fault> {
    let mut waits = match way.ask(async |client| client.start(request).await).await? {
        Asked::Started(started) => return Ok(started),
        Asked::Waiting(waiting) => waiting,
    };
    let mut interrupts = Interrupts::new()?;
    let mut lost_hosts = 0;
    say(&waits, true);
    loop {
        let asked_ms = host::clock::now().mono_ms;
        let asked = tokio::select! {
            biased;
            _ = interrupts.next() => {
                let (run, id) = (waits.run_id, host::chance::command_id());
                let wish = Wish::Stop { reason: Code::Cancelled, at_once: false };
                way.ask(async |client| client.wish(run, id, &wish).await).await?;
                // Asked once more, it says what became of it: it may have begun meanwhile.
                way.ask(async |client| client.start(request).await).await
            }
            () = handover_asked(&way.hosting) => {
                Err(Fault::new(Code::RemoteUnavailable, "another process hosts now"))
            }
            asked = way.client.start(request) => asked,
        };
        match asked {
            Ok(Asked::Started(started)) => return Ok(started),
            Ok(Asked::Waiting(waiting)) => {
                lost_hosts = 0;
                if waiting.place != waits.place {
                    say(&waiting, false);
                }
                waits = waiting;
                // A host with many such questions answers at once, and is not to be pressed.
                let took_ms = host::clock::now().mono_ms.saturating_sub(asked_ms);
                tokio::time::sleep(Duration::from_millis(ASK_AGAIN_MS.saturating_sub(took_ms)))
                    .await;
            }
            Err(lost) if lost.code == Code::RemoteUnavailable && lost_hosts < HOSTS_MAX => {
                lost_hosts += 1;
                way.next_host(lost).await?;
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Tells people where a run stands; programs read only what runs say.
fn say(waiting: &Waiting, first: bool) {
    let Waiting { run_id, pool, place, taken, places, .. } = waiting;
    let mut text = format!(
        "waiting for a slot of '{}': {taken} of {places} taken, {} in line",
        clean(pool),
        ordinal(*place)
    );
    if first {
        let id = run_id.to_string();
        text.push_str(&format!("; `ostler stop {}` or Ctrl-C gives up the slot", tail(&id)));
    }
    // Who cannot be told waits all the same.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The run that a person means, once it has begun. None when they left while it waited.
pub async fn begun(way: &mut Way<'_>, given: &str) -> Result<Option<RunId>, Fault> {
    let mut seen = None;
    loop {
        let task = way.ask(async |client| client.task_of_run(given).await).await?;
        let (TaskState::Waiting, Some(run)) = (task.state, task.run_id) else {
            return way.ask(async |client| client.run(given).await).await.map(|row| Some(row.id));
        };
        if seen != task.place {
            seen = task.place;
            let pool = clean(task.pool.as_deref().unwrap_or_default());
            let place = ordinal(task.place.unwrap_or(1));
            // Who cannot be told waits all the same.
            let _ =
                writeln!(std::io::stderr(), "{run} waits for a slot of '{pool}', position {place}");
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = handover_asked(&way.hosting) => {
                way.next_host(Fault::new(Code::RemoteUnavailable, "another process hosts now")).await?;
            }
            _ = tokio::signal::ctrl_c() => return Ok(None),
        }
    }
}
