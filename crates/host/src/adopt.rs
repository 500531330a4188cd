//! Runs that a dead host left behind. A living keeper is adopted: machine and dialect as they were
//! in the last Batch, the spool from where it was heard, the secrets from the keeper itself. A dead
//! keeper's run is settled from its spool and the store. State we cannot read ends the run as lost,
//! honestly. Runs whose lease ran out under this very host come back here too, with the next fence. Which
//! runs an earlier host left is found in `adoption.rs`.
//!
//! `launch` and `say` are never repeated: the spool directory exists once, and frames carry numbers.
//! A keeper counts as dead when we hold the lock it would need, and not merely when it is silent.

use crate::abroad::Abroad;
use crate::batch::{HostState, StoredIntent, Words};
use crate::blocking::{self, Bulkhead};
use crate::dispatch;
use crate::drive::{self, Drive, Ending, Handing};
use crate::intake::Intake;
use crate::keeping::Keeping;
use crate::ops::relay::Callers;
use crate::ops::run::{ToolsBy, stored};
use crate::ops::tool::{self, Bench, Standing, TaskSheet};
use crate::ops::{errand, mention};
use crate::perform::Mouth;
use crate::share::Share;
use crate::supervise;
use crate::trace::{self, Tracer};
use crate::upstream::{Logins, Upstream};
use crate::workspace::Workspace;
use crate::workspace_check::{self, Comparison};
use crate::{Host, clock, keepsake};
use contract::event::{Body, Lifecycle, Phase};
use contract::speech::ToolAnswer;
use contract::{Code, Draft, Event, Fault, RunId, RunState, limits};
use engine::rules::lease::Lease;
use engine::rules::resume::{self, Again};
use engine::{Effect, Input, Machine, Terms};
use failpoint::Point;
use keeper::door;
use keeper::wire::{HelloReply, Order};
use runtimes::registry::Chosen;
use runtimes::{Dialect, Runtime, registry};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::seal::Seal;
use store::{Reaped, ResumePoint, RunRow, RunsPage, Seen};

/// The variable that every process of a run's family has in its environment.
pub const MARK: &str = "OSTLER_RUN_ID";
/// Rounds in which leftovers of a dead keeper are looked for.
pub(crate) const SWEEP_ROUNDS_MAX: u32 = 250;
/// How often a keeper that is about to listen, or about to leave, is looked at again.
const LOOKS_MAX: u32 = 200;
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// How often a keeper that let go of us and does not answer is asked again.
const TAKE_UP_PAUSE: Duration = Duration::from_secs(1);

/// What is known of a run's keeper.
enum Keeper {
    Lives(Keeping, Box<HelloReply>),
    /// Nobody holds the agent, and with the lock in our hands nobody will; without one there was
    /// never a launch.
    Dead(Option<OwnedFd>),
    /// It holds its lock and does not answer, or not to us.
    Silent,
}

/// What the start of a host did for a run together with others.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The lock of a keeper that is gone, with what it left ended already; `None` inside where there was
    /// never a launch.
    pub dead: Option<Option<OwnedFd>>,
    /// The MCP servers that the earlier host started for it are ended.
    pub are_servers_ended: bool,
}

