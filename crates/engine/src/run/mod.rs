//! One live run as a machine: `step` takes a fact or a wish and says which events to append and
//! which effects to perform, in that order, once they are durable.
//!
//! The whole state is data with a version, stored in every Batch; a host that adopts the run loads
//! it and goes on. The machine never waits: `deadline_ms` tells the host when to come back with a
//! `Tick`. It ends exactly once, and hears nothing afterwards. Clocks are in `watch.rs`, money in
//! `ledger.rs`, budgets that cannot be counted in `uncounted.rs`, calls in `tools.rs`, stops and the end in `end.rs`, the judgement in `outcome.rs`.

mod asks;
mod denials;
mod end;
mod grants;
mod ledger;
mod outcome;
mod terms;
mod tools;
mod uncounted;
mod watch;
mod words;

pub use asks::{About, Ask};
pub use ledger::{Booked, Covers, Ledger};
pub use terms::{Greeting, MustCount, RunBudget, SessionSpent, Terms};
pub use tools::offers;

use crate::rules;
use asks::{Answer, Asks, May};
use contract::amount::span;
use contract::command::{Command, Wish};
use contract::event::{
    self, Body, BudgetLevel, EndEvidence, Lease, LeaseAction, Lifecycle, Phase, Remaining,
    RunReport, StopReason, Stream, Totals, UserText,
};
use contract::reset::Reset;
use contract::speech::{Draft, Ending, Limited, Signal, ToolAnswer, ToolCall, Utterance};
use contract::{Billing, Code, RunState, Timestamp};
use denials::Denials;
use end::{Graces, Reached, Said, Stdin, StopHeld, Stopped};
use ledger::{Standing, Used};
use outcome::{Gone, complaint};
use serde::{Deserialize, Serialize};
use tools::{Calls, Taken};
use uncounted::Uncounted;
use watch::{Clock, Watch};

/// The time, twice: `wall` for what is written down, `mono_ms` for what is counted. The monotonic
/// time must go on over a restart of the host (the machine's boot, not the process, is its zero).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub wall: Timestamp,
    pub mono_ms: u64,
}

/// What a machine can be told.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The run was claimed.
    Begin,
    Launched {
        pid: u32,
        isolation: String,
    },
    /// Raw bytes came on either stream.
    Heard,
    Signal(Signal),
    Command(Command),
    /// A relayed tool answered.
    Answered {
        tool_call_id: String,
        answer: ToolAnswer,
        duration_ms: u64,
    },
    /// Whoever waited for the answer of a relayed call has gone.
    CallerLeft {
        tool_call_id: String,
    },
    /// Its input was closed, or is as soon as it has read what was said before: from now on it can
    /// leave.
    LetGo,
    LeaseLost,
    /// The process is gone and all its output was heard.
    Ended(Testimony),
    /// Keeper or spool are gone without testimony.
    Lost {
        why: String,
    },
    Tick,
}

/// What a machine wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Append(Draft),
    /// To be added to the books, in the same Batch.
    Book(Booked),
    /// The agent's own conversation can be taken up again under this name.
    KeepSession(String),
    Do(Effect),
}

/// What the host is to do, after the Batch that holds it is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Launch,
    /// The same once more without the conversation that the agent did not know, as attempt 2.
    Relaunch,
    Say(Utterance),
    /// Say what the dialect answered by itself; the machine never asks for it.
    Reply,
    CloseStdin,
    /// End the process with these graces. A second one only shortens the first.
    Stop {
        reason: Code,
        farewell_ms: u64,
        term_ms: u64,
    },
    Relay(ToolCall),
    Settle,
}

