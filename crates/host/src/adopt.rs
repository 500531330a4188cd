//! Runs that a dead host left behind. A living keeper is adopted: machine and dialect as they were
//! in the last Batch, the spool from where it was heard, the secrets from the keeper itself. A dead
//! keeper's run is settled from its spool and the store. State we cannot read ends the run as lost,
//! honestly. Runs whose lease ran out under this very host come back here too, with the next fence.
//!
//! `launch` and `say` are never repeated: the spool directory exists once, and frames carry numbers.
//! A keeper counts as dead when we hold the lock it would need, and not merely when it is silent.

use crate::batch::{HostState, StoredIntent, Words};
use crate::drive::{self, Drive, Ending};
use crate::intake::Intake;
use crate::keeping::Keeping;
use crate::ops::relay::Callers;
use crate::ops::run::stored;
use crate::ops::tool::{self, Bench, Standing, TaskSheet};
use crate::perform::Mouth;
use crate::trace::{self, Tracer};
use crate::workspace::Workspace;
use crate::{Host, clock, keepsake};
use contract::event::{Body, Lifecycle, Phase};
use contract::speech::ToolAnswer;
use contract::{Code, Draft, Event, Fault, RunId, limits};
use engine::{Effect, Input, Machine, Terms};
use failpoint::Point;
use keeper::door;
use keeper::wire::{HelloReply, Order};
use runtimes::{Dialect, Runtime, registry};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::seal::Seal;
use store::{ResumePoint, RunRow, RunsPage};

/// The variable that every process of a run's family has in its environment.
pub const MARK: &str = "OSTLER_RUN_ID";
/// Rounds in which leftovers of a dead keeper are looked for.
const SWEEP_ROUNDS_MAX: u32 = 250;
/// How often a keeper that is about to listen, or about to leave, is looked at again.
const LOOKS_MAX: u32 = 200;
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Which of the runs left behind are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    /// Those whose keeper is gone too: they only wait to be settled.
    Dead,
}

/// What is known of a run's keeper.
enum Keeper {
    Lives(Keeping, Box<HelloReply>),
    /// Nobody holds the agent, and with the lock in our hands nobody will; without one there was
    /// never a launch.
    Dead(Option<OwnedFd>),
    /// It holds its lock and does not answer, or not to us.
    Silent,
}

/// Takes over the runs that are not settled and not driven here. One that cannot be taken over now
/// does not keep the others waiting: it is looked at again when its lease has run out.
pub async fn left_behind(host: &Host, which: Which) -> Result<(), Fault> {
    let mut before = None;
    loop {
        let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
        let rows = host.store().runs(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { break };
        before = Some(last.id);
        for row in rows {
            let alive = door::is_alive(&host.inner.data.spool(row.id, ATTEMPT));
            if which == Which::All || !alive {
                let _ = take_over(host, row, WhenSilent::Wait).await;
            }
        }
    }
    sweep_spools(host).await
}

/// Removes the spools of runs that have ended: their host died after it had settled them. What is in
/// a spool is raw, and nobody will ask for it again.
async fn sweep_spools(host: &Host) -> Result<(), Fault> {
    // A folder that cannot be read now is read by the next host.
    for (run, spool) in host.inner.data.spools().unwrap_or_default() {
        let ended =
            host.store().run(run).await.map_err(stored)?.is_none_or(|row| row.outcome.is_some());
        if ended && !host.inner.is_here(run) {
            // Not waited for: its keeper may take a moment to be gone.
            tokio::task::spawn_blocking(move || {
                await_end(&spool);
                if let Ok(Some(_lock)) = door::lock_out(&spool) {
                    let _ = std::fs::remove_dir_all(&spool);
                }
            });
        }
    }
    Ok(())
}

/// Takes over the runs whose lease ran out and that nobody here drives: whoever held them is
/// refused from now on, and they are settled under the next fence.
pub async fn reap(host: &Host) -> Result<(), Fault> {
    let reaped = host.store().reap_but(clock::now().wall, host.inner.held()).await;
    for reaped in reaped.map_err(stored)? {
        failpoint::hit(Point::Reaped);
        if let Some(row) = host.store().run(reaped.run).await.map_err(stored)? {
            let _ = take_over(host, row, WhenSilent::End).await;
        }
    }
    Ok(())
}

/// The only attempt a run has today.
const ATTEMPT: u32 = 1;

/// What becomes of a keeper that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenSilent {
    /// Its lease may still be good: it is left alone.
    Wait,
    /// Its lease is over, and so is its time.
    End,
}