/// Takes over the runs whose lease ran out and that nobody here drives: whoever held them is
/// refused from now on, and they are settled under the next fence. A lease counts as over when it
/// stood unchanged for its length by our own clock: the wall clock may be set while we look.
pub async fn reap(host: &Host) -> Result<(), Fault> {
    let held = host.inner.held();
    let mut leases = Vec::new();
    let mut before = None;
    loop {
        let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
        let rows = host.store().runs(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { break };
        before = Some(last.id);
        let ours = |row: &&RunRow| !held.contains(&row.id);
        leases.extend(rows.iter().filter(ours).map(|row| (row.id, lease_of(row))));
    }
    let (now, lease_ms) = (clock::now(), host.inner.lease_ms);
    let over = host.inner.overdue().look(now.mono_ms, lease_ms, leases);
    take_seen(host, over.into_iter().map(|(_, seen)| seen).collect()).await
}

/// Takes over a run from this very host, whose lease on it ran out under that fence.
pub(crate) async fn retake(host: &Host, run: RunId, fence: u64) -> Result<(), Fault> {
    let row = host.store().run(run).await.map_err(stored)?;
    let held = row.filter(|row| row.fence == fence && row.outcome.is_none());
    take_seen(host, held.iter().map(lease_of).collect()).await
}

/// Takes up a run of this very host again whose keeper lives and let go of us, as it would after a
/// death of ours: under the same fence, from what is stored. A keeper that does not answer is asked
/// again; when its lease is over it is anyone's to reap.
pub(crate) async fn take_up(host: &Host, run: RunId, fence: u64) -> Result<(), Fault> {
    let mut leaving = host.leaving();
    loop {
        let row = host.store().run(run).await.map_err(stored)?;
        let held = row.filter(|row| row.fence == fence && row.outcome.is_none());
        let Some(row) = held.filter(|row| clock::now().wall < row.lease_expires_at) else {
            return Ok(());
        };
        match take_over(host, row, WhenSilent::Wait, None, Prepared::default()).await {
            Ok(()) => return Ok(()),
            Err(fault) => not_taken_over(run, &fault),
        }
        tokio::select! {
            () = tokio::time::sleep(TAKE_UP_PAUSE) => {}
            _ = leaving.changed() => return Ok(()),
        }
    }
}

fn lease_of(row: &RunRow) -> Seen {
    Seen { run: row.id, fence: row.fence, expires_at: row.lease_expires_at }
}

async fn take_seen(host: &Host, seen: Vec<Seen>) -> Result<(), Fault> {
    if seen.is_empty() {
        return Ok(());
    }
    let asked = clock::now();
    let until_ms = asked.mono_ms + host.inner.lease_ms;
    let reaped = host.store().reap_seen(asked.wall, seen).await;
    for reaped in reaped.map_err(stored)? {
        failpoint::hit(Point::Reaped);
        take_reaped(host, &reaped, until_ms).await?;
    }
    Ok(())
}

/// Goes on with a run that was fenced off, only under the fence that is ours: by now the row may have
/// a later one.
async fn take_reaped(host: &Host, reaped: &Reaped, until_ms: u64) -> Result<(), Fault> {
    let row = host.store().run(reaped.run).await.map_err(stored)?;
    if let Some(row) = row.filter(|row| row.fence == reaped.fence)
        && let Err(fault) =
            take_over(host, row, WhenSilent::End, Some(until_ms), Prepared::default()).await
    {
        not_taken_over(reaped.run, &fault);
    }
    Ok(())
}

/// Takes a run over that an earlier host left. One that cannot be taken over now does not keep the others
/// waiting: it is looked at again when its lease has run out.
pub(crate) async fn take_left(host: &Host, row: RunRow, prepared: Prepared) {
    let run = row.id;
    if let Err(fault) = take_over(host, row, WhenSilent::Wait, None, prepared).await {
        not_taken_over(run, &fault);
    }
}

fn not_taken_over(run: RunId, fault: &Fault) {
    tracing::warn!(
        %run,
        code = fault.code.word(),
        error = fault.message,
        "a run of an earlier host could not be taken over; it is tried again when its lease expires"
    );
}

/// How long whoever asked for a run has to ask for it again, when its host died before the launch.
/// Commands go on at the next host within moments.
const ASKED_AGAIN: Duration = Duration::from_secs(10);

/// What becomes of a keeper that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenSilent {
    /// Its lease may still be good: it is left alone.
    Wait,
    /// Its lease is over, and so is its time.
    End,
}

