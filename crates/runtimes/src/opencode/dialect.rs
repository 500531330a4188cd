//! Hears `run --format json`: steps of the model, each with its texts, its calls and what it cost.
//! A step that stopped by itself is the end, unless it used a tool; an error is the end unless a step
//! follows. The exit is 0 after a refused permission and after output that was lost, so it proves
//! nothing. Calls are told when they are over, and the agent takes no word after its prompt.

use super::state::State;
use super::wire::{self, Line, StepFinish, Tool};
use super::{tools, trouble};
use crate::headless::{
    self, CALL_ID_BYTES_MAX, REPEATED, Scribe, Trouble, UNRECOGNISED, bounded, refuse,
};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, StopReason, ToolStatus, Usage};
use contract::limits::{PREVIEW_BYTES, TEXT_BYTES_MAX};
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, Fault, NanoUsd, Signal, Timestamp, Tokens, Utterance};

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
        let Some(line) = headless::Line::read(frame) else {
            return;
        };
        let wire = line.parse(frame.stream);
        let mut ear = Ear { state: &mut self.state, to: Scribe { line: &line, out } };
        match wire {
            Some(wire) => ear.hear(wire),
            None => ear.stray(frame.stream),
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        refuse(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    /// Only now is an error the end, and so is a refusal.
    fn close(&mut self, how: Close, out: &mut Out) {
        let state = &mut self.state;
        let denied = state.denied.take().filter(|_| state.turn_open);
        let denied = denied.map(|detail| Trouble { code: Code::PermissionDenied, detail });
        let (Close::Ended, Some(trouble)) = (how, state.trouble.take().or(denied)) else {
            return;
        };
        if std::mem::take(&mut state.turn_open) {
            headless::end_turn(state.turn, trouble.stop(), out);
        }
        trouble.tell(out);
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
    to: Scribe<'a>,
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
        self.to.session(event::Session { model, tools: None, cwd: None, native_session, resumed });
    }

    /// A step that breaks is begun again without an end, inside the same turn.
    fn step(&mut self) {
        (self.state.text, self.state.step_worked, self.state.denied) = (None, false, None);
        if !self.state.turn_open {
            let n = self.state.begin_turn();
            self.to.turn_started(n);
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
        self.to.whole_text(Body::AssistantText, text, part.id);
    }

    fn thought(&mut self, part: wire::Text) {
        let Some(text) = part.text.filter(|text| !text.is_empty()) else {
            return;
        };
        if !self.state.is_new(part.id.as_deref()) {
            return self.to.keep(Some(REPEATED));
        }
        self.to.whole_text(Body::Thinking, text, part.id);
    }

    fn tool(&mut self, part: &Tool) {
        let is_id = |id: &&String| !id.is_empty() && id.len() <= CALL_ID_BYTES_MAX;
        let Some(id) = part.call_id.as_ref().filter(is_id) else {
            return self.to.keep(Some(UNRECOGNISED));
        };
        if !self.state.is_new(part.id.as_deref()) {
            return self.to.keep(Some(REPEATED));
        }
        (self.state.worked, self.state.step_worked) = (true, true);
        self.to.draft(Body::ToolUse(tools::call(part, id)));
        self.to.signal(Signal::ToolOpened { tool_call_id: id.clone() });
        let result = tools::result(part, id);
        let went_well = result.status == ToolStatus::Ok;
        self.to.draft(Body::ToolResult(result));
        self.to.signal(Signal::ToolClosed { tool_call_id: id.clone() });
        if let Some(words) = tools::denied(&part.state) {
            self.state.denied = Some(bounded(words, PREVIEW_BYTES));
        }
        if went_well {
            tools::changes(part, id).into_iter().for_each(|diff| self.to.draft(Body::Diff(diff)));
            tools::plan(part).into_iter().for_each(|plan| self.to.draft(Body::Plan(plan)));
        }
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
        if !std::mem::take(&mut self.state.turn_open) {
            return self.to.keep(Some(UNRECOGNISED));
        }
        self.to.turn_ended(self.state.turn, stop);
        let reason = part.reason.filter(|_| code.is_some());
        let detail = reason.map(|reason| {
            format!("the last step ended with the reason {}", bounded(&reason, PREVIEW_BYTES))
        });
        self.to.result(code, text, detail);
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
        let detail = bounded(&detail, PREVIEW_BYTES);
        self.to.error(code, &detail);
        let trouble = Trouble { code, detail };
        if std::mem::take(&mut self.state.turn_open) {
            self.to.turn_ended(self.state.turn, trouble.stop());
        }
        self.state.trouble = Some(trouble);
    }

    /// A line that is none of the protocol; a conversation that is not known is told in one.
    fn stray(&mut self, stream: Stream) {
        let line = self.to.line.text();
        // What the model said may be in a line of the protocol that was cut.
        let is_words = !line.trim_start().starts_with('{');
        if is_words && trouble::session_unknown(line) && self.state.resumes.is_some() {
            self.to.signal(Signal::SessionUnknown);
        }
        match stream {
            Stream::Stdout => self.to.keep(Some(UNRECOGNISED)),
            Stream::Stderr => self.to.keep(None),
        }
    }
}
