//! Runs that a dead host left behind. A living keeper is adopted: machine and dialect as they were
//! in the last Batch, the spool from where it was heard, the secrets from the keeper itself. A dead
//! keeper's run is settled from its spool and the store. State we cannot read ends the run as lost,
//! honestly.
//!
//! `launch` and `say` are never repeated: the spool directory exists once, and frames carry numbers.

use crate::batch::{HostState, StoredIntent, Words};
use crate::drive::{self, Drive, Ending};
use crate::intake::Intake;
use crate::keeping::Keeping;
use crate::ops::run::stored;
use crate::ops::tool::{Bench, Standing, TaskSheet};
use crate::perform::Mouth;
use crate::trace::{self, Tracer};
use crate::workspace::Workspace;
use crate::{Host, clock};
use contract::event::{Body, Lifecycle, Phase};
use contract::speech::ToolAnswer;
use contract::{Code, Draft, Fault, limits};
use engine::{Effect, Input, Machine, Terms};
use keeper::door;
use keeper::wire::{HelloReply, Order};
use runtimes::{Dialect, registry};
use std::path::Path;
use std::sync::Arc;
use store::seal::Seal;
use store::{ResumePoint, RunRow, RunsPage};

/// Rounds in which leftovers of a dead keeper are looked for.
const SWEEP_ROUNDS_MAX: u32 = 50;

/// Which of the runs left behind are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    /// Those whose keeper is gone too: they only wait to be settled.
    Dead,
}

