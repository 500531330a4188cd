//! Hears `run --format json`: steps of the model, each with its texts, its calls and what it cost.
//! A step that stopped by itself is the end, unless it used a tool; an error is the end unless a step
//! follows. The exit is 0 after a refused permission and after output that was lost, so it proves
//! nothing. Calls are told when they are over.

use super::wire::{self, Line, StepFinish, Tool};
use super::{logged, tools, trouble};
use crate::Spec;
use crate::headless::{
    Calls, DEBUG, Ear, Listener, REPEATED, Read, Trouble, Turns, UNRECOGNISED, bounded, preview,
};
use contract::event::{self, Body, StopReason, ToolStatus, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::{Close, Limited};
use contract::{Code, NanoUsd, Signal, Tokens};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How many parts are remembered to know one that is printed again.
const PARTS_MAX: usize = 32;
/// A part's id longer than this is not remembered.
const PART_ID_BYTES_MAX: usize = 128;

/// What is remembered of a run of the agent, or of one that was made from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steps {
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    /// The model that was asked for, as `provider/model`: the lines never name one.
    model: Option<String>,
    introduced: bool,
    turns: Turns,
    /// The step that is going on used a tool, so another step follows whatever its reason says.
    step_worked: bool,
    /// A tool was used in this turn.
    worked: bool,
    /// What the step that is going on said.
    text: Option<String>,
    /// A call of this step was not permitted. Where no other step follows, that was the end.
    denied: Option<String>,
    parts: VecDeque<String>,
    /// The log told that the provider limits the rate, and no line came since.
    #[serde(default)]
    limited: bool,
}

impl Listener for Steps {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Blank => {}
            Read::Aside if logged::is_entry(ear.line) => self.logged(ear),
            Read::Aside | Read::Stray => {
                ear.stray(trouble::SESSION_UNKNOWN, self.resumes.is_some());
            }
            Read::Line(line) => {
                // The first line of an answer comes when the provider begins to answer.
                if std::mem::take(&mut self.limited) {
                    ear.signal(Signal::LimitLifted);
                }
                self.line(line, ear);
            }
        }
    }

    /// Only now is an error the end, and so is a refusal.
    fn close(&mut self, how: Close, ear: &mut Ear<'_>) {
        let denied = self.denied.take();
        let denied = denied.map(|detail| Trouble { code: Code::PermissionDenied, detail });
        self.turns.close(denied, how, ear);
    }
}

