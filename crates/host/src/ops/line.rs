//! Waiting for a slot. An adapter may have only so many runs at once; a request that finds none free
//! stands in line as a task, durable and seen by everyone, and holds neither run nor lease nor
//! process. Whose turn it is, is read from the store each time, so a host that comes next sees the
//! same line.
//!
//! What it takes to start a run (its environment above all) is stored nowhere: whoever asked brings
//! it again with every question, under the same id. One who does not come back is cancelled.

use super::run::{RunRequest, Waiting, stored};
use super::start::{self, Begun};
use crate::adoption::Which;
use crate::supervise;
use crate::{Attached, Host, clock};
use contract::plan::Adapter;
use contract::state::{TaskState, WaitingFor};
use contract::{Code, Fault, RunId, TaskId, limits};
use std::collections::HashMap;
use std::time::Duration;
use store::{Hint, Hints, Standing, TaskMove, TaskRow, TasksPage};
use tokio::sync::watch;

/// A hint that got lost is made good after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Whether a request may be started.
pub(crate) enum Turn {
    /// Now, for this task when it stood in line.
    Now {
        in_line: Option<TaskId>,
        attending: Option<Attending>,
    },
    Later(Waiting),
}

/// How many runs of an adapter there may be at once, when someone says so.
pub(crate) fn places(adapter: &Adapter) -> Option<u32> {
    adapter.max_concurrent.filter(|places| *places > 0)
}

/// Waits for the turn of a request, for as long as one question may wait. Who comes new is told at
/// once where it stands.
pub(crate) async fn turn(host: &Host, request: &RunRequest, run: RunId) -> Result<Turn, Fault> {
    let (request, adapter) = request.clone().completed(host).await?;
    let Some(places) = places(&adapter) else {
        return Ok(Turn::Now { in_line: None, attending: None });
    };
    let pool = adapter.name.clone();
    let mut attending = Attending::begin(host, run);
    let crowded = host.inner.attending.borrow().len() > limits::LINE_ASKS_MAX;
    // Who asked may hang up in the middle: a place that is taken by then is known to be left.
    let taken = supervise::spawn("take slot", async move {
        let place = place(&attending.host, &request, &adapter, run).await;
        attending.leaves_a_place = matches!(place, Ok(Place::InLine { .. }));
        (place, attending)
    });
    let (place, mut attending) = taken
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("standing in line: {error}")))?;
    let (task, came_new) = match place? {
        Place::Begun => return Ok(Turn::Now { in_line: None, attending: None }),
        Place::InLine { task, came_new } => (task, came_new),
    };
    let until_ms = clock::now().mono_ms + limits::LINE_ASK_MS;
    let mut leaving = host.leaving();
    loop {
        // Heard from before the look, so that what changes between both is not missed.
        let mut hints = host.store().feed();
        let Some(standing) = host.store().standing(task).await.map_err(stored)? else {
            attending.leaves_a_place = false;
            return left(host, run, task).await;
        };
        if standing.ahead == 0 && standing.taken < u64::from(places) {
            attending.leaves_a_place = false;
            attending.turn = Some(task);
            return Ok(Turn::Now { in_line: Some(task), attending: Some(attending) });
        }
        let left_ms = until_ms.saturating_sub(clock::now().mono_ms);
        if came_new || crowded || left_ms == 0 {
            let Standing { ahead, taken } = standing;
            let (waiting_for, place) = (WaitingFor::Pool, ahead + 1);
            let waiting =
                Waiting { run_id: run, task_id: task, waiting_for, pool, place, taken, places };
            return Ok(Turn::Later(waiting));
        }
        let pause = Duration::from_millis(left_ms).min(LOOK_AGAIN);
        tokio::select! {
            _ = leaving.changed() => {
                return Err(Fault::new(Code::RemoteUnavailable, "this host is shutting down")
                    .with_hint("try again; the next host answers"));
            }
            _ = tokio::time::timeout(pause, stirred(&mut hints)) => {}
        }
    }
}

