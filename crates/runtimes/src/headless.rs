//! What the dialects of headless agents have in common: one prompt goes in, lines come out, and
//! nothing can be said in between. Here are the line being heard with its drafts and signals, the
//! calls that are still open, and the answer to whoever wants to say more. What the lines mean is
//! each dialect's own business.

use crate::{Frame, Out};
use contract::event::{
    self, Body, Diff, Log, Raw, StopReason, ToolStatus, ToolUse, TurnPhase, Usage,
};
use contract::limits;
use contract::speech::Limited;
use contract::{Code, Draft, Signal, Utterance};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The level of a line that was not understood.
pub(crate) const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
pub(crate) const REPEATED: &str = "repeated";
/// The level of what the agent tells in passing.
pub(crate) const INFO: &str = "info";
/// The level of what somebody should look at.
pub(crate) const WARNING: &str = "warning";
/// A call's id longer than this cannot be kept and is not taken.
const CALL_ID_BYTES_MAX: usize = 256;

/// The text of a frame, and whether it is whole: replaced characters could turn one value into
/// another, so a line that needed them is only kept. `None` for a line with nothing on it.
pub(crate) fn text<'a>(frame: &Frame<'a>) -> Option<(Cow<'a, str>, bool)> {
    let text = String::from_utf8_lossy(frame.bytes);
    let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
    (!text.trim_ascii().is_empty()).then_some((text, whole))
}

/// One line being heard.
pub(crate) struct Line<'a> {
    pub out: &'a mut Out,
    pub raw: Raw,
    /// The line as it came.
    pub text: &'a str,
}

impl<'a> Line<'a> {
    pub(crate) fn new(frame: &Frame<'_>, text: &'a str, out: &'a mut Out) -> Self {
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        Self { out, raw, text: text.trim_end_matches('\r') }
    }

    pub(crate) fn draft(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: Some(self.raw), ..Draft::agent(body) });
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }

    /// Keeps the line as it came.
    pub(crate) fn keep(&mut self, level: Option<&str>) {
        let text = self.text.to_owned();
        self.log(text, level);
    }

    pub(crate) fn log(&mut self, text: String, level: Option<&str>) {
        let (stream, level) = (self.raw.stream, level.map(str::to_owned));
        self.draft(Body::Log(Log { stream, text, level }));
    }

    /// An error on the way, which need not be the end.
    pub(crate) fn error(&mut self, code: Code, detail: &str) {
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
    pub(crate) fn limited(&mut self, code: Code) {
        let (terminal, wait_ms, resets_at) = (false, None, None);
        self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
    }

    /// One process is one turn, so its number is always the first.
    pub(crate) fn turn_started(&mut self) {
        let (phase, n, stop_reason) = (TurnPhase::Started, 1, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    pub(crate) fn turn_ended(&mut self, stop: StopReason) {
        let (phase, n, stop_reason) = (TurnPhase::Ended, 1, Some(stop));
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnEnded { stop });
    }

    pub(crate) fn spent(&mut self, usage: Usage) {
        self.signal(Signal::Spent(usage.clone()));
        self.draft(Body::Usage(usage));
    }

    /// A call begins, with what becomes true when it succeeds.
    pub(crate) fn tool_opened(&mut self, calls: &mut Calls, call: ToolUse, changes: Vec<Diff>) {
        let id = call.tool_call_id.clone();
        if !calls.open(Open { id: id.clone(), changes }) {
            return self.keep(Some(REPEATED));
        }
        self.draft(Body::ToolUse(call));
        self.signal(Signal::ToolOpened { tool_call_id: id });
    }

    /// A call ended. Its changes are told if it went well.
    pub(crate) fn tool_closed(&mut self, calls: &mut Calls, id: Option<&str>, came: Came) {
        let Some(Open { id, changes }) = id.and_then(|id| calls.close(id)) else {
            return self.keep(Some(REPEATED));
        };
        let Came { status, denied, output, duration_ms } = came;
        let denied = denied.then_some(true);
        let tool_call_id = id.clone();
        let result = event::ToolResult { tool_call_id, status, denied, output, duration_ms };
        self.draft(Body::ToolResult(result));
        if status == ToolStatus::Ok {
            changes.into_iter().for_each(|change| self.draft(Body::Diff(change)));
        }
        self.signal(Signal::ToolClosed { tool_call_id: id });
    }
}

/// What came of a call.
pub(crate) struct Came {
    pub status: ToolStatus,
    pub denied: bool,
    pub output: Value,
    pub duration_ms: Option<u64>,
}

/// The calls without their results; bounded, because they are stored with every batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Calls(Vec<Open>);

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Open {
    id: String,
    /// What becomes true when it succeeds.
    changes: Vec<Diff>,
}

impl Calls {
    /// Remembers a call; false for one that is open already, one too many, or one without a name
    /// that could be kept.
    fn open(&mut self, call: Open) -> bool {
        let named = !call.id.is_empty() && call.id.len() <= CALL_ID_BYTES_MAX;
        let new = named && !self.is_open(&call.id) && self.0.len() < limits::TOOL_CALLS_OPEN_MAX;
        if new {
            self.0.push(call);
        }
        new
    }

    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.0.iter().any(|call| call.id == id)
    }

    fn close(&mut self, id: &str) -> Option<Open> {
        let index = self.0.iter().position(|call| call.id == id)?;
        Some(self.0.remove(index))
    }

    /// Closes the calls whose results will not come.
    pub(crate) fn abandon(&mut self, out: &mut Out) {
        for Open { id, .. } in std::mem::take(&mut self.0) {
            let output = Value::from("the agent ended before it told a result");
            let (tool_call_id, status) = (id.clone(), ToolStatus::Error);
            let result =
                event::ToolResult { tool_call_id, status, denied: None, output, duration_ms: None };
            out.drafts.push(Draft::ostler(Body::ToolResult(result)));
            out.signals.push(Signal::ToolClosed { tool_call_id: id });
        }
    }
}

/// Whether changes together are short enough to be remembered until their call ends; what is not
/// is in the call's own event.
pub(crate) fn can_be_kept(changes: &[Diff]) -> bool {
    let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let size = |diff: &Diff| {
        diff.path.len() + bytes(&diff.old_text) + bytes(&diff.new_text) + bytes(&diff.patch)
    };
    changes.iter().map(size).sum::<usize>() <= limits::TEXT_BYTES_MAX
}

/// The answer to whoever wants to tell such an agent something.
pub(crate) fn say(utterance: &Utterance, out: &mut Out) {
    let what = match utterance {
        // Nobody is told of a budget, and a signal is all the goodbye it knows.
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

/// A foreign text as long as a detail may be.
pub(crate) fn preview(text: &str) -> String {
    bounded(text, limits::PREVIEW_BYTES)
}

/// A foreign text, not longer than this.
pub(crate) fn bounded(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// What words in a text mean, by a table whose more particular rows come first.
pub(crate) fn in_words(text: &str, table: &[(&str, Code)]) -> Option<Code> {
    let text = text.to_lowercase();
    table.iter().find(|(words, _)| text.contains(words)).map(|(_, code)| *code)
}
