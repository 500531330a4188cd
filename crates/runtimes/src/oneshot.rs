//! What agents have in common that are given one prompt and then only listened to: how what was
//! heard becomes drafts and signals, which calls are open, the answer as far as it is kept, and how
//! a prompt is handed over on a command line. Each dialect knows its own lines; nothing here does.
//! Everything that is remembered is bounded, because it is stored with every batch.

use crate::{Frame, Out, Spec, Stream};
use contract::event::{
    self, Body, Diff, Log, Raw, Session, StopReason, Text, ToolStatus, TurnPhase, Usage,
};
use contract::limits::{PREVIEW_BYTES, PROMPT_ARGV_BYTES_MAX, TEXT_BYTES_MAX, TOOL_CALLS_OPEN_MAX};
use contract::speech::Ending;
use contract::{Code, Draft, Fault, Signal, Utterance};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The level of a line that was not understood.
pub(crate) const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
pub(crate) const REPEATED: &str = "repeated";
const WARNING: &str = "warning";

/// A call's id longer than this cannot be kept and is not taken.
const CALL_ID_BYTES_MAX: usize = 256;

/// One line being heard, or the end of them all, and where what comes of it goes.
pub(crate) struct Ear<'a> {
    out: &'a mut Out,
    /// Where the line stands in the trace; nothing when it is the end that is heard.
    raw: Option<Raw>,
    /// The line as it came.
    pub line: &'a str,
}

impl<'a> Ear<'a> {
    pub fn of(frame: &Frame<'_>, line: &'a str, out: &'a mut Out) -> Self {
        Self { out, raw: Some(Raw { stream: frame.stream.into(), line: frame.line }), line }
    }

    /// For what is only known when no more lines will come.
    pub fn at_close(out: &'a mut Out) -> Self {
        Self { out, raw: None, line: "" }
    }

    pub fn draft(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: self.raw, ..Draft::agent(body) });
    }

    pub fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }

    /// Keeps the line as it came.
    pub fn keep(&mut self, level: Option<&str>) {
        let stream = self.raw.map_or(event::Stream::Ostler, |raw| raw.stream);
        let (text, level) = (self.line.to_owned(), level.map(str::to_owned));
        self.draft(Body::Log(Log { stream, text, level }));
    }

    /// Keeps lines that were held back until now.
    pub fn keep_all(&mut self, stream: Stream, lines: &[String]) {
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            let (stream, text) = (stream.into(), line.clone());
            self.draft(Body::Log(Log { stream, text, level: None }));
        }
    }

    /// The agent named its conversation and begins its one turn.
    pub fn begin(&mut self, session: Session) {
        if let Some(id) = &session.native_session {
            self.signal(Signal::Session { id: id.clone() });
        }
        self.draft(Body::Session(session));
        self.start_turn();
    }

    pub fn start_turn(&mut self) {
        let (phase, n, stop_reason) = (TurnPhase::Started, 1, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    pub fn end_turn(&mut self, stop: StopReason) {
        let (phase, n, stop_reason) = (TurnPhase::Ended, 1, Some(stop));
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnEnded { stop });
    }

    pub fn say(&mut self, text: String, block: String, delta: bool) {
        self.draft(Body::AssistantText(Text { text, block: Some(block), delta }));
    }

    pub fn think(&mut self, text: String, block: String, delta: bool) {
        self.draft(Body::Thinking(Text { text, block: Some(block), delta }));
    }

    pub fn open(&mut self, call: event::ToolUse) {
        let tool_call_id = call.tool_call_id.clone();
        self.draft(Body::ToolUse(call));
        self.signal(Signal::ToolOpened { tool_call_id });
    }

    /// A call has its result; the change that it was to make is told only if it was made.
    pub fn close(&mut self, call: Open, status: ToolStatus, denied: bool, output: Value) {
        let (tool_call_id, denied) = (call.id.clone(), denied.then_some(true));
        let result = event::ToolResult { tool_call_id, status, denied, output, duration_ms: None };
        self.draft(Body::ToolResult(result));
        if let (ToolStatus::Ok, Some(change)) = (status, call.change) {
            self.draft(Body::Diff(change));
        }
        self.signal(Signal::ToolClosed { tool_call_id: call.id });
    }

    /// Closes the calls whose results will not come.
    pub fn abandon(&mut self, calls: &mut Calls) {
        calls.abandon(self.out);
    }

    pub fn spent(&mut self, usage: Usage) {
        self.signal(Signal::Spent(usage.clone()));
        self.draft(Body::Usage(usage));
    }

    pub fn error(&mut self, code: Code, detail: &str) {
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: (!detail.is_empty()).then(|| bounded(detail)),
        }));
    }

    pub fn result(&mut self, code: Option<Code>, text: Option<String>, detail: Option<String>) {
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }
}

