//! Hears `--output-format json`. Texts and thoughts come in pieces and are repeated whole, so a whole
//! is told only where no piece was. A failed call of the model is an error on the way; what it came
//! to is in the last line, whose exit is believed only if nobody stopped the agent before. It tells
//! no tokens, and takes no word after its prompt.

use super::state::{State, Trouble};
use super::wire::{
    self, Delta, Failure, Line, Message, Read, Reasoning, Retry, SessionError, ToolComplete,
    ToolPartial, ToolStart,
};
use super::{tools, trouble};
use crate::headless::{self, Came, INFO, REPEATED, UNRECOGNISED, WARNING};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, StopReason, Text, ToolStatus, UpdateStatus};
use contract::limits::TEXT_BYTES_MAX;
use contract::speech::{Close, Ending};
use contract::{Code, Fault, Signal, Timestamp, Utterance};
use serde_json::{Value, json};

/// The retry that makes the conversation shorter, which no provider asked for.
const COMPACTION: &str = "forced_compaction";

/// A run of the agent: one prompt, one turn.
pub(super) struct Copilot {
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    state: State,
}

impl Copilot {
    pub(super) fn new(prompt: String, resumes: Option<String>) -> Self {
        Self { prompt: Some(prompt), state: State::new(resumes) }
    }

    pub(super) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        Ok(Self { prompt: None, state: State::load(saved)? })
    }
}

