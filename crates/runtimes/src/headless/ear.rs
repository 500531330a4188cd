//! One line being heard, or the end of them all, and where what comes of it goes. Every draft knows
//! the place of its line in the trace. Nothing here knows what a line means; a listener says what
//! happened, and it becomes drafts and signals in one way for all agents.

use super::calls::{Calls, Came};
use super::{preview, says};
use crate::{Frame, Out, Stream, lenient, reset};
use contract::event::{
    self, Body, Diff, Log, Raw, Session, StopReason, Text, ToolStatus, TurnPhase, UpdateStatus,
    Usage,
};
use contract::speech::{Ending, Limited};
use contract::{Code, Draft, Signal};
use serde::Deserialize;
use serde_json::Value;

/// The level of a line that was not understood.
pub(crate) const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
pub(crate) const REPEATED: &str = "repeated";
/// The level of an agent's own log, which is shown to those who look for it.
pub(crate) const DEBUG: &str = "debug";
/// The level of what the agent tells in passing.
pub(crate) const INFO: &str = "info";
/// The level of what somebody should look at.
pub(crate) const WARNING: &str = "warning";

pub(crate) struct Ear<'a> {
    out: &'a mut Out,
    /// Where the line stands in the trace; nothing when it is the end that is heard.
    raw: Option<Raw>,
    pub stream: Stream,
    /// The line as it came, without its end.
    pub line: &'a str,
    /// The line is all there: neither cut nor in need of replaced characters.
    pub whole: bool,
}

/// What a line is to an agent that prints JSON lines on standard output.
pub(crate) enum Read<L> {
    /// Nothing is on it.
    Blank,
    /// A line of the protocol.
    Line(L),
    /// On standard output, and none of the protocol: words, a line of an unknown kind, or a part of
    /// one.
    Stray,
    /// On stderr.
    Aside,
}

impl<'a> Ear<'a> {
    pub(super) fn of(frame: &Frame<'_>, text: &'a str, whole: bool, out: &'a mut Out) -> Self {
        let raw = Some(Raw { stream: frame.stream.into(), line: frame.line });
        Self { out, raw, stream: frame.stream, line: text.trim_end_matches('\r'), whole }
    }

    /// For what is only known when no more lines will come.
    pub(super) fn at_close(out: &'a mut Out) -> Self {
        Self { out, raw: None, stream: Stream::Stdout, line: "", whole: false }
    }

