//! What the agents share that are given one prompt and print lines until they are done: how a line is
//! read, how its meaning is written down with the place it came from, and what is answered to words
//! that such an agent cannot take. Which line means what is each dialect's own business.

use crate::{Frame, Out, Stream};
use contract::event::{
    self, Body, Diff, Log, Raw, StopReason, Text, ToolResult, ToolStatus, TurnPhase, Usage,
};
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::speech::Ending;
use contract::{Code, Draft, Signal, Utterance};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The level of a line that was not understood.
pub(crate) const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
pub(crate) const REPEATED: &str = "repeated";
const WARNING: &str = "warning";

/// A call's id longer than this cannot be kept and is not taken.
pub(crate) const CALL_ID_BYTES_MAX: usize = 256;

/// A line as text.
pub(crate) struct Line<'a> {
    text: Cow<'a, str>,
    /// Every byte of it is there and was text: only such a line may be taken at its word.
    pub whole: bool,
    raw: Raw,
}

impl<'a> Line<'a> {
    /// `None` for an empty one.
    pub(crate) fn read(frame: &Frame<'a>) -> Option<Self> {
        let text = String::from_utf8_lossy(frame.bytes);
        // Replaced characters could turn one value into another.
        let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        (!text.trim_ascii().is_empty()).then_some(Self { text, whole, raw })
    }

    pub(crate) fn text(&self) -> &str {
        self.text.trim_end_matches('\r')
    }

    /// The line as JSON of standard output; `None` for anything else.
    pub(crate) fn parse<Wire: serde::de::DeserializeOwned>(&self, stream: Stream) -> Option<Wire> {
        match stream {
            Stream::Stderr => None,
            Stream::Stdout => self.whole.then(|| serde_json::from_str(self.text()).ok()).flatten(),
        }
    }
}

/// Writes down what one line means.
pub(crate) struct Scribe<'a> {
    pub line: &'a Line<'a>,
    pub out: &'a mut Out,
}

impl Scribe<'_> {
    pub(crate) fn draft(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: Some(self.line.raw), ..Draft::agent(body) });
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }

    /// Keeps the line as it came.
    pub(crate) fn keep(&mut self, level: Option<&str>) {
        let (stream, text) = (self.line.raw.stream, self.line.text().to_owned());
        self.draft(Body::Log(Log { stream, text, level: level.map(str::to_owned) }));
    }

    /// The agent's own conversation, told once.
    pub(crate) fn session(&mut self, session: event::Session) {
        if let Some(id) = &session.native_session {
            self.signal(Signal::Session { id: id.clone() });
        }
        self.draft(Body::Session(session));
    }

    pub(crate) fn turn_started(&mut self, n: u32) {
        let (phase, stop_reason) = (TurnPhase::Started, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    pub(crate) fn turn_ended(&mut self, n: u32, stop: StopReason) {
        let (phase, stop_reason) = (TurnPhase::Ended, Some(stop));
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnEnded { stop });
    }

    /// A whole text, never a piece of one.
    pub(crate) fn whole_text(
        &mut self,
        as_body: fn(Text) -> Body,
        text: String,
        block: Option<String>,
    ) {
        self.draft(as_body(Text { text, block, delta: false }));
    }

    /// Spending is an event and a fact for the ledger.
    pub(crate) fn spent(&mut self, usage: Usage) {
        self.signal(Signal::Spent(usage.clone()));
        self.draft(Body::Usage(usage));
    }

    /// An error on the way. Whether it is the end is told by what follows.
    pub(crate) fn error(&mut self, code: Code, detail: &str) {
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: (!detail.is_empty()).then(|| detail.to_owned()),
        }));
        self.signal(Signal::ModelError { code });
    }

    pub(crate) fn result(
        &mut self,
        code: Option<Code>,
        text: Option<String>,
        detail: Option<String>,
    ) {
        let text = text.filter(|_| code.is_none());
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }
}

/// Answers what an agent cannot be told: in an event, so that nothing is lost in silence.
pub(crate) fn refuse(utterance: &Utterance, out: &mut Out) {
    let what = match utterance {
        // Nobody is told of a budget, and SIGTERM is all the goodbye such an agent knows.
        Utterance::BudgetUpdate { .. } | Utterance::Shutdown { .. } => return,
        Utterance::ToolResult { .. } => "a tool's answer",
        Utterance::Decide { .. } => "a decision",
        Utterance::Message { .. } => "a message",
        Utterance::Interrupt => "an interrupt",
    };
    let code = Code::NotSupported;
    let text = format!("{code}: the agent takes nothing after its prompt, so {what} was not said");
    let (stream, level) = (event::Stream::Ostler, Some(WARNING.to_owned()));
    out.drafts.push(Draft::ostler(Body::Log(Log { stream, text, level })));
}

/// Calls without their results: bounded, and part of what a dialect saves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calls(Vec<Open>);

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub id: String,
    /// What becomes true when it succeeds.
    pub changes: Vec<Diff>,
}

impl Calls {
    /// Remembers a call; false for one that is open already, or one too many.
    pub(crate) fn open(&mut self, call: Open) -> bool {
        let known = self.0.iter().any(|open| open.id == call.id);
        let new = !known && self.0.len() < TOOL_CALLS_OPEN_MAX;
        if new {
            self.0.push(call);
        }
        new
    }

    pub(crate) fn close(&mut self, id: &str) -> Option<Open> {
        let index = self.0.iter().position(|open| open.id == id)?;
        Some(self.0.remove(index))
    }

    /// Closes every call whose result will not come.
    pub(crate) fn abandon(&mut self, out: &mut Out) {
        for Open { id, .. } in std::mem::take(&mut self.0) {
            let output = Value::from("the agent ended before it told a result");
            let (tool_call_id, status) = (id.clone(), ToolStatus::Error);
            let result =
                ToolResult { tool_call_id, status, denied: None, output, duration_ms: None };
            out.drafts.push(Draft::ostler(Body::ToolResult(result)));
            out.signals.push(Signal::ToolClosed { tool_call_id: id });
        }
    }
}

/// Ends a turn that the agent left open, by an error that it told before.
pub(crate) fn end_turn(n: u32, stop: StopReason, out: &mut Out) {
    let turn = event::Turn { phase: TurnPhase::Ended, n, stop_reason: Some(stop) };
    out.drafts.push(Draft::ostler(Body::Turn(turn)));
    out.signals.push(Signal::TurnEnded { stop });
}

/// An error that an agent told, and its words. Whether it was the end is known when nothing follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub code: Code,
    pub detail: String,
}

impl Trouble {
    /// It was the end.
    pub(crate) fn tell(self, out: &mut Out) {
        let (code, detail) = (Some(self.code), Some(self.detail));
        out.signals.push(Signal::Result(Ending { code, text: None, output: None, detail }));
    }

    /// How a turn ends by it.
    pub(crate) fn stop(&self) -> StopReason {
        match self.code {
            Code::ModelRefusal => StopReason::Refusal,
            _ => StopReason::Error,
        }
    }
}

/// A foreign text, not longer than this.
pub(crate) fn bounded(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// A part of what a model put into a call, if it is a text.
pub(crate) fn part<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}
