//! What the headless agents share whose errors are not always the end: turns that are numbered,
//! because what follows an error is another one, and the error itself, which becomes the end when
//! nothing follows. Here is also what is made of a line that is none of a protocol, and of last words.
//! The line being heard is `headless`; what its words mean is each dialect's own business.

use crate::headless::{Line, UNRECOGNISED, in_words, preview};
use crate::{ExitEvidence, Out, Stream};
use contract::event::{self, Body, Location, Session, StopReason, Text, TurnPhase, Via};
use contract::speech::{Close, Ending};
use contract::{Code, Draft, Signal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The turns of a run, and the error that was told last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turns {
    /// The number of the turn that is going on, or was the last.
    n: u32,
    open: bool,
    trouble: Option<Trouble>,
}

/// An error and its words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub code: Code,
    pub detail: String,
}

impl Turns {
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Begins a turn if none is going on. The error before it was not the end then. True for a new
    /// turn.
    pub(crate) fn begin(&mut self, line: &mut Line<'_>) -> bool {
        if std::mem::replace(&mut self.open, true) {
            return false;
        }
        self.n = self.n.saturating_add(1);
        self.trouble = None;
        let (phase, n, stop_reason) = (TurnPhase::Started, self.n, None);
        line.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        line.signal(Signal::TurnStarted);
        true
    }

    /// Ends the turn that is going on, if there is one.
    pub(crate) fn end(&mut self, stop: StopReason, line: &mut Line<'_>) -> bool {
        let open = std::mem::take(&mut self.open);
        if open {
            line.draft(self.ended(stop));
            line.signal(Signal::TurnEnded { stop });
        }
        open
    }

    /// An error ends the turn, and perhaps the run.
    pub(crate) fn fail(&mut self, code: Code, detail: &str, line: &mut Line<'_>) {
        line.error(code, detail);
        line.signal(Signal::ModelError { code });
        self.end(stop_of(code), line);
        self.trouble = Some(Trouble { code, detail: preview(detail) });
    }

    /// Whether an error was told after which nothing was begun.
    pub(crate) fn is_troubled(&self) -> bool {
        self.trouble.is_some()
    }

    /// The error after which nothing was begun; whoever takes it tells the end.
    pub(crate) fn take_trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    /// No more lines come: the error that was told last was the end, or else the one given here, if
    /// a turn is still going on. Of output that was cut nobody knows what followed.
    pub(crate) fn close(&mut self, otherwise: Option<Trouble>, how: Close, out: &mut Out) {
        let otherwise = otherwise.filter(|_| self.open);
        let (Close::Ended, Some(Trouble { code, detail })) =
            (how, self.trouble.take().or(otherwise))
        else {
            return;
        };
        if std::mem::take(&mut self.open) {
            let stop = stop_of(code);
            out.drafts.push(Draft::ostler(self.ended(stop)));
            out.signals.push(Signal::TurnEnded { stop });
        }
        let (text, output) = (None, None);
        let ending = Ending { code: Some(code), text, output, detail: Some(detail) };
        out.signals.push(Signal::Result(ending));
    }

    fn ended(&self, stop: StopReason) -> Body {
        let (phase, stop_reason) = (TurnPhase::Ended, Some(stop));
        Body::Turn(event::Turn { phase, n: self.n, stop_reason })
    }
}

/// How a turn ends by an error.
fn stop_of(code: Code) -> StopReason {
    match code {
        Code::ModelRefusal => StopReason::Refusal,
        _ => StopReason::Error,
    }
}

/// The agent introduced its conversation.
pub(crate) fn session(line: &mut Line<'_>, session: Session) {
    if let Some(id) = &session.native_session {
        line.signal(Signal::Session { id: id.clone() });
    }
    line.draft(Body::Session(session));
}

/// A text that came whole.
pub(crate) fn whole(text: String, block: Option<String>) -> Text {
    Text { text, block, delta: false }
}

/// The agent's structured end.
pub(crate) fn result(
    line: &mut Line<'_>,
    code: Option<Code>,
    text: Option<String>,
    detail: Option<String>,
) {
    let text = text.filter(|_| code.is_none());
    line.signal(Signal::Result(Ending { code, text, output: None, detail }));
}

/// A line that is none of the protocol is kept. A conversation that was to be taken up and is not
/// known is told in one, by these words.
pub(crate) fn stray(line: &mut Line<'_>, stream: Stream, unknown: &str, resumes: bool) {
    // What a model said may be in a line of the protocol that was cut.
    let is_words = !line.text.trim_start().starts_with('{');
    if resumes && is_words && line.text.to_lowercase().contains(unknown) {
        line.signal(Signal::SessionUnknown);
    }
    match stream {
        Stream::Stdout => line.keep(Some(UNRECOGNISED)),
        Stream::Stderr => line.keep(None),
    }
}

/// What the last words mean when no line told the end, by these words for an unknown conversation
/// and a table of the agent's own.
pub(crate) fn at_exit(
    evidence: &ExitEvidence<'_>,
    unknown: &str,
    table: &[(&str, Code)],
) -> Option<Code> {
    evidence.exit_code.filter(|exit| *exit != 0)?;
    if evidence.stderr_tail.to_lowercase().contains(unknown) {
        return Some(Code::NativeSessionUnknown);
    }
    in_words(evidence.stderr_tail, table)
}

/// A call of a tool of the agent's own. The path is the file that it is about.
pub(crate) fn tool_use(
    id: &str,
    name: &str,
    kind: Option<&str>,
    input: &Value,
    title: Option<&str>,
    path: Option<&str>,
) -> event::ToolUse {
    let location = |path: &str| Location { path: path.to_owned(), line: None };
    event::ToolUse {
        tool_call_id: id.to_owned(),
        tool_kind: kind.map(str::to_owned),
        name: name.to_owned(),
        input: input.clone(),
        via: Via::Native,
        title: title.map(str::to_owned),
        locations: path.map(location).into_iter().collect(),
        parent: None,
    }
}

/// The plan in the `todos` of a call.
pub(crate) fn todos(input: &Value) -> Option<event::Plan> {
    let entry = |todo: &Value| {
        Some(event::PlanEntry {
            text: part(todo, "content")?.to_owned(),
            status: part(todo, "status").unwrap_or("pending").to_owned(),
            priority: part(todo, "priority").map(str::to_owned),
        })
    };
    let todos = input.get("todos")?.as_array()?;
    Some(event::Plan { entries: todos.iter().filter_map(entry).collect() })
}

/// A part of what a model put into a call, if it is a text.
pub(crate) fn part<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}
