//! One run, driven by one node: the steps of `crates/host/src/drive.rs` in their order, with the same
//! machine and the same rules, but one at a time, so that anything can happen between any two. Waits
//! for the store and for time are states here. `take_over.rs` begins one with another's state.

use super::breaks::Break;
use super::env::{Env, Verb};
use super::ground::Ground;
use super::keeper::{Conn, Line, Order, Record, Report, Stage};
use super::options::Sharing;
use super::oracle::{Asks, Promise, Violation, broken};
use contract::event::{Body, Lease as LeaseEvent, LeaseAction, Text, ToolUse, Via};
use contract::limits::{FAREWELL_MS, TERM_MS};
use contract::speech::{Ending as Said, ToolAnswer, ToolCall};
use contract::{Code, CommandId, Draft, RunId, Signal, Tokens, Utterance, Wish};
use engine::rules::lease::{Answer, Held, Lease};
use engine::rules::resume::{self, Refused, Sent};
use engine::{Booked, Effect, Input, Machine, Now, Step, Testimony};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use store::backend::Backend;
use store::{Batch, Error};

/// How long to wait before a store in trouble is asked again.
const STORE_RETRY_MS: u64 = 500;
/// Batches between two looks into the inbox, at most: an agent that never pauses must not keep a
/// wish from being heard.
pub const UNREAD_MAX: u32 = 2;
/// Records heard at once, at most.
const RECORDS_MAX: usize = 3;

/// Why a run is no longer this node's to drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    Settled,
    Fenced,
    Expired,
    HandedOver,
}

pub enum End {
    Left(Leave),
    Broken(Violation),
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

pub type Did = Result<Option<&'static str>, End>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Running,
    KeeperGone,
    Told,
}

#[derive(Default)]
pub struct Pending {
    pub drafts: Vec<Draft>,
    pub booked: Vec<Booked>,
    pub effects: Vec<Intent>,
    pub done: Vec<u64>,
    pub taken: Vec<CommandId>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.drafts.is_empty()
            && self.booked.is_empty()
            && self.effects.is_empty()
            && self.taken.is_empty()
    }
}

/// An effect to be done after its commit, with the frame it will say.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Intent {
    pub n: u64,
    pub effect: Effect,
    pub frame: Option<u32>,
    pub words: String,
}

struct Item {
    n: u32,
    words: Option<String>,
    ends: u64,
}

/// What a node keeps in every Batch beside the machine.
#[derive(Serialize, Deserialize)]
pub struct HostState {
    pub heard: usize,
    pub next_effect: u64,
    pub next_frame: u32,
}

pub struct Commit {
    pub batch: Batch,
    pub asks: Asks,
    pub effects: Vec<Intent>,
    pub last_seq: u64,
    /// It was sent before, and nobody said what became of it.
    pub again: bool,
    /// The keeper was told to stop while nothing could be committed.
    pub stop_told: bool,
}

/// What the driver waits for.
enum Flight {
    None,
    Commit { call: u64, commit: Box<Commit> },
    Pause { until_ms: u64, commit: Box<Commit> },
    Renew { call: u64, asked: Now, then: Option<Box<Commit>> },
}

pub struct Drive {
    pub node: usize,
    pub run: RunId,
    pub fence: u64,
    pub machine: Machine,
    pub next_seq: u64,
    pub heard: usize,
    pub next_effect: u64,
    pub next_frame: u32,
    pub pending: Pending,
    pub conn: Option<Conn>,
    pub lease: Lease,
    /// For the driver that counts on the wall clock; see `Break`.
    pub wall_until_ms: i64,
    pub ending: Ending,
    pub intake: bool,
    pub has_plan: bool,
    pub plan_deadline_ms: u64,
    pub pid: Option<u32>,
    pub leaving: bool,
    pub testimony: Option<Testimony>,
    /// Batches since it last looked into the inbox.
    unread: u32,
    mouth: VecDeque<Item>,
    said: Option<u32>,
    answers: VecDeque<(u64, ToolCall)>,
    flight: Flight,
}

/// What a driver is made of.
pub struct Parts {
    pub node: usize,
    pub run: RunId,
    pub fence: u64,
    pub machine: Machine,
    pub next_seq: u64,
    pub conn: Option<Conn>,
    pub lease: Lease,
    pub wall_until_ms: i64,
}

