//! Starts the tasks of the queue, in a host that serves. It looks when something moved (a task came,
//! a run ended) and when the earliest task that waits may be looked at again; nothing is polled. One
//! look starts whatever can be: of each agent with a hand free the first task, by priority and
//! arrival (`engine::rules::claimable`), by the first of its ways (`ops/fallback.rs`) that the gates
//! (`ops/gate.rs`) let pass; one that names nobody is handed to an agent that fits (`ops/fit.rs`).
//! Those that wait for something without a time are asked for crowd by crowd (`dispatch/crowds.rs`).
//! That a task is never worked on twice is not decided here but by the claim, under its fence.

mod crowds;

use crate::metrics::metrics;
use crate::ops::errand::{self, Resolved, wake};
use crate::ops::fallback::{self, Way, Ways};
use crate::ops::fit::Taker;
use crate::ops::run::stored;
use crate::ops::start::{self, Begun};
use crate::ops::{again, agents, fit, gate, limits, line};
use crate::supervise;
use crate::{Host, chance, clock};
use contract::event::Outcome;
use contract::limits::AGENT_RUNS_MAX;
use contract::state::{Review, TaskState, WaitingFor};
use contract::{Code, Fault, TaskId, Timestamp};
use crowds::Round;
use engine::rules::claimable::{First, Room, next};
use engine::rules::errand::{Ended, after};
use engine::rules::fallback::{Standing, helps};
use engine::rules::hold::Hold;
use failpoint::Point;
use futures::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;
use store::{Again, Follow, Head, Hint, Hints, RunRow, Seal, TaskMove, TaskRow};

/// After this long everything is looked at, whatever was heard: a clock that was set, a directory that
/// was made, a hint that got lost.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// A store in trouble is asked again after this long.
const TROUBLE: Duration = Duration::from_secs(2);

/// From now on starts what can be started.
pub(crate) fn begin(host: &Host) {
    let house = Arc::downgrade(&host.inner);
    let (mut hints, mut leaving) = (host.store().feed(), host.leaving());
    supervise::spawn("dispatcher", async move {
        // Whoever hosted before knew of nothing that we do not look at ourselves.
        let mut round = Round::whole();
        let mut whole_at = tokio::time::Instant::now() + LOOK_AGAIN;
        loop {
            let Some(inner) = house.upgrade() else { return };
            let host = Host { inner };
            let looked = look(&host, &mut round).await;
            let pause = match looked {
                Ok(_) if round.goes_on() => Duration::ZERO,
                Ok(due) => due.map_or(LOOK_AGAIN, until).min(LOOK_AGAIN),
                Err(fault) => {
                    tracing::error!(
                        code = fault.code.word(),
                        error = fault.message,
                        "the queue was not looked at to its end; trying again"
                    );
                    TROUBLE
                }
            };
            let stirred = tokio::select! {
                biased;
                _ = leaving.changed() => return,
                what = stir(&mut hints) => what,
                () = host.inner.stirred.notified() => Stirred::RunEnded,
                () = tokio::time::sleep(pause) => Stirred::TaskMoved,
            };
            let now = tokio::time::Instant::now();
            if stirred == Stirred::RunEnded || now >= whole_at {
                whole_at = now + LOOK_AGAIN;
                round.begin();
            }
        }
    });
}

fn until(due: Timestamp) -> Duration {
    Duration::from_millis(due.since(clock::now().wall).max(1))
}

/// What is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stirred {
    TaskMoved,
    /// What it held may be free for another, also for those that wait without a time.
    RunEnded,
}