/// `until_ms`: the end of the lease, on the monotonic clock, where it is known.
async fn take_over(
    host: &Host,
    row: RunRow,
    silent: WhenSilent,
    until_ms: Option<u64>,
    prepared: Prepared,
) -> Result<(), Fault> {
    if row.state == RunState::Unknown {
        tracing::warn!(
            run = %row.id,
            "the state of the run is a word of a newer version; the run is left to that version"
        );
        return Ok(());
    }
    // Whoever has the right goes on with the run.
    let Some(_right) = host.inner.begin_take_over(row.id) else { return Ok(()) };
    if host.inner.is_here(row.id) {
        return Ok(());
    }
    let attempt = host.inner.data.last_attempt(row.id);
    let spool = host.inner.data.spool(row.id, attempt);
    let Prepared { dead, are_servers_ended } = prepared;
    let ended = Ended { family: dead.is_some(), servers: are_servers_ended };
    let found = match dead {
        Some(lock) => Keeper::Dead(lock),
        None => find_keeper(host, &row, attempt, &spool).await?,
    };
    let keeper = match found {
        Keeper::Silent if silent == WhenSilent::End => {
            let dir = spool.clone();
            blocking(move || keeper::mark::end_keeper(&dir)).await?;
            find_keeper(host, &row, attempt, &spool).await?
        }
        keeper => keeper,
    };
    if silent == WhenSilent::Wait
        && matches!(keeper, Keeper::Dead(None))
        && row.pid.is_none()
        && clock::now().wall < row.lease_expires_at
    {
        // Begun and never launched. One of the queue's has all it takes in its task.
        match dispatch::launch_again(host, &row).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(fault) => tracing::warn!(
                run = %row.id,
                code = fault.code.word(),
                error = fault.message,
                "a run of the queue cannot be launched again"
            ),
        }
        // Whoever asked for it may ask again and has what it takes; should
        // nobody come, it is over.
        end_unless_asked_again(host.clone(), row.id);
        return Ok(());
    }
    let point = host.store().resume_point(row.id).await.map_err(stored)?;
    let drive = match keeper {
        Keeper::Silent => {
            let message = format!("the keeper of {} does not answer", row.id);
            return Err(Fault::new(Code::ProcessLost, message));
        }
        keeper => adopted(host, &row, attempt, point, (keeper, ended), until_ms).await?,
    };
    failpoint::hit(Point::Adopted);
    host.inner.drive(drive, None);
    Ok(())
}

/// Whether a run that nobody drives was begun and never launched.
pub(crate) fn is_unlaunched(host: &Host, row: &RunRow) -> bool {
    row.pid.is_none() && !host.inner.data.spool(row.id, 1).exists()
}

fn end_unless_asked_again(host: Host, run: RunId) {
    supervise::spawn("end unlaunched run", async move {
        // Until then nobody can ask for it. One that takes too long ends this wait all the same.
        let _ = host.inner.adopted(None).await;
        tokio::time::sleep(ASKED_AGAIN).await;
        // Its lease ends it in any case.
        let ended: futures::future::BoxFuture<'_, _> = Box::pin(end_unlaunched(&host, run));
        if let Err(fault) = ended.await {
            not_taken_over(run, &fault);
        }
    });
}

/// Ends a run that was begun and never launched, and that someone wants stopped: nobody drives it.
pub(crate) async fn end_unlaunched(host: &Host, run: RunId) -> Result<(), Fault> {
    if host.inner.is_here(run) || host.inner.starting.borrow().contains(&run) {
        return Ok(());
    }
    let row = host.store().run(run).await.map_err(stored)?;
    match row.filter(|row| row.outcome.is_none() && is_unlaunched(host, row)) {
        Some(row) => take_over(host, row, WhenSilent::End, None, Prepared::default()).await,
        None => Ok(()),
    }
}

/// Ends a run whose driver failed. Its keeper is told to end the agent at once, and the run is lost.
pub(crate) async fn give_up(host: &Host, run: RunId) -> Result<(), Fault> {
    let Some(row) = host.store().run(run).await.map_err(stored)? else { return Ok(()) };
    if row.outcome.is_some() {
        return Ok(());
    }
    let attempt = host.inner.data.last_attempt(run);
    let keeper = find_keeper(host, &row, attempt, &host.inner.data.spool(run, attempt)).await?;
    // Nothing of its state is trusted but what it had asked for: numbers are given once.
    let point = host.store().resume_point(run).await.map_err(stored)?;
    let point = point.map(|point| ResumePoint { machine: Vec::new(), ..point });
    let keeper = (keeper, Ended::default());
    adopted(host, &row, attempt, point, keeper, None).await?.run(None).await;
    Ok(())
}

