//! Starting a run, however often it is asked for. Whoever asks chooses the run's id, so that asking
//! again, of this host or of the next, gives the run that is there and never a second one. A run that
//! was begun and not launched when its host ended is launched by the one that is asked again: only
//! who asked has what it takes (its environment is stored nowhere). What is checked and made before
//! anything exists is `start.rs`, and waiting for a slot is `line.rs`.

use super::line::{self, Turn};
use super::run::{Asked, RunRequest, Started, stored};
use super::start::{self, Begun};
use crate::blocking::{self, Bulkhead};
use crate::perform::Mouth;
use crate::share::Share;
use crate::supervise;
use crate::{Host, Inner, adopt, chance, clock};
use contract::event::{Body, Lifecycle, Phase};
use contract::{Code, Draft, Fault, RunId, TaskId};
use engine::Effect;
use std::sync::Arc;
use store::RunRow;

/// The version of UUID that sorts by time, as all ids of runs do.
const SORTED_BY_TIME: usize = 7;

/// Starts a run, or finds the one that was started under this id. When this says that it is started,
/// task, run and its first events are durable. One that finds no slot of its adapter free waits here
/// for a while, and is then told where it stands.
pub async fn start(host: &Host, request: RunRequest) -> Result<Asked, Fault> {
    let run = request.run_id.unwrap_or_else(chance::run_id);
    if run.uuid().get_version_num() != SORTED_BY_TIME {
        return Err(Fault::new(Code::Usage, format!("{run} is not a UUID of version 7"))
            .with_hint("make a new one for each run, or leave run_id out"));
    }
    // What those hold (slots, workspaces, budgets) is known when they are taken over.
    host.inner.adopted(None).await?;
    loop {
        let (in_line, attending) = match line::turn(host, &request, run).await? {
            Turn::Later(waiting) => return Ok(Asked::Waiting(waiting)),
            Turn::Now { in_line, attending } => (in_line, attending),
        };
        let (host, request) = (host.clone(), request.clone());
        // Who asked may hang up: what is durable by then must be driven all the same.
        // A command that hosts stays while it starts a run for another command.
        let stay = host.attach();
        let started = supervise::spawn("start run", async move {
            let _stay = stay;
            let begun = start_once(&host, request, run, in_line).await;
            if let Some(attending) = attending {
                attending.came_to(&begun).await;
            }
            begun
        });
        let begun = started
            .await
            .map_err(|error| Fault::new(Code::InternalError, format!("starting a run: {error}")))?;
        match begun? {
            Begun::Started(started) => return Ok(Asked::Started(started)),
            Begun::NoSlot => {}
            Begun::TaskChanged => return Err(line::no_longer_waits(run)),
        }
    }
}

async fn start_once(
    host: &Host,
    request: RunRequest,
    run: RunId,
    in_line: Option<TaskId>,
) -> Result<Begun, Fault> {
    if request.run_id.is_none() && in_line.is_none() {
        return start::start_new(host, request, run, in_line).await;
    }
    let _starting = Starting::begin(&host.inner, run).await;
    match host.store().run(run).await.map_err(stored)? {
        None => start::start_new(host, request, run, in_line).await,
        Some(row) => found(host, request, row).await.map(Begun::Started),
    }
}

/// The run was asked for before.
async fn found(host: &Host, request: RunRequest, row: RunRow) -> Result<Started, Fault> {
    if row.agent != request.agent {
        let message = format!("{} is a run of another agent, '{}'", row.id, row.agent);
        return Err(Fault::new(Code::Conflict, message));
    }
    let started = Started { run_id: row.id, task_id: row.task };
    let driven = row.outcome.is_some() || host.inner.is_here(row.id);
    if !driven && row.pid.is_none() {
        // A keeper whose host ended before the launch removes its spool; until then the run looks as if
        // it were launched.
        let spool = host.inner.data.spool(row.id, 1);
        let ended =
            blocking::spawn(Bulkhead::Wait, "wait for keeper", move || adopt::await_end(&spool));
        ended.await.map_err(|error| {
            Fault::new(Code::InternalError, format!("waiting for a keeper: {error}"))
        })?;
        if adopt::is_unlaunched(host, &row) {
            launch(host, request, &row).await?;
        }
    }
    Ok(started)
}

/// Goes on where the earlier host ended: everything is durable, and nothing was done.
pub(crate) async fn launch(host: &Host, request: RunRequest, row: &RunRow) -> Result<(), Fault> {
    let Some(point) = host.store().resume_point(row.id).await.map_err(stored)? else {
        return Ok(());
    };
    let mut drive = start::drive_again(host, request, row).await?;
    let Some((machine, dialect, state)) =
        adopt::restore(&point, &drive.words.seal, &*drive.runtime)
    else {
        // It ends as lost when its lease is over, like any run that cannot be read.
        drive.abandon();
        return Ok(());
    };
    let now = clock::now();
    drive.standing.remaining = machine.remaining(now);
    (drive.machine, drive.dialect) = (machine, dialect);
    drive.words.next_seq = row.head_seq + 1;
    (drive.words.carry, drive.words.open) = (state.carry, state.open);
    drive.mouth = Mouth::after(state.next_effect, state.next_frame);
    drive.share = Share::of(state.fund);
    drive.inbox = drive.inbox.due();
    drive.lease.renew_now(now.mono_ms);
    let adopted = Lifecycle {
        phase: Phase::Adopted,
        why: Some("its host ended before the agent was started".to_owned()),
        pid: None,
        isolation: None,
    };
    drive.pending.drafts.push(Draft::ostler(Body::Lifecycle(adopted)));
    drive.pending.done.extend(point.effects.iter().map(|effect| effect.n));
    drive.intend(now, Effect::Launch);
    host.inner.drive(drive, None);
    Ok(())
}

/// A start that is under way; there is one at a time for each id.
struct Starting {
    house: Arc<Inner>,
    run: RunId,
}

impl Starting {
    async fn begin(house: &Arc<Inner>, run: RunId) -> Self {
        let mut starting = house.starting.subscribe();
        loop {
            // The sender lives in the house, so waiting cannot fail.
            let _ = starting.wait_for(|runs| !runs.contains(&run)).await;
            if house.starting.send_if_modified(|runs| runs.insert(run)) {
                return Self { house: Arc::clone(house), run };
            }
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.house.starting.send_modify(|runs| {
            runs.remove(&self.run);
        });
    }
}
