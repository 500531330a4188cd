//! Effects, done. Each was committed first and is done at most once: a launch by its exclusive spool
//! directory, a frame by its number. `Mouth` is the order in which frames reach the agent's stdin.

use crate::Host;
use crate::batch::{Frame, Intent};
use crate::blocking::{self, Bulkhead};
use crate::cleanup;
use crate::drive::{Answered, Drive, Ending, Handing};
use crate::ops::tool::{self, TaskSheet};
use crate::supervise;
use crate::upstream;
use crate::workspace_check;
use contract::event::{Body, Phase};
use contract::limits::REMOTE_TERM_MS_MIN;
use contract::plan::Lane;
use contract::{Code, Draft, Fault, RunState, Utterance};
use engine::rules::keeper_ping::PingReason;
use engine::{Effect, Input, Now};
use failpoint::Point;
use keeper::door;
use keeper::limits::FRAME_BYTES_MAX;
use keeper::plan::Plan;
use keeper::wire::{Order, Report};
use runtimes::Out;
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames on their way to the agent, one at a time.
#[derive(Debug, Default)]
pub struct Mouth {
    pub next_effect: u64,
    /// Numbers are given when the effect is decided, so that a successor can tell what was said.
    pub next_frame: u32,
    waiting: VecDeque<Item>,
    /// The number that the keeper has and has not settled yet.
    said: Option<u32>,
    /// What the keeper says to the agent if nobody renews the lease, as it was last given.
    lease_farewell: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Item {
    n: u32,
    what: What,
    /// The effect this ends.
    ends: Option<u64>,
}

#[derive(Debug)]
enum What {
    Frame(Vec<u8>),
    Close,
}

impl Mouth {
    pub fn after(next_effect: u64, next_frame: u32) -> Self {
        Self { next_effect, next_frame, ..Self::default() }
    }

    /// A new keeper counts its frames from the beginning; what was not said to the old one is void.
    fn start_over(&mut self) {
        *self = Self::after(self.next_effect, 0);
    }

    fn effect(&mut self) -> u64 {
        self.next_effect += 1;
        self.next_effect
    }

    fn number(&mut self) -> u32 {
        self.next_frame += 1;
        self.next_frame
    }

    /// A frame longer than a keeper holds goes in pieces; the pipe joins them again.
    pub(crate) fn frames(&mut self, frames: Vec<Vec<u8>>) -> Vec<Frame> {
        let mut numbered = Vec::new();
        for frame in frames {
            for piece in frame.chunks(FRAME_BYTES_MAX) {
                let n = self.number();
                numbered.push(Frame { n, bytes: piece.to_vec() });
            }
        }
        numbered
    }

    fn settled(&mut self, n: u32) -> Option<u64> {
        if self.said != Some(n) {
            return None;
        }
        self.said = None;
        self.waiting.pop_front().and_then(|item| item.ends)
    }
}

impl Drive {
    /// Decides an effect: gives it its number and finds the words, before the commit.
    pub(crate) fn intend(&mut self, now: Now, effect: Effect) {
        let n = self.mouth.effect();
        let frames = match &effect {
            // Whoever asked by MCP is answered there, after the commit.
            Effect::Say(Utterance::ToolResult { tool_call_id, .. })
                if self.callers.knows(tool_call_id) =>
            {
                Vec::new()
            }
            Effect::Say(utterance) => {
                let mut out = Out::default();
                self.dialect.say(utterance, &mut out);
                let frames = std::mem::take(&mut out.frames);
                self.spread(now, &mut out);
                self.mouth.frames(frames)
            }
            Effect::CloseStdin => vec![Frame { n: self.mouth.number(), bytes: Vec::new() }],
            Effect::Launch
            | Effect::Relaunch
            | Effect::Reply
            | Effect::Stop { .. }
            | Effect::Relay(_)
            | Effect::Settle => Vec::new(),
        };
        self.pending.effects.push(Intent { n, effect, frames });
    }

    /// Decides to say words that were found before.
    pub(crate) fn intend_words(&mut self, effect: Effect, words: Vec<u8>) {
        let n = self.mouth.effect();
        let frames = self.mouth.frames(vec![words]);
        self.pending.effects.push(Intent { n, effect, frames });
    }

