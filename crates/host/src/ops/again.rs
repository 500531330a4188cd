//! Starting a run, however often it is asked for. Whoever asks chooses the run's id, so that asking
//! again, of this host or of the next, gives the run that is there and never a second one. A run that
//! was begun and not launched when its host ended is launched by the one that is asked again: only
//! who asked has what it takes (its environment is stored nowhere). What is checked and made before
//! anything exists is `start.rs`.

use super::run::{RunRequest, Started, stored};
use super::start;
use crate::perform::Mouth;
use crate::{Host, Inner, adopt, chance, clock};
use contract::event::{Body, Lifecycle, Phase};
use contract::{Code, Draft, Fault, RunId};
use engine::Effect;
use std::sync::Arc;
use store::RunRow;

/// The version of UUID that sorts by time, as all ids of runs do.
const SORTED_BY_TIME: usize = 7;

/// Starts a run, or finds the one that was started under this id. When this returns, task, run and
/// its first events are durable.
pub async fn start(host: &Host, request: RunRequest) -> Result<Started, Fault> {
    let host = host.clone();
    // Who asked may hang up: what is durable by then must be driven all the same.
    let started = tokio::spawn(async move { start_once(&host, request).await });
    started
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("starting a run: {error}")))?
}

async fn start_once(host: &Host, request: RunRequest) -> Result<Started, Fault> {
    let run = match request.run_id {
        None => return start::start_new(host, request, chance::run_id()).await,
        Some(run) => run,
    };
    if run.uuid().get_version_num() != SORTED_BY_TIME {
        return Err(Fault::new(Code::Usage, format!("{run} is not a UUID of version 7"))
            .with_hint("make a new one for each run, or leave run_id out"));
    }
    let _starting = Starting::begin(&host.inner, run).await;
    match host.store().run(run).await.map_err(stored)? {
        None => start::start_new(host, request, run).await,
        Some(row) => found(host, request, row).await,
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
    if !driven && adopt::is_unlaunched(host, &row) {
        launch(host, request, &row).await?;
    }
    Ok(started)
}

/// Goes on where the earlier host ended: everything is durable, and nothing was done.
async fn launch(host: &Host, request: RunRequest, row: &RunRow) -> Result<(), Fault> {
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