/// Tells a keeper to end its agent at once, and waits until both are gone.
async fn end_now(keeping: &mut Keeping) {
    let reason = Code::InternalError.word().to_owned();
    // A connection that is broken ends the loop below, and the sweep after it ends the processes.
    let _ = keeping.send(&Order::Stop { reason, farewell_ms: 0, term_ms: 0 });
    while let Ok(Some(_)) = keeping.next().await {}
}

/// Looks for the run's keeper until it is clear whether one lives.
async fn find_keeper(
    host: &Host,
    row: &RunRow,
    attempt: u32,
    spool: &Path,
) -> Result<Keeper, Fault> {
    let (run, fence) = (row.id, row.fence);
    let secret = host.inner.hello_secret(run, attempt);
    let dir = spool.to_owned();
    enum Seen {
        Answers(OwnedFd, Box<HelloReply>),
        Dead(Option<OwnedFd>),
        Silent,
    }
    let look = move || {
        // The one it was handed to may still be about to take its lock, and must find it free.
        for _ in 0..LOOKS_MAX {
            if !dir.exists() || door::is_taken_up(&dir) {
                break;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        for _ in 0..LOOKS_MAX {
            match door::lock_out(&dir) {
                Ok(Some(lock)) => return Seen::Dead(Some(lock)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Seen::Dead(None),
                // A directory in which no lock can be taken is dialed too: its error is logged below.
                Ok(None) | Err(_) => {}
            }
            match door::dial(&dir, &secret, fence) {
                Ok((control, reply)) => return Seen::Answers(control, Box::new(reply)),
                // It is about to listen, or about to leave.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound
                            | ErrorKind::ConnectionRefused
                            | ErrorKind::ConnectionReset
                    ) =>
                {
                    std::thread::sleep(LOOK_PAUSE);
                }
                Err(error) => {
                    tracing::warn!(%run, %error, "the keeper of the run cannot be reached");
                    return Seen::Silent;
                }
            }
        }
        Seen::Silent
    };
    Ok(match blocking(look).await? {
        Seen::Answers(control, reply) => {
            failpoint::hit(Point::KeeperDialed);
            let keeping = Keeping::adopted(control, &reply).map_err(|error| {
                Fault::new(Code::InternalError, format!("the keeper's socket: {error}"))
            })?;
            Keeper::Lives(keeping, reply)
        }
        Seen::Dead(lock) => Keeper::Dead(lock),
        Seen::Silent => Keeper::Silent,
    })
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    blocking::spawn(Bulkhead::Wait, "adopt run", act)
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("looking for keepers: {error}")))
}

/// The processes of a run that are known to be ended.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    /// What its dead keeper left.
    family: bool,
    /// The MCP servers that an earlier host started for it.
    servers: bool,
}

