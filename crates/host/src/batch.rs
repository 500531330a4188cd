//! From drafts to a Batch: numbered, sealed, bounded, with everything a successor needs to go on.
//! Nothing is committed or done here.

use crate::drive::Drive;
use crate::intake::Marks;
use crate::ops::errand;
use crate::ops::mention::AgentComment;
use crate::ops::run::ToolsBy;
use crate::ops::tool::Handoff;
use crate::run_log::RunRecord;
use contract::event::{Body, Envelope, Origin, RunResult, Text};
use contract::limits::{HELD_BLOCKS_MAX, HELD_BYTES_MIN};
use contract::plan::QuotaSource;
use contract::state::{Review, WaitingFor};
use contract::{Code, CommandId, Draft, RunState, TaskState};
use engine::rules::budget::unspent;
use engine::{Booked, Covers, Effect, Now};
use runtimes::Dialect;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::seal::{Carry, Seal, SealedEvent};
use store::{Batch, Follow, LedgerRow, ReportSoFar, Settle, TraceMark};

/// What waits for the next Batch.
#[derive(Debug, Default)]
pub struct Pending {
    pub drafts: Vec<Draft>,
    /// What was spent, for the books.
    pub booked: Vec<Booked>,
    /// The agent's own name for its conversation, to be kept from now on.
    pub session: Option<String>,
    pub effects: Vec<Intent>,
    /// Effects that are done; told with the next Batch, no Batch of their own.
    pub done: Vec<u64>,
    pub taken: Vec<CommandId>,
}

impl Pending {
    /// Whether nothing needs a commit now.
    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty()
            && self.booked.is_empty()
            && self.session.is_none()
            && self.effects.is_empty()
            && self.taken.is_empty()
    }
}

/// An effect to be done after its commit, with the frames it will say.
#[derive(Debug)]
pub struct Intent {
    pub n: u64,
    pub effect: Effect,
    pub frames: Vec<Frame>,
}

/// A Batch, and what to do once it is durable.
pub struct Made {
    pub batch: Batch,
    pub deeds: Deeds,
}

/// What a committed Batch leads to.
pub struct Deeds {
    pub last_seq: u64,
    /// The records of the operator log.
    pub records: Vec<RunRecord>,
    /// Comments of the agent that mention someone.
    pub comments: Vec<AgentComment>,
    pub effects: Vec<Intent>,
}

/// A numbered frame for the agent's stdin.
#[derive(Debug, Clone)]
pub struct Frame {
    pub n: u32,
    pub bytes: Vec<u8>,
}

/// The stored form of an effect. The frames' numbers tell a successor whether it was said.
#[derive(Serialize, Deserialize)]
pub struct StoredIntent<'a> {
    pub effect: std::borrow::Cow<'a, Effect>,
    pub frames: Vec<u32>,
    /// The words themselves: a dialect that has found them once takes them for said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// How long each frame is, in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<usize>,
}

impl StoredIntent<'_> {
    /// The words that are still to be said when the first `said` frames were; none when that
    /// cannot be told any more, because the seal changed their length.
    pub fn rest(&self, said: usize) -> Option<&[u8]> {
        let words = self.words.as_bytes();
        match said {
            0 => Some(words),
            _ if self.cuts.iter().sum::<usize>() != words.len() => None,
            _ => words.get(self.cuts.iter().take(said).sum()..),
        }
    }
}

/// The sealing end of a run: numbers, fence, and text held back because it could begin a secret.
pub struct Words {
    pub seal: Seal,
    pub next_seq: u64,
    pub carry: Carry,
    /// The block whose deltas are being released.
    pub open: Option<OpenBlock>,
}

/// A block of deltas that is not closed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBlock {
    pub thinking: bool,
    pub block: Option<String>,
}

