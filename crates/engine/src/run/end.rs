//! How a run comes to its end: the agent's own word, the stops, the clocks that run out, and the
//! settling. The first stop names the reason and later ones only shorten it; what the agent said
//! before it stays the outcome. Whatever happens, `settle` runs once and is the last thing.

use super::outcome::{self, Facts, Gone, complaint};
use super::tools::Calls;
use super::uncounted::Uncountable;
use super::watch::{Clock, Due};
use super::{Effect, Machine, Now, Step, Testimony, Turns, lease, lifecycle, tools};
use contract::amount::span;
use contract::event::{
    Body, BudgetLevel, EndEvidence, LeaseAction, Phase, RunResult, StopReason, Turn, TurnPhase,
};
use contract::limits::TURN_END_MS;
use contract::speech::{Draft, Ending, ToolAnswer};
use contract::{Code, RunState};
use serde::{Deserialize, Serialize};

/// The agent's own word on its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    pub ending: Ending,
    /// `Explicit`, `Structured`, or `Exit` for an agent that has no closing mark.
    pub how: EndEvidence,
    /// It was said after someone stopped the run.
    pub late: bool,
    /// It was said before the agent could know that it is stopped: in the very moment of the stop.
    #[serde(default)]
    pub unaware: bool,
}

/// Why the run is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stopped {
    pub reason: Code,
    /// What ran out, if something did.
    #[serde(default)]
    pub reached: Option<Reached>,
    /// Why a budget cannot be counted, if that is the reason.
    #[serde(default)]
    pub uncounted: Option<Uncountable>,
    /// The agent began another call after a budget that cannot be counted stopped it.
    #[serde(default)]
    pub went_on: bool,
    /// When, by monotonic time.
    #[serde(default)]
    pub at_ms: u64,
    /// No grace is left to shorten.
    pub at_once: bool,
    /// Its cause was told in an error of its own.
    #[serde(default)]
    pub explained: bool,
    /// How often the agent paid for something since a used-up budget stopped it.
    #[serde(default)]
    pub paid: u8,
}

/// The stop for a used-up budget, held back until the turn has had a moment to end by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StopHeld {
    pub since_ms: u64,
    pub reached: Reached,
}

/// A limit that a run came to: a clock or its budget, and how much that was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reached {
    pub what: String,
    pub limit: String,
}

impl Reached {
    pub fn new(what: &str, limit: String) -> Self {
        Self { what: what.to_owned(), limit }
    }
}

impl Stopped {
    /// Who stopped it and after what: `silence 600 s`, `budget $0.50`, or the word of the reason.
    pub fn by(&self) -> String {
        match &self.reached {
            Some(Reached { what, limit }) => format!("{what} {limit}"),
            None => self.reason.word().to_owned(),
        }
    }
}

/// The agent's standard input, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stdin {
    Open,
    /// To be closed when the last open call has its answer.
    Closing,
    Closed,
}

/// How a program that does not speak its protocol is told from a slow one: it is not.
pub(super) fn no_greeting(limit: &str) -> String {
    format!("did not answer `initialize` within {limit}: does it speak ACP?")
}

/// How patiently a process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Graces {
    /// Farewell, then SIGTERM, then SIGKILL.
    Full,
    /// SIGTERM, then SIGKILL.
    Linger,
    /// SIGKILL.
    None,
}