async fn adopted(
    host: &Host,
    row: &RunRow,
    attempt: u32,
    point: Option<ResumePoint>,
    (keeper, ended): (Keeper, Ended),
    until_ms: Option<u64>,
) -> Result<Drive, Fault> {
    let house = &host.inner;
    let spool = house.data.spool(row.id, attempt);
    let kept = house.seals().remove(&row.id);
    let (mut keeping, reply, shut) = match keeper {
        Keeper::Lives(keeping, reply) => (Some(keeping), Some(reply), None),
        Keeper::Dead(lock) => (None, None, lock),
        Keeper::Silent => (None, None, None),
    };
    let seal = reply.as_ref().map(|reply| Seal::new(reply.secrets.clone())).or(kept);
    let seal = seal.or_else(|| {
        let secret = house.keepsake_secret(row.id, attempt);
        keepsake::find(&spool, &secret).map(Seal::new)
    });

    // What cannot be read again makes the run lost; it still ends, and says why.
    let known_values = seal.clone().unwrap_or_default();
    let known = point
        .as_ref()
        .and_then(|point| registry::adopted(&row.runtime, &known_values.unheld(&point.dialect)));
    let restored = point
        .as_ref()
        .zip(known.as_ref())
        .and_then(|(point, known)| restore(point, &known_values, &**known));
    // A runtime that is not known any more cannot read its state; of the one that stands in for it
    // nothing is asked.
    let runtime = known.unwrap_or(Chosen::Listed(registry::all()[0]));
    let intake = restored.as_ref().and_then(|(_, dialect, state)| {
        Intake::open(&spool, marks_in(&runtime, &**dialect, state, attempt))
            .inspect_err(|error| {
                tracing::warn!(run = %row.id, %error, "the spool of the run cannot be read");
            })
            .ok()
    });
    let lost = match (&restored, &intake) {
        (Some(_), Some(_)) => None,
        (None, _) => Some("its stored state cannot be read"),
        (Some(_), None) if keeping.is_some() => Some("its spool cannot be read"),
        (Some(_), None) => Some("its host and its keeper ended"),
    };
    if let (Some(_), Some(keeping)) = (lost, &mut keeping) {
        // Nothing of the agent may outlive its run.
        end_now(keeping).await;
    }
    let alive = keeping.is_some() && lost.is_none();
    if !alive && !ended.family {
        let (dir, run, left) = (spool.clone(), row.id, shut.is_some());
        blocking(move || {
            if !left {
                await_end(&dir);
            }
            end_leftovers(&dir, run);
            failpoint::hit(Point::LeftoversEnded);
        })
        .await?;
    }

    let now = clock::now();
    // Whoever holds the directory's lock has nobody beside it; whoever reaped has its lease.
    let until_ms = until_ms.unwrap_or(now.mono_ms + house.lease_ms);
    let undone: Vec<u64> = point.iter().flat_map(|point| &point.effects).map(|one| one.n).collect();
    let (machine, dialect, state) = restored.unwrap_or_else(|| {
        let terms = Terms::from(&Default::default(), row.fence, attempt);
        // What is asked for from here on may not have the number of what was asked for before.
        let next_effect = undone.iter().copied().max().unwrap_or_default();
        let state = HostState { next_effect, ..HostState::default() };
        (Machine::new(terms, now), Box::new(Silence) as Box<dyn Dialect>, state)
    });
    let luggage = reply.as_ref().and_then(|reply| reply.luggage.as_deref());
    let logins = Logins::at(house.data.path(), house.token.clone());
    let upstream = luggage.and_then(|luggage| Upstream::unpacked(luggage, row.id, logins));
    let upstream = upstream.unwrap_or_default();
    // What is heard without its secrets is not kept, so there is nothing to trace.
    let (trace, trace_ended) = match &seal {
        Some(_) => trace::resumed(host.store(), row.id, state.trace),
        None => (None, None),
    };
    let cwd = PathBuf::from(&row.cwd);
    let opened = blocking::probe(Path::new(&row.cwd), "open the working directory", move || {
        Workspace::again(&cwd)
    });
    // A run whose file system hangs is taken over without its tools, because its lease must be renewed.
    let workspace = opened.await.unwrap_or_else(|_hung| Workspace::gone(Path::new(&row.cwd)));
    let workspace = Arc::new(workspace.without(&house.data.private()));
    let policy = state.policy.unwrap_or(contract::Policy::AllowReads);
    let comparison = if !workspace_check::may_apply(policy, &runtime.card().lanes) {
        Comparison::NotNeeded
    } else {
        let (spool, secret) = (spool.clone(), house.beginning_secret(row.id));
        let (workspace, git) = (Arc::clone(&workspace), house.trees.git().clone());
        let dir = workspace.path().to_owned();
        let find = move || Comparison::find(&spool, &secret, workspace, git, policy);
        let found = blocking::work_in(&dir, "find workspace comparison", find).await;
        found.unwrap_or_else(|fault| Comparison::NotPossible(fault.message))
    };
    // They were the earlier host's, and are started anew when their tools are wanted.
    if !ended.servers {
        let run = row.id;
        blocking(move || end_servers(run)).await?;
    }
    let (answering, answers) = drive::answers();
    let errand = errand::of(host, row.task).await?;
    let mut standing = match errand {
        Some(_) => errand::said_before(host, row.task).await?,
        None => said_before(host, row.task).await?,
    };
    standing.remaining = machine.remaining(now);
    let mut drive = Drive {
        house: Arc::clone(house),
        run: row.id,
        fence: row.fence,
        attempt,
        runtime,
        machine,
        dialect,
        joiner: Default::default(),
        blind: seal.is_none().then_some(0),
        comparison,
        words: Words {
            seal: seal.clone().unwrap_or_default(),
            next_seq: row.head_seq + 1,
            carry: state.carry,
            open: state.open,
        },
        pending: Default::default(),
        mouth: Mouth::after(state.next_effect, state.next_frame),
        bench: Bench {
            run: row.id,
            task: Arc::new(sheet(host, row, state.session.clone()).await?),
            workspace,
            policy,
            store: house.store.clone(),
            seal: seal.unwrap_or_default(),
            upstream: Arc::new(upstream),
        },
        standing,
        errand,
        cost_model: state.cost_model,
        quota: state.quota,
        reported: row.report.clone().unwrap_or_default(),
        share: Share::of(state.fund),
        told: state.told,
        spool,
        spool_dropped: 0,
        again: None,
        plan: Handing::Nothing,
        files: Vec::new(),
        mounts: Default::default(),
        keeping: keeping.filter(|_| alive),
        child: None,
        intake,
        tracer: Tracer::new(known_values, trace),
        // Wishes that the last host did not take any more are taken first.
        inbox: house.store.inbox_changed(row.id).due(),
        leaving: house.leaving(),
        answers,
        answering,
        callers: Callers::of(state.asked),
        abroad: Abroad::of(state.tools_by),
        // At once: the keeper's clock has been running without us.
        lease: Lease::taken_over(now.mono_ms, until_ms, house.lease_ms),
        shut,
        pid: row.pid,
        ending: if alive { Ending::Running } else { Ending::KeeperGone },
    };
    if drive.abroad.tools_by == ToolsBy::Host {
        mention::heed_again(host.clone(), row.task, row.id);
    }
    if let Some(why) = lost {
        drive.ending = Ending::Told;
        drive.pending.done.extend(undone);
        tracing::warn!(run = %row.id, why, "the run is lost");
        drive.step(now, Input::Lost { why: why.to_owned() });
        return Ok(drive);
    }
    let body = Lifecycle {
        phase: Phase::Adopted,
        why: None,
        pid: reply.as_ref().and_then(|reply| agent_pid(reply)).or(row.pid),
        isolation: reply.as_ref().map(|reply| reply.isolation.word().to_owned()),
    };
    drive.pending.drafts.push(Draft::ostler(Body::Lifecycle(body)));
    drive.pending.drafts.extend(trace_ended);
    if let Some(reply) = &reply {
        // The last host may have died between the launch and hearing of it.
        if let (None, Some(pid)) = (row.pid, agent_pid(reply)) {
            let isolation = reply.isolation.word().to_owned();
            drive.launched(now, pid, isolation, reply.isolation_note.clone());
        }
        if let Some(point) = point {
            // A frame that the keeper holds is on its way into the pipe and must not be said again.
            let reached = reply.held.unwrap_or(0).max(reply.last_said);
            drive.go_on(now, point, reached, Relays::Again);
        }
    }
    Ok(drive)
}