/// What the host keeps in every Batch beside machine and dialect.
#[derive(Serialize, Deserialize, Default)]
pub struct HostState {
    pub marks: Marks,
    /// Whose spool the marks are in; 0 where that was not kept.
    #[serde(default)]
    pub attempt: u32,
    pub carry: Carry,
    pub open: Option<OpenBlock>,
    pub next_effect: u64,
    pub next_frame: u32,
    /// The adapter's, so that whoever adopts the run prices it the same.
    #[serde(default)]
    pub cost_model: Option<String>,
    /// The same, for whether what the agent tells of its account is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaSource>,
    /// What it may spend of budgets that it shares with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fund: Option<crate::ops::limits::Fund>,
    /// Where the agent was told to find the host: whoever adopts it listens there too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// Calls that came by MCP and are not answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<contract::Policy>,
    #[serde(default)]
    pub tools_by: crate::ops::run::ToolsBy,
    /// Absent when no trace is kept.
    #[serde(default)]
    pub trace: Option<TraceMark>,
    /// The conversation that the agent is to resume, as `read_task` tells it.
    #[serde(default)]
    pub session: Option<String>,
}

impl OpenBlock {
    fn of(body: &Body) -> Option<(Self, &Text)> {
        match body {
            Body::AssistantText(text) if text.delta => {
                Some((Self { thinking: false, block: text.block.clone() }, text))
            }
            Body::Thinking(text) if text.delta => {
                Some((Self { thinking: true, block: text.block.clone() }, text))
            }
            _ => None,
        }
    }

    /// The block of a key.
    fn of_key(key: &str) -> Self {
        let (thinking, block) = key.split_once(':').unwrap_or_default();
        let block = (!block.is_empty()).then(|| block.to_owned());
        Self { thinking: thinking == "1", block }
    }

    fn key(&self) -> String {
        format!("{}:{}", u8::from(self.thinking), self.block.as_deref().unwrap_or_default())
    }

    fn body(&self, text: String) -> Body {
        let text = Text { text, block: self.block.clone(), delta: true };
        match self.thinking {
            true => Body::Thinking(text),
            false => Body::AssistantText(text),
        }
    }
}

impl Drive {
    /// Makes the Batch of all that is pending. Numbers are used up only when it is committed.
    pub(crate) fn make_batch(&mut self, now: Now) -> Made {
        self.joiner.flush(&mut self.pending.drafts);
        let mut drafts = std::mem::take(&mut self.pending.drafts);
        // Where much was said, as much is likely to follow; a run that falls silent keeps nothing.
        self.pending.drafts.reserve_exact(if drafts.len() < 2 { 0 } else { drafts.len() });
        let activity = self.house.activity;
        let records = drafts.iter().filter_map(RunRecord::of).collect();
        drafts.retain(|draft| activity.keeps(draft));
        let effects = std::mem::take(&mut self.pending.effects);
        let mut events = Vec::with_capacity(drafts.len());
        let mut settle = None;
        let mut comments = Vec::new();
        let mut seq = self.words.next_seq;
        let stamp = Envelope {
            run_id: self.run,
            seq,
            ts: now.wall,
            attempt: self.attempt,
            fence: self.fence,
            origin: Origin::Ostler,
        };
        let first_seq = seq;
        for draft in &drafts {
            if let Body::Result(result) = &draft.body {
                settle = Some(self.settlement(now, result));
            }
            self.words.write(draft, stamp, &mut seq, &mut events);
            // A text that is written whole is the last event.
            comments.extend(self.mentioning(draft, seq - 1));
        }
        let marks = self.intake.as_ref().map_or_else(Marks::default, |intake| intake.marks());
        let report = self.changed_report();
        let seal = &self.words.seal;
        let host = HostState {
            marks,
            attempt: self.attempt,
            carry: self.words.carry.clone(),
            open: self.words.open.clone(),
            next_effect: self.mouth.next_effect,
            next_frame: self.mouth.next_frame,
            cost_model: self.cost_model.clone(),
            quota: self.quota,
            fund: self.share.fund.clone(),
            told: self.told.clone(),
            asked: self.callers.ids(),
            policy: Some(self.bench.policy),
            tools_by: self.abroad.tools_by,
            trace: self.tracer.mark(),
            session: self.bench.task.session.clone(),
        };
        let booked = std::mem::take(&mut self.pending.booked);
        let begins_afresh = |intent: &Intent| matches!(intent.effect, Effect::Relaunch);
        let session_stale = effects.iter().any(begins_afresh)
            || settle.as_ref().is_some_and(|end| end.code == Some(Code::NativeSessionUnknown));
        let batch = Batch {
            run: self.run,
            fence: self.fence,
            first_seq,
            events,
            machine: seal.state(&self.machine),
            dialect: seal.state(&saved(&*self.dialect)),
            host: seal.state(&host),
            spool_offset: marks.offset(),
            taken: std::mem::take(&mut self.pending.taken),
            effects_todo: effects.iter().map(|intent| stored(seal, intent)).collect(),
            effects_done: std::mem::take(&mut self.pending.done),
            run_state: if settle.is_some() { RunState::Settled } else { self.machine.state() },
            pid: self.pid,
            totals: Some(self.machine.totals()),
            report,
            ledger: booked.into_iter().map(|booked| ledger_row(seal, now, booked)).collect(),
            session: self.pending.session.take().map(|id| seal.given(&id)),
            session_stale,
            settle,
        };
        Made { batch, deeds: Deeds { last_seq: seq - 1, records, comments, effects } }
    }