async fn stir(hints: &mut Hints) -> Stirred {
    let mut stirred = None;
    loop {
        // What came together is worth one look.
        let hint = match stirred {
            None => hints.next().await,
            Some(stirred) => match hints.next().now_or_never() {
                Some(hint) => hint,
                None => return stirred,
            },
        };
        stirred = match hint {
            // A start makes nothing startable, and has the machine to itself.
            Some(
                Hint::Run { settled: false, .. }
                | Hint::Asks { .. }
                | Hint::Task { begun: true, .. },
            ) => stirred,
            Some(Hint::Task { .. }) => stirred.or(Some(Stirred::TaskMoved)),
            // Whoever may work again is looked for as if a run had ended.
            Some(Hint::Run { .. } | Hint::Agent { .. } | Hint::Missed) => Some(Stirred::RunEnded),
            None => return std::future::pending().await,
        };
    }
}

/// Starts what can be started. Gives when the next task that waits is due.
async fn look(host: &Host, round: &mut Round) -> Result<Option<Timestamp>, Fault> {
    if let Some(trouble) = host.inner.trouble() {
        return Err(trouble.fault());
    }
    let again = async |which| host.inner.heed(host.store().again(which).await).map_err(stored);
    while again(Again::Due(clock::now().wall)).await? > 0 {}
    round.wake(host).await?;
    let mut passed = Vec::new();
    loop {
        let heads = host.store().heads().await.map_err(stored)?;
        let mut firsts = Vec::with_capacity(heads.len());
        for head in &heads {
            firsts.push(first(host, head).await);
        }
        let Some(place) = next(&firsts, &passed) else { break };
        failpoint::hit(Point::HeadsRead);
        let task = &heads[place].task;
        match try_one(host, task).await? {
            Tried::Moved => {}
            // The workspace that it was let go for is still free.
            Tried::Failed => round.begin(),
            Tried::Passed => passed.push(task.agent.clone()),
            Tried::Leaving => return Ok(None),
        }
    }
    host.store().next_due().await.map_err(stored)
}

async fn first<'a>(host: &Host, head: &'a Head) -> First<'a> {
    let room = room(host, head).await;
    First { agent: &head.task.agent, priority: head.task.priority, num: head.num, room }
}

/// The hands of a task's agent. One that is not known has a hand free: its task is to be told so; and
/// whether anyone has one for a task that names nobody, is asked when it is tried.
async fn room(host: &Host, head: &Head) -> Room {
    if head.task.agent.is_empty() {
        return Room { taken: 0, places: 1 };
    }
    let named = agents::named(host, &head.task.agent).await.ok();
    let places = named.and_then(|named| named.concurrency).filter(|places| *places > 0);
    Room { taken: head.busy, places: places.unwrap_or(AGENT_RUNS_MAX).into() }
}

/// What came of trying to start a task.
enum Tried {
    /// It runs, or it stands elsewhere now.
    Moved,
    /// It could not be started, and nobody else is the wiser.
    Failed,
    /// Nothing can be done for its agent at the moment.
    Passed,
    /// The next host goes on.
    Leaving,
}

async fn try_one(host: &Host, task: &TaskRow) -> Result<Tried, Fault> {
    if !task.agent.is_empty() {
        return try_own(host, task).await;
    }
    match fit::taker(host, task).await? {
        Taker::Agent(agent) => try_own(host, &TaskRow { agent, ..task.clone() }).await,
        Taker::Busy => Ok(Tried::Passed),
        Taker::Nobody(hold) => wait(host, task, hold).await,
    }
}

/// Tries a task of an agent, its own or one that was handed to it just now.
async fn try_own(host: &Host, task: &TaskRow) -> Result<Tried, Fault> {
    let ways = match fallback::ways(host, task).await {
        Ok(ways) => ways,
        Err(fault) => return failed(host, task, &fault).await,
    };
    let mut shut = Shut::of(task, &ways);
    for way in &ways.all {
        match go(host, task, &ways, way).await? {
            Gone::Tried(tried) => return Ok(tried),
            Gone::Held(hold) => shut.hold(hold),
            Gone::Busy(hold) => shut.busy = Some(hold),
            Gone::Refused(fault) => shut.refused = Some(fault),
        }
    }
    let refused = shut.refused.take();
    match (shut.opens(), refused) {
        (Some(hold), _) => wait(host, task, hold).await,
        (None, Some(fault)) => not_begun(host, task, fault).await,
        // There is always the agent's own way, and it came to something.
        (None, None) => Ok(Tried::Passed),
    }
}