impl Dialect for Copilot {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.prompt.take().map(String::into_bytes)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let Some((text, whole)) = headless::text(frame) else {
            return;
        };
        let line = headless::Line::new(frame, &text, out);
        let mut ear = Ear { state: &mut self.state, line };
        let read = match frame.stream {
            Stream::Stderr => return ear.stray(None),
            Stream::Stdout => whole.then(|| wire::read(ear.line.text)).flatten(),
        };
        match read {
            Some(_) if ear.state.ended => ear.line.keep(Some(REPEATED)),
            Some(Read::Line(line)) => ear.hear(line),
            Some(Read::Result(result)) => ear.end(result),
            None => ear.stray(Some(UNRECOGNISED)),
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        headless::say(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    /// An error that no answer and no result came after is what it came to.
    fn close(&mut self, _: Close, out: &mut Out) {
        self.state.calls.abandon(out);
        if let Some(Trouble { code, .. }) = self.state.error.take() {
            out.signals.push(Signal::ModelError { code });
        }
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
    line: headless::Line<'a>,
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        match line {
            Line::ToolsUpdated(tools) => self.introduce(tools.model),
            Line::ServersLoaded(loaded) if loaded.servers.is_empty() => {}
            Line::ServersLoaded(_) => self.line.keep(Some(INFO)),
            Line::ServerStatus(server) => match server.status.as_deref() {
                Some("pending" | "connected") => {}
                Some(_) | None => self.line.keep(Some(WARNING)),
            },
            Line::UserMessage(_) | Line::TurnStart(_) => self.start(),
            Line::MessageDelta(delta) => self.piece(delta),
            Line::Message(message) => self.message(message),
            Line::ReasoningDelta(delta) => self.thought(delta),
            Line::Reasoning(reasoning) => self.thoughts(reasoning),
            Line::TurnRetry(retry) => self.retry(&retry),
            Line::CallFinished(finished) if finished.outcome.as_deref() == Some("success") => {
                self.answered();
            }
            Line::CallFinished(_) => {}
            Line::CallFailure(failure) => self.failure(&failure),
            Line::ToolStart(call) => self.tool_start(call),
            Line::ToolPartial(partial) => self.tool_partial(partial),
            Line::ToolComplete(done) => self.tool_complete(done),
            Line::Info(info) => match (info.info_type, info.message) {
                (Some(kind), Some(said)) => self.line.log(format!("{kind}: {said}"), Some(INFO)),
                (_, _) => self.line.keep(Some(INFO)),
            },
            Line::Error(error) => self.error(error),
            Line::Abort(_) => self.state.aborted = true,
            Line::Known(_) => {}
        }
    }

    /// The conversation is named only at the very end, so what is told here of one that is taken up
    /// is what was asked for; another id at the end is told then.
    fn introduce(&mut self, model: Option<String>) {
        if std::mem::replace(&mut self.state.introduced, true) {
            return;
        }
        let native_session = self.state.resumes.clone();
        let resumed = native_session.is_some();
        let session = event::Session { model, tools: None, cwd: None, native_session, resumed };
        self.line.draft(Body::Session(session));
    }

    /// Every round with the model is a turn to the agent; to us they are one.
    fn start(&mut self) {
        if !std::mem::replace(&mut self.state.turn_open, true) {
            self.line.turn_started();
        }
    }

    fn piece(&mut self, delta: Delta) {
        self.answered();
        let Some(text) = delta.delta_content.filter(|_| delta.parent_tool_call_id.is_none()) else {
            return;
        };
        let block = delta.message_id.as_deref().map(headless::preview);
        self.state.streamed.clone_from(&block);
        self.line.draft(Body::AssistantText(Text { text, block, delta: true }));
    }

    fn message(&mut self, message: Message) {
        self.answered();
        if message.content.is_empty() {
            return;
        }
        if let Some(parent) = &message.parent_tool_call_id {
            return self.within(parent, json!({ "text": message.content }));
        }
        // An answer after an error means that the error was not the end.
        self.state.error = None;
        self.state.text = Some(headless::bounded(&message.content, TEXT_BYTES_MAX));
        let block = message.message_id.as_deref().map(headless::preview);
        if block.is_none() || block != self.state.streamed {
            let (text, delta) = (message.content, false);
            self.line.draft(Body::AssistantText(Text { text, block, delta }));
        }
    }

    fn thought(&mut self, delta: Delta) {
        self.answered();
        let Some(text) = delta.delta_content.filter(|_| delta.parent_tool_call_id.is_none()) else {
            return;
        };
        let block = delta.reasoning_id.as_deref().map(headless::preview);
        self.state.thought.clone_from(&block);
        self.line.draft(Body::Thinking(Text { text, block, delta: true }));
    }

    fn thoughts(&mut self, reasoning: Reasoning) {
        if let Some(parent) = &reasoning.parent_tool_call_id {
            return self.within(parent, json!({ "thinking": reasoning.content }));
        }
        let block = reasoning.reasoning_id.as_deref().map(headless::preview);
        if block.is_none() || block != self.state.thought {
            let (text, delta) = (reasoning.content, false);
            self.line.draft(Body::Thinking(Text { text, block, delta }));
        }
    }

    /// What a sub-agent says belongs to the call that started it, not to the answer.
    fn within(&mut self, parent: &str, content: Value) {
        if !self.state.calls.is_open(parent) {
            return self.line.keep(Some(REPEATED));
        }
        let (tool_call_id, content) = (parent.to_owned(), Some(content));
        let (status, title, locations) = (Some(UpdateStatus::InProgress), None, Vec::new());
        let update = event::ToolUpdate { tool_call_id, status, title, content, locations };
        self.line.draft(Body::ToolUpdate(update));
    }

    fn failure(&mut self, failure: &Failure) {
        let said = failure.error_message.as_deref().unwrap_or_default();
        let code = trouble::of(None, failure.status_code, said);
        self.state.failed = Some(code);
        self.line.error(code, said);
    }

    fn retry(&mut self, retry: &Retry) {
        if retry.reason.as_deref() == Some(COMPACTION) {
            return;
        }
        let code = self.state.failed;
        let code = code.unwrap_or_else(|| trouble::of(retry.reason.as_deref(), None, ""));
        self.state.limited = true;
        self.line.limited(code);
    }

    /// The model answers, so whatever held it back is over.
    fn answered(&mut self) {
        self.state.failed = None;
        if std::mem::take(&mut self.state.limited) {
            self.line.signal(Signal::LimitLifted);
        }
    }

    fn tool_start(&mut self, call: ToolStart) {
        self.state.worked = true;
        self.line.tool_opened(&mut self.state.calls, tools::event(call), Vec::new());
    }

    fn tool_partial(&mut self, partial: ToolPartial) {
        let open = partial.tool_call_id.filter(|id| self.state.calls.is_open(id));
        let (Some(id), Some(output)) = (open, partial.partial_output) else {
            return;
        };
        // It is the output so far, which only grows, and is told again when nothing was added.
        let shown = Some((id.clone(), output.len()));
        if !output.is_empty() && self.state.shown != shown {
            self.state.shown = shown;
            self.within(&id, Value::from(output));
        }
    }

    fn tool_complete(&mut self, done: ToolComplete) {
        let exit = done.shell_execution.as_ref().and_then(|shell| shell.exit_code);
        let well = done.success == Some(true) && exit.is_none_or(|exit| exit == 0);
        let status = if well { ToolStatus::Ok } else { ToolStatus::Error };
        let code = done.error.as_ref().and_then(|error| error.code.as_deref());
        let denied = matches!(code, Some("denied" | "rejected"));
        let open = done.tool_call_id.as_deref().is_some_and(|id| self.state.calls.is_open(id));
        let changes = if well && open { tools::changes(&done) } else { Vec::new() };
        let said = done.error.and_then(|error| error.message);
        let content = done.result.get("content").and_then(Value::as_str).map(Value::from);
        let output = said.map(Value::from).or(content).unwrap_or(done.result);
        let came = Came { status, denied, output, duration_ms: None };
        self.line.tool_closed(&mut self.state.calls, done.tool_call_id.as_deref(), came);
        changes.into_iter().for_each(|change| self.line.draft(Body::Diff(change)));
    }

    /// The agent gives up. The failed call before has been told; an error without one is told here.
    fn error(&mut self, error: SessionError) {
        let words = error.message.unwrap_or_default();
        let code = trouble::of(error.error_type.as_deref(), error.status_code, &words);
        if self.state.failed.is_none() {
            self.line.error(code, &words);
        }
        self.state.error = Some(Trouble { code, words: headless::preview(&words) });
    }

    /// The last line. Its exit is 0 also after an abort, so it is not believed alone.
    fn end(&mut self, result: wire::Result) {
        self.answered();
        self.state.calls.abandon(self.line.out);
        (self.state.ended, self.state.turn_open) = (true, false);
        if let Some(id) = result.session_id {
            self.named(id);
        }
        if let Some(spent) = result.usage.and_then(|used| used.premium_requests)
            && spent > 0.0
        {
            self.line.log(format!("premium requests of this run: {spent}"), Some(INFO));
        }
        let said = self.state.text.take();
        let done = said.is_some() || self.state.worked;
        let error = self.state.error.take();
        let (code, detail) = match error {
            _ if self.state.aborted => (Some(Code::Cancelled), None),
            Some(error) => (Some(error.code), Some(error.words)),
            None if result.exit_code == Some(0) && done => (None, None),
            None if result.exit_code == Some(0) => (Some(Code::EndedWithoutResult), None),
            None => (Some(Code::AgentFailed), None),
        };
        self.line.turn_ended(match code {
            None => StopReason::EndTurn,
            Some(Code::Cancelled) => StopReason::Cancelled,
            Some(_) => StopReason::Error,
        });
        let text = said.filter(|_| code.is_none());
        self.line.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }

    fn named(&mut self, id: String) {
        if let Some(asked) = self.state.resumes.as_ref().filter(|asked| **asked != id) {
            let text = format!("the conversation {asked} was asked for, and {id} was taken up");
            self.line.log(text, Some(WARNING));
        }
        self.line.signal(Signal::Session { id });
    }

    /// A line that is none of the protocol; a conversation that is not known is told in one.
    fn stray(&mut self, level: Option<&str>) {
        if trouble::session_unknown(self.line.text) && self.state.resumes.is_some() {
            self.line.signal(Signal::SessionUnknown);
        }
        self.line.keep(level);
    }
}