async fn take_over(host: &Host, row: RunRow, silent: WhenSilent) -> Result<(), Fault> {
    if host.inner.is_here(row.id) {
        return Ok(());
    }
    let spool = host.inner.data.spool(row.id, ATTEMPT);
    let keeper = match find_keeper(host, &row, &spool).await? {
        Keeper::Silent if silent == WhenSilent::End => {
            let dir = spool.clone();
            blocking(move || keeper::mark::end_keeper(&dir)).await?;
            find_keeper(host, &row, &spool).await?
        }
        keeper => keeper,
    };
    let point = host.store().resume_point(row.id).await.map_err(stored)?;
    let drive = match keeper {
        Keeper::Silent => {
            let message = format!("the keeper of {} does not answer", row.id);
            return Err(Fault::new(Code::ProcessLost, message));
        }
        keeper => adopted(host, &row, ATTEMPT, point, keeper).await?,
    };
    failpoint::hit(Point::Adopted);
    host.inner.drive(drive, None);
    Ok(())
}

/// Ends a run whose driver failed. Its keeper is told to end the agent at once, and the run is lost.
pub(crate) async fn give_up(host: &Host, run: RunId) -> Result<(), Fault> {
    let Some(row) = host.store().run(run).await.map_err(stored)? else { return Ok(()) };
    if row.outcome.is_some() {
        return Ok(());
    }
    let keeper = find_keeper(host, &row, &host.inner.data.spool(run, ATTEMPT)).await?;
    adopted(host, &row, ATTEMPT, None, keeper).await?.run(None).await;
    Ok(())
}

/// Tells a keeper to end its agent at once, and waits until both are gone.
async fn end_now(keeping: &mut Keeping) {
    let reason = Code::InternalError.word().to_owned();
    let _ = keeping.send(&Order::Stop { reason, farewell_ms: 0, term_ms: 0 });
    while let Ok(Some(_)) = keeping.next().await {}
}

/// Looks for the run's keeper until it is clear whether one lives.
async fn find_keeper(host: &Host, row: &RunRow, spool: &Path) -> Result<Keeper, Fault> {
    let (secret, fence) = (host.inner.hello_secret(row.id, ATTEMPT), row.fence);
    let dir = spool.to_owned();
    enum Seen {
        Answers(OwnedFd, Box<HelloReply>),
        Dead(Option<OwnedFd>),
        Silent,
    }
    let look = move || {
        for _ in 0..LOOKS_MAX {
            match door::lock_out(&dir) {
                Ok(Some(lock)) => return Seen::Dead(Some(lock)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Seen::Dead(None),
                Ok(None) | Err(_) => {}
            }
            match door::dial(&dir, &secret, fence) {
                Ok((control, reply)) => return Seen::Answers(control, Box::new(reply)),
                // It is about to listen, or about to leave.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::ConnectionRefused
                    ) =>
                {
                    std::thread::sleep(LOOK_PAUSE);
                }
                Err(_) => return Seen::Silent,
            }
        }
        Seen::Silent
    };
    Ok(match blocking(look).await? {
        Seen::Answers(control, reply) => {
            failpoint::hit(Point::KeeperDialed);
            let keeping = Keeping::new(control).map_err(|error| {
                Fault::new(Code::InternalError, format!("the keeper's socket: {error}"))
            })?;
            Keeper::Lives(keeping, reply)
        }
        Seen::Dead(lock) => Keeper::Dead(lock),
        Seen::Silent => Keeper::Silent,
    })
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(act)
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("looking for keepers: {error}")))
}

async fn adopted(
    host: &Host,
    row: &RunRow,
    attempt: u32,
    point: Option<ResumePoint>,
    keeper: Keeper,
) -> Result<Drive, Fault> {
    let house = &host.inner;
    let spool = house.data.spool(row.id, attempt);
    // A runtime that is not known any more cannot read its state; of the one that stands in for it
    // nothing is asked.
    let known = registry::find(&row.runtime);
    let runtime = known.unwrap_or(registry::all()[0]);
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
    let restored =
        point.as_ref().zip(known).and_then(|(point, known)| restore(point, &known_values, known));
    let intake = restored.as_ref().and_then(|(_, _, state)| Intake::open(&spool, state.marks).ok());
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
    if !alive {
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
    let (machine, dialect, state) = restored.unwrap_or_else(|| {
        let terms = Terms::from(&Default::default(), row.fence, attempt);
        (Machine::new(terms, now), Box::new(Silence) as Box<dyn Dialect>, HostState::default())
    });
    // What is heard without its secrets is not kept, so there is nothing to trace.
    let (trace, trace_ended) = match &seal {
        Some(_) => trace::resumed(host.store(), row.id, state.trace),
        None => (None, None),
    };
    let workspace =
        Workspace::open(Path::new(&row.cwd)).or_else(|_| Workspace::open(Path::new("/")))?;
    let (answering, answers) = drive::answers();
    let mut standing = said_before(host, row).await?;
    standing.remaining = machine.remaining(now);
    let mut drive = Drive {
        house: Arc::clone(house),
        run: row.id,
        fence: row.fence,
        attempt,
        lease_ms: house.lease_ms,
        runtime,
        machine,
        dialect,
        joiner: Default::default(),
        blind: seal.is_none().then_some(0),
        words: Words {
            seal: seal.clone().unwrap_or_default(),
            next_seq: row.head_seq + 1,
            carry: state.carry,
            open: state.open,
        },
        pending: Default::default(),
        mouth: Mouth::after(state.next_effect, state.next_frame),
        bench: Bench {
            task: Arc::new(sheet(host, row).await?),
            workspace: Arc::new(workspace),
            policy: state.policy.unwrap_or(contract::Policy::AllowReads),
            store: house.store.clone(),
            seal: seal.unwrap_or_default(),
            upstream: Arc::default(),
        },
        standing,
        cost_model: state.cost_model,
        spool,
        spool_dropped: 0,
        plan: None,
        keeping: keeping.filter(|_| alive),
        child: None,
        intake,
        tracer: Tracer::new(known_values, trace),
        inbox: house.store.inbox_changed(row.id),
        leaving: house.leaving(),
        answers,
        answering,
        callers: Callers::of(state.asked),
        // At once: the keeper's clock has been running without us.
        renew_at_ms: now.mono_ms,
        lease_until_ms: now.mono_ms + house.lease_ms,
        shut,
        pid: row.pid,
        ending: if alive { Ending::Running } else { Ending::KeeperGone },
    };
    // Its MCP servers were the earlier host's, who cannot be asked for them.
    let _ = keeper::mark::sweep(crate::upstream::MARK, &row.id.to_string(), SWEEP_ROUNDS_MAX);
    if let Some(why) = lost {
        drive.ending = Ending::Told;
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
            drive.go_on(now, point, reply);
        }
    }
    Ok(drive)
}