    /// A comment of the agent that mentions someone, with the number of its event. The comments of a
    /// session are its caller's to heed.
    fn mentioning(&self, draft: &Draft, seq: u64) -> Option<AgentComment> {
        let Body::Comment(comment) = &draft.body else { return None };
        if draft.origin != Origin::Agent || self.abroad.tools_by == ToolsBy::Caller {
            return None;
        }
        AgentComment::of(self.run, seq, comment, &self.words.seal)
    }

    /// What the run reported so far, where that is not what the last Batch had.
    fn changed_report(&mut self) -> Option<ReportSoFar> {
        let report = self.machine.report();
        if report == self.reported {
            return None;
        }
        let (json, billing) = (self.words.seal.json(&report), report.billing);
        self.reported = report;
        Some(ReportSoFar { json, billing })
    }

    fn settlement(&self, now: Now, result: &RunResult) -> Settle {
        let message = result.message.as_deref().unwrap_or_default();
        let seal = &self.words.seal;
        let (task_state, waiting_for, follow) = match (&self.errand, Handoff::of(result)) {
            (None, _) => (TaskState::after(result.outcome, Review::None), None, Follow::default()),
            // It handed over to a person: the answer is what its next run is asked.
            (Some(_), Some(handoff)) => {
                let note = Some(seal.given(&handoff.question));
                let follow = Follow { note, resumes: Some(self.run), ..Follow::default() };
                (TaskState::Waiting, Some(WaitingFor::Answer), follow)
            }
            (Some(errand), None) => {
                let (tries_max, resets_at) = (self.house.tries_max, self.machine.resets_at());
                let launched = self.pid.is_some();
                let next = errand::ended(tries_max, errand, result, launched, resets_at, now.wall);
                let follow = errand::follow(errand, self.run, &next, message, seal);
                (next.state, next.waiting_for, follow)
            }
        };
        Settle {
            outcome: result.outcome,
            code: result.code,
            ended_at: now.wall,
            task_state,
            waiting_for,
            follow,
            message: seal.line(message.as_bytes()),
            turns: u64::from(self.machine.turns()),
            unspent: unspent(result.code, &result.totals),
            is_included: self.machine.is_included(),
        }
    }
}

/// Names of models are words of the agent.
fn ledger_row(seal: &Seal, now: Now, booked: Booked) -> LedgerRow {
    let reach = |covers| match covers {
        Covers::Nothing => store::Covers::Nothing,
        Covers::Model => store::Covers::Model,
        Covers::Run => store::Covers::Run,
    };
    LedgerRow {
        at: now.wall,
        provider: seal.given(&booked.provider),
        model: seal.given(&booked.model),
        tokens: booked.tokens,
        nanousd: booked.nanousd,
        unpriced: booked.unpriced,
        covers: reach(booked.covers),
        approximate: booked.approximate,
        replaces: reach(booked.replaces),
    }
}