impl Machine {
    pub(super) fn hear_end(
        &mut self,
        now: Now,
        ending: Ending,
        how: EndEvidence,
        out: &mut Vec<Step>,
    ) {
        let late = self.stopped.is_some();
        let ending = self.name_own_limit(ending);
        if let Some(said) = &mut self.said {
            let outweighs = said.how != EndEvidence::Explicit && late == said.late;
            if !outweighs {
                // The first explicit end counts; a result may only bring what was missing.
                if how == EndEvidence::Structured {
                    said.ending.text = said.ending.text.take().or(ending.text);
                    said.ending.output = said.ending.output.take().or(ending.output);
                }
                return;
            }
        }
        let earlier = self.said.take().map(|said| said.ending);
        let (text, output) = earlier.map_or((None, None), |earlier| (earlier.text, earlier.output));
        let ending =
            Ending { text: ending.text.or(text), output: ending.output.or(output), ..ending };
        let unaware = self.stopped.as_ref().is_some_and(|stopped| stopped.at_ms == now.mono_ms);
        self.said = Some(Said { ending, how, late, unaware });
        self.keep_session(out);
        if !late {
            self.watch.done(now);
            self.stop_held = None;
        }
        // Also one that was stopped has nothing more to hear: without an input it can leave at once,
        // instead of waiting for its grace to run out.
        self.close_stdin(out);
    }

    /// A runtime that was given the budget of turns as a limit of its own calls its end `max_turns`:
    /// to the user that is the budget.
    fn name_own_limit(&self, ending: Ending) -> Ending {
        let is_used_up = self.terms.budget.turns.is_some_and(|limit| self.turns() >= limit);
        let code = ending.code.map(|code| match code {
            Code::MaxTurns if is_used_up => Code::BudgetExceeded,
            other => other,
        });
        Ending { code, ..ending }
    }

    /// Closes the agent's input, but not before its last open call has an answer: the call may be
    /// the one that ends the run.
    pub(super) fn close_stdin(&mut self, out: &mut Vec<Step>) {
        match (self.stdin, self.calls.relayed_open()) {
            (Stdin::Open | Stdin::Closing, true) => self.stdin = Stdin::Closing,
            (Stdin::Open | Stdin::Closing, false) => {
                self.stdin = Stdin::Closed;
                out.push(Step::Do(Effect::CloseStdin));
            }
            (Stdin::Closed, _) => {}
        }
    }

    pub(super) fn lose_lease(&mut self, now: Now, out: &mut Vec<Step>) {
        if std::mem::replace(&mut self.lease_lost, true) {
            return;
        }
        out.push(lease(LeaseAction::Lost, None));
        self.stop(now, Code::LeaseExpired, None, Graces::Full, out);
    }

    pub(super) fn tick(&mut self, now: Now, out: &mut Vec<Step>) {
        if self.stopped.is_some() {
            return;
        }
        self.deny_overdue(now, out);
        let Some(due) = self.due().filter(|due| due.at_ms <= now.mono_ms) else { return };
        let reached = Some(Reached::new(due.clock.name(), span(due.limit_ms)));
        let silent = self.no_output_before(due.clock);
        let explained = silent.is_some();
        out.extend(silent.map(Step::Append));
        let (code, graces) = match due.clock {
            Clock::Budget => return self.weigh(now, out),
            Clock::TurnEnd => return self.stop_now(now, out),
            Clock::Wall => (Code::TimeoutWall, Graces::Full),
            Clock::FirstOutput => (Code::TimeoutFirstOutput, Graces::Full),
            Clock::Greeting => {
                out.extend(self.unanswered_greeting(due.limit_ms).map(Step::Append));
                (Code::TimeoutFirstOutput, Graces::Linger)
            }
            Clock::Silence => (Code::TimeoutSilence, Graces::Full),
            Clock::Patience => {
                (self.held.map_or(Code::RateLimited, |held| held.code), Graces::Full)
            }
            // The agent is done and needs no farewell; what it said stays the outcome.
            Clock::Linger => {
                let code = self.said.as_ref().and_then(|said| said.ending.code);
                (code.unwrap_or(Code::Cancelled), Graces::Linger)
            }
        };
        self.stop(now, code, reached, graces, out);
        if let Some(stopped) = &mut self.stopped {
            stopped.explained = explained;
        }
    }