/// Waits until a run has left the line, by whichever way.
async fn waits_no_more(host: &Host, run: RunId) {
    let mut hints = host.store().feed();
    loop {
        let task = host.store().task_of(run).await;
        let waits = match task {
            Ok(Some(task)) => task.state == TaskState::Waiting,
            Ok(None) => false,
            // A store in trouble does not say; it is asked again.
            Err(_) => true,
        };
        if !waits {
            return;
        }
        stirred(&mut hints).await;
    }
}

/// Waits until a task moved or a run ended.
async fn stirred(hints: &mut Hints) {
    loop {
        match hints.next().await {
            Some(Hint::Run { settled: false, .. } | Hint::Asks { .. } | Hint::Agent { .. }) => {}
            Some(Hint::Run { .. } | Hint::Task { .. } | Hint::Missed) => return,
            None => return std::future::pending().await,
        }
    }
}

/// Where a request stands when it is asked for.
enum Place {
    Begun,
    InLine { task: TaskId, came_new: bool },
}

async fn place(
    host: &Host,
    request: &RunRequest,
    adapter: &Adapter,
    run: RunId,
) -> Result<Place, Fault> {
    if let Some(trouble) = host.inner.trouble() {
        return Err(trouble.fault());
    }
    if host.store().run(run).await.map_err(stored)?.is_some() {
        return Ok(Place::Begun);
    }
    match host.store().task_of(run).await.map_err(stored)? {
        None => {
            let task = start::line_up(host, request.clone(), adapter.clone(), run).await?;
            Ok(Place::InLine { task, came_new: true })
        }
        Some(row) if row.agent != request.agent => {
            let message = format!("{run} was requested as a run of another agent, '{}'", row.agent);
            Err(Fault::new(Code::Conflict, message))
        }
        Some(row) => stands(run, &row).map(|()| Place::InLine { task: row.id, came_new: false }),
    }
}

/// Whether a task that stood in line still does; otherwise what became of it.
fn stands(run: RunId, row: &TaskRow) -> Result<(), Fault> {
    match row.state {
        TaskState::Waiting | TaskState::Queued => Ok(()),
        TaskState::Cancelled => {
            let message = format!("{run} was cancelled while it waited for a slot");
            Err(Fault::new(Code::Cancelled, message))
        }
        TaskState::Running
        | TaskState::Review
        | TaskState::Done
        | TaskState::Failed
        | TaskState::Unknown => {
            let message = format!("{run} could not be started when its turn came");
            Err(Fault::new(Code::Conflict, message).with_hint("start a new run"))
        }
    }
}

/// It waits no more: it began, or someone cancelled it.
async fn left(host: &Host, run: RunId, task: TaskId) -> Result<Turn, Fault> {
    if host.store().run(run).await.map_err(stored)?.is_some() {
        return Ok(Turn::Now { in_line: None, attending: None });
    }
    if let Some(row) = host.store().task(task).await.map_err(stored)? {
        stands(run, &row)?;
    }
    Err(no_longer_waits(run))
}

pub(super) fn no_longer_waits(run: RunId) -> Fault {
    Fault::new(Code::Conflict, format!("{run} no longer waits for a slot"))
}

/// Cancels a run that waits. False when it does not, or no longer.
pub(crate) async fn leave(host: &Host, run: RunId) -> Result<bool, Fault> {
    let task = host.store().task_of(run).await.map_err(stored)?;
    match task {
        // Said again, it is what it was.
        Some(task) if task.state == TaskState::Cancelled => Ok(true),
        Some(task) if task.state == TaskState::Waiting => {
            moved(host, task.id, task.fence, TaskState::Cancelled).await
        }
        Some(_) | None => Ok(false),
    }
}