/// A dialect's state is JSON already; it passes the seal as that.
fn saved(dialect: &dyn Dialect) -> Option<Box<RawValue>> {
    String::from_utf8(dialect.save()).ok().and_then(|json| RawValue::from_string(json).ok())
}

fn stored(seal: &Seal, intent: &Intent) -> store::Effect {
    let frames = intent.frames.iter().map(|frame| frame.n).collect();
    let words: Vec<u8> =
        intent.frames.iter().flat_map(|frame| frame.bytes.iter().copied()).collect();
    let effect = std::borrow::Cow::Borrowed(&intent.effect);
    let stored = StoredIntent {
        effect,
        frames,
        words: String::from_utf8_lossy(&words).into_owned(),
        cuts: intent.frames.iter().map(|frame| frame.bytes.len()).collect(),
    };
    store::Effect { n: intent.n, bytes: seal.state(&stored) }
}

/// Whether the agent has said all of the blocks before this.
fn ends_blocks(draft: &Draft) -> bool {
    match &draft.body {
        Body::Result(_) | Body::Turn(_) | Body::Permission(_) => true,
        Body::Session(_)
        | Body::AssistantText(_)
        | Body::Thinking(_)
        | Body::ToolUse(_)
        | Body::Plan(_)
        | Body::Diff(_)
        | Body::Progress(_)
        | Body::Comment(_) => draft.origin == Origin::Agent,
        _ => false,
    }
}

impl Words {
    /// Seals one draft into its event. A delta may yield none (its text is held back) and the end
    /// of a block one more (what was held back). What only comes between two deltas of a block, such as a
    /// line on standard error or a renewed lease, does not end it: half of a secret would go.
    fn write(
        &mut self,
        draft: &Draft,
        stamp: Envelope,
        seq: &mut u64,
        events: &mut Vec<SealedEvent>,
    ) {
        let stamp = Envelope { origin: draft.origin, ..stamp };
        let Some((block, text)) = OpenBlock::of(&draft.body) else {
            if ends_blocks(draft) {
                self.let_go(usize::MAX, stamp, seq, events);
            }
            return self.push(&draft.body, draft.raw, stamp, seq, events);
        };
        if self.open.as_ref().is_some_and(|open| *open != block) {
            let many = self.carry.streams().len() >= HELD_BLOCKS_MAX;
            let less_than = if many { usize::MAX } else { HELD_BYTES_MIN };
            self.let_go(less_than, stamp, seq, events);
        }
        let released = self.seal.delta(&mut self.carry, &block.key(), &text.text);
        if !released.is_empty() {
            self.push(&block.body(released), draft.raw, stamp, seq, events);
        }
        self.open = Some(block);
    }

    /// Lets go what is held back of every block, where that is less than so many bytes.
    fn let_go(
        &mut self,
        less_than: usize,
        stamp: Envelope,
        seq: &mut u64,
        events: &mut Vec<SealedEvent>,
    ) {
        self.open = None;
        let stamp = Envelope { origin: Origin::Agent, ..stamp };
        for key in self.carry.streams() {
            if self.carry.bytes(&key) >= less_than {
                continue;
            }
            if let Some(held) = self.seal.flush(&mut self.carry, &key) {
                self.push(&OpenBlock::of_key(&key).body(held), None, stamp, seq, events);
            }
        }
    }

