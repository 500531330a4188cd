//! Hears `--json`. Texts and thoughts come in pieces, each with all of the text so far beside it, and
//! are repeated at their end: only the pieces are heard. Every answer tells its tokens, and the last
//! line those of the whole run. That line is the end. It takes no word after its prompt, which was
//! given with the launch.

use super::state::{Said, State};
use super::wire::{Content, Event, Failure, Line, RunResult, Spent};
use super::{tools, trouble};
use crate::headless::{self, Came, REPEATED, UNRECOGNISED};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, Text, UpdateStatus, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::{Close, Ending};
use contract::{Code, Fault, NanoUsd, Signal, Timestamp, Tokens, Utterance};
use serde_json::Value;

/// A run of the agent: one prompt, one turn.
pub(super) struct Cline {
    state: State,
}

impl Cline {
    pub(super) fn new(resumes: bool, model: Option<String>) -> Self {
        Self { state: State::new(resumes, model) }
    }

    pub(super) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        Ok(Self { state: State::load(saved)? })
    }
}

impl Dialect for Cline {
    fn open(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let Some((text, whole)) = headless::text(frame) else {
            return;
        };
        let line = headless::Line::new(frame, &text, out);
        let mut ear = Ear { state: &mut self.state, line };
        let read = match frame.stream {
            Stream::Stderr => return ear.line.keep(None),
            Stream::Stdout => whole.then(|| Line::read(ear.line.text).ok()).flatten(),
        };
        match read {
            Some(_) if ear.state.ended => ear.line.keep(Some(REPEATED)),
            Some(Line::AgentEvent { event }) => ear.hear(event),
            Some(Line::RunResult(result)) => ear.end(result),
            Some(Line::HookEvent(_)) => {}
            None => ear.line.keep(Some(UNRECOGNISED)),
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        headless::say(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, out: &mut Out) {
        self.state.calls.abandon(out);
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

/// Which of the two kinds of texts.
#[derive(Clone, Copy)]
enum Voice {
    Text,
    Thought,
}

/// One line being heard.
struct Ear<'a> {
    state: &'a mut State,
    line: headless::Line<'a>,
}

impl Ear<'_> {
    fn hear(&mut self, event: Event) {
        match event {
            Event::IterationStart(_) => self.start(),
            Event::ContentStart(content) => match content.content_type.as_deref() {
                Some("text") => self.piece(Voice::Text, content.text),
                Some("reasoning") => self.piece(Voice::Thought, content.reasoning),
                Some("tool") => self.tool_start(content),
                Some(_) | None => self.line.keep(Some(UNRECOGNISED)),
            },
            Event::ContentUpdate(content) => self.tool_update(content),
            Event::ContentEnd(content) => match content.content_type.as_deref() {
                Some("text") => self.whole(Voice::Text, content.text),
                Some("reasoning") => self.whole(Voice::Thought, content.reasoning),
                Some("tool") => self.tool_end(content),
                Some(_) | None => self.line.keep(Some(UNRECOGNISED)),
            },
            Event::Usage(spent) => self.spent(&spent, Basis::Increment),
            Event::Error(failure) => self.failure(&failure),
            Event::IterationEnd(_) | Event::Done(_) => {}
        }
    }

    /// The first round with the model begins the turn; the others are inside it.
    fn start(&mut self) {
        if std::mem::replace(&mut self.state.turn_open, true) {
            return;
        }
        let (model, resumed) = (self.state.model.clone(), self.state.resumes);
        let (tools, cwd, native_session) = (None, None, None);
        let session = event::Session { model, tools, cwd, native_session, resumed };
        self.line.draft(Body::Session(session));
        self.line.turn_started();
    }

    fn piece(&mut self, voice: Voice, text: Option<String>) {
        let Some(text) = text else {
            return self.line.keep(Some(UNRECOGNISED));
        };
        self.said(voice).streamed = true;
        self.speak(voice, text, true);
    }

    /// The end of a text, which repeats it unless no piece came.
    fn whole(&mut self, voice: Voice, text: Option<String>) {
        if let (false, Some(text)) = (self.said(voice).streamed, text) {
            self.speak(voice, text, false);
        }
        let number = self.said(voice).number.saturating_add(1);
        *self.said(voice) = Said { number, streamed: false };
    }

    fn said(&mut self, voice: Voice) -> &mut Said {
        match voice {
            Voice::Text => &mut self.state.text,
            Voice::Thought => &mut self.state.thought,
        }
    }

    fn speak(&mut self, voice: Voice, text: String, delta: bool) {
        let number = self.said(voice).number;
        self.line.draft(match voice {
            Voice::Text => {
                let block = Some(format!("text-{number}"));
                Body::AssistantText(Text { text, block, delta })
            }
            Voice::Thought => {
                let block = Some(format!("thought-{number}"));
                Body::Thinking(Text { text, block, delta })
            }
        });
    }

    fn tool_start(&mut self, call: Content) {
        self.state.worked = true;
        let changes = tools::changes(&call);
        self.line.tool_opened(&mut self.state.calls, tools::event(call), changes);
    }

    fn tool_update(&mut self, update: Content) {
        let open = update.tool_call_id.filter(|id| self.state.calls.is_open(id));
        let chunk = update.update.and_then(|update| update.chunk);
        if let (Some(tool_call_id), Some(chunk)) = (open, chunk.filter(|chunk| !chunk.is_empty())) {
            let (status, content) = (Some(UpdateStatus::InProgress), Some(Value::from(chunk)));
            let (title, locations) = (None, Vec::new());
            let update = event::ToolUpdate { tool_call_id, status, title, content, locations };
            self.line.draft(Body::ToolUpdate(update));
        }
    }

    fn tool_end(&mut self, done: Content) {
        let (status, duration_ms) = (tools::status(&done), done.duration_ms);
        let output = if done.output.is_null() { done.error } else { done.output };
        let came = Came { status, denied: false, output, duration_ms };
        self.line.tool_closed(&mut self.state.calls, done.tool_call_id.as_deref(), came);
    }

    /// Each answer tells its own tokens. The model that answers is named only at the very end, so
    /// all are booked under the one that was asked for, if there was one.
    fn spent(&mut self, spent: &Spent, basis: Basis) {
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
        self.line.spent(Usage {
            model: self.state.model.clone(),
            tokens: Some(tokens),
            basis,
            reported_nanousd: usd.and_then(NanoUsd::from_usd),
            cost_source: CostSource::Unpriced,
            ..Usage::default()
        });
    }

    fn failure(&mut self, failure: &Failure) {
        let said = failure.error.as_ref().and_then(|error| error.message.as_deref());
        let said = said.unwrap_or_default();
        let code = trouble::of(failure.error_class.as_deref(), said);
        self.state.failed = Some(code);
        self.line.error(code, said);
    }

    /// The last line. Only `completed` is a success, and only if something was said or done.
    fn end(&mut self, result: RunResult) {
        self.state.calls.abandon(self.line.out);
        (self.state.ended, self.state.turn_open) = (true, false);
        if let Some(spent) = result.aggregate_usage.or(result.usage) {
            self.spent(&spent, Basis::RunTotal);
        }
        let reason = result.finish_reason.as_deref();
        let (stop, code) = trouble::of_end(reason, self.state.failed);
        let said = result.text.filter(|text| !text.is_empty());
        let said = said.map(|text| headless::bounded(&text, TEXT_BYTES_MAX));
        let nothing = said.is_none() && !self.state.worked;
        let code = code.or(nothing.then_some(Code::EndedWithoutResult));
        self.line.turn_ended(stop);
        // The text of a run that failed is the error's.
        let (text, detail) = if code.is_none() { (said, None) } else { (None, said) };
        self.line.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }
}