impl Drive {
    pub fn new(parts: Parts) -> Self {
        let Parts { node, run, fence, machine, next_seq, conn, lease, wall_until_ms } = parts;
        Self {
            node,
            run,
            fence,
            machine,
            next_seq,
            heard: 0,
            next_effect: 0,
            next_frame: 0,
            pending: Pending::default(),
            conn,
            lease,
            wall_until_ms,
            ending: Ending::Running,
            intake: false,
            has_plan: false,
            plan_deadline_ms: 0,
            pid: None,
            leaving: false,
            testimony: None,
            unread: 0,
            mouth: VecDeque::new(),
            said: None,
            answers: VecDeque::new(),
            flight: Flight::None,
        }
    }

    /// The next moment at which it acts by itself.
    pub fn due_ms(&self) -> Option<u64> {
        match &self.flight {
            Flight::None => {
                let machine_ms = self.machine.deadline_ms();
                Some(machine_ms.unwrap_or(u64::MAX).min(self.lease.renew_at_ms()))
            }
            Flight::Pause { until_ms, .. } => Some(*until_ms),
            Flight::Commit { .. } | Flight::Renew { .. } => None,
        }
    }

    /// Does one thing, if there is one to do.
    pub fn go<G: Ground>(&mut self, env: &mut Env<G>) -> Did {
        match std::mem::replace(&mut self.flight, Flight::None) {
            Flight::Pause { until_ms, commit } if env.boot_ms >= until_ms => {
                return self.try_again(env, commit);
            }
            Flight::None => {}
            waiting => {
                self.flight = waiting;
                return Ok(None);
            }
        }
        if self.unread >= UNREAD_MAX && !self.machine.is_settled() {
            self.read_inbox(env);
        }
        if !self.pending.is_empty() {
            self.unread += 1;
            let commit = Box::new(self.make_batch(env));
            return self.send(env, commit);
        }
        if self.leaving {
            return Err(End::Left(Leave::HandedOver));
        }
        let first = env.chance.below(5);
        for way in 0..5 {
            let did = match (first + way) % 5 {
                0 => self.hear(env)?,
                1 => self.take_report(env),
                2 => self.take_answer(env),
                3 => self.read_inbox(env),
                _ => self.look_at_clock(env)?,
            };
            if did.is_some() {
                return Ok(did);
            }
        }
        Ok(None)
    }

    /// The host is about to stop: the lease is renewed to its full length first.
    pub fn leave<G: Ground>(&mut self, env: &mut Env<G>) -> Did {
        if !matches!(self.flight, Flight::None) || !self.pending.is_empty() || self.leaving {
            return Ok(None);
        }
        self.leaving = true;
        match self.renew(env, None) {
            // When the lease ran out the next host finds that too.
            Err(End::Left(Leave::Expired)) => Err(End::Left(Leave::HandedOver)),
            did => did,
        }
    }

    pub fn step(&mut self, now: Now, input: Input) {
        let mut steps = Vec::new();
        self.machine.step(now, input, &mut steps);
        for step in steps {
            match step {
                Step::Append(draft) => self.pending.drafts.push(draft),
                Step::Book(booked) => self.pending.booked.push(booked),
                // No agent here names a conversation.
                Step::KeepSession(_) => {}
                Step::Do(effect) => self.intend(effect),
            }
        }
    }

    /// Decides an effect: gives it its number and finds the words, before the commit.
    pub fn intend(&mut self, effect: Effect) {
        self.next_effect += 1;
        let words = match &effect {
            Effect::Say(Utterance::ToolResult { tool_call_id, .. }) => {
                format!("answer {tool_call_id}")
            }
            Effect::Say(Utterance::Message { text }) => text.clone(),
            Effect::Say(other) => format!("{other:?}"),
            Effect::Relay(call) => format!("call {}", call.tool_call_id),
            Effect::Launch
            | Effect::Relaunch
            | Effect::Reply
            | Effect::CloseStdin
            | Effect::Stop { .. }
            | Effect::Settle => String::new(),
        };
        let says = matches!(effect, Effect::Say(_) | Effect::CloseStdin);
        self.next_frame += u32::from(says);
        let frame = says.then_some(self.next_frame);
        self.pending.effects.push(Intent { n: self.next_effect, effect, frame, words });
    }