    /// Does an effect whose commit is durable.
    pub(crate) fn perform(&mut self, now: Now, intent: Intent) {
        let Intent { n, effect, frames } = intent;
        match effect {
            Effect::Launch => self.launch(now),
            Effect::Relaunch => {
                self.relaunch(now);
                self.pending.done.push(n);
            }
            Effect::Say(Utterance::ToolResult { tool_call_id, answer })
                if self.callers.knows(&tool_call_id) =>
            {
                self.callers.answer(&tool_call_id, answer);
                self.pending.done.push(n);
            }
            // What the dialect had no words for is done.
            Effect::Say(_) | Effect::Reply if frames.is_empty() => self.pending.done.push(n),
            Effect::Say(_) | Effect::Reply => {
                let last = frames.len();
                for (i, frame) in frames.into_iter().enumerate() {
                    let ends = (i + 1 == last).then_some(n);
                    self.mouth.waiting.push_back(Item {
                        n: frame.n,
                        what: What::Frame(frame.bytes),
                        ends,
                    });
                }
                self.speak();
            }
            Effect::CloseStdin => {
                for frame in frames {
                    self.mouth.waiting.push_back(Item {
                        n: frame.n,
                        what: What::Close,
                        ends: Some(n),
                    });
                }
                self.speak();
                self.step(now, Input::LetGo);
            }
            // Done when the run has ended: an order that is on its way is lost with its sender, and
            // to stop twice is to stop once.
            Effect::Stop { reason, farewell_ms, term_ms } => {
                self.stop(reason, farewell_ms, term_ms);
            }
            Effect::Relay(call) => self.relay(now, n, call),
            Effect::Settle => self.pending.done.push(n),
        }
    }

    /// Gives the keeper its plan and a spool, which is what keeps a launch from happening twice. Nothing
    /// is started by it: a keeper that is not told to launch takes the spool away again, so this may come
    /// before the run is durable.
    pub(crate) fn hand_over(&mut self, plan: Box<Plan>) -> std::io::Result<()> {
        door::prepare_spool(&self.spool)?;
        failpoint::hit(Point::SpoolMade);
        let order = Order::Plan(plan);
        self.order(&order)?;
        failpoint::hit(Point::PlanSent);
        if let Order::Plan(plan) = order {
            self.mouth.lease_farewell.clone_from(&plan.farewell);
            let secret = self.house.keepsake_secret(self.run, self.attempt);
            // Without it a run that loses its keeper and its host loses words, not its end.
            if let Err(error) = crate::keepsake::leave(&self.spool, &secret, &plan.secrets) {
                tracing::warn!(%error, "the secret values of the run cannot be kept for a next host");
            }
        }
        if workspace_check::may_apply(self.bench.policy, &self.runtime.card().lanes) {
            let secret = self.house.beginning_secret(self.run);
            // Without it a host that takes over the run says that it cannot compare the workspace.
            let _ = self.comparison.leave(&self.spool, &secret);
        }
        Ok(())
    }

    fn launch(&mut self, now: Now) {
        let handed = match std::mem::take(&mut self.plan) {
            Handing::To(plan) => self.hand_over(plan),
            Handing::Done(handed) => handed,
            Handing::Nothing => return,
        };
        let files = std::mem::take(&mut self.files);
        let mounts = std::mem::take(&mut self.mounts);
        let mut notes = Vec::new();
        let launched = handed
            .and_then(|()| {
                blocking::in_place("write run files", || {
                    crate::data::write_files(&self.spool, &files)?;
                    mounts.make(self.run, &self.house.links)
                })
            })
            .map(|made| notes = made)
            .and_then(|()| self.order(&Order::Launch))
            .inspect(|()| failpoint::hit(Point::LaunchOrdered))
            .and_then(|()| {
                crate::intake::Intake::open(&self.spool, crate::intake::Marks::default())
                    .map_err(std::io::Error::other)
            });
        self.house.keepers.refill();
        self.pending.drafts.extend(notes.into_iter().map(crate::trace::warning));
        match launched {
            Ok(intake) => self.intake = Some(intake),
            Err(error) => {
                self.keeping = None;
                self.lose(now, format!("its plan could not be sent to its keeper: {error}"));
            }
        }
    }

    /// Starts the agent once more, with a keeper and a spool of its own.
    pub(crate) fn relaunch(&mut self, now: Now) {
        let Some(again) = self.again.take() else {
            return self.lose(now, "only the host that started it could start it again".to_owned());
        };
        let earlier = (self.child.take(), std::mem::take(&mut self.spool));
        blocking::spawn(Bulkhead::Wait, "remove spool", move || {
            let (child, spool) = earlier;
            if let Some(mut child) = child {
                cleanup::wait(&mut child);
            }
            cleanup::remove_dir(&spool);
        });
        self.attempt += 1;
        self.spool = self.house.data.spool(self.run, self.attempt);
        let spawned = blocking::in_place("start keeper", || self.house.keepers.take());
        let spawned = spawned.and_then(|spawned| {
            Ok((crate::keeping::Keeping::new(spawned.control)?, spawned.child))
        });
        match spawned {
            Ok((keeping, child)) => {
                (self.keeping, self.child) = (Some(keeping), Some(child));
                self.dialect = again.dialect;
                self.files = again.files;
                self.mounts = again.mounts;
                if let Some(prompt) = again.fresh_prompt {
                    let sheet = TaskSheet::clone(&self.bench.task);
                    let sheet = TaskSheet { session: None, prompt, ..sheet };
                    self.bench.task = Arc::new(sheet);
                }
                let deadline_ms = self.lease.until_ms();
                self.plan = Handing::To(Box::new(Plan { deadline_ms, ..again.plan }));
                self.mouth.start_over();
                self.pid = None;
                self.ending = Ending::Running;
                self.launch(now);
            }
            Err(error) => self.lose(now, format!("its second keeper did not start: {error}")),
        }
    }