    /// Says of a run that used up its time that the agent never printed anything: more time is then the
    /// less likely remedy.
    fn no_output_before(&self, clock: Clock) -> Option<Draft> {
        let is_silent = clock == Clock::Wall && self.watch.is_launched() && !self.watch.is_heard();
        let hint = "run its command by hand, and check that it flushes its output; raise --timeout \
                    or timeoutSec if it starts slowly";
        let what = "the agent printed nothing before its time was up";
        is_silent.then(|| complaint(Code::TimeoutWall, Some(what), Some(hint), None))
    }

    /// Says which program did not answer, and how to find out why.
    fn unanswered_greeting(&self, limit_ms: u64) -> Option<Draft> {
        let command = &self.terms.greeting.as_ref()?.command;
        let what = format!("`{command}` {}", no_greeting(&span(limit_ms)));
        let hint = format!(
            "start it in its ACP mode (often `acp` or `--acp`); `ostler conformance acp -- \
             {command}` shows what it answers; raise firstOutputSec if it starts slowly"
        );
        Some(complaint(Code::TimeoutFirstOutput, Some(&what), Some(&hint), None))
    }

    pub(super) fn due(&self) -> Option<Due> {
        let busy = self.calls.busy() || !self.asks.open().is_empty();
        let due =
            self.watch.due(&self.terms, busy, self.held.map(|held| held.since_ms), self.budget);
        let stop_held = self.stop_held.as_ref().map(|held| Due {
            at_ms: held.since_ms.saturating_add(TURN_END_MS),
            limit_ms: TURN_END_MS,
            clock: Clock::TurnEnd,
        });
        due.into_iter().chain(stop_held).min_by_key(|due| due.at_ms)
    }

    /// Ends the process. The first reason stays; a second stop takes what is left of the graces.
    pub(super) fn stop(
        &mut self,
        now: Now,
        reason: Code,
        reached: Option<Reached>,
        graces: Graces,
        out: &mut Vec<Step>,
    ) {
        if let Some(first) = &mut self.stopped {
            if !first.at_once {
                first.at_once = true;
                let reason = first.reason;
                out.push(Step::Do(Effect::Stop { reason, farewell_ms: 0, term_ms: 0 }));
            }
            return;
        }
        let at_once = graces == Graces::None;
        let stopped = Stopped {
            reason,
            reached,
            uncounted: None,
            went_on: false,
            at_ms: now.mono_ms,
            at_once,
            explained: false,
            paid: 0,
        };
        let by = stopped.by();
        self.stopped = Some(stopped);
        if self.state == RunState::Planned {
            // Nothing was launched, so nothing will testify.
            self.settle(now, &Gone::NeverBegan, out);
            return;
        }
        self.state = RunState::Stopping;
        self.withdraw_questions(out);
        let (farewell_ms, term_ms) = match graces {
            Graces::Full => (self.terms.farewell_ms, self.terms.term_ms),
            Graces::Linger => (0, self.terms.term_ms),
            Graces::None => (0, 0),
        };
        out.push(lifecycle(Phase::Stopping, Some(by), None, None));
        out.push(Step::Do(Effect::Stop { reason, farewell_ms, term_ms }));
    }

    /// Ends a run whose agent acted against its policy. It gets no time for parting words, because
    /// it could use that time to act again; whatever it says of its end does not count.
    pub(super) fn break_policy(&mut self, now: Now, what: String, out: &mut Vec<Step>) {
        if self.broken.is_some() {
            return;
        }
        out.push(Step::Append(complaint(Code::PolicyBroken, Some(&what), None, None)));
        self.broken = Some(what);
        self.stop(now, Code::PolicyBroken, None, Graces::Linger, out);
    }