    fn hear<G: Ground>(&mut self, env: &mut Env<G>) -> Did {
        if !self.intake || self.ending == Ending::Told {
            return Ok(None);
        }
        let now = env.now(self.node);
        let Some(keeper) = env.keepers.get(&self.run) else { return Ok(None) };
        let upto = keeper.spool.len().min(self.heard + 1 + env.chance.below(RECORDS_MAX));
        let records: Vec<Record> = keeper.spool.get(self.heard..upto).unwrap_or_default().to_vec();
        let more = keeper.spool.len() > upto;
        if records.is_empty() && self.ending == Ending::Running {
            return Ok(None);
        }
        self.heard = self.heard.max(upto);
        if !records.is_empty() {
            self.step(now, Input::Heard);
        }
        for record in records {
            match record {
                Record::Line(line) => self.hear_line(now, line),
                Record::Exit(testimony) => {
                    self.testimony = Some(testimony);
                    self.ending = Ending::KeeperGone;
                }
            }
        }
        if !more && self.ending == Ending::KeeperGone {
            self.ending = Ending::Told;
            let input = match self.testimony.take() {
                Some(testimony) => Input::Ended(testimony),
                None => Input::Lost { why: "its keeper ended without a final report".to_owned() },
            };
            self.step(now, input);
        }
        Ok(Some("hears the spool"))
    }

    fn hear_line(&mut self, now: Now, line: Line) {
        let (draft, signal) = spoken(line);
        self.pending.drafts.extend(draft.map(Draft::agent));
        if let Some(signal) = signal {
            self.step(now, Input::Signal(signal));
        }
    }