/// Where the spool of this attempt is read from. The last Batch may tell of the one before, when a
/// session that goes on elsewhere was just taken up: then nothing of this one was heard.
fn marks_in(
    runtime: &Chosen,
    dialect: &dyn Dialect,
    state: &HostState,
    attempt: u32,
) -> crate::intake::Marks {
    let elsewhere = || registry::left(&runtime.card().id, &dialect.save()).is_some();
    match state.attempt != 0 && state.attempt < attempt && elsewhere() {
        true => crate::intake::Marks::default(),
        false => state.marks,
    }
}

fn agent_pid(reply: &HelloReply) -> Option<u32> {
    reply.agent_pid.and_then(|pid| u32::try_from(pid).ok())
}

async fn sheet(host: &Host, row: &RunRow, session: Option<String>) -> Result<TaskSheet, Fault> {
    let task = host.store().task(row.task).await.map_err(stored)?;
    let context = task.as_ref().map(errand::context_of).unwrap_or_default();
    Ok(TaskSheet {
        id: row.task,
        run: row.id,
        agent: row.agent.clone(),
        title: task.as_ref().map(|task| task.title.clone()).unwrap_or_default(),
        body: task.as_ref().map(|task| task.body.clone()).unwrap_or_default(),
        prompt: task.as_ref().map(|task| task.prompt.clone()).unwrap_or_default(),
        system_prompt: task.and_then(|task| task.system_prompt),
        session,
        context,
    })
}