    /// Reads the line once, straight into the agent's own shapes.
    pub fn read<L: Deserialize<'a>>(&self) -> Read<L> {
        if self.is_blank() {
            return Read::Blank;
        }
        match (self.stream, self.whole) {
            (Stream::Stderr, _) => Read::Aside,
            (Stream::Stdout, false) => Read::Stray,
            (Stream::Stdout, true) => lenient::object(self.line).map_or(Read::Stray, Read::Line),
        }
    }

    pub fn is_blank(&self) -> bool {
        self.line.trim_ascii().is_empty()
    }

    pub fn draft(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: self.raw, ..Draft::agent(body) });
    }

    /// Something that we say, because the agent did not.
    pub(super) fn draft_ours(&mut self, body: Body) {
        self.out.drafts.push(Draft::ostler(body));
    }

    pub fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }

    /// Keeps the line as it came.
    pub fn keep(&mut self, level: Option<&str>) {
        self.log(self.line.to_owned(), level);
    }

    /// Keeps a line that is none of the protocol.
    pub fn keep_stray(&mut self) {
        match self.stream {
            Stream::Stdout => self.keep(Some(UNRECOGNISED)),
            Stream::Stderr => self.keep(None),
        }
    }

    /// Keeps a line that is none of the protocol. A conversation that was to be taken up and is not
    /// known is told in one, by any of these words.
    pub fn stray(&mut self, unknown: &[&str], resumes: bool) {
        // What a model said may be in a line of the protocol that was cut.
        let is_words = !self.line.trim_start().starts_with('{');
        if resumes && is_words && says(self.line, unknown) {
            self.signal(Signal::SessionUnknown);
        }
        self.keep_stray();
    }

    /// Keeps lines of this stream that were held back until now.
    pub fn keep_all(&mut self, stream: Stream, lines: &[String]) {
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            let (stream, text) = (stream.into(), line.clone());
            self.draft(Body::Log(Log { stream, text, level: None }));
        }
    }

    pub fn log(&mut self, text: String, level: Option<&str>) {
        let (stream, level) = (self.stream.into(), level.map(str::to_owned));
        self.draft(Body::Log(Log { stream, text, level }));
    }

    /// The agent introduced its conversation.
    pub fn introduce(&mut self, session: Session) {
        if let Some(id) = &session.native_session {
            self.signal(Signal::Session { id: id.clone() });
        }
        self.draft(Body::Session(session));
    }

    /// The one turn of a process begins. Those that may have more count them in `Turns`.
    pub fn start_turn(&mut self) {
        self.turn_started(1);
    }

    pub fn end_turn(&mut self, stop: StopReason) {
        self.turn_ended(1, stop);
    }

    pub(super) fn turn_started(&mut self, n: u32) {
        let (phase, stop_reason) = (TurnPhase::Started, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    pub(super) fn turn_ended(&mut self, n: u32, stop: StopReason) {
        self.draft(ended(n, stop));
        self.signal(Signal::TurnEnded { stop });
    }

    pub fn say(&mut self, text: String, block: Option<String>, delta: bool) {
        self.draft(Body::AssistantText(Text { text, block, delta }));
    }

    pub fn think(&mut self, text: String, block: Option<String>, delta: bool) {
        self.draft(Body::Thinking(Text { text, block, delta }));
    }

    /// A call begins, with what becomes true when it goes well. One that cannot be remembered is
    /// kept, and then this is false.
    pub fn open(&mut self, calls: &mut Calls, call: event::ToolUse, changes: Vec<Diff>) -> bool {
        let id = call.tool_call_id.clone();
        let new = calls.open(&id, changes);
        if new {
            self.draft(Body::ToolUse(call));
            self.signal(Signal::ToolOpened { tool_call_id: id });
        } else {
            self.keep(Some(REPEATED));
        }
        new
    }

    /// A call goes on.
    pub fn update(&mut self, id: &str, content: Value) {
        let (status, content) = (Some(UpdateStatus::InProgress), Some(content));
        let (tool_call_id, title, locations) = (id.to_owned(), None, Vec::new());
        let update = event::ToolUpdate { tool_call_id, status, title, content, locations };
        self.draft(Body::ToolUpdate(update));
    }

    /// A call ended. Its changes are told if it went well. A result of none that is open is kept,
    /// and then this is false.
    pub fn close(&mut self, calls: &mut Calls, id: Option<&str>, came: Came) -> bool {
        let Some((tool_call_id, changes)) = id.and_then(|id| calls.close(id)) else {
            self.keep(Some(REPEATED));
            return false;
        };
        let Came { status, denied, output, duration_ms, changes: told } = came;
        let id = tool_call_id.clone();
        let told_denied = denied.then_some(true);
        let result =
            event::ToolResult { tool_call_id, status, denied: told_denied, output, duration_ms };
        self.draft(Body::ToolResult(result));
        if status == ToolStatus::Ok {
            changes.into_iter().chain(told).for_each(|change| self.draft(Body::Diff(change)));
        }
        self.signal(Signal::ToolClosed { tool_call_id: id, denied });
        true
    }

    /// Closes the calls whose results will not come.
    pub fn abandon(&mut self, calls: &mut Calls) {
        for id in calls.take() {
            let output = Value::from("the agent ended before it reported a result");
            let (tool_call_id, status) = (id.clone(), ToolStatus::Error);
            let result =
                event::ToolResult { tool_call_id, status, denied: None, output, duration_ms: None };
            self.draft_ours(Body::ToolResult(result));
            self.signal(Signal::ToolClosed { tool_call_id: id, denied: false });
        }
    }

    pub fn spent(&mut self, usage: Usage) {
        self.signal(Signal::Spent(usage.clone()));
        self.draft(Body::Usage(usage));
    }

    /// An error on the way, which need not be the end.
    pub fn error(&mut self, code: Code, detail: &str) {
        if code == Code::ProviderQuota
            && let Some(told) = reset::read(detail)
        {
            self.signal(Signal::Resets(told));
        }
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: (!detail.is_empty()).then(|| preview(detail)),
        }));
    }

    /// The provider holds the agent back, and the agent tries again by itself.
    pub fn limited(&mut self, code: Code, wait_ms: Option<u64>) {
        let (terminal, resets_at) = (false, None);
        self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
    }

    /// The agent's structured end. Only a success has an answer.
    pub fn result(&mut self, code: Option<Code>, text: Option<String>, detail: Option<String>) {
        let text = text.filter(|_| code.is_none());
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }
}

pub(super) fn ended(n: u32, stop: StopReason) -> Body {
    let (phase, stop_reason) = (TurnPhase::Ended, Some(stop));
    Body::Turn(event::Turn { phase, n, stop_reason })
}