    fn take_report<G: Ground>(&mut self, env: &mut Env<G>) -> Option<&'static str> {
        let conn = self.conn?;
        let now = env.now(self.node);
        let keeper = env.keepers.get_mut(&self.run)?;
        let ours = keeper.owner == Some(conn);
        match keeper.reports.pop_front().filter(|_| ours) {
            Some(Report::Hello) => {
                self.pid = Some(1);
                self.step(now, Input::Launched { pid: 1, isolation: "none".to_owned() });
                Some("hears that the agent runs")
            }
            Some(Report::Settled(n)) => {
                if self.said == Some(n) {
                    self.said = None;
                    self.pending.done.extend(self.mouth.pop_front().map(|item| item.ends));
                }
                self.speak(env);
                Some("hears that a frame is settled")
            }
            None if !ours || keeper.stage == Stage::Gone => {
                self.conn = None;
                if env.flaw != Some(Break::AgentLeft) {
                    keeper.sweep();
                }
                if self.ending == Ending::Running {
                    self.ending = Ending::KeeperGone;
                }
                Some("finds its keeper gone")
            }
            None => None,
        }
    }

    fn take_answer<G: Ground>(&mut self, env: &mut Env<G>) -> Option<&'static str> {
        let (effect, call) = self.answers.pop_front()?;
        self.pending.done.push(effect);
        let answer = ToolAnswer::Value(serde_json::Value::Null);
        let tool_call_id = call.tool_call_id;
        let now = env.now(self.node);
        self.step(now, Input::Answered { tool_call_id, answer, duration_ms: 1 });
        Some("has the answer of a tool")
    }

    fn read_inbox<G: Ground>(&mut self, env: &mut Env<G>) -> Option<&'static str> {
        self.unread = 0;
        if env.flaw == Some(Break::WishesUnread) {
            return None;
        }
        let commands = env.ground.wait(env.ground.store().inbox(self.run)).ok()?;
        let now = env.now(self.node);
        let some = !commands.is_empty();
        for command in commands {
            if env.flaw != Some(Break::WishesLeft) {
                self.pending.taken.push(command.id);
            }
            self.step(now, Input::Command(command));
        }
        some.then_some("takes wishes")
    }

    fn look_at_clock<G: Ground>(&mut self, env: &mut Env<G>) -> Did {
        if self.lease.is_due(env.boot_ms) {
            return self.renew(env, None);
        }
        let now = env.now(self.node);
        if self.machine.deadline_ms().is_some_and(|due_ms| now.mono_ms >= due_ms) {
            self.step(now, Input::Tick);
            return Ok(Some("ticks"));
        }
        Ok(None)
    }

    fn is_over<G: Ground>(&self, env: &Env<G>) -> bool {
        match env.flaw {
            Some(Break::WallLease) => env.now(self.node).wall.ms() >= self.wall_until_ms,
            _ => self.lease.is_over(env.boot_ms),
        }
    }

    /// What the oracle holds a holder to: its lease, as far as it can know.
    fn acts<G: Ground>(&self, env: &Env<G>, what: &str) -> Result<(), Violation> {
        let sure_ms = env.sure.get(&(self.node, self.run, self.fence)).copied();
        if env.options.sharing == Sharing::OneHost {
            return Ok(());
        }
        match sure_ms {
            Some(sure_ms) if env.boot_ms < sure_ms => Ok(()),
            _ => broken(
                Promise::Leased,
                format!("node {} sends a {what} of {} with no lease", self.node, self.run),
            ),
        }
    }

    fn renew<G: Ground>(&mut self, env: &mut Env<G>, then: Option<Box<Commit>>) -> Did {
        if self.is_over(env) {
            return Err(End::Left(Leave::Expired));
        }
        self.acts(env, "renewal")?;
        let asked = env.now(self.node);
        let length_ms = i64::try_from(self.lease.length_ms()).unwrap_or(i64::MAX);
        let expires_at = asked.wall.plus_ms(length_ms);
        let (run, fence) = (self.run, self.fence);
        let call = env.call(self.node, Verb::Renew { run, fence, expires_at });
        self.flight = Flight::Renew { call, asked, then };
        Ok(Some("asks for a renewal"))
    }

    /// The store's answer, or that there is none.
    pub fn answered<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        call: u64,
        answer: Result<(), Error>,
    ) -> Did {
        match std::mem::replace(&mut self.flight, Flight::None) {
            Flight::Renew { call: asked_call, asked, then } if asked_call == call => {
                let did = self.renewed(env, asked, answer);
                if let Some(commit) = then {
                    did?;
                    return self.send(env, commit);
                }
                if !self.leaving {
                    self.step(env.now(self.node), Input::Tick);
                }
                did
            }
            Flight::Commit { call: asked_call, commit } if asked_call == call => {
                self.committed(env, commit, answer)
            }
            waiting => {
                self.flight = waiting;
                Ok(None)
            }
        }
    }

    fn renewed<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        asked: Now,
        answer: Result<(), Error>,
    ) -> Did {
        let now = env.now(self.node);
        let answer = match answer {
            Ok(()) => Answer::Renewed,
            Err(error) if error.code() == Code::FenceStale => Answer::Stale,
            Err(_) => Answer::Unknown,
        };
        if answer == Answer::Renewed {
            let sure_ms = env.sure.entry((self.node, self.run, self.fence)).or_default();
            if now.mono_ms < *sure_ms {
                *sure_ms = asked.mono_ms + self.lease.length_ms();
            }
        }
        let length_ms = self.lease.length_ms();
        let (asked_ms, now_ms) = match env.flaw {
            Some(Break::LateRenewal) => (asked.mono_ms, asked.mono_ms),
            Some(Break::LeaseFromAnswer) => (now.mono_ms, asked.mono_ms),
            _ => (asked.mono_ms, now.mono_ms),
        };
        let held = match (env.flaw, answer) {
            // On the wall clock nothing seems to be over.
            (Some(Break::WallLease), Answer::Renewed) => {
                self.lease = Lease::granted(asked.mono_ms, u64::MAX, length_ms);
                self.wall_until_ms = asked.wall.ms() + length_ms as i64;
                Held::Until(asked.mono_ms + length_ms)
            }
            _ => self.lease.answered(asked_ms, now_ms, answer),
        };
        match held {
            Held::Until(deadline_ms) => {
                let fence = self.fence;
                env.order(self.run, self.conn, Order::Renew { fence, deadline_ms });
                let lease = LeaseEvent { action: LeaseAction::Renewed, expires_at: None };
                self.pending.drafts.push(Draft::ostler(Body::Lease(lease)));
                Ok(Some("has its lease renewed"))
            }
            Held::Lost => {
                self.step(now, Input::LeaseLost);
                Ok(Some("has lost its lease"))
            }
            Held::Expired => Err(End::Left(Leave::Expired)),
            Held::AsBefore => Ok(Some("has no answer to its renewal")),
        }
    }

    fn send<G: Ground>(&mut self, env: &mut Env<G>, mut commit: Box<Commit>) -> Did {
        if self.is_over(env) {
            return Err(End::Left(Leave::Expired));
        }
        self.acts(env, "Batch")?;
        if env.flaw == Some(Break::EffectFirst) {
            for intent in std::mem::take(&mut commit.effects) {
                self.perform(env, intent)?;
            }
        }
        let verb =
            Verb::Commit { batch: Box::new(commit.batch.clone()), asks: commit.asks.clone() };
        let call = env.call(self.node, verb);
        self.flight = Flight::Commit { call, commit };
        Ok(Some("sends a Batch"))
    }

    fn committed<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        mut commit: Box<Commit>,
        answer: Result<(), Error>,
    ) -> Did {
        match answer {
            Ok(()) => return self.follow_up(env, *commit),
            Err(error) if error.code() == Code::FenceStale => {
                return Err(End::Left(Leave::Fenced));
            }
            Err(error) if error.code() == Code::Conflict => {
                let row = env.ground.wait(env.ground.store().run(self.run)).ok().flatten();
                let stored = row.map(|row| (row.fence, row.head_seq));
                let sent = Sent {
                    fence: self.fence,
                    first_seq: commit.batch.first_seq,
                    last_seq: commit.last_seq,
                };
                return match resume::after_conflict(sent, stored, commit.again) {
                    Refused::IsThere => self.follow_up(env, *commit),
                    Refused::Fenced => Err(End::Left(Leave::Fenced)),
                    Refused::Wrong => Err(End::Broken(refused(self.run, &error))),
                };
            }
            Err(_) => {}
        }
        commit.again = true;
        if env.flaw == Some(Break::SentAgain) {
            commit.batch.first_seq += commit.batch.events.len() as u64;
            for event in &mut commit.batch.events {
                event.seq += 1;
            }
        }
        self.flight = Flight::Pause { until_ms: env.boot_ms + STORE_RETRY_MS, commit };
        Ok(Some("has no answer to its Batch"))
    }

    /// A Batch that could not be committed: a stop is obeyed meanwhile, and the lease kept.
    fn try_again<G: Ground>(&mut self, env: &mut Env<G>, mut commit: Box<Commit>) -> Did {
        if !commit.stop_told
            && let Ok(wishes) = env.ground.wait(env.ground.store().inbox(self.run))
        {
            let stop = wishes.into_iter().find_map(|command| match command.wish {
                Wish::Stop { reason, at_once } => Some((reason, at_once)),
                Wish::Say { .. }
                | Wish::Interrupt
                | Wish::Answer { .. }
                | Wish::ToolResult { .. }
                | Wish::Budget { .. }
                | Wish::Unknown => None,
            });
            if let Some((reason, at_once)) = stop {
                commit.stop_told = true;
                let grace_ms = if at_once { 0 } else { FAREWELL_MS + TERM_MS };
                env.order(self.run, self.conn, Order::Stop { reason, grace_ms });
            }
        }
        match self.lease.is_due(env.boot_ms) {
            true => self.renew(env, Some(commit)),
            false => self.send(env, commit),
        }
    }

    /// Does what a durable Batch asks for.
    fn follow_up<G: Ground>(&mut self, env: &mut Env<G>, commit: Commit) -> Did {
        self.next_seq = commit.last_seq + 1;
        if self.machine.is_settled() {
            return Err(End::Left(Leave::Settled));
        }
        if self.is_over(env) && env.flaw != Some(Break::DoneUnleased) {
            return Err(End::Left(Leave::Expired));
        }
        self.acts(env, "deed")?;
        for intent in commit.effects {
            self.perform(env, intent)?;
        }
        Ok(Some("does what its Batch asks for"))
    }

    fn perform<G: Ground>(&mut self, env: &mut Env<G>, intent: Intent) -> Result<(), Violation> {
        let Intent { n, effect, frame, words } = intent;
        match effect {
            Effect::Launch => self.launch(env),
            Effect::Say(_) | Effect::CloseStdin => {
                let says = matches!(effect, Effect::Say(_));
                let item = Item { n: frame.unwrap_or(0), words: says.then_some(words), ends: n };
                self.mouth.push_back(item);
                self.speak(env);
                if !says {
                    self.step(env.now(self.node), Input::LetGo);
                }
            }
            Effect::Stop { reason, farewell_ms, term_ms } => {
                let grace_ms = farewell_ms + term_ms;
                env.order(self.run, self.conn, Order::Stop { reason, grace_ms });
                self.pending.done.push(n);
            }
            Effect::Relay(call) => {
                if !only_reads(&call) {
                    env.oracle.did(self.run, &words)?;
                }
                self.answers.push_back((n, call));
            }
            // Agents here take up no conversation, and their dialect answers nothing by itself.
            Effect::Relaunch | Effect::Reply | Effect::Settle => self.pending.done.push(n),
        }
        Ok(())
    }

    fn launch<G: Ground>(&mut self, env: &mut Env<G>) {
        if !std::mem::replace(&mut self.has_plan, false) {
            return;
        }
        let now = env.now(self.node);
        let Some(keeper) = env.keepers.get_mut(&self.run) else { return };
        if std::mem::replace(&mut keeper.dir, true) {
            self.ending = Ending::Told;
            self.conn = None;
            let why = "it could not be handed to its keeper".to_owned();
            return self.step(now, Input::Lost { why });
        }
        self.intake = true;
        let (fence, deadline_ms) = (self.fence, self.plan_deadline_ms);
        env.order(self.run, self.conn, Order::Plan { fence, deadline_ms });
    }

    fn speak<G: Ground>(&mut self, env: &mut Env<G>) {
        if self.said.is_some() || self.conn.is_none() {
            return;
        }
        let Some(item) = self.mouth.front() else { return };
        let n = item.n;
        let order = match &item.words {
            Some(words) => Order::Say { n, words: words.clone() },
            None => Order::Close { n },
        };
        self.said = Some(n);
        env.order(self.run, self.conn, order);
    }
}