/// How the process ended, as its keeper saw it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Testimony {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub spawn_error: Option<String>,
    /// The spawn failed because there is no such program.
    pub not_found: bool,
    /// Who had it ended: the word of our reason, `lease`, `output_limit`, or nobody.
    pub asked_by: Option<String>,
    /// It took SIGKILL.
    pub forced: bool,
    pub stderr_tail: String,
    /// What the runtime makes of its own exit code and last words.
    pub classified: Option<Code>,
    /// The last error that the agent told, with its words.
    #[serde(default)]
    pub last_error: Option<(Code, String)>,
    /// How the workspace compares with its beginning, where the permission policy forbids to change
    /// it.
    #[serde(default)]
    pub workspace: Option<WorkspaceCheck>,
}

/// A comparison of a workspace with its beginning; changes and reasons in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspaceCheck {
    Unchanged,
    Changed(String),
    /// Another run worked there too, and may have made the changes.
    ChangedBesideOtherRun(String),
    NotCompared(String),
}

impl Testimony {
    /// What changed in the workspace although the permission policy forbade it.
    fn changed(&self) -> Option<&str> {
        match self.workspace.as_ref()? {
            WorkspaceCheck::Changed(what) => Some(what),
            WorkspaceCheck::Unchanged
            | WorkspaceCheck::ChangedBesideOtherRun(_)
            | WorkspaceCheck::NotCompared(_) => None,
        }
    }
}

/// One run. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    version: Version,
    terms: Terms,
    state: RunState,
    watch: Watch,
    ledger: Ledger,
    /// The highest level that was announced; it never falls.
    budget: BudgetLevel,
    calls: Calls,
    asks: Asks,
    #[serde(default)]
    denials: Denials,
    accepts: Accepts,
    turns: Turns,
    /// Model answers of the whole run, as far as they were told.
    #[serde(default)]
    answers: u32,
    /// The end that the agent named, from then on.
    said: Option<Said>,
    /// The first stop, from then on; later ones only shorten its graces.
    stopped: Option<Stopped>,
    /// The stop for a used-up budget that waits for the end of the turn.
    #[serde(default)]
    stop_held: Option<StopHeld>,
    stdin: Stdin,
    lease_lost: bool,
    /// The agent's own name for its conversation, and whether it was handed out to be kept.
    #[serde(default)]
    session: Option<Session>,
    /// Since when, and by what, the model's provider holds the agent back.
    #[serde(default)]
    held: Option<Held>,
    /// When the provider takes requests again, where that was told apart from a limit.
    #[serde(default)]
    resets_at: Option<Timestamp>,
    /// What was said of a budget that cannot be counted.
    #[serde(default)]
    uncounted: Uncounted,
    /// What counts as the agent's word if its process exits with 0, until then.
    #[serde(default)]
    at_exit: Option<Ending>,
    /// Its session was taken away, because it did not end by itself.
    #[serde(default)]
    forced: bool,
    /// What the agent did against its permission policy, the first time.
    #[serde(default)]
    broken: Option<String>,
}

/// The version of the stored state. Another one is refused, so that the run ends as lost, honestly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
struct Version;

const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
#[error("the state of the run has version {0}, and this program reads {VERSION}")]
struct UnknownVersion(u32);

impl TryFrom<u32> for Version {
    type Error = UnknownVersion;

    fn try_from(version: u32) -> Result<Self, UnknownVersion> {
        (version == VERSION).then_some(Self).ok_or(UnknownVersion(version))
    }
}

impl From<Version> for u32 {
    fn from(_: Version) -> Self {
        VERSION
    }
}

/// What the agent takes beyond the bare protocol; nothing until it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Accepts {
    message: bool,
    interrupt: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    id: String,
    kept: bool,
}

/// The model's provider holds the agent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    code: Code,
    since_ms: u64,
    /// When that ends, as it was last told.
    #[serde(default)]
    resets_at: Option<Timestamp>,
}

/// The last turn: all but the count is forgotten when the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Turns {
    started: u32,
    stop: Option<StopReason>,
    model_error: Option<Code>,
    #[serde(default)]
    session_unknown: bool,
    /// The last that was heard of the model is a whole text, and no call since.
    #[serde(default)]
    is_ending: bool,
}