    fn push(
        &self,
        body: &Body,
        raw: Option<contract::event::Raw>,
        stamp: Envelope,
        seq: &mut u64,
        events: &mut Vec<SealedEvent>,
    ) {
        events.push(self.seal.event(&Envelope { seq: *seq, ..stamp }, body, raw));
        *seq += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "plum-otter-9f2c";

    fn delta(text: &str, block: &str) -> Draft {
        let text = Text { text: text.to_owned(), block: Some(block.to_owned()), delta: true };
        Draft::agent(Body::AssistantText(text))
    }

    /// `kind:block:text` of what comes of these.
    fn written(drafts: &[Draft]) -> Vec<String> {
        let seal = Seal::new([("KEY".to_owned(), SECRET.to_owned())]);
        let mut words = Words { seal, next_seq: 1, carry: Carry::default(), open: None };
        let stamp = Envelope {
            run_id: crate::chance::run_id(),
            seq: 1,
            ts: contract::Timestamp(0),
            attempt: 1,
            fence: 1,
            origin: Origin::Ostler,
        };
        let (mut seq, mut events) = (1, Vec::new());
        for draft in drafts {
            words.write(draft, stamp, &mut seq, &mut events);
        }
        assert_eq!(seq, events.len() as u64 + 1);
        let shown = |event: &SealedEvent| {
            let event: serde_json::Value = serde_json::from_slice(event.bytes.bytes()).unwrap();
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            format!("{}:{}:{}", text("kind"), text("block"), text("text"))
        };
        events.iter().map(shown).collect()
    }

    #[test]
    fn what_comes_between_two_deltas_of_a_block_lets_no_half_of_a_secret_go() {
        let (first, second) = SECRET.split_at(8);
        let [first, second] = [format!("it is {first}"), format!("{second}, and on")];
        let log = |origin: fn(Body) -> Draft| {
            origin(Body::Log(contract::event::Log {
                stream: contract::event::Stream::Stderr,
                text: "a line".to_owned(),
                level: None,
            }))
        };
        for between in [
            log(Draft::agent),
            log(Draft::ostler),
            Draft::agent(Body::Usage(contract::event::Usage::default())),
            delta("another voice", "2"),
        ] {
            let said = written(&[delta(&first, "1"), between.clone(), delta(&second, "1")]);
            let [before, _, after] = &said[..] else { panic!("{said:?}") };
            assert_eq!(before, "assistant_text:1:it is ");
            assert_eq!(after, "assistant_text:1:[redacted:KEY], and on");
        }
    }

    #[test]
    fn what_is_held_back_goes_when_its_block_has_ended_and_before_what_ended_it() {
        let turn = Draft::agent(Body::Turn(contract::event::Turn {
            phase: contract::event::TurnPhase::Ended,
            n: 1,
            stop_reason: None,
        }));
        let said = written(&[delta("a plum-otter", "1"), turn]);
        assert_eq!(said, ["assistant_text:1:a ", "assistant_text:1:plum-otter", "turn::"]);
        // A letter or two tell nothing, and go before another block.
        let said = written(&[delta("a plu", "1"), delta("b", "2")]);
        assert_eq!(said, ["assistant_text:1:a ", "assistant_text:1:plu", "assistant_text:2:b"]);
    }

    #[test]
    fn no_more_blocks_are_waited_for_than_may_be() {
        let half = |n: usize| delta("plum-otter", &n.to_string());
        let many: Vec<_> = (0..=HELD_BLOCKS_MAX).map(half).collect();
        assert_eq!(written(&many).len(), HELD_BLOCKS_MAX);
        assert_eq!(written(&many[1..]).len(), 0);
    }

    #[test]
    fn what_is_left_to_say_begins_where_the_pipe_stopped() {
        let intent = |words: &str| StoredIntent {
            effect: std::borrow::Cow::Owned(Effect::CloseStdin),
            frames: vec![4, 5],
            words: words.to_owned(),
            cuts: vec![3, 2],
        };
        assert_eq!(intent("abcde").rest(0), Some(&b"abcde"[..]));
        assert_eq!(intent("abcde").rest(1), Some(&b"de"[..]));
        assert_eq!(intent("abcde").rest(2), Some(&b""[..]));
        assert_eq!(intent("a[redacted]").rest(0), Some(&b"a[redacted]"[..]));
        assert_eq!(intent("a[redacted]").rest(1), None);
    }
}
