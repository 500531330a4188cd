//! Hears `--json`. Texts and thoughts come in pieces, each with all of the text so far beside it, and
//! are repeated at their end: only the pieces are heard. Every answer tells its tokens, and the last
//! line those of the whole run. That line is the end.

use super::wire::{Content, Event, Failure, Line, RunResult, Spent};
use super::{tools, trouble};
use crate::Spec;
use crate::headless::{Calls, Came, Ear, Listener, REPEATED, Read, UNRECOGNISED, bounded};
use contract::event::{self, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, NanoUsd, Signal, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// A conversation was to be taken up again.
    resumes: bool,
    /// The model that was asked for; the one that answers is named only at the end.
    model: Option<String>,
    turn_open: bool,
    ended: bool,
    /// The text and the thought that are being said, by number, and whether a piece of each was
    /// heard, so that its end repeats it.
    text: Said,
    thought: Said,
    /// A tool was used at all.
    worked: bool,
    /// What the agent told of its last error.
    failed: Option<Code>,
    calls: Calls,
}

/// Where one of the two kinds of texts stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Said {
    number: u32,
    streamed: bool,
}

/// Which of the two kinds of texts.
#[derive(Clone, Copy)]
enum Voice {
    Text,
    Thought,
}

impl Listener for State {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Blank => {}
            Read::Aside | Read::Stray => ear.keep_stray(),
            Read::Line(_) if self.ended => ear.keep(Some(REPEATED)),
            Read::Line(Line::AgentEvent { event }) => self.event(event, ear),
            Read::Line(Line::RunResult(result)) => self.end(result, ear),
            Read::Line(Line::HookEvent(_)) => {}
        }
    }

    fn close(&mut self, _: Close, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        let (resumes, model) = (spec.session.is_some(), spec.model.clone());
        Self { resumes, model, ..Self::default() }
    }

    fn event(&mut self, event: Event, ear: &mut Ear<'_>) {
        match event {
            Event::IterationStart(_) => self.start(ear),
            Event::ContentStart(content) => match content.content_type.as_deref() {
                Some("text") => self.piece(Voice::Text, content.text, ear),
                Some("reasoning") => self.piece(Voice::Thought, content.reasoning, ear),
                Some("tool") => self.tool_start(content, ear),
                Some(_) | None => ear.keep(Some(UNRECOGNISED)),
            },
            Event::ContentUpdate(content) => self.tool_update(content, ear),
            Event::ContentEnd(content) => match content.content_type.as_deref() {
                Some("text") => self.whole(Voice::Text, content.text, ear),
                Some("reasoning") => self.whole(Voice::Thought, content.reasoning, ear),
                Some("tool") => self.tool_end(content, ear),
                Some(_) | None => ear.keep(Some(UNRECOGNISED)),
            },
            Event::Usage(spent) => {
                ear.signal(Signal::ModelAnswer);
                self.spent(&spent, Basis::Increment, ear);
            }
            Event::Error(failure) => self.failure(&failure, ear),
            Event::IterationEnd(_) | Event::Done(_) => {}
        }
    }

    /// The first round with the model begins the turn; the others are inside it.
    fn start(&mut self, ear: &mut Ear<'_>) {
        if std::mem::replace(&mut self.turn_open, true) {
            return;
        }
        let (model, resumed) = (self.model.clone(), self.resumes);
        let (tools, cwd, native_session) = (None, None, None);
        let session = event::Session { model, tools, cwd, native_session, resumed };
        ear.introduce(session);
        ear.start_turn();
    }

    fn piece(&mut self, voice: Voice, text: Option<String>, ear: &mut Ear<'_>) {
        let Some(text) = text else {
            return ear.keep(Some(UNRECOGNISED));
        };
        self.said(voice).streamed = true;
        self.speak(voice, text, true, ear);
    }

    /// The end of a text, which repeats it unless no piece came.
    fn whole(&mut self, voice: Voice, text: Option<String>, ear: &mut Ear<'_>) {
        if let (false, Some(text)) = (self.said(voice).streamed, text) {
            self.speak(voice, text, false, ear);
        }
        let number = self.said(voice).number.saturating_add(1);
        *self.said(voice) = Said { number, streamed: false };
    }

    fn said(&mut self, voice: Voice) -> &mut Said {
        match voice {
            Voice::Text => &mut self.text,
            Voice::Thought => &mut self.thought,
        }
    }

    fn speak(&mut self, voice: Voice, text: String, delta: bool, ear: &mut Ear<'_>) {
        let number = self.said(voice).number;
        match voice {
            Voice::Text => ear.say(text, Some(format!("text-{number}")), delta),
            Voice::Thought => ear.think(text, Some(format!("thought-{number}")), delta),
        }
    }

    fn tool_start(&mut self, call: Content, ear: &mut Ear<'_>) {
        self.worked = true;
        let changes = tools::changes(&call);
        ear.open(&mut self.calls, tools::event(call), changes);
    }

    fn tool_update(&mut self, update: Content, ear: &mut Ear<'_>) {
        let open = update.tool_call_id.filter(|id| self.calls.is_open(id));
        let chunk = update.update.and_then(|update| update.chunk);
        if let (Some(id), Some(chunk)) = (open, chunk.filter(|chunk| !chunk.is_empty())) {
            ear.update(&id, Value::from(chunk));
        }
    }

    fn tool_end(&mut self, done: Content, ear: &mut Ear<'_>) {
        let (status, duration_ms) = (tools::status(&done), done.duration_ms);
        let output = if done.output.is_null() { done.error } else { done.output };
        let came = Came { status, denied: false, output, duration_ms, changes: Vec::new() };
        ear.close(&mut self.calls, done.tool_call_id.as_deref(), came);
    }

    /// Each answer tells its own tokens. The model that answers is named only at the very end, so
    /// all are booked under the one that was asked for, if there was one.
    fn spent(&mut self, spent: &Spent, basis: Basis, ear: &mut Ear<'_>) {
        let cached = spent.cache_read_tokens.saturating_add(spent.cache_write_tokens);
        let tokens = Tokens {
            input_uncached: spent.input_tokens.saturating_sub(cached),
            cache_read: spent.cache_read_tokens,
            cache_write: spent.cache_write_tokens,
            output: spent.output_tokens,
            reasoning: None,
        };
        if tokens.total() == 0 {
            return;
        }
        // The dollars beside one answer are those of the run so far. None for tokens are a model
        // without a price, not one that is free.
        let usd = spent.total_cost.filter(|usd| *usd > 0.0 && basis == Basis::RunTotal);
        ear.spent(Usage {
            model: self.model.clone(),
            tokens: Some(tokens),
            basis,
            reported_nanousd: usd.and_then(NanoUsd::from_usd),
            cost_source: CostSource::Unpriced,
            ..Usage::default()
        });
    }

    fn failure(&mut self, failure: &Failure, ear: &mut Ear<'_>) {
        let said = failure.error.as_ref().and_then(|error| error.message.as_deref());
        let said = said.unwrap_or_default();
        let code = trouble::of(failure.error_class.as_deref(), said);
        self.failed = Some(code);
        ear.error(code, said);
    }

    /// The last line. Only `completed` is a success, and only if something was said or done.
    fn end(&mut self, result: RunResult, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
        (self.ended, self.turn_open) = (true, false);
        if let Some(spent) = result.aggregate_usage.or(result.usage) {
            self.spent(&spent, Basis::RunTotal, ear);
        }
        let reason = result.finish_reason.as_deref();
        let (stop, code) = trouble::of_end(reason, self.failed);
        let said = result.text.filter(|text| !text.is_empty());
        let said = said.map(|text| bounded(&text, TEXT_BYTES_MAX));
        let nothing = said.is_none() && !self.worked;
        let code = code.or(nothing.then_some(Code::EndedWithoutResult));
        ear.end_turn(stop);
        // The text of a run that failed is the error's.
        let (text, detail) = if code.is_none() { (said, None) } else { (None, said) };
        ear.result(code, text, detail);
    }
}