impl Turns {
    /// Why a result of this turn would be no success.
    fn trouble(&self) -> Option<Code> {
        match self.stop? {
            StopReason::EndTurn => None,
            StopReason::MaxTokens => Some(Code::AnswerCut),
            StopReason::MaxTurns => Some(Code::MaxTurns),
            StopReason::Refusal => Some(Code::ModelRefusal),
            StopReason::Cancelled => Some(Code::Cancelled),
            StopReason::Error => Some(Code::AgentFailed),
        }
    }
}

impl Machine {
    pub fn new(terms: Terms, now: Now) -> Self {
        Self {
            version: Version,
            ledger: Ledger::after(&terms.session_spent),
            terms,
            state: RunState::Planned,
            watch: Watch::new(now),
            budget: BudgetLevel::Ok,
            calls: Calls::default(),
            asks: Asks::default(),
            denials: Denials::default(),
            accepts: Accepts::default(),
            turns: Turns::default(),
            answers: 0,
            said: None,
            stopped: None,
            stop_held: None,
            stdin: Stdin::Open,
            lease_lost: false,
            session: None,
            held: None,
            resets_at: None,
            uncounted: Uncounted::default(),
            at_exit: None,
            forced: false,
            broken: None,
        }
    }

    pub fn state(&self) -> RunState {
        self.state
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn totals(&self) -> Totals {
        self.ledger.totals()
    }

    /// The tokens, the model and the billing of the run, as far as they are known.
    pub fn report(&self) -> RunReport {
        RunReport { billing: self.terms.billing, ..self.ledger.report() }
    }

    /// Whether nothing is billed for what this run uses.
    pub fn is_included(&self) -> bool {
        self.terms.billing.is_some_and(Billing::is_included)
    }

    /// Takes the first word on how the account is paid for. What is included is not held against the
    /// dollars of shared budgets; the run's own budget stays, at list price.
    fn take_billing(&mut self, billing: Billing) {
        if self.terms.billing.is_some() {
            return;
        }
        self.terms.billing = Some(billing);
        if billing.is_included() {
            self.terms.budget.nanousd = self.terms.own_nanousd;
            self.terms.must_count.dollars &= self.terms.own_nanousd.is_some();
        }
    }

    /// What is left of each limit of the run, time included.
    pub fn remaining(&self, now: Now) -> Remaining {
        let remaining = self.standing(now).remaining;
        let wall =
            self.terms.wall_ms.map(|wall_ms| wall_ms.saturating_sub(self.watch.duration_ms(now)));
        let ms = remaining.ms.into_iter().chain(wall).min();
        Remaining { ms, ..remaining }
    }

    fn standing(&self, now: Now) -> Standing {
        self.ledger.standing(&self.terms.budget, self.used(now))
    }

    fn used(&self, now: Now) -> Used {
        Used { turns: self.turns(), elapsed_ms: self.watch.duration_ms(now) }
    }

    /// When the provider takes requests again, as it was last told.
    pub fn resets_at(&self) -> Option<Timestamp> {
        self.held.and_then(|held| held.resets_at).or(self.resets_at)
    }

    /// What a budget of turns counts: model answers where the agent tells them, because a headless
    /// prompt is one turn however many answers it takes; else the turns that were begun.
    pub fn turns(&self) -> u32 {
        self.turns.started.max(self.answers)
    }

    pub fn is_settled(&self) -> bool {
        self.state == RunState::Settled
    }

    /// Whether the agent said that it takes messages during a run.
    pub fn takes_messages(&self) -> bool {
        self.accepts.message
    }

    /// Whether it said that it takes interrupts.
    pub fn takes_interrupts(&self) -> bool {
        self.accepts.interrupt
    }

    /// The questions that wait for an answer.
    pub fn asks(&self) -> &[Ask] {
        self.asks.open()
    }

    /// The monotonic time of the next `Tick` that matters.
    pub fn deadline_ms(&self) -> Option<u64> {
        match self.state {
            RunState::Live => {
                let due_ms = self.due().map(|due| due.at_ms);
                due_ms.into_iter().chain(self.asks.deadline_ms()).min()
            }
            RunState::Planned | RunState::Stopping | RunState::Settled | RunState::Unknown => None,
        }
    }

    /// Takes one input. What it leads to is pushed to `out`, in the order in which it must happen.
    pub fn step(&mut self, now: Now, input: Input, out: &mut Vec<Step>) {
        let begun = match self.state {
            RunState::Planned => false,
            RunState::Live | RunState::Stopping => true,
            // The state of a newer version is refused when the machine is read back.
            RunState::Settled | RunState::Unknown => return,
        };
        match (input, begun) {
            (Input::Begin, false) => self.begin(now, out),
            (Input::Command(command), _) => self.obey(now, command.wish, out),
            (Input::LeaseLost, _) => self.lose_lease(now, out),
            (Input::Ended(testimony), _) => self.leave(now, testimony, out),
            (Input::Lost { why }, _) => self.settle(now, &Gone::Lost { why }, out),
            (Input::Launched { pid, isolation }, true) => {
                self.watch.launch(now);
                out.push(lifecycle(Phase::Running, None, Some(pid), Some(isolation)));
            }
            (Input::Heard, true) => self.watch.hear(now),
            (Input::Signal(signal), true) => self.note(now, signal, out),
            (Input::Answered { tool_call_id, answer, duration_ms }, true) => {
                self.answer(now, tool_call_id, answer, duration_ms, out);
            }
            (Input::CallerLeft { tool_call_id }, true) => {
                self.withdraw_call(now, &tool_call_id, out);
            }
            (Input::LetGo, true) => self.watch.let_go(now),
            (Input::Tick, true) => self.tick(now, out),
            // A run begins once, and before that there is nothing to hear.
            (Input::Begin, true)
            | (
                Input::Launched { .. }
                | Input::Heard
                | Input::Signal(_)
                | Input::Answered { .. }
                | Input::CallerLeft { .. }
                | Input::LetGo
                | Input::Tick,
                false,
            ) => {}
        }
    }

    fn begin(&mut self, now: Now, out: &mut Vec<Step>) {
        self.state = RunState::Live;
        self.watch.begin(now);
        let lease_ms = i64::try_from(self.terms.lease_ms).unwrap_or(i64::MAX);
        out.push(lease(LeaseAction::Acquired, Some(now.wall.plus_ms(lease_ms))));
        out.push(lifecycle(Phase::Starting, None, None, None));
        self.announce_uncertain(out);
        out.push(Step::Do(Effect::Launch));
    }

    fn note(&mut self, now: Now, signal: Signal, out: &mut Vec<Step>) {
        match signal {
            Signal::Accepts { message, interrupt } => self.accepts = Accepts { message, interrupt },
            Signal::TurnStarted => self.start_turn(now, out),
            Signal::TurnEnded { stop } => {
                self.warn_untold(out);
                self.turns.stop = Some(stop);
                self.calls.close_turn();
                self.watch.stir(now);
            }
            Signal::ToolOpened { tool_call_id } => {
                self.turns.is_ending = false;
                self.stop_now(now, out);
                self.hurry_caller(out);
                self.calls.open_native(tool_call_id);
                self.demand_usage(now, out);
            }
            Signal::FinalText => self.turns.is_ending = true,
            Signal::Model { model } => self.ledger.name_model(&model),
            Signal::Billing { billing } => self.take_billing(billing),
            Signal::ToolClosed { tool_call_id, denied } => {
                if denied {
                    self.count_denial(Some(&tool_call_id));
                }
                self.uncounted.close_call();
                self.calls.close_native(&tool_call_id);
                self.watch.stir(now);
            }
            Signal::ToolCalled(call) => {
                // A call over MCP is output too: an agent may print nothing until it is done.
                self.watch.called(now);
                self.take_call(now, call, out);
            }
            Signal::Asked(question) => self.take_question(now, question, out),
            Signal::AskWithdrawn { request } => self.drop_question(&request, out),
            Signal::Session { id } => self.name_session(id),
            Signal::SessionUnknown => {
                self.turns.session_unknown = true;
                self.turns.model_error = Some(Code::NativeSessionUnknown);
            }
            Signal::Limited(limited) => self.bear(now, limited, out),
            Signal::Resets(told) => {
                self.resets_at = rules::reset::moment(&told, now.wall).or(self.resets_at);
            }
            // The end of a turn that was stopped for its limit lifts nothing.
            Signal::LimitLifted if self.stopped.is_some() => {}
            Signal::LimitLifted => {
                (self.held, self.resets_at) = (None, None);
                self.watch.stir(now);
            }
            Signal::ModelAnswer => {
                self.stop_now(now, out);
                self.answers = self.answers.saturating_add(1);
                self.stop_straggler(now, out);
                self.weigh(now, out);
            }
            Signal::Spent(usage) => self.spend(now, &usage, out),
            Signal::ModelError { code } => self.turns.model_error = Some(code),
            Signal::Ended(ending) => self.hear_end(now, ending, EndEvidence::Explicit, out),
            Signal::Result(ending) => self.hear_end(now, ending, EndEvidence::Structured, out),
            Signal::ResultAtExit(ending) => self.at_exit = Some(ending),
            Signal::Forced => self.forced = true,
            Signal::PolicyBroken { what } => self.break_policy(now, what, out),
            Signal::Greeted => self.watch.greet(),
            Signal::Progress => self.watch.progress(now),
        }
    }

    /// A conversation is worth keeping when a turn of it went well. The end of a turn alone proves
    /// nothing, because its result may still say otherwise: this is asked when the result is heard,
    /// or when something else follows. One that reached its limit of turns went well so far, and is
    /// what the next run goes on with.
    fn keep_session(&mut self, out: &mut Vec<Step>) {
        let harms = |code: Option<Code>| code.is_some_and(|code| code != Code::MaxTurns);
        let failed = self.said.as_ref().is_some_and(|said| harms(said.ending.code));
        let ended = self.said.is_some() || self.turns.stop.is_some();
        let trouble = harms(self.turns.model_error) || harms(self.turns.trouble());
        let well = ended && !failed && !trouble;
        if let Some(session) = self.session.as_mut().filter(|session| well && !session.kept) {
            session.kept = true;
            out.push(Step::KeepSession(session.id.clone()));
        }
    }

    fn name_session(&mut self, id: String) {
        if self.session.as_ref().is_none_or(|session| session.id != id) {
            self.session = Some(Session { id, kept: false });
        }
    }

    /// An agent that waits for its provider is given as much time as its patience, unless it is
    /// known already that the wait is longer or in vain. A rate limit that lasts longer than the
    /// patience is a used-up quota: its reset is known, and nothing else of the account can start
    /// before it.
    fn bear(&mut self, now: Now, limited: Limited, out: &mut Vec<Step>) {
        let Limited { code, terminal, wait_ms, resets_at } = limited;
        let longer = wait_ms.filter(|wait_ms| *wait_ms > self.terms.patience_ms);
        let (code, resets_at) = match (code, longer) {
            (Code::RateLimited | Code::ProviderQuota, Some(ms)) => {
                let told = rules::reset::moment(&Reset::After { ms }, now.wall);
                (Code::ProviderQuota, resets_at.or(told))
            }
            _ => (code, resets_at),
        };
        let since_ms = self.held.map_or(now.mono_ms, |held| held.since_ms);
        let resets_at = resets_at.or(self.held.and_then(|held| held.resets_at));
        self.held = Some(Held { code, since_ms, resets_at });
        if self.said.is_some() || self.stopped.is_some() {
            return;
        }
        match (terminal, longer, code) {
            (true, _, _) | (false, Some(_), Code::ProviderQuota) => {
                self.stop(now, code, None, Graces::Full, out);
            }
            (false, Some(_), _) => {
                let limit = Reached::new(Clock::Patience.name(), span(self.terms.patience_ms));
                self.stop(now, code, Some(limit), Graces::Full, out);
            }
            (false, None, _) => {}
        }
    }

    /// A new turn takes back a mere result and the troubles of the turn before, but neither an
    /// explicit end nor a stop: then what was said and why it counts stay together.
    fn start_turn(&mut self, now: Now, out: &mut Vec<Step>) {
        self.keep_session(out);
        // Nothing is left for another turn; what was said of the one before stays.
        self.stop_straggler(now, out);
        self.stop_now(now, out);
        self.turns.started = self.turns.started.saturating_add(1);
        let reopens = self.said.as_ref().is_none_or(|said| said.how != EndEvidence::Explicit);
        if reopens && self.stopped.is_none() {
            self.turns = Turns { started: self.turns.started, ..Turns::default() };
            self.said = None;
            self.watch.go_on(now);
            if self.stdin == Stdin::Closing {
                self.stdin = Stdin::Open;
            }
        }
        self.weigh(now, out);
    }

    fn take_call(&mut self, now: Now, call: ToolCall, out: &mut Vec<Step>) {
        self.turns.is_ending = false;
        self.stop_now(now, out);
        match self.calls.take(&call, &self.terms.tools, self.is_over()) {
            Taken::Relay => match self.terms.may(&call.tool) {
                May::Do => out.push(Step::Do(Effect::Relay(call))),
                May::Ask => self.ask(now, call, out),
                May::Not => self.refuse(now, call.tool_call_id, Code::PermissionDenied, out),
            },
            Taken::Repeated => {}
            Taken::Refuse(answer) => {
                out.push(Step::Append(tools::result(&call.tool_call_id, &answer, None)));
                let tool_call_id = call.tool_call_id;
                out.push(Step::Do(Effect::Say(Utterance::ToolResult { tool_call_id, answer })));
            }
        }
    }

    fn answer(
        &mut self,
        now: Now,
        tool_call_id: String,
        answer: ToolAnswer,
        duration_ms: u64,
        out: &mut Vec<Step>,
    ) {
        if !self.calls.answer(&tool_call_id) {
            return;
        }
        self.watch.stir(now);
        out.push(Step::Append(tools::result(&tool_call_id, &answer, Some(duration_ms))));
        out.push(Step::Do(Effect::Say(Utterance::ToolResult { tool_call_id, answer })));
        if self.stdin == Stdin::Closing {
            self.close_stdin(out);
        }
    }

    /// Holds the spending against the budget; each level is announced once.
    fn weigh(&mut self, now: Now, out: &mut Vec<Step>) {
        let Standing { level, remaining, reached } = self.standing(now);
        let risen = match (self.budget, level) {
            (BudgetLevel::Ok, BudgetLevel::Soft | BudgetLevel::Hard)
            | (BudgetLevel::Soft, BudgetLevel::Hard) => level,
            (BudgetLevel::Hard, _)
            | (BudgetLevel::Soft, BudgetLevel::Ok | BudgetLevel::Soft)
            | (BudgetLevel::Ok, BudgetLevel::Ok) => return,
        };
        self.budget = risen;
        let budget = event::Budget { scope: "run".to_owned(), level: risen, remaining };
        out.push(Step::Append(Draft::ostler(Body::Budget(budget))));
        if self.is_over() || self.stopped.is_some() {
            return;
        }
        if let Some(limit) = reached {
            self.stop_for_budget(now, Reached::new("budget", limit), out);
        } else if self.stdin == Stdin::Open {
            out.push(Step::Do(Effect::Say(Utterance::BudgetUpdate { remaining })));
        }
    }

    /// Whoever pays says what is left of it; the agent hears it unless it is stopped for it.
    fn allow(&mut self, now: Now, remaining: Remaining, out: &mut Vec<Step>) {
        self.terms.budget = self.ledger.allowing(self.terms.budget, &remaining, self.used(now));
        let before = self.budget;
        self.weigh(now, out);
        let told = self.budget != before || self.is_over() || self.stopped.is_some();
        if !told && self.stdin == Stdin::Open {
            let remaining = self.standing(now).remaining;
            out.push(Step::Do(Effect::Say(Utterance::BudgetUpdate { remaining })));
        }
    }

    /// Counts a request that was denied. Requests that come after the stop are denied because the
    /// run ends, which no other permission would change.
    fn count_denial(&mut self, tool_call_id: Option<&str>) {
        if self.stopped.is_none() {
            self.denials.add(tool_call_id);
        }
    }

    /// Whether the agent ended its work before anyone stopped it.
    fn is_over(&self) -> bool {
        self.said.as_ref().is_some_and(|said| !said.late)
    }

    fn obey(&mut self, now: Now, wish: Wish, out: &mut Vec<Step>) {
        match wish {
            Wish::Stop { reason, at_once } => {
                let graces = if at_once { Graces::None } else { Graces::Full };
                self.stop(now, reason, None, graces, out);
            }
            Wish::Say { text } => {
                if self.listens("messages", self.accepts.message, out) {
                    let said = Body::UserText(UserText { text: text.clone() });
                    out.push(Step::Append(Draft::operator(said)));
                    out.push(Step::Do(Effect::Say(Utterance::Message { text })));
                }
            }
            Wish::Interrupt => {
                if self.listens("interrupts", self.accepts.interrupt, out) {
                    let text = "an interrupt was requested".to_owned();
                    let log = event::Log { stream: Stream::Ostler, text, level: None };
                    out.push(Step::Append(Draft::operator(Body::Log(log))));
                    self.withdraw_native(out);
                    out.push(Step::Do(Effect::Say(Utterance::Interrupt)));
                }
            }
            Wish::Answer { ask_id, option, by, reason } => {
                self.decide(now, Answer { ask_id, option, by, reason }, out);
            }
            // The host makes it the answer of a call that it knows, before it comes here.
            Wish::ToolResult { .. } => {}
            Wish::Budget { remaining } => self.allow(now, remaining, out),
            Wish::Unknown => {
                let particulars = "the request was made by a newer version of Ostler";
                out.push(Step::Append(complaint(
                    Code::NotSupported,
                    Some(particulars),
                    None,
                    None,
                )));
            }
        }
    }

    /// Whether the agent can be told something now; why not is said in an event.
    fn listens(&self, what: &str, accepted: bool, out: &mut Vec<Step>) -> bool {
        let over = self.said.is_some() || self.stopped.is_some() || self.stdin != Stdin::Open;
        let error = match (over, accepted) {
            (false, true) => return true,
            (true, _) => complaint(
                Code::Conflict,
                Some("the run is ending"),
                Some("wait for its end, then continue with --resume"),
                None,
            ),
            (false, false) => {
                let particulars = format!("this agent does not accept {what} during a run");
                complaint(Code::NotSupported, Some(&particulars), None, None)
            }
        };
        out.push(Step::Append(error));
        false
    }
}

fn lease(action: LeaseAction, expires_at: Option<Timestamp>) -> Step {
    Step::Append(Draft::ostler(Body::Lease(Lease { action, expires_at })))
}

fn lifecycle(
    phase: Phase,
    why: Option<String>,
    pid: Option<u32>,
    isolation: Option<String>,
) -> Step {
    Step::Append(Draft::ostler(Body::Lifecycle(Lifecycle { phase, why, pid, isolation })))
}