/// What tools may be asked about, from the events that are stored.
async fn said_before(host: &Host, task: contract::TaskId) -> Result<Standing, Fault> {
    let mut standing = Standing::default();
    let comments = host.store().comments(task).await.map_err(stored)?;
    let progress = host.store().last_progress(task).await.map_err(stored)?;
    for event in comments.into_iter().chain(progress) {
        if let Ok(event) = serde_json::from_slice::<Event>(&event.bytes) {
            standing.note(&event.body);
        }
    }
    Ok(standing)
}

pub(crate) fn restore(
    point: &ResumePoint,
    seal: &Seal,
    runtime: &dyn Runtime,
) -> Option<(Machine, Box<dyn Dialect>, HostState)> {
    let machine: Machine = serde_json::from_slice(&seal.unheld(&point.machine)).ok()?;
    if machine.state() == RunState::Unknown {
        return None;
    }
    let dialect = runtime.restore(&seal.unheld(&point.dialect)).ok()?;
    let host = serde_json::from_slice(&seal.unheld(&point.host)).ok()?;
    Some((machine, dialect, host))
}

/// Waits until a keeper that let go of us has ended: its lock is the last thing to go of it, and
/// where the kernel holds the family, of the family.
pub(crate) fn await_end(spool: &Path) {
    for _ in 0..LOOKS_MAX {
        if !door::is_alive(spool) {
            return;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Ends what is left of a run whose keeper is gone, by its group and its mark.
pub(crate) fn end_leftovers(spool: &Path, run: RunId) {
    let ended = keeper::mark::end_leftovers(spool, (MARK, &run.to_string()), SWEEP_ROUNDS_MAX);
    if let Err(error) = ended {
        tracing::warn!(%run, %error, "processes that the run left cannot be looked for");
    }
}

/// Ends the MCP servers that an earlier host started for a run.
fn end_servers(run: RunId) {
    let swept = keeper::mark::sweep(crate::upstream::MARK, &run.to_string(), SWEEP_ROUNDS_MAX);
    if let Err(error) = swept {
        tracing::warn!(%run, %error, "MCP servers of an earlier host cannot be looked for");
    }
}

impl Drive {
    /// Effects that were decided and are not known to be done. `reached`: the last frame that is said
    /// or about to be.
    pub(crate) fn go_on(
        &mut self,
        now: engine::Now,
        point: ResumePoint,
        reached: u32,
        relays: Relays,
    ) {
        for effect in point.effects {
            let words = self.words.seal.unheld(&effect.bytes);
            let Ok(intent) = serde_json::from_slice::<StoredIntent<'_>>(&words) else {
                continue;
            };
            let said = intent.frames.iter().filter(|n| **n <= reached).count();
            let decided = intent.effect.clone().into_owned();
            if matches!((&decided, relays), (Effect::Relay(_), Relays::UnderWay)) {
                continue;
            }
            self.pending.done.push(effect.n);
            // What a tool that may be repeated changes is in the Batch of its answer, and there was
            // none.
            // A call that the caller carries out is only told again, under its own id.
            let may_repeat = matches!(&decided, Effect::Relay(call)
                if self.abroad.is_asked() || tool::may_repeat(&call.tool));
            match resume::again(&decided, said == intent.frames.len(), may_repeat) {
                Again::Nothing => {}
                // Under new numbers: the old ones can no longer be said. What is in the pipe of a
                // long frame stays there, and the rest follows it.
                Again::SayTheRest => {
                    if let Some(rest) = intent.rest(said) {
                        self.intend_words(decided, rest.to_vec());
                    }
                }
                Again::Repeat => self.intend(now, decided),
                Again::AnswerUnknown => {
                    let Effect::Relay(call) = decided else { continue };
                    let answer = ToolAnswer::Error {
                        code: Code::ProcessLost,
                        message:
                            "the call was interrupted: whether it was carried out is not known"
                                .to_owned(),
                    };
                    self.step(
                        now,
                        Input::Answered { tool_call_id: call.tool_call_id, answer, duration_ms: 0 },
                    );
                }
            }
        }
    }
}

/// Whether calls of tools that are not answered are being carried out by this very host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relays {
    UnderWay,
    Again,
}

/// Hears nothing and says nothing: stands in for a dialect whose state cannot be read.
struct Silence;

impl Dialect for Silence {
    fn open(&mut self) -> Option<Vec<u8>> {
        None
    }
    fn hear(&mut self, _: &runtimes::Frame<'_>, _: &mut runtimes::Out) {}
    fn say(&mut self, _: &contract::Utterance, _: &mut runtimes::Out) {}
    fn tick(&mut self, _: contract::Timestamp, _: &mut runtimes::Out) {}
    fn close(&mut self, _: contract::speech::Close, _: &mut runtimes::Out) {}
    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }
    fn save(&self) -> Vec<u8> {
        b"null".to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use store::conformance::{Holder, claim_of, new_task};

    #[tokio::test]
    async fn a_run_is_taken_up_or_over_again_only_under_the_fence_that_was_ours() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let (store, now) = (host.store(), clock::now());
        // Ours under the first fence; then another fenced it off, and holds it.
        let task = store.enqueue(new_task()).await.unwrap();
        let mut claim = claim_of(task, "one");
        (claim.now, claim.lease_ms) = (now.wall, 3_600_000);
        let run = claim.run;
        let fence = store.claim(claim).await.unwrap().fence;
        let held = Holder { task, run, fence, head_seq: 0 };
        store.commit(held.batch(&["begun"])).await.unwrap();
        let row = async || store.run(run).await.unwrap().unwrap();
        let taken = store.reap_seen(now.wall, vec![lease_of(&row().await)]).await.unwrap();
        let [theirs] = taken.as_slice() else { panic!("{taken:?}") };
        assert_eq!((theirs.old_fence, row().await.fence), (fence, theirs.fence));

        retake(&host, run, fence).await.unwrap();
        take_up(&host, run, fence).await.unwrap();
        let ours = Reaped { old_fence: 0, fence, ..*theirs };
        let until_ms = now.mono_ms + 3_600_000;
        take_reaped(&host, &ours, until_ms).await.unwrap();
        assert_eq!((row().await.fence, host.inner.is_here(run)), (theirs.fence, false));
        take_reaped(&host, theirs, until_ms).await.unwrap();
        assert!(host.inner.is_here(run), "whoever has the fence goes on with it");
    }

    #[tokio::test]
    async fn second_driver_of_a_run_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let (store, now) = (host.store(), clock::now());
        let task = store.enqueue(new_task()).await.unwrap();
        let mut claim = claim_of(task, "one");
        (claim.now, claim.lease_ms) = (now.wall, 3_600_000);
        let run = claim.run;
        store.claim(claim).await.unwrap();
        let row = store.run(run).await.unwrap().unwrap();
        let gone = || (Keeper::Dead(None), Ended { family: true, servers: true });
        let until_ms = Some(now.mono_ms + 3_600_000);
        let first = adopted(&host, &row, 1, None, gone(), until_ms).await.unwrap();
        let second = adopted(&host, &row, 1, None, gone(), until_ms).await.unwrap();
        // Both in a row: the first has no time to end the run.
        host.inner.drive(first, None);
        host.inner.drive(second, None);
        assert_eq!((host.live_runs(), *host.inner.reasons.borrow()), (1, 1));
        host.idle().await;
        assert_eq!(host.live_runs(), 0, "it is removed by its own driver");
        let events = store.events(run, 0, 100).await.unwrap();
        let parsed =
            events.iter().filter_map(|event| serde_json::from_slice::<Event>(&event.bytes).ok());
        let results = parsed.filter(|event| matches!(event.body, Body::Result(_))).count();
        assert_eq!(results, 1);
    }
}
