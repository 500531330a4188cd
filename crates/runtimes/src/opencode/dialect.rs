//! Hears `run --format json`: steps of the model, each with its texts, its calls and what it cost.
//! A step that stopped by itself is the end, unless it used a tool; an error is the end unless a step
//! follows. The exit is 0 after a refused permission and after output that was lost, so it proves
//! nothing. Calls are told when they are over, and the agent takes no word after its prompt.

use super::state::State;
use super::wire::{self, Line, StepFinish, Tool};
use super::{tools, trouble};
use crate::headless::{self, Calls, Line as Heard, REPEATED, UNRECOGNISED, bounded, preview};
use crate::told::{self, Trouble};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, StopReason, ToolStatus, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, Fault, NanoUsd, Timestamp, Tokens, Utterance};

/// A run of the agent, or of one that was made from it.
pub(crate) struct Steps {
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    state: State,
}

impl Steps {
    pub(crate) fn new(prompt: String, resumes: Option<String>, model: Option<String>) -> Self {
        Self { prompt: Some(prompt), state: State::new(resumes, model) }
    }

    pub(crate) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        Ok(Self { prompt: None, state: State::load(saved)? })
    }
}

impl Dialect for Steps {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.prompt.take().map(String::into_bytes)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let Some((text, whole)) = headless::text(frame) else {
            return;
        };
        let mut ear = Ear { state: &mut self.state, to: Heard::new(frame, &text, out) };
        let is_protocol = whole && frame.stream == Stream::Stdout;
        match is_protocol.then(|| serde_json::from_str(ear.to.text)) {
            Some(Ok(line)) => ear.hear(line),
            Some(Err(_)) | None => {
                let resumes = ear.state.resumes.is_some();
                told::stray(&mut ear.to, frame.stream, trouble::SESSION_UNKNOWN, resumes);
            }
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        headless::say(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    /// Only now is an error the end, and so is a refusal.
    fn close(&mut self, how: Close, out: &mut Out) {
        let denied = self.state.denied.take();
        let denied = denied.map(|detail| Trouble { code: Code::PermissionDenied, detail });
        self.state.turns.close(denied, how, out);
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

/// One line being heard.
struct Ear<'a> {
    state: &'a mut State,
    to: Heard<'a>,
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        match line {
            Line::StepStart(said) => {
                self.introduce(said.session);
                self.step();
            }
            Line::Text(said) => {
                self.introduce(said.session);
                if let Some(part) = said.part {
                    self.text(part);
                }
            }
            Line::Reasoning(said) => {
                self.introduce(said.session);
                if let Some(part) = said.part {
                    self.thought(part);
                }
            }
            Line::ToolUse(said) => {
                self.introduce(said.session);
                match said.part {
                    Some(part) => self.tool(&part),
                    None => self.to.keep(Some(UNRECOGNISED)),
                }
            }
            Line::StepFinish(said) => {
                self.introduce(said.session);
                match said.part {
                    Some(part) => self.finish(part),
                    None => self.to.keep(Some(UNRECOGNISED)),
                }
            }
            Line::Error(error) => {
                self.introduce(error.session);
                self.error(&error.error);
            }
        }
    }

    /// Every line names the conversation; the first one introduces it.
    fn introduce(&mut self, session: Option<String>) {
        if self.state.introduced || session.is_none() {
            return;
        }
        self.state.introduced = true;
        let resumed = session == self.state.resumes;
        let (model, native_session) = (self.state.model.clone(), session);
        let session = event::Session { model, tools: None, cwd: None, native_session, resumed };
        told::session(&mut self.to, session);
    }

    /// A step that breaks is begun again without an end, inside the same turn.
    fn step(&mut self) {
        (self.state.text, self.state.step_worked, self.state.denied) = (None, false, None);
        if self.state.turns.begin(&mut self.to) {
            self.state.worked = false;
        }
    }

    fn text(&mut self, part: wire::Text) {
        let Some(text) = part.text.filter(|text| !text.is_empty()) else {
            return;
        };
        if !self.state.is_new(part.id.as_deref()) {
            return self.to.keep(Some(REPEATED));
        }
        let said = match self.state.text.take() {
            Some(before) => format!("{before}\n{text}"),
            None => text.clone(),
        };
        self.state.text = Some(bounded(&said, TEXT_BYTES_MAX));
        self.to.draft(Body::AssistantText(told::whole(text, part.id)));
    }

    fn thought(&mut self, part: wire::Text) {
        let Some(text) = part.text.filter(|text| !text.is_empty()) else {
            return;
        };
        if !self.state.is_new(part.id.as_deref()) {
            return self.to.keep(Some(REPEATED));
        }
        self.to.draft(Body::Thinking(told::whole(text, part.id)));
    }

    fn tool(&mut self, part: &Tool) {
        let Some(id) = part.call_id.as_deref() else {
            return self.to.keep(Some(UNRECOGNISED));
        };
        if !self.state.is_new(part.id.as_deref()) {
            return self.to.keep(Some(REPEATED));
        }
        let mut calls = Calls::default();
        self.to.tool_opened(&mut calls, tools::call(part, id), tools::changes(part, id));
        if !calls.is_open(id) {
            return;
        }
        (self.state.worked, self.state.step_worked) = (true, true);
        if let Some(words) = tools::denied(&part.state) {
            self.state.denied = Some(preview(words));
        }
        let came = tools::came(part);
        let plan = tools::plan(part).filter(|_| came.status == ToolStatus::Ok);
        self.to.tool_closed(&mut calls, Some(id), came);
        plan.into_iter().for_each(|plan| self.to.draft(Body::Plan(plan)));
    }

    fn finish(&mut self, part: StepFinish) {
        if !self.state.is_new(part.id.as_deref()) {
            return self.to.keep(Some(REPEATED));
        }
        self.spent(&part);
        let text = self.state.text.take();
        let did = text.is_some() || self.state.worked;
        let (stop, code) = match part.reason.as_deref() {
            Some("tool-calls") => return,
            Some("stop") if self.state.step_worked => return,
            Some("stop") if did => (StopReason::EndTurn, None),
            Some("length") => (StopReason::MaxTokens, Some(Code::EndedWithoutResult)),
            Some("content-filter") => (StopReason::Refusal, Some(Code::ModelRefusal)),
            Some(_) | None => (StopReason::Error, Some(Code::EndedWithoutResult)),
        };
        if !self.state.turns.end(stop, &mut self.to) {
            return self.to.keep(Some(UNRECOGNISED));
        }
        let detail = code.map(|_| match part.reason.as_deref() {
            Some("stop") => "nothing was said or done".to_owned(),
            Some(reason) => preview(&format!("the last step ended with {reason}")),
            None => "the last step ended without a reason".to_owned(),
        });
        told::result(&mut self.to, code, text, detail);
    }

    /// Each step tells what it cost alone, in tokens and, by the agent's own prices, in dollars.
    fn spent(&mut self, part: &StepFinish) {
        let Some(told) = &part.tokens else {
            return;
        };
        let tokens = Tokens {
            input_uncached: told.input,
            cache_read: told.cache.read,
            cache_write: told.cache.write,
            output: told.output.saturating_add(told.reasoning),
            reasoning: (told.reasoning > 0).then_some(told.reasoning),
        };
        if tokens.total() == 0 {
            return;
        }
        // No dollars for tokens are a model without a price, not one that is free.
        let usd = part.cost.filter(|usd| *usd > 0.0).and_then(NanoUsd::from_usd);
        let named = self.state.model.as_deref().and_then(|model| model.split_once('/'));
        self.to.spent(Usage {
            provider: named.map(|(provider, _)| provider.to_owned()),
            model: named.map(|(_, model)| model.to_owned()),
            tokens: Some(tokens),
            basis: Basis::Increment,
            reported_nanousd: usd,
            effective_nanousd: usd,
            cost_source: if usd.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
            ..Usage::default()
        });
    }

    /// The turn is over, but perhaps not the run: an overflow is followed by an attempt to make the
    /// conversation shorter.
    fn error(&mut self, error: &serde_json::Value) {
        let (code, detail) = trouble::of(error);
        self.state.turns.fail(code, &detail, &mut self.to);
    }
}