fn agent_pid(reply: &HelloReply) -> Option<u32> {
    reply.agent_pid.and_then(|pid| u32::try_from(pid).ok())
}

async fn sheet(host: &Host, row: &RunRow) -> Result<TaskSheet, Fault> {
    let task = host.store().task(row.task).await.map_err(stored)?;
    Ok(TaskSheet {
        id: row.task,
        title: task.as_ref().map(|task| task.title.clone()).unwrap_or_default(),
        body: task.as_ref().map(|task| task.body.clone()).unwrap_or_default(),
        prompt: task.as_ref().map(|task| task.prompt.clone()).unwrap_or_default(),
        system_prompt: task.and_then(|task| task.system_prompt),
    })
}

/// What tools may be asked about, from the events that are stored.
async fn said_before(host: &Host, row: &RunRow) -> Result<Standing, Fault> {
    let mut standing = Standing::default();
    let comments = host.store().comments(row.task).await.map_err(stored)?;
    let progress = host.store().last_progress(row.task).await.map_err(stored)?;
    for event in comments.into_iter().chain(progress) {
        if let Ok(event) = serde_json::from_slice::<Event>(&event.bytes) {
            standing.note(&event.body);
        }
    }
    Ok(standing)
}

fn restore(
    point: &ResumePoint,
    seal: &Seal,
    runtime: &'static dyn Runtime,
) -> Option<(Machine, Box<dyn Dialect>, HostState)> {
    let machine = serde_json::from_slice(&seal.unheld(&point.machine)).ok()?;
    let dialect = runtime.restore(&seal.unheld(&point.dialect)).ok()?;
    let host = serde_json::from_slice(&point.host).ok()?;
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
    let _ = keeper::mark::end_leftovers(spool, (MARK, &run.to_string()), SWEEP_ROUNDS_MAX);
}

impl Drive {
    /// Effects that were decided and are not known to be done.
    fn go_on(&mut self, now: engine::Now, point: ResumePoint, reply: &HelloReply) {
        // A frame that the keeper holds is on its way into the pipe and must not be said again.
        let reached = reply.held.unwrap_or(0).max(reply.last_said);
        for effect in point.effects {
            let Ok(intent) = serde_json::from_slice::<StoredIntent<'_>>(&effect.bytes) else {
                continue;
            };
            let said = intent.frames.iter().filter(|n| **n <= reached).count();
            self.pending.done.push(effect.n);
            match intent.effect.clone().into_owned() {
                Effect::Launch | Effect::Settle => {}
                Effect::Say(_) | Effect::CloseStdin if said == intent.frames.len() => {}
                // Under new numbers: the old ones can no longer be said. What is in the pipe of a
                // long frame stays there, and the rest follows it.
                say @ Effect::Say(_) => {
                    if let Some(rest) = intent.rest(said) {
                        self.intend_words(say, rest.to_vec());
                    }
                }
                close @ Effect::CloseStdin => self.intend(now, close),
                stop @ Effect::Stop { .. } => self.intend(now, stop),
                // What such a tool changes is in the Batch of its answer, and there was none.
                Effect::Relay(call) if tool::may_repeat(&call.tool) => {
                    self.intend(now, Effect::Relay(call));
                }
                // Whether it was done is not known, so it is not done again.
                Effect::Relay(call) => {
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

/// Hears nothing and says nothing: stands in for a dialect whose state cannot be read.
struct Silence;

impl Dialect for Silence {
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