    /// The graces are for parting words, not for spending. What was in flight when the budget ran
    /// out may still be told; each further payment takes the next rung of the ladder.
    pub(super) fn hurry_spender(&mut self, out: &mut Vec<Step>) {
        let Some(stopped) = &mut self.stopped else { return };
        let for_money = stopped.reason == Code::BudgetExceeded || stopped.uncounted.is_some();
        if !for_money || stopped.at_once {
            return;
        }
        stopped.paid = stopped.paid.saturating_add(1);
        let term_ms = match stopped.paid {
            0 | 1 => return,
            2 => self.terms.term_ms,
            _ => 0,
        };
        stopped.at_once = term_ms == 0;
        out.push(Step::Do(Effect::Stop { reason: stopped.reason, farewell_ms: 0, term_ms }));
    }

    /// Ends the farewell of an agent that begins another call although its budget cannot be counted:
    /// its work goes on, and nothing would limit what that costs.
    pub(super) fn hurry_caller(&mut self, out: &mut Vec<Step>) {
        let Some(stopped) = &mut self.stopped else { return };
        if stopped.uncounted.is_none() || std::mem::replace(&mut stopped.went_on, true) {
            return;
        }
        if !stopped.at_once && stopped.paid < 2 {
            let (reason, term_ms) = (stopped.reason, self.terms.term_ms);
            out.push(Step::Do(Effect::Stop { reason, farewell_ms: 0, term_ms }));
        }
    }

    /// Stops a run whose budget is used up, unless its last answer was text: then its turn is about to
    /// end, and is given a moment for that.
    pub(super) fn stop_for_budget(&mut self, now: Now, reached: Reached, out: &mut Vec<Step>) {
        match self.turns.is_ending && !self.calls.busy() {
            true => self.stop_held = Some(StopHeld { since_ms: now.mono_ms, reached }),
            false => self.stop(now, Code::BudgetExceeded, Some(reached), Graces::Full, out),
        }
    }

    /// Stops a run whose turn did not end in the moment that it was given.
    pub(super) fn stop_now(&mut self, now: Now, out: &mut Vec<Step>) {
        if let Some(StopHeld { reached, .. }) = self.stop_held.take()
            && self.stopped.is_none()
        {
            self.stop(now, Code::BudgetExceeded, Some(reached), Graces::Full, out);
        }
    }

    /// Ends an agent that goes on spending after its success although its budget is used up, for
    /// example by sub-agents in the background. The report that used the budget up may have come late,
    /// so only what comes after it ends the agent. The success stays.
    pub(super) fn stop_straggler(&mut self, now: Now, out: &mut Vec<Step>) {
        if self.budget == BudgetLevel::Hard && self.is_over() && self.stopped.is_none() {
            let limit = self.standing(now).reached.map(|limit| Reached::new("budget", limit));
            self.stop(now, Code::BudgetExceeded, limit, Graces::Linger, out);
        }
    }

    /// The process is gone. Nearly always the run is over with it; an agent that only did not know
    /// the conversation it was to take up is started once more, without it.
    pub(super) fn leave(&mut self, now: Now, testimony: Testimony, out: &mut Vec<Step>) {
        if let Some(changed) = testimony.changed() {
            out.push(Step::Append(complaint(Code::PolicyBroken, Some(changed), None, None)));
            self.broken = self.broken.take().or_else(|| Some(changed.to_owned()));
        }
        let undisturbed =
            self.stopped.is_none() && testimony.asked_by.is_none() && testimony.changed().is_none();
        if !(self.turns.session_unknown && undisturbed && self.terms.attempt == 1) {
            self.take_word_at_exit(&testimony, out);
            return self.settle(now, &Gone::Ended(testimony), out);
        }
        self.withdraw_questions(out);
        self.answer_the_rest(Code::NativeSessionUnknown, out);
        // A process that starts afresh counts its calls afresh.
        self.calls = Calls::default();
        // And its conversation is new.
        self.ledger.forget_session();
        self.terms.attempt += 1;
        (self.turns, self.said, self.held, self.stdin) =
            (Turns::default(), None, None, Stdin::Open);
        self.watch.go_on(now);
        let why = Code::NativeSessionUnknown.word().to_owned();
        out.push(lifecycle(Phase::AttemptEnded, Some(why), None, None));
        out.push(Step::Do(Effect::Relaunch));
    }