    /// The agent runs, held this strongly; the event says why not more strongly.
    pub(crate) fn launched(&mut self, now: Now, pid: u32, isolation: String, note: Option<String>) {
        self.pid = Some(pid);
        self.step(now, Input::Launched { pid, isolation });
        let drafts = self.pending.drafts.iter_mut().rev();
        let running = drafts.map(|draft| &mut draft.body).find_map(|body| match body {
            Body::Lifecycle(lifecycle) if lifecycle.phase == Phase::Running => Some(lifecycle),
            _ => None,
        });
        if let Some(lifecycle) = running {
            lifecycle.why = note.map(|note| format!("not held more strongly: {note}"));
        }
    }

    /// Gives the keeper the words by which it is to take leave of the agent if nobody renews the lease. For
    /// some protocols they name the turn that is under way, so that they change as the run goes on.
    pub(crate) fn prepare_lease_farewell(&mut self) {
        // Before its hello the keeper takes no such order, and a stop has brought words of its own.
        let is_launched =
            self.keeping.as_ref().is_some_and(|keeping| keeping.keeper_pid().is_some());
        if !is_launched || self.machine.state() != RunState::Live {
            return;
        }
        let farewell = self.dialect.farewell(Code::LeaseExpired);
        if let Some(bytes) =
            farewell.filter(|bytes| self.mouth.lease_farewell.as_ref() != Some(bytes))
        {
            // A connection that is broken is noticed by the next read.
            let _ = self.order(&Order::Farewell { bytes: bytes.clone() });
            self.mouth.lease_farewell = Some(bytes);
        }
    }

    fn order(&mut self, order: &Order) -> std::io::Result<()> {
        match &mut self.keeping {
            Some(keeping) => keeping.send(order),
            None => Err(std::io::ErrorKind::NotConnected.into()),
        }
    }

    /// Hands the next frame to the keeper, if it has none.
    fn speak(&mut self) {
        if self.mouth.said.is_some() || self.keeping.is_none() {
            return;
        }
        let Some(item) = self.mouth.waiting.front_mut() else { return };
        let n = item.n;
        let order = match &mut item.what {
            What::Frame(bytes) => Order::Say { n, bytes: std::mem::take(bytes) },
            What::Close => Order::CloseStdin { n },
        };
        self.mouth.said = Some(n);
        // A broken connection is noticed by the next read; the frame counts as not said.
        let _ = self.order(&order);
        failpoint::hit(Point::FrameOrdered);
    }

    pub(crate) fn stop(&mut self, reason: Code, farewell_ms: u64, term_ms: u64) {
        if let Some(bytes) = self.dialect.farewell(reason) {
            // A connection that is broken is noticed by the next read, and the keeper ends its agent.
            let _ = self.order(&Order::Farewell { bytes });
        }
        let reason = reason.word().to_owned();
        // Whoever holds a remote is our own, and always has the time to end its session there.
        let remote = self.runtime.card().lanes == [Lane::Http];
        let term_ms = if remote { term_ms.max(REMOTE_TERM_MS_MIN) } else { term_ms };
        // The same; a keeper that does not obey is ended when the ping below is not answered.
        let _ = self.order(&Order::Stop { reason, farewell_ms, term_ms });
        self.ping_keeper(PingReason::Stop { graces_ms: farewell_ms.saturating_add(term_ms) });
    }

    pub(crate) fn extend_lease(&mut self, deadline_ms: u64) {
        // A keeper that does not hear of it ends its agent at the earlier deadline, which is safe.
        let _ = self.order(&Order::Renew { fence: self.fence, deadline_ms });
        self.ping_keeper(PingReason::Renewal);
    }

    fn ping_keeper(&mut self, reason: PingReason) {
        if let Some(keeping) = &mut self.keeping {
            // A ping that cannot be sent is not answered, which ends the keeper at its deadline.
            let _ = keeping.ping(crate::clock::now().mono_ms, reason);
        }
    }

