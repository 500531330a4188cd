//! Hears `--output-format json`. Texts and thoughts come in pieces and are repeated whole, so a whole
//! is told only where no piece was. A failed call of the model is an error on the way; what it came
//! to is in the last line, whose exit is believed only if nobody stopped the agent before. It tells
//! no tokens.

use super::wire::{
    self, Delta, Failure, Last, Line, Message, Reasoning, Retry, SessionError, ToolComplete,
    ToolPartial, ToolStart,
};
use super::{tools, trouble};
use crate::Spec;
use crate::headless::{
    Calls, Came, Ear, INFO, Listener, REPEATED, Read, Trouble, WARNING, bounded, preview,
};
use contract::event::{self, Body, StopReason, ToolStatus};
use contract::limits::TEXT_BYTES_MAX;
use contract::speech::Close;
use contract::{Code, Signal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The retry that makes the conversation shorter, which no provider asked for.
const COMPACTION: &str = "forced_compaction";

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    introduced: bool,
    turn_open: bool,
    ended: bool,
    /// The message whose pieces were heard last, so that its whole repeats them.
    streamed: Option<String>,
    /// The same of the thoughts.
    thought: Option<String>,
    /// A tool was used at all.
    worked: bool,
    /// Somebody stopped it, after which an exit of 0 is no success.
    aborted: bool,
    /// The last text of the model's own.
    text: Option<String>,
    /// Why the model's last call failed.
    failed: Option<Code>,
    /// What the agent itself calls the end of the matter.
    error: Option<Trouble>,
    /// The provider holds the agent back.
    limited: bool,
    calls: Calls,
    /// The call whose output so far was shown last, and how much of it.
    shown: Option<(String, usize)>,
}