async fn moved(host: &Host, task: TaskId, fence: u64, to: TaskState) -> Result<bool, Fault> {
    let from = TaskState::Waiting;
    let follow = Default::default();
    let step = TaskMove { task, fence, from, to, waiting_for: None, pool: None, follow };
    match host.inner.heed(host.store().move_task(step).await) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Code::Conflict => Ok(false),
        Err(error) => Err(stored(error)),
    }
}

/// Someone who is here and asks for a run.
pub(crate) struct Attending {
    host: Host,
    run: RunId,
    /// The task whose turn has come.
    turn: Option<TaskId>,
    /// Whether a place in line is left behind that is to be cleared when nobody comes back.
    leaves_a_place: bool,
}

impl Attending {
    fn begin(host: &Host, run: RunId) -> Self {
        host.inner.attending.send_modify(|here| *here.entry(run).or_default() += 1);
        Self { host: host.clone(), run, turn: None, leaves_a_place: false }
    }

    /// What came of it when its turn was there. A start that failed gives the place to the next, but
    /// for one that another host may still make.
    pub(super) async fn came_to(mut self, begun: &Result<Begun, Fault>) {
        self.leaves_a_place = match begun {
            Ok(Begun::Started(_)) => false,
            Ok(Begun::NoSlot | Begun::TaskChanged) => true,
            Err(fault) => {
                let elsewhere = fault.code == Code::RemoteUnavailable;
                let failed = match self.turn {
                    Some(task) if !elsewhere => {
                        moved(&self.host, task, 0, TaskState::Failed).await.is_ok()
                    }
                    Some(_) | None => false,
                };
                !failed
            }
        };
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.host.inner.attending.send_modify(|here| {
            let others = here.get(&self.run).map_or(0, |count| count - 1);
            match others {
                0 => here.remove(&self.run),
                _ => here.insert(self.run, others),
            };
        });
        if self.leaves_a_place && tokio::runtime::Handle::try_current().is_ok() {
            cancel_unless_back(&self.host, self.run, Some(self.host.attach()));
        }
    }
}

/// Cancels a run that waits when nobody asks for it in time. A host that leaves lets the next one
/// decide.
fn cancel_unless_back(host: &Host, run: RunId, attached: Option<Attached>) {
    let (host, mut here) = (host.clone(), host.inner.attending.subscribe());
    supervise::spawn("leave slot queue", async move {
        let _attached = attached;
        let mut leaving = host.leaving();
        loop {
            let back = tokio::select! {
                _ = leaving.changed() => return,
                // It began or was cancelled meanwhile: nobody has to stay for it.
                () = waits_no_more(&host, run) => return,
                back = is_back(&mut here, run) => back,
            };
            // A store in trouble keeps the place until it can be written to again.
            if back || leave(&host, run).await.is_ok() {
                return;
            }
        }
    });
}

async fn is_back(here: &mut watch::Receiver<Here>, run: RunId) -> bool {
    let back = here.wait_for(|here| here.contains_key(&run));
    tokio::time::timeout(Duration::from_millis(limits::LINE_BACK_MS), back).await.is_ok()
}

/// How many questions for each run are open.
type Here = HashMap<RunId, usize>;

/// Those that waited at an earlier host: whoever asked for them asks here, or they are cancelled.
pub(crate) async fn left_behind(host: &Host, which: Which) -> Result<(), Fault> {
    let mut after = None;
    loop {
        let state = Some(TaskState::Waiting);
        let page = TasksPage { after, limit: limits::PAGE_ROWS_MAX, state, ..Default::default() };
        let rows = host.store().tasks(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(last.id);
        let carried = rows.iter().filter(|row| row.waiting_for == Some(WaitingFor::Pool));
        for run in carried.filter_map(|row| row.run) {
            // Whoever only looks is gone sooner than they can come back.
            let attached = (which == Which::All).then(|| host.attach());
            cancel_unless_back(host, run, attached);
        }
    }
}