    fn relay(&mut self, now: Now, effect: u64, call: contract::speech::ToolCall) {
        if self.abroad.is_asked() {
            return self.abroad.send(now, effect, call);
        }
        let (bench, standing) = (self.bench.clone(), self.standing.clone());
        let tool_call_id = call.tool_call_id.clone();
        if bench.upstream.owns(&call.tool) {
            let (upstream, policy) = (Arc::clone(&bench.upstream), bench.policy);
            let driver = self.answering.clone();
            let caller = self.callers.line(&tool_call_id);
            self.answer(now, effect, tool_call_id, async move {
                upstream::carried_out(upstream, policy, &call, caller, driver.closed()).await
            });
        } else if call.tool == "propose_agent" {
            let (host, run) = (Host { inner: Arc::clone(&self.house) }, self.run);
            self.answer(now, effect, tool_call_id, async move {
                Some(tool::hired(&host, run, &bench.seal, &call).await)
            });
        } else if call.tool == "list_runtimes" {
            let host = Host { inner: Arc::clone(&self.house) };
            self.answer(now, effect, tool_call_id, async move {
                Some(tool::runtimes_listed(&host, &call).await)
            });
        } else {
            let workspace = Arc::clone(&bench.workspace);
            let call = move || tool::call(&bench, &standing, &call);
            self.answer(now, effect, tool_call_id, async move {
                let done = blocking::work_in(workspace.path(), "carry out tool call", call).await;
                Some(done.unwrap_or_else(|fault| match fault.code {
                    Code::InternalError => tool_panicked(),
                    _ => fault.into(),
                }))
            });
        }
    }

    /// Carries out a call beside the driver and gives it the outcome. A call that panics is answered
    /// with an error: the agent waits for it, and an open call holds the silence timeout back.
    fn answer(
        &self,
        now: Now,
        effect: u64,
        tool_call_id: String,
        work: impl Future<Output = Option<tool::Outcome>> + Send + 'static,
    ) {
        let answering = self.answering.clone();
        supervise::spawn("answer tool call", async move {
            // Without an outcome the driver has ended.
            let Some(outcome) = outcome_of(work).await else { return };
            let duration_ms = crate::clock::now().mono_ms.saturating_sub(now.mono_ms);
            let answered = Answered { effect, tool_call_id, outcome, duration_ms };
            // The driver may have ended: then no one waits for the answer.
            let _ = answering.send(answered).await;
        });
    }

    /// What the keeper reports.
    pub(crate) fn report(&mut self, now: Now, report: Report) {
        match report {
            // `Keeping` takes the answers to its pings for itself.
            Report::Poke | Report::Pong { .. } => {}
            Report::Hello(reply) => {
                if let Some(pid) = reply.agent_pid.and_then(|pid| u32::try_from(pid).ok()) {
                    let isolation = reply.isolation.word().to_owned();
                    self.launched(now, pid, isolation, reply.isolation_note);
                }
            }
            Report::SaidAck { n } | Report::Dropped { n } => {
                self.pending.done.extend(self.mouth.settled(n));
                self.speak();
            }
            Report::Refused { n, why } => {
                self.pending.drafts.push(refused(why));
                self.pending.done.extend(self.mouth.settled(n));
                self.speak();
            }
            Report::Exit => {
                self.keeping = None;
                if self.ending == Ending::Running {
                    self.ending = Ending::KeeperGone;
                }
            }
        }
    }
}

fn refused(why: keeper::wire::Refusal) -> Draft {
    let body = contract::event::Lifecycle {
        phase: Phase::Running,
        why: Some(format!("the keeper refused an order: {why}")),
        pid: None,
        isolation: None,
    };
    Draft::ostler(contract::Body::Lifecycle(body))
}

async fn outcome_of(
    work: impl Future<Output = Option<tool::Outcome>> + Send + 'static,
) -> Option<tool::Outcome> {
    let done = supervise::spawn("relay tool call", work).await;
    done.unwrap_or_else(|_panic| Some(tool_panicked()))
}

/// The answer to a call whose tool panicked; the panic is in the operator log.
fn tool_panicked() -> tool::Outcome {
    Fault::new(Code::InternalError, "the tool failed inside Ostler").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::speech::ToolAnswer;

    #[tokio::test]
    async fn a_call_that_panics_is_answered() {
        let outcome = outcome_of(async { panic!("on purpose") }).await.expect("an outcome");
        let ToolAnswer::Error { code, .. } = outcome.answer else { panic!("{outcome:?}") };
        assert_eq!(code, Code::InternalError);
        assert!(outcome_of(async { None }).await.is_none());
    }
}