impl Listener for State {
    const VERSION: u32 = 2;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Blank => {}
            Read::Aside => ear.stray(trouble::SESSION_UNKNOWN, self.resumes.is_some()),
            Read::Stray => self.last(ear),
            Read::Line(_) if self.ended => ear.keep(Some(REPEATED)),
            Read::Line(line) => self.line(line, ear),
        }
    }

    /// An error that no answer and no result came after is what it came to.
    fn close(&mut self, _: Close, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
        if let Some(Trouble { code, .. }) = self.error.take() {
            ear.signal(Signal::ModelError { code });
        }
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        Self { resumes: spec.session.clone(), ..Self::default() }
    }

    /// The last line alone has no `data`, so it is none of the others and is read by itself.
    fn last(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Line(_) if self.ended => ear.keep(Some(REPEATED)),
            Read::Line(Last::Result(result)) => self.end(result, ear),
            Read::Blank | Read::Stray | Read::Aside => {
                ear.stray(trouble::SESSION_UNKNOWN, self.resumes.is_some());
            }
        }
    }

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::ToolsUpdated(tools) => self.introduce(tools.model, ear),
            Line::ServersLoaded(loaded) if loaded.servers.is_empty() => {}
            Line::ServersLoaded(_) => ear.keep(Some(INFO)),
            Line::ServerStatus(server) => match server.status.as_deref() {
                Some("pending" | "connected") => {}
                Some(_) | None => ear.keep(Some(WARNING)),
            },
            Line::UserMessage(_) => self.start(ear),
            Line::TurnStart(_) => {
                self.start(ear);
                ear.signal(Signal::ModelAnswer);
            }
            Line::MessageDelta(delta) => self.piece(delta, ear),
            Line::Message(message) => self.message(message, ear),
            Line::ReasoningDelta(delta) => self.thought(delta, ear),
            Line::Reasoning(reasoning) => self.thoughts(reasoning, ear),
            Line::TurnRetry(retry) => self.retry(&retry, ear),
            Line::CallFinished(finished) if finished.outcome.as_deref() == Some("success") => {
                self.answered(ear);
            }
            Line::CallFinished(_) => {}
            Line::CallFailure(failure) => self.failure(&failure, ear),
            Line::ToolStart(call) => self.tool_start(call, ear),
            Line::ToolPartial(partial) => self.tool_partial(partial, ear),
            Line::ToolComplete(done) => self.tool_complete(done, ear),
            Line::Info(info) => match (info.info_type, info.message) {
                (Some(kind), Some(said)) => ear.log(format!("{kind}: {said}"), Some(INFO)),
                (_, _) => ear.keep(Some(INFO)),
            },
            Line::Error(error) => self.gave_up(error, ear),
            Line::Abort(_) => self.aborted = true,
            Line::Known(_) => {}
        }
    }

    /// The conversation is named only at the very end, so what is told here of one that is taken up
    /// is what was asked for; another id at the end is told then.
    fn introduce(&mut self, model: Option<String>, ear: &mut Ear<'_>) {
        if std::mem::replace(&mut self.introduced, true) {
            return;
        }
        let native_session = self.resumes.clone();
        let resumed = native_session.is_some();
        let session = event::Session { model, tools: None, cwd: None, native_session, resumed };
        ear.draft(Body::Session(session));
    }

    /// Every round with the model is a turn to the agent; to us they are one.
    fn start(&mut self, ear: &mut Ear<'_>) {
        if !std::mem::replace(&mut self.turn_open, true) {
            ear.start_turn();
        }
    }

    fn piece(&mut self, delta: Delta, ear: &mut Ear<'_>) {
        self.answered(ear);
        let Some(text) = delta.delta_content.filter(|_| delta.parent_tool_call_id.is_none()) else {
            return;
        };
        let block = delta.message_id.as_deref().map(preview);
        self.streamed.clone_from(&block);
        ear.say(text, block, true);
    }

    fn message(&mut self, message: Message, ear: &mut Ear<'_>) {
        self.answered(ear);
        if message.content.is_empty() {
            return;
        }
        if let Some(parent) = &message.parent_tool_call_id {
            return self.within(parent, json!({ "text": message.content }), ear);
        }
        // An answer after an error means that the error was not the end.
        self.error = None;
        self.text = Some(bounded(&message.content, TEXT_BYTES_MAX));
        let block = message.message_id.as_deref().map(preview);
        if block.is_none() || block != self.streamed {
            ear.say(message.content, block, false);
        }
    }

    fn thought(&mut self, delta: Delta, ear: &mut Ear<'_>) {
        self.answered(ear);
        let Some(text) = delta.delta_content.filter(|_| delta.parent_tool_call_id.is_none()) else {
            return;
        };
        let block = delta.reasoning_id.as_deref().map(preview);
        self.thought.clone_from(&block);
        ear.think(text, block, true);
    }

    fn thoughts(&mut self, reasoning: Reasoning, ear: &mut Ear<'_>) {
        if let Some(parent) = &reasoning.parent_tool_call_id {
            return self.within(parent, json!({ "thinking": reasoning.content }), ear);
        }
        let block = reasoning.reasoning_id.as_deref().map(preview);
        if block.is_none() || block != self.thought {
            ear.think(reasoning.content, block, false);
        }
    }

    /// What a sub-agent says belongs to the call that started it, not to the answer.
    fn within(&mut self, parent: &str, content: Value, ear: &mut Ear<'_>) {
        if !self.calls.is_open(parent) {
            return ear.keep(Some(REPEATED));
        }
        ear.update(parent, content);
    }

    fn failure(&mut self, failure: &Failure, ear: &mut Ear<'_>) {
        let said = failure.error_message.as_deref().unwrap_or_default();
        let code = trouble::of(None, failure.status_code, said);
        self.failed = Some(code);
        ear.error(code, said);
    }

    fn retry(&mut self, retry: &Retry, ear: &mut Ear<'_>) {
        if retry.reason.as_deref() == Some(COMPACTION) {
            return;
        }
        let code = self.failed;
        let code = code.unwrap_or_else(|| trouble::of(retry.reason.as_deref(), None, ""));
        self.limited = true;
        ear.limited(code, None);
    }

    /// The model answers, so whatever held it back is over.
    fn answered(&mut self, ear: &mut Ear<'_>) {
        self.failed = None;
        if std::mem::take(&mut self.limited) {
            ear.signal(Signal::LimitLifted);
        }
    }

    fn tool_start(&mut self, call: ToolStart, ear: &mut Ear<'_>) {
        self.worked = true;
        ear.open(&mut self.calls, tools::event(call), Vec::new());
    }

    fn tool_partial(&mut self, partial: ToolPartial, ear: &mut Ear<'_>) {
        let open = partial.tool_call_id.filter(|id| self.calls.is_open(id));
        let (Some(id), Some(output)) = (open, partial.partial_output) else {
            return;
        };
        // It is the output so far, which only grows, and is told again when nothing was added.
        let shown = Some((id.clone(), output.len()));
        if !output.is_empty() && self.shown != shown {
            self.shown = shown;
            self.within(&id, Value::from(output), ear);
        }
    }

    fn tool_complete(&mut self, done: ToolComplete, ear: &mut Ear<'_>) {
        let exit = done.shell_execution.as_ref().and_then(|shell| shell.exit_code);
        let well = done.success == Some(true) && exit.is_none_or(|exit| exit == 0);
        let status = if well { ToolStatus::Ok } else { ToolStatus::Error };
        let code = done.error.as_ref().and_then(|error| error.code.as_deref());
        let denied = matches!(code, Some("denied" | "rejected"));
        let changes = if well { tools::changes(&done) } else { Vec::new() };
        let said = done.error.and_then(|error| error.message);
        let content = done.result.get("content").and_then(Value::as_str).map(Value::from);
        let output = said.map(Value::from).or(content).unwrap_or(done.result);
        let came = Came { status, denied, output, duration_ms: None, changes };
        ear.close(&mut self.calls, done.tool_call_id.as_deref(), came);
    }

    /// The agent gives up. The failed call before has been told; an error without one is told here.
    fn gave_up(&mut self, error: SessionError, ear: &mut Ear<'_>) {
        let words = error.message.unwrap_or_default();
        let code = trouble::of(error.error_type.as_deref(), error.status_code, &words);
        if self.failed.is_none() {
            ear.error(code, &words);
        }
        self.error = Some(Trouble { code, detail: preview(&words) });
    }

    /// The last line. Its exit is 0 also after an abort, so it is not believed alone.
    fn end(&mut self, result: wire::Result, ear: &mut Ear<'_>) {
        self.answered(ear);
        ear.abandon(&mut self.calls);
        (self.ended, self.turn_open) = (true, false);
        if let Some(id) = result.session_id {
            self.named(id, ear);
        }
        if let Some(spent) = result.usage.and_then(|used| used.premium_requests)
            && spent > 0.0
        {
            ear.log(format!("premium requests of this run: {spent}"), Some(INFO));
        }
        let said = self.text.take();
        let done = said.is_some() || self.worked;
        let error = self.error.take();
        let (code, detail) = match error {
            _ if self.aborted => (Some(Code::Cancelled), None),
            Some(error) => (Some(error.code), Some(error.detail)),
            None if result.exit_code == Some(0) && done => (None, None),
            None if result.exit_code == Some(0) => (Some(Code::EndedWithoutResult), None),
            None => (Some(Code::AgentFailed), None),
        };
        ear.end_turn(match code {
            None => StopReason::EndTurn,
            Some(Code::Cancelled) => StopReason::Cancelled,
            Some(_) => StopReason::Error,
        });
        ear.result(code, said, detail);
    }

    fn named(&mut self, id: String, ear: &mut Ear<'_>) {
        if let Some(asked) = self.resumes.as_ref().filter(|asked| **asked != id) {
            let text = format!("the conversation {asked} was requested, and {id} was resumed");
            ear.log(text, Some(WARNING));
        }
        ear.signal(Signal::Session { id });
    }
}