/// The product's driver fails here, and its run is given up as lost.
fn refused(run: RunId, error: &Error) -> Violation {
    let what = format!("the store refused a Batch of {run}: {error}");
    Violation { promise: Promise::Taken, what }
}

/// Calls whose tool only reads are named so.
pub fn only_reads(call: &ToolCall) -> bool {
    call.tool == READS
}

pub const READS: &str = "reads";
pub const WRITES: &str = "writes";

fn spoken(line: Line) -> (Option<Body>, Option<Signal>) {
    match line {
        Line::Hello => (None, Some(Signal::Accepts { message: true, interrupt: true })),
        Line::Turn => (None, Some(Signal::TurnStarted)),
        Line::Text(n) => {
            let text = Text { text: format!("text {n}"), block: None, delta: false };
            (Some(Body::AssistantText(text)), None)
        }
        Line::Call { id, reads } => {
            let tool = if reads { READS } else { WRITES };
            let tool_call_id = format!("c{id}");
            let used = ToolUse {
                tool_call_id: tool_call_id.clone(),
                name: tool.to_owned(),
                input: serde_json::Value::Null,
                via: Via::Relayed,
                title: None,
                tool_kind: None,
                locations: Vec::new(),
                parent: None,
            };
            let args = serde_json::Value::Null;
            let call = ToolCall { tool_call_id, tool: tool.to_owned(), args };
            (Some(Body::ToolUse(used)), Some(Signal::ToolCalled(call)))
        }
        Line::Spent(output) => {
            let tokens = Some(Tokens { output, ..Tokens::default() });
            let usage = contract::event::Usage { tokens, ..Default::default() };
            (Some(Body::Usage(usage.clone())), Some(Signal::Spent(usage)))
        }
        Line::Done => {
            let ending = Said { code: None, text: None, output: None, detail: None };
            (None, Some(Signal::Ended(ending)))
        }
    }
}
