//! Beginnings and ends: the session, and the turns in it. A turn begins with a prompt of ours and
//! ends with its reply, which is the only evidence of an end. An `end_turn` is no success by itself:
//! not after the model failed, not after a refusal that the agent took for the end, and not when
//! nothing was said or done.

use super::ear::{Ear, WARNING};
use super::mode::{self, ModeSettings};
use super::state::{Asked, Ours, frame, short};
use super::usage;
use super::wire::{Opened, Prompted, Refusal, Update};
use super::words;
use contract::event::{self, Body, StopReason, ToolStatus, TurnPhase, Usage};
use contract::speech::Ending;
use contract::{Code, Signal, Tokens};
use serde_json::{Value, json};

/// A turn that ended without a word and without a call.
const NOTHING_DONE: &str = "the turn ended, but nothing was said or done in it";
/// A turn that ended because the agent was not allowed something.
const NOT_ALLOWED: &str = "it ended the turn when it was not allowed what it asked for";

impl Ear<'_> {
    /// The session is open: mode and model are asked for, then the first turn begins.
    pub(super) fn opened(&mut self, opened: &Opened) {
        let resumed = self.state.wanted.resume.take();
        let id = short(opened.session_id.clone()).or_else(|| resumed.clone());
        let Some(id) = id else {
            let detail = "it opened a session without a name for it".to_owned();
            return self.give_up(Code::ProtocolError, detail);
        };
        self.state.session = Some(id.clone());
        self.state.wanted.resume = resumed;
        let option = opened.config_options.iter().find(|option| option.is_model());
        let current = option.and_then(|option| option.current_value.as_ref()?.as_str());
        let current = current.map(str::to_owned);
        let named = opened.models.as_ref().and_then(|models| models.current_model_id.clone());
        self.state.model = short(current.or(named));
        self.state.plan_model(opened);
        self.signal(Signal::Session { id });
        match mode::settings(self.state.wanted.policy, opened) {
            Ok(ModeSettings { modes, settings, sandboxed }) => {
                self.state.modes = modes;
                (self.state.settings, self.state.sandboxed) = (settings, sandboxed);
            }
            Err(detail) => return self.give_up(Code::PolicyNotPossible, detail),
        }
        match self.state.wanted.resume.is_some() && words::tells_late(self.state.agent.as_deref()) {
            true => self.ask_for_echo(),
            false => self.next_setting(),
        }
    }

    /// Asks for what no agent has. It is refused, but by an agent that has read it, and so has told
    /// what it was telling.
    fn ask_for_echo(&mut self) {
        let request = self.state.request(Ours::Echo, "_ostler/echo", &json!({}));
        self.out.frames.push(request);
    }

    /// Asks for the next model on the list, or goes on with the one there is.
    pub(super) fn next_wish(&mut self) {
        let Some(wish) = self.state.wishes.front() else { return self.ready() };
        let session = &self.state.session;
        let (method, params) = match &wish.option {
            Some(option) => (
                "session/set_config_option",
                json!({ "sessionId": session, "configId": option, "value": wish.model }),
            ),
            None => ("session/set_model", json!({ "sessionId": session, "modelId": wish.model })),
        };
        let request = self.state.request(Ours::Model, method, &params);
        self.out.frames.push(request);
    }

    /// The agent took the model.
    pub(super) fn wish_granted(&mut self) {
        self.state.model = self.state.wishes.pop_front().map(|wish| wish.model);
        self.state.wishes.clear();
        self.ready();
    }

    /// The agent did not take the model: that is survived, and told when nothing is left to try.
    pub(super) fn wish_refused(&mut self, refusal: &Refusal) {
        if !words::model_survives(refusal) {
            return self.give_up(words::code(refusal), words::said(refusal));
        }
        let wish = self.state.wishes.pop_front();
        if self.state.wishes.is_empty() {
            let model = wish.map(|wish| wish.model).unwrap_or_default();
            let detail = format!(
                "it did not take the model '{model}' and goes on with its own choice: {}",
                words::said(refusal)
            );
            self.trouble(Code::ModelNotFound, detail, false);
        }
        self.next_wish();
    }

    fn ready(&mut self) {
        let resumed = self.state.session == self.state.wanted.resume;
        self.push(Body::Session(event::Session {
            model: self.state.model.clone(),
            tools: None,
            cwd: self.state.wanted.cwd.clone(),
            native_session: self.state.session.clone(),
            resumed,
        }));
        self.signal(Signal::Accepts { message: true, interrupt: true });
        self.begin();
    }

    /// Starts a turn with what waits to be said.
    pub(super) fn begin(&mut self) {
        let Some(prompt) = self.state.prompt.take() else { return };
        let state = &mut *self.state;
        state.turns = state.turns.saturating_add(1);
        state.speaking = None;
        (state.told_in_turn, state.told_in_answer) = (Tokens::default(), Tokens::default());
        state.answer.clear();
        (state.acted, state.refused, state.failing) = (false, false, false);
        state.confession = None;
        // An interrupt that came too late is not for this turn.
        state.interrupting = false;
        state.expect_echo(&prompt);
        let prompt = json!([{ "type": "text", "text": prompt }]);
        let params = json!({ "sessionId": state.session, "prompt": prompt });
        let request = state.request(Ours::Prompt, "session/prompt", &params);
        self.out.frames.push(request);
        let (phase, n) = (TurnPhase::Started, self.state.turns);
        self.push(Body::Turn(event::Turn { phase, n, stop_reason: None }));
        self.signal(Signal::TurnStarted);
    }

    /// The prompt was answered: its turn is over.
    pub(super) fn prompted(&mut self, reply: &Prompted) {
        let spent = usage::of_turn(reply);
        let counted = !spent.is_empty();
        // What updates told of this turn is part of its figures.
        let mut told = std::mem::take(&mut self.state.told_in_turn);
        for spent in spent {
            let model = short(spent.model).or_else(|| self.state.model.clone());
            let added = spent.tokens.minus(&told);
            told = told.minus(&spent.tokens);
            self.spend(model, added);
        }
        match reply.stop_reason.as_deref() {
            Some("end_turn") => self.ended_well(counted),
            Some("max_tokens") => self.cut_short(StopReason::MaxTokens, Code::AnswerCut),
            Some("max_turn_requests") => self.cut_short(StopReason::MaxTurns, Code::MaxTurns),
            Some("refusal") => self.cut_short(StopReason::Refusal, Code::ModelRefusal),
            Some("cancelled") => self.cancelled(),
            Some(other) => {
                let other: String = other.chars().take(80).collect();
                self.broken(&format!("the prompt was answered with the stop reason '{other}'"));
            }
            None => self.broken("the prompt was answered without a stop reason"),
        }
    }

    /// Reports tokens that were not reported before.
    pub(super) fn spend(&mut self, model: Option<String>, tokens: Tokens) {
        if tokens.total() == 0 {
            return;
        }
        self.state.told_in_turn = self.state.told_in_turn.plus(&tokens);
        let usage = Usage { model, tokens: Some(tokens), ..Usage::default() };
        self.push(Body::Usage(usage.clone()));
        self.signal(Signal::Spent(usage));
    }

    /// The turn is over by an update, for agents that are configured so. One that ends its turns in
    /// both ways tells the second when the next turn may have begun: that is not its end.
    pub(super) fn over(&mut self, update: Update) {
        let late = std::mem::take(&mut self.state.update_owed) && !self.state.acted;
        let prompted = self.state.waiting.take_if(|(_, ours)| *ours == Ours::Prompt && !late);
        if prompted.is_none() {
            return;
        }
        let Update { stop_reason, usage, .. } = update;
        let stop_reason = stop_reason.or_else(|| Some("end_turn".to_owned()));
        self.prompted(&Prompted { stop_reason, usage, ..Prompted::default() });
    }

    /// The agent means that it is done; whether it is shows in what it did.
    fn ended_well(&mut self, counted: bool) {
        // A turn whose text reads like an error and that counts no tokens had no answer of a model.
        let confession = self.state.confession.take().filter(|_| !counted);
        let told = self.state.failing.then(|| self.state.answer.trim().to_owned());
        if let Some(said) = told.or(confession) {
            let code = words::of_text(None, &said).unwrap_or(Code::AgentFailed);
            self.turn_ended(StopReason::Error);
            self.trouble(code, said.clone(), false);
            self.signal(Signal::ModelError { code });
            return self.conclude(Some(code), Some(said));
        }
        self.turn_ended(StopReason::EndTurn);
        match (self.state.refused, self.state.acted) {
            (true, _) => self.conclude(Some(Code::PermissionDenied), Some(NOT_ALLOWED.to_owned())),
            (false, true) => self.conclude(None, None),
            (false, false) => {
                self.conclude(Some(Code::EndedWithoutResult), Some(NOTHING_DONE.to_owned()));
            }
        }
    }

    fn cut_short(&mut self, stop: StopReason, code: Code) {
        self.turn_ended(stop);
        self.conclude(Some(code), None);
    }

    /// A turn that was cancelled is the end only when nobody here asked for it; else it goes on with
    /// the message that waits, or with the next one.
    fn cancelled(&mut self) {
        let asked_for = std::mem::take(&mut self.state.interrupting);
        let refused = self.state.refused;
        self.turn_ended(StopReason::Cancelled);
        match (asked_for, refused) {
            (true, _) => self.begin(),
            // The bridge to Codex cancels its own turn when it is not allowed something.
            (false, true) => {
                self.conclude(Some(Code::PermissionDenied), Some(NOT_ALLOWED.to_owned()));
            }
            (false, false) => self.conclude(Some(Code::Cancelled), None),
        }
    }

    fn broken(&mut self, what: &str) {
        self.turn_ended(StopReason::Error);
        self.conclude(Some(Code::ProtocolError), Some(what.to_owned()));
    }

    /// The prompt was refused.
    pub(super) fn prompt_refused(&mut self, refusal: &Refusal) {
        let (code, detail) = (words::code(refusal), words::said(refusal));
        self.state.interrupting = false;
        self.turn_ended(StopReason::Error);
        if self.has_forgotten(code, &detail) {
            return self.give_up(Code::NativeSessionUnknown, detail);
        }
        self.trouble(code, detail.clone(), false);
        self.signal(Signal::ModelError { code });
        self.conclude(Some(code), Some(detail));
    }

    /// Whether an agent that said it had loaded a session refuses the first prompt because it does
    /// not know that session: pydantic-acp does so, which keeps sessions in memory.
    fn has_forgotten(&self, code: Code, detail: &str) -> bool {
        let state = &self.state;
        let first = state.wanted.resume.is_some() && state.turns == 1 && !state.acted;
        let named = state.session.as_deref().is_some_and(|session| detail.contains(session));
        first && named && code == Code::ProtocolError
    }

    /// What came of a turn. A message that waits is a turn of its own, and then this was no end.
    fn conclude(&mut self, code: Option<Code>, detail: Option<String>) {
        if self.state.prompt.is_some() {
            return self.begin();
        }
        let text = Some(self.state.answer.trim()).filter(|text| !text.is_empty());
        let text = text.map(str::to_owned);
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }

    /// Closes what is open, then the turn.
    fn turn_ended(&mut self, stop: StopReason) {
        self.withdraw_questions();
        let open: Vec<_> = self.state.open.iter().map(|call| call.id.clone()).collect();
        for id in open {
            self.announce(&id, &Default::default(), true);
            let Some(call) = self.state.close(&id) else { continue };
            self.judge_unended(&call, stop == StopReason::EndTurn);
            // A turn that its agent ended well left nothing undone that it had asked for.
            let (status, output) = match (call.denied, call.allowed && stop == StopReason::EndTurn)
            {
                (true, _) => (ToolStatus::Error, "it was not allowed"),
                (false, true) => {
                    (ToolStatus::Ok, "it was allowed, and its result was not reported")
                }
                (false, false) => (ToolStatus::Error, "the turn ended before this call did"),
            };
            self.result(&id, status, call.denied, json!(output));
        }
        if stop == StopReason::EndTurn {
            self.resets_unanswered();
        }
        self.lift();
        self.state.speaking = None;
        let (phase, n) = (TurnPhase::Ended, self.state.turns.max(1));
        self.push(Body::Turn(event::Turn { phase, n, stop_reason: Some(stop) }));
        self.signal(Signal::TurnEnded { stop });
    }

    /// Nobody answers these any more: each is told so, as the protocol wants it.
    pub(super) fn withdraw_questions(&mut self) {
        for Asked { request, id, .. } in self.state.unanswered() {
            self.out.frames.push(cancelled(&id));
            self.signal(Signal::AskWithdrawn { request });
        }
    }

    /// There is no session and will be none.
    pub(super) fn give_up(&mut self, code: Code, detail: String) {
        self.trouble(code, detail.clone(), false);
        if code == Code::NativeSessionUnknown {
            self.signal(Signal::SessionUnknown);
        }
        let (text, output, detail) = (None, None, Some(detail));
        self.signal(Signal::Result(Ending { code: Some(code), text, output, detail }));
    }

    /// What cannot be said now.
    pub(super) fn warn(&mut self, text: &str) {
        self.note(text.to_owned(), Some(WARNING));
    }
}

/// The answer to a question that nobody decides.
pub(super) fn cancelled(id: &Value) -> Vec<u8> {
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    frame(&json!({ "jsonrpc": "2.0", "id": id, "result": outcome }))
}