impl Steps {
    pub(crate) fn new(spec: &Spec) -> Self {
        let (resumes, model) = (spec.session.clone(), spec.model.clone());
        Self { resumes, model, ..Self::default() }
    }

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::StepStart(said) => {
                self.introduce(said.session, ear);
                self.step(ear);
            }
            Line::Text(said) => {
                self.introduce(said.session, ear);
                if let Some(part) = said.part {
                    self.text(part, ear);
                }
            }
            Line::Reasoning(said) => {
                self.introduce(said.session, ear);
                if let Some(part) = said.part {
                    self.thought(part, ear);
                }
            }
            Line::ToolUse(said) => {
                self.introduce(said.session, ear);
                match said.part {
                    Some(part) => self.tool(&part, ear),
                    None => ear.keep(Some(UNRECOGNISED)),
                }
            }
            Line::StepFinish(said) => {
                self.introduce(said.session, ear);
                match said.part {
                    Some(part) => self.finish(part, ear),
                    None => ear.keep(Some(UNRECOGNISED)),
                }
            }
            Line::Error(error) => {
                self.introduce(error.session, ear);
                self.error(&error.error, ear);
            }
        }
    }

    /// An entry of the log: a retry, or an error that stdout tells as well.
    fn logged(&mut self, ear: &mut Ear<'_>) {
        ear.keep(Some(DEBUG));
        let Some(retry) = logged::retry(ear.line) else { return };
        ear.error(retry.code, &retry.said);
        if retry.is_limit() {
            self.limited = true;
            let (code, wait_ms, terminal) = (retry.code, retry.wait_ms, retry.is_terminal());
            ear.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at: None }));
        }
    }

    /// Every line names the conversation; the first one introduces it.
    fn introduce(&mut self, session: Option<String>, ear: &mut Ear<'_>) {
        if self.introduced || session.is_none() {
            return;
        }
        self.introduced = true;
        let resumed = session == self.resumes;
        let (model, native_session) = (self.model.clone(), session);
        let session = event::Session { model, tools: None, cwd: None, native_session, resumed };
        ear.introduce(session);
    }

    /// A step that breaks is begun again without an end, inside the same turn.
    fn step(&mut self, ear: &mut Ear<'_>) {
        (self.text, self.step_worked, self.denied) = (None, false, None);
        if self.turns.begin(ear) {
            self.worked = false;
        }
    }

    fn text(&mut self, part: wire::Text, ear: &mut Ear<'_>) {
        let Some(text) = part.text.filter(|text| !text.is_empty()) else {
            return;
        };
        if !self.is_new(part.id.as_deref()) {
            return ear.keep(Some(REPEATED));
        }
        let said = match self.text.take() {
            Some(before) => format!("{before}\n{text}"),
            None => text.clone(),
        };
        self.text = Some(bounded(&said, TEXT_BYTES_MAX));
        ear.say(text, part.id, false);
    }

    fn thought(&mut self, part: wire::Text, ear: &mut Ear<'_>) {
        let Some(text) = part.text.filter(|text| !text.is_empty()) else {
            return;
        };
        if !self.is_new(part.id.as_deref()) {
            return ear.keep(Some(REPEATED));
        }
        ear.think(text, part.id, false);
    }

    fn tool(&mut self, part: &Tool, ear: &mut Ear<'_>) {
        let Some(id) = part.call_id.as_deref() else {
            return ear.keep(Some(UNRECOGNISED));
        };
        if !self.is_new(part.id.as_deref()) {
            return ear.keep(Some(REPEATED));
        }
        let mut calls = Calls::default();
        if !ear.open(&mut calls, tools::call(part, id), tools::changes(part, id)) {
            return;
        }
        (self.worked, self.step_worked) = (true, true);
        if let Some(words) = tools::denied(&part.state) {
            self.denied = Some(preview(words));
        }
        let came = tools::came(part);
        let plan = tools::plan(part).filter(|_| came.status == ToolStatus::Ok);
        ear.close(&mut calls, Some(id), came);
        plan.into_iter().for_each(|plan| ear.draft(Body::Plan(plan)));
    }

    fn finish(&mut self, part: StepFinish, ear: &mut Ear<'_>) {
        if !self.is_new(part.id.as_deref()) {
            return ear.keep(Some(REPEATED));
        }
        ear.signal(Signal::ModelAnswer);
        self.spent(&part, ear);
        let text = self.text.take();
        let did = text.is_some() || self.worked;
        let (stop, code) = match part.reason.as_deref() {
            Some("tool-calls") => return,
            Some("stop") if self.step_worked => return,
            Some("stop") if did => (StopReason::EndTurn, None),
            Some("length") => (StopReason::MaxTokens, Some(Code::AnswerCut)),
            Some("content-filter") => (StopReason::Refusal, Some(Code::ModelRefusal)),
            Some(_) | None => (StopReason::Error, Some(Code::EndedWithoutResult)),
        };
        if !self.turns.end(stop, ear) {
            return ear.keep(Some(UNRECOGNISED));
        }
        let detail = code.map(|_| match part.reason.as_deref() {
            Some("stop") => "nothing was said or done".to_owned(),
            Some(reason) => preview(&format!("the last step ended with {reason}")),
            None => "the last step ended without a reason".to_owned(),
        });
        ear.result(code, text, detail);
    }

    /// Each step tells what it cost alone, in tokens and, by the agent's own prices, in dollars.
    fn spent(&mut self, part: &StepFinish, ear: &mut Ear<'_>) {
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
        let named = self.model.as_deref().and_then(|model| model.split_once('/'));
        ear.spent(Usage {
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
    fn error(&mut self, error: &serde_json::Value, ear: &mut Ear<'_>) {
        let (code, detail) = trouble::of(error);
        self.turns.fail(code, &detail, ear);
    }

    /// A part is printed whenever it is stored, which may be twice; true for the first time.
    fn is_new(&mut self, part: Option<&str>) -> bool {
        let Some(part) = part.filter(|part| part.len() <= PART_ID_BYTES_MAX) else {
            return true;
        };
        if self.parts.iter().any(|known| known == part) {
            return false;
        }
        if self.parts.len() == PARTS_MAX {
            self.parts.pop_front();
        }
        self.parts.push_back(part.to_owned());
        true
    }
}