/// What came of going one way.
enum Gone {
    Tried(Tried),
    /// It is shut for now.
    Held(Hold),
    /// Its agent has its hands full.
    Busy(Hold),
    /// It is shut until someone mends it.
    Refused(Fault),
}

/// Why no way could be gone.
struct Shut {
    /// The one that opens first.
    earliest: Option<Hold>,
    /// One whose agent is at work. Nobody knows until when, but it is asked whenever a run has ended,
    /// and so are the others then.
    busy: Option<Hold>,
    refused: Option<Fault>,
    /// The task, where it has gone a way that is open to others.
    own: Option<TaskId>,
}

impl Shut {
    fn of(task: &TaskRow, ways: &Ways) -> Self {
        let went = ways.all.iter().any(|way| way.standing != Standing::Open);
        Self { earliest: None, busy: None, refused: None, own: went.then_some(task.id) }
    }

    /// What is waited for.
    fn opens(self) -> Option<Hold> {
        let hold = self.busy.or(self.earliest)?;
        Some(Hold { of: hold.of.or(self.own), ..hold })
    }

    fn hold(&mut self, hold: Hold) {
        let known = |hold: &Hold| hold.until.unwrap_or(Timestamp(i64::MAX));
        if self.earliest.as_ref().is_none_or(|earliest| known(&hold) < known(earliest)) {
            self.earliest = Some(hold);
        }
    }
}

/// Goes one way: starts the task by it, or says why it is shut. What would keep the task waiting
/// whoever did it is no reason to look at the next one.
async fn go(host: &Host, task: &TaskRow, ways: &Ways, way: &Way) -> Result<Gone, Fault> {
    if let Some(bar) = barred(host, way).await? {
        return heed(host, task, bar).await;
    }
    if let Some(places) = line::places(&way.resolved.named.adapter)
        && let Some(tried) = in_line(host, task, &way.resolved, places).await?
    {
        return Ok(Gone::Tried(tried));
    }
    let fault = match begin_run(host, task, ways, way).await? {
        Ok(Begun::Started(_)) => {
            failpoint::hit(Point::TaskBegun);
            metrics().dispatched("started", "");
            return Ok(Gone::Tried(Tried::Moved));
        }
        Ok(Begun::NoSlot | Begun::TaskChanged) => return Ok(Gone::Tried(Tried::Passed)),
        Err(fault) => fault,
    };
    match fault.code {
        // Others were quicker between the look and the start; it is no failure of the task.
        Code::ProviderQuota | Code::BudgetExceeded => {
            let hold = limits::crowded_out(host, &way.resolved.candidate, &fault).await?;
            heed(host, task, way.bar(hold)).await
        }
        code if ways.is_chain() && helps(code) => Ok(Gone::Refused(fault)),
        _ => not_begun(host, task, fault).await.map(Gone::Tried),
    }
}

/// What bars a way.
enum Bar {
    /// It would bar the others as well.
    All(Hold),
    This(Hold),
    Busy(Hold),
    Refused(Fault),
}

impl Way {
    /// What a gate says of this way. What is the agent's own and not for its account would keep the
    /// task anywhere.
    fn bar(&self, hold: Hold) -> Bar {
        match self.link.is_none() && hold.why != WaitingFor::Quota {
            true => Bar::All(hold),
            false => Bar::This(hold),
        }
    }
}

async fn heed(host: &Host, task: &TaskRow, bar: Bar) -> Result<Gone, Fault> {
    match bar {
        Bar::All(hold) => wait(host, task, hold).await.map(Gone::Tried),
        Bar::This(hold) => Ok(Gone::Held(hold)),
        Bar::Busy(hold) => Ok(Gone::Busy(hold)),
        Bar::Refused(fault) => Ok(Gone::Refused(fault)),
    }
}