/// What cannot be said to an agent that takes nothing after its prompt is told instead.
pub(crate) fn unsaid(utterance: &Utterance, out: &mut Out) {
    let what = match utterance {
        // Nobody is told of a budget, and SIGTERM is all the goodbye it knows.
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

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub id: String,
    /// What becomes true when it succeeds.
    pub change: Option<Diff>,
}

/// The calls that are open.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Calls(Vec<Open>);

impl Calls {
    /// Remembers a call; false for one that is open already, one too many, or one without an id
    /// that can be kept.
    pub fn open(&mut self, call: Open) -> bool {
        let new = !call.id.is_empty()
            && call.id.len() <= CALL_ID_BYTES_MAX
            && self.0.iter().all(|open| open.id != call.id)
            && self.0.len() < TOOL_CALLS_OPEN_MAX;
        if new {
            self.0.push(call);
        }
        new
    }

    pub fn close(&mut self, id: &str) -> Option<Open> {
        let index = self.0.iter().position(|call| call.id == id)?;
        Some(self.0.remove(index))
    }

    /// Closes the calls whose results will not come.
    pub fn abandon(&mut self, out: &mut Out) {
        for Open { id, .. } in self.0.drain(..) {
            let output = Value::from("the agent ended before it told a result");
            let (tool_call_id, status) = (id.clone(), ToolStatus::Error);
            let result =
                event::ToolResult { tool_call_id, status, denied: None, output, duration_ms: None };
            out.drafts.push(Draft::ostler(Body::ToolResult(result)));
            out.signals.push(Signal::ToolClosed { tool_call_id: id });
        }
    }
}

/// The last text of the agent, as much of it as is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Answer(String);

impl Answer {
    pub fn push(&mut self, piece: &str) {
        let room = TEXT_BYTES_MAX.saturating_sub(self.0.len());
        self.0.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    pub fn set(&mut self, text: &str) {
        self.0.clear();
        self.push(text);
    }

    /// The answer, if there is one to speak of.
    pub fn get(&self) -> Option<String> {
        let text = self.0.trim_end();
        (!text.trim_start().is_empty()).then(|| text.to_owned())
    }
}

/// A foreign text as long as a detail may be.
pub(crate) fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(PREVIEW_BYTES)].to_owned()
}

/// The program that the configuration names, else the agent's own name.
pub(crate) fn program(spec: &Spec, name: &str) -> String {
    let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
    binary.unwrap_or(name).to_owned()
}

/// A prompt for an agent that takes it on its command line alone, where there is little room.
pub(crate) fn prompt_argument(label: &str, prompt: String) -> Result<String, Fault> {
    let most = PROMPT_ARGV_BYTES_MAX;
    if prompt.len() <= most {
        return Ok(prompt);
    }
    let message = format!(
        "{label} takes its prompt on the command line, where {most} bytes have room, and this one \
         has {}",
        prompt.len()
    );
    let hint = "put the long part into a file of the workspace and name it in the prompt";
    Err(Fault::new(Code::PromptTooLarge, message).with_hint(hint))
}

/// The keys that every agent of this kind takes.
pub(crate) fn config_schema() -> BTreeMap<String, Value> {
    [
        ("binary", json!({ "type": "string", "description": "a name on PATH, or a path" })),
        ("extraArgs", json!({ "type": "array", "items": { "type": "string" } })),
    ]
    .map(|(key, schema)| (key.to_owned(), schema))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_has_no_room_on_a_command_line_is_refused_before_the_start() {
        assert!(prompt_argument("x", "a".repeat(PROMPT_ARGV_BYTES_MAX)).is_ok());
        let fault = prompt_argument("x", "a".repeat(PROMPT_ARGV_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(fault.code, Code::PromptTooLarge);
    }

    #[test]
    fn what_is_remembered_of_calls_and_answers_is_bounded() {
        let mut calls = Calls::default();
        let call = |id: String| Open { id, change: None };
        let taken = (0..=TOOL_CALLS_OPEN_MAX).filter(|n| calls.open(call(n.to_string())));
        assert_eq!(taken.count(), TOOL_CALLS_OPEN_MAX);
        assert!(calls.close("0").is_some() && calls.close("0").is_none());
        assert!(!calls.open(call(String::new())) && !calls.open(call("1".to_owned())));
        assert!(!calls.open(call("x".repeat(CALL_ID_BYTES_MAX + 1))));
        let mut answer = Answer::default();
        assert_eq!(answer.get(), None);
        answer.push(&"é".repeat(TEXT_BYTES_MAX));
        answer.push("more");
        assert!(answer.get().unwrap().len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn what_cannot_be_said_is_told() {
        let mut out = Out::default();
        unsaid(&Utterance::Message { text: "more".to_owned() }, &mut out);
        unsaid(&Utterance::Interrupt, &mut out);
        unsaid(&Utterance::Shutdown { reason: Code::Cancelled }, &mut out);
        assert_eq!((out.drafts.len(), out.frames.len()), (2, 0));
    }
}