    /// An agent without a closing mark has said all it says: by an exit of 0 that nobody asked for,
    /// that becomes its word, and its turn is over.
    fn take_word_at_exit(&mut self, testimony: &Testimony, out: &mut Vec<Step>) {
        let Some(ending) = self.at_exit.take() else { return };
        let by_itself = testimony.exit_code == Some(0)
            && testimony.signal.is_none()
            && testimony.asked_by.is_none();
        if !by_itself || self.said.is_some() || self.stopped.is_some() {
            return;
        }
        self.said = Some(Said { ending, how: EndEvidence::Exit, late: false, unaware: false });
        if self.turns.started > 0 && self.turns.stop.is_none() {
            let (phase, n, stop_reason) =
                (TurnPhase::Ended, self.turns.started, Some(StopReason::EndTurn));
            out.push(Step::Append(Draft::ostler(Body::Turn(Turn { phase, n, stop_reason }))));
            self.turns.stop = stop_reason;
        }
        self.keep_session(out);
    }

    /// The trouble that was told with words of its own when it came.
    fn told(&self) -> Option<Code> {
        let stopped = self.stopped.as_ref().filter(|stopped| stopped.explained);
        let stopped = stopped.map(|stopped| stopped.reason);
        stopped.or(self.turns.model_error).or(self.held.map(|held| held.code))
    }

    /// Whatever was called and not answered is answered now.
    fn answer_the_rest(&mut self, code: Code, out: &mut Vec<Step>) {
        let message = "the run ended before this call was answered".to_owned();
        let unanswered = ToolAnswer::Error { code, message };
        for id in self.calls.drain() {
            out.push(Step::Append(tools::result(&id, &unanswered, None)));
        }
    }

    /// The end: every obligation is met, then comes the one result.
    pub(super) fn settle(&mut self, now: Now, gone: &Gone, out: &mut Vec<Step>) {
        let facts = Facts {
            said: self.said.as_ref(),
            stopped: self.stopped.as_ref(),
            trouble: self.turns.model_error.or(self.turns.trouble()),
            resets_at: self.resets_at(),
            told: self.told(),
            forced: self.forced,
            broken: self.broken.as_deref(),
            ungreeted: self.terms.greeting.is_some() && !self.watch.is_greeted(),
            gone,
        };
        let verdict = outcome::judge(&facts);
        let last_words = outcome::last_words(&verdict, &facts);
        // A turn that went well before someone stopped the run did go well.
        if self.stopped.is_some() {
            self.keep_session(out);
        }
        // Nobody is there to be told any more.
        self.stdin = Stdin::Closed;
        self.withdraw_questions(out);
        self.answer_the_rest(verdict.code.unwrap_or(Code::Conflict), out);
        if gone.lease_ran_out() && !std::mem::replace(&mut self.lease_lost, true) {
            out.push(lease(LeaseAction::Lost, None));
        }
        out.extend(last_words.map(Step::Append));
        out.push(lease(LeaseAction::Released, None));
        let ending = self.said.take().map(|said| said.ending);
        let (text, output) = ending.map_or((None, None), |ending| (ending.text, ending.output));
        let testimony = gone.testimony();
        out.push(Step::Append(Draft::ostler(Body::Result(RunResult {
            outcome: verdict.outcome,
            code: verdict.code,
            message: verdict.message,
            text,
            output,
            exit_code: testimony.and_then(|testimony| testimony.exit_code),
            signal: testimony.and_then(|testimony| testimony.signal),
            duration_ms: self.watch.duration_ms(now),
            totals: self.totals(),
            report: Box::new(self.report()),
            denials: self.denials.count(),
            evidence: verdict.evidence,
        }))));
        out.push(Step::Do(Effect::Settle));
        self.state = RunState::Settled;
    }
}