/// Whether a way can be gone, as far as that is known before it is tried.
async fn barred(host: &Host, way: &Way) -> Result<Option<Bar>, Fault> {
    match way.standing {
        Standing::Spent(code) => {
            let message = format!("{} could not start the task", way.name());
            return Ok(Some(Bar::Refused(Fault::new(code, message))));
        }
        Standing::Until(until) if until > clock::now().wall => {
            let (why, note) = (WaitingFor::NotBefore, format!("{} failed at it", way.name()));
            return Ok(Some(Bar::This(Hold { why, until: Some(until), note, of: None })));
        }
        Standing::Until(_) | Standing::Open => {}
    }
    if let Some(hold) = gate::hold(host, &way.resolved.candidate).await? {
        return Ok(Some(way.bar(hold)));
    }
    if !fallback::has_a_hand_free(host, way).await? {
        let note = format!("{} has no free slot", way.name());
        return Ok(Some(Bar::Busy(Hold { why: WaitingFor::Agent, until: None, note, of: None })));
    }
    Ok(None)
}

/// What keeps a task of an agent now; `None` when it can be tried, or is to be told that it cannot.
async fn keeps(host: &Host, task: &TaskRow) -> Result<Option<Hold>, Fault> {
    let Ok(ways) = fallback::ways(host, task).await else { return Ok(None) };
    let mut shut = Shut::of(task, &ways);
    for way in &ways.all {
        match barred(host, way).await? {
            None => return Ok(None),
            Some(Bar::All(hold)) => return Ok(Some(hold)),
            Some(Bar::This(hold)) => shut.hold(hold),
            Some(Bar::Busy(hold)) => shut.busy = Some(hold),
            Some(Bar::Refused(_)) => {}
        }
    }
    Ok(shut.opens())
}

async fn begin_run(
    host: &Host,
    task: &TaskRow,
    ways: &Ways,
    way: &Way,
) -> Result<Result<Begun, Fault>, Fault> {
    let request = match errand::request(host, task, ways, way).await {
        Ok(request) => request,
        Err(fault) => return Ok(Err(fault)),
    };
    let (host, id) = (host.clone(), task.id);
    #[cfg(test)]
    if tests::is_played() {
        return Ok(tests::begins(&host, request, id).await);
    }
    // What is durable must be driven, also when this look is given up meanwhile.
    let begun = supervise::spawn("start queued task", async move {
        start::start_new(&host, request, chance::run_id(), Some(id)).await
    });
    begun.await.map_err(|error| Fault::new(Code::InternalError, format!("starting: {error}")))
}

/// There is no run: because we leave, because the store is in trouble, or because of the task.
async fn not_begun(host: &Host, task: &TaskRow, fault: Fault) -> Result<Tried, Fault> {
    if *host.leaving().borrow() {
        return Ok(Tried::Leaving);
    }
    match fault.code {
        // The agent may have been paused or retired between the look and the start. Any other conflict
        // belongs to the request and would come again at every look.
        Code::Conflict | Code::NotFound => match keeps(host, task).await? {
            Some(hold) => wait(host, task, hold).await,
            None => failed(host, task, &fault).await,
        },
        Code::StoreLocked | Code::StoreNewer | Code::StoreUnreadable | Code::DiskFull => Err(fault),
        _ => failed(host, task, &fault).await,
    }
}

/// Stands in line for a slot of its adapter. `None` when its turn is now.
async fn in_line(
    host: &Host,
    task: &TaskRow,
    resolved: &Resolved,
    places: u32,
) -> Result<Option<Tried>, Fault> {
    let pool = &resolved.candidate.adapter;
    if task.state == TaskState::Waiting && task.pool.as_ref() != Some(pool) {
        // Its agent has another adapter by now.
        moved(host, task, TaskState::Queued, Follow::default(), None).await?;
        return Ok(Some(Tried::Moved));
    }
    if task.state == TaskState::Queued {
        let waits = Some((WaitingFor::Pool, Some(pool.clone())));
        if !moved(host, task, TaskState::Waiting, Follow::default(), waits).await? {
            return Ok(Some(Tried::Moved));
        }
    }
    let standing = host.store().standing(task.id).await.map_err(stored)?;
    Ok(match standing {
        Some(standing) if standing.ahead == 0 && standing.taken < u64::from(places) => None,
        Some(_) | None => Some(Tried::Passed),
    })
}