/// Takes over the runs that are not settled and not driven here.
pub async fn left_behind(host: &Host, which: Which) -> Result<(), Fault> {
    let mut before = None;
    loop {
        let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
        let rows = host.store().runs(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { return Ok(()) };
        before = Some(last.id);
        for row in rows {
            let alive = door::is_alive(&host.inner.data.spool(row.id, ATTEMPT));
            if which == Which::All || !alive {
                take_over(host, row).await?;
            }
        }
    }
}

/// The only attempt a run has today.
const ATTEMPT: u32 = 1;

async fn take_over(host: &Host, row: RunRow) -> Result<(), Fault> {
    if host.inner.is_here(row.id) {
        return Ok(());
    }
    let point = host.store().resume_point(row.id).await.map_err(stored)?;
    let spool = host.inner.data.spool(row.id, ATTEMPT);
    let keeper = living_keeper(host, &row, ATTEMPT, &spool);
    let drive = adopted(host, &row, ATTEMPT, point, keeper).await?;
    host.inner.drive(drive, None);
    Ok(())
}

/// Ends a run whose driver failed. Its keeper is told to end the agent at once, and the run is lost.
pub(crate) async fn give_up(host: &Host, run: contract::RunId) -> Result<(), Fault> {
    let Some(row) = host.store().run(run).await.map_err(stored)? else { return Ok(()) };
    if row.outcome.is_some() {
        return Ok(());
    }
    let spool = host.inner.data.spool(run, ATTEMPT);
    if let Some((mut keeping, _)) = living_keeper(host, &row, ATTEMPT, &spool) {
        let reason = Code::InternalError.word().to_owned();
        let _ = keeping.send(&Order::Stop { reason, farewell_ms: 0, term_ms: 0 });
        // Until it has left: nothing of the agent may outlive its run.
        while let Ok(Some(_)) = keeping.next().await {}
    }
    adopted(host, &row, ATTEMPT, None, None).await?.run(None).await;
    Ok(())
}

/// The keeper's socket, if one lives and knows us.
fn living_keeper(
    host: &Host,
    row: &RunRow,
    attempt: u32,
    spool: &Path,
) -> Option<(Keeping, HelloReply)> {
    let secret = host.inner.hello_secret(row.id, attempt);
    let (control, reply) = door::dial(spool, &secret, row.fence).ok()?;
    Some((Keeping::new(control).ok()?, reply))
}

async fn adopted(
    host: &Host,
    row: &RunRow,
    attempt: u32,
    point: Option<ResumePoint>,
    keeper: Option<(Keeping, HelloReply)>,
) -> Result<Drive, Fault> {
    let house = &host.inner;
    let now = clock::now();
    let lease_ms = limits::LEASE_MS;
    let spool = house.data.spool(row.id, attempt);
    let runtime = registry::find(&row.runtime).ok_or_else(|| {
        Fault::new(
            Code::UnknownAgent,
            format!("{} was run by '{}', which is not known", row.id, row.runtime),
        )
    })?;
    let secrets = keeper.as_ref().map(|(_, reply)| reply.secrets.clone()).unwrap_or_default();
    let pid = keeper
        .as_ref()
        .and_then(|(_, reply)| reply.agent_pid)
        .and_then(|pid| u32::try_from(pid).ok());
    let last_said = keeper.as_ref().map(|(_, reply)| reply.last_said);

    // What cannot be read again makes the run lost; it still ends, and says why.
    let seal = Seal::new(secrets);
    let restored = point.as_ref().and_then(|point| restore(point, &seal, runtime));
    let readable = restored.is_some();
    let (machine, dialect, state) = restored.unwrap_or_else(|| {
        let terms = Terms::from(&Default::default(), row.fence, attempt);
        (Machine::new(terms, now), Box::new(Silence) as Box<dyn Dialect>, HostState::default())
    });
    let intake = match readable {
        true => Intake::open(&spool, state.marks).ok(),
        false => None,
    };
    // What is heard without its secrets is not kept, so there is nothing to trace.
    let (trace, trace_ended) = match keeper.is_some() {
        true => trace::resumed(host.store(), row.id, state.trace),
        false => (None, None),
    };
    let task = host.store().task(row.task).await.map_err(stored)?;
    let sheet = TaskSheet {
        id: row.task,
        title: task.as_ref().map(|task| task.title.clone()).unwrap_or_default(),
        body: task.as_ref().map(|task| task.body.clone()).unwrap_or_default(),
        prompt: task.as_ref().map(|task| task.prompt.clone()).unwrap_or_default(),
        system_prompt: task.and_then(|task| task.system_prompt),
    };
    let workspace =
        Workspace::open(Path::new(&row.cwd)).or_else(|_| Workspace::open(Path::new("/")))?;
    let (answering, answers) = drive::answers();
    let alive = keeper.is_some();
    let mut drive = Drive {
        house: Arc::clone(house),
        run: row.id,
        fence: row.fence,
        attempt,
        lease_ms,
        runtime,
        machine,
        dialect,
        joiner: Default::default(),
        words: Words {
            seal: seal.clone(),
            next_seq: row.head_seq + 1,
            carry: state.carry,
            open: state.open,
        },
        pending: Default::default(),
        mouth: Mouth::after(state.next_effect, state.next_frame),
        bench: Bench { task: Arc::new(sheet), workspace: Arc::new(workspace) },
        standing: Standing::default(),
        cost_model: None,
        spool,
        spool_dropped: 0,
        plan: None,
        keeping: keeper.map(|(keeping, _)| keeping),
        child: None,
        intake,
        tracer: Tracer::new(seal, trace),
        inbox: house.store.inbox_changed(row.id),
        leaving: house.leaving(),
        answers,
        answering,
        // At once: the keeper's clock has been running without us.
        renew_at_ms: now.mono_ms,
        pid,
        ending: if alive { Ending::Running } else { Ending::KeeperGone },
        blind: (!alive).then_some(0),
    };
    if !alive {
        end_leftovers(row);
    }
    if drive.intake.is_none() {
        drive.ending = Ending::Told;
        let why = match (readable, alive) {
            (_, false) => "its host and its keeper ended",
            (false, true) => "its stored state cannot be read",
            (true, true) => "its spool cannot be read",
        };
        drive.step(now, Input::Lost { why: why.to_owned() });
        return Ok(drive);
    }
    let body = Lifecycle { phase: Phase::Adopted, why: None, pid, isolation: None };
    drive.pending.drafts.push(Draft::ostler(Body::Lifecycle(body)));
    drive.pending.drafts.extend(trace_ended);
    if let (Some(point), Some(last_said)) = (point, last_said) {
        drive.go_on(now, point, last_said);
    }
    Ok(drive)
}

fn restore(
    point: &ResumePoint,
    seal: &Seal,
    runtime: &'static dyn runtimes::Runtime,
) -> Option<(Machine, Box<dyn Dialect>, HostState)> {
    let machine = serde_json::from_slice(&seal.unheld(&point.machine)).ok()?;
    let dialect = runtime.restore(&seal.unheld(&point.dialect)).ok()?;
    let host = serde_json::from_slice(&point.host).ok()?;
    Some((machine, dialect, host))
}

/// Kills what carries the run's mark although its keeper is gone. The mark is in the environment of
/// every process of the run's family that did not wipe it.
fn end_leftovers(row: &RunRow) {
    let _ = keeper::mark::sweep("OSTLER_RUN_ID", &row.id.to_string(), SWEEP_ROUNDS_MAX);
}

impl Drive {
    /// Effects that were decided and are not known to be done.
    fn go_on(&mut self, now: engine::Now, point: ResumePoint, last_said: u32) {
        for effect in point.effects {
            let Ok(StoredIntent { effect: intent, frames }) = serde_json::from_slice(&effect.bytes)
            else {
                continue;
            };
            let said = frames.iter().all(|n| *n <= last_said);
            self.pending.done.push(effect.n);
            match intent.into_owned() {
                Effect::Launch | Effect::Settle => {}
                Effect::Say(_) | Effect::CloseStdin if said => {}
                // Decided again under a new number: the old one can no longer be said.
                intent @ (Effect::Say(_) | Effect::CloseStdin | Effect::Stop { .. }) => {
                    self.intend(now, intent)
                }
                // Tools of this list only read, or are answered once more with the same words; a
                // tool that writes must not be repeated.
                Effect::Relay(call) => {
                    let answer = ToolAnswer::Error {
                        code: Code::ProcessLost,
                        message: "the call was interrupted; call again".to_owned(),
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