async fn wait(host: &Host, task: &TaskRow, hold: Hold) -> Result<Tried, Fault> {
    let Hold { why, until, note, of } = hold;
    metrics().dispatched("waits", why.word());
    tracing::debug!(
        task = %task.id,
        agent = task.agent,
        waits_for = why.word(),
        until = until.map(|until| until.to_string()),
        "a task waits"
    );
    let note = Some(Seal::default().given(&note));
    let follow = Follow { until, note, ..Follow::default() };
    let waits = Some((why, of.map(|task| task.to_string())));
    moved(host, task, TaskState::Waiting, follow, waits).await?;
    failpoint::hit(Point::TaskHeld);
    Ok(Tried::Moved)
}

/// A start that failed before there was a run: what follows is what would follow such a run.
async fn failed(host: &Host, task: &TaskRow, fault: &Fault) -> Result<Tried, Fault> {
    let next = after(&Ended {
        outcome: Outcome::Failed,
        code: Some(fault.code),
        launched: false,
        resets_at: None,
        review: Review::None,
        tries: task.tries,
        tries_max: host.inner.tries_max,
        others: false,
        now: clock::now().wall,
        jitter01: chance::unit(),
    });
    let follow = Follow {
        until: next.until,
        note: Some(Seal::default().line(fault.message.as_bytes())),
        code: Some(fault.code),
        tries: next.again.then_some(task.tries + 1),
        wake: next.again.then(|| wake::RETRY.to_owned()),
        ..Follow::default()
    };
    metrics().dispatched("failed", fault.code.word());
    tracing::warn!(
        task = %task.id,
        agent = task.agent,
        code = fault.code.word(),
        error = fault.message,
        again = next.again,
        "a task could not be started"
    );
    let (state, waits) = match next.state {
        // At once again would be at once again without end.
        TaskState::Queued => (TaskState::Failed, None),
        state => (state, next.waiting_for.map(|why| (why, None))),
    };
    moved(host, task, state, follow, waits).await?;
    Ok(Tried::Failed)
}

/// False when it does not stand any more where it was seen.
async fn moved(
    host: &Host,
    task: &TaskRow,
    to: TaskState,
    follow: Follow,
    waits: Option<(WaitingFor, Option<String>)>,
) -> Result<bool, Fault> {
    let (waiting_for, pool) = waits.map_or((None, None), |(why, pool)| (Some(why), pool));
    let (from, fence) = (task.state, task.fence);
    let step = TaskMove { task: task.id, fence, from, to, waiting_for, pool, follow };
    match host.inner.heed(host.store().move_task(step).await) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Code::Conflict => Ok(false),
        Err(error) => Err(stored(error)),
    }
}

/// Launches a run that an earlier host began and did not launch, when it is of a task of the queue.
/// False when it is not ours to launch.
pub(crate) async fn launch_again(host: &Host, row: &RunRow) -> Result<bool, Fault> {
    let task = host.store().task(row.task).await.map_err(stored)?;
    let Some(task) = task.filter(|task| task.by_queue && host.serves()) else { return Ok(false) };
    let ways = fallback::ways(host, &task).await?;
    // One that went a way which is not there any more is not launched; it ends with its lease.
    let Some(way) = ways.of(row) else { return Ok(false) };
    let request = errand::request(host, &task, &ways, way).await?;
    again::launch(host, request, row).await?;
    Ok(true)
}

#[cfg(test)]
mod tests;
