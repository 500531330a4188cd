//! Hears and says the process protocol. Every line becomes drafts and signals, or is kept as a
//! `log`: a line that is broken, unknown, too long or said twice is never dropped and never fatal.
//! A call is signalled once and answered once, whatever the agent repeats. The end is only what the
//! agent states by `complete` or `failed`; what comes after it is still heard.

use super::cost::{self, Reading};
use super::state::{CALL_ID_BYTES_MAX, Call, SESSION_ID_BYTES_MAX, State};
use super::wire::{
    CallId, Comment, Complete, Event, Failed, Hello, Line, Progress, Remaining, Said, ToolCall,
    Turn,
};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, Log, Raw, StopReason, TurnPhase, Via};
use contract::speech::{self, Close, Ending, ToolAnswer};
use contract::{Code, Draft, Signal, Timestamp, Utterance};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The level of a line that was not understood.
const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that would have been understood, had it not been said before.
const REPEATED: &str = "repeated";
/// The level of what was dropped or could not be said.
const WARNING: &str = "warning";

/// A conversation in the process protocol.
pub(super) struct JsonLines {
    state: State,
}

impl JsonLines {
    pub(super) fn new(state: State) -> Self {
        Self { state }
    }
}

impl Dialect for JsonLines {
    /// The agent asks for its task when it wants it.
    fn open(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = frame.text();
        let line = text.trim_start_matches('\u{feff}').trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let mut ear = Ear { state: &mut self.state, out, raw, line };
        match frame.stream {
            Stream::Stderr => ear.keep(None),
            Stream::Stdout => {
                ear.state.lines = ear.state.lines.saturating_add(1);
                // Replaced characters could turn one value into another, so such a line is only kept.
                let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
                match whole.then(|| Line::read(line)) {
                    Some(Ok(line)) => ear.hear(line),
                    Some(Err(_)) | None => ear.unrecognised(),
                }
            }
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        match utterance {
            Utterance::ToolResult { tool_call_id, answer } => {
                match self.state.answer(tool_call_id) {
                    Some(call) => out.frames.push(answer_frame(&call, answer)),
                    None => note(
                        out,
                        format!(
                            "the call '{tool_call_id}' is not open, so its answer was not said"
                        ),
                    ),
                }
            }
            Utterance::BudgetUpdate { remaining } => {
                let remaining = Remaining {
                    tokens: remaining.tokens,
                    usd: remaining.nanousd.map(|nanousd| nanousd.usd()),
                    turns: remaining.turns,
                    ms: remaining.ms,
                };
                out.frames.push(Said::BudgetUpdate { remaining }.frame());
            }
            Utterance::Message { text } if self.state.accepts_message => {
                out.frames.push(Said::Message { text }.frame());
            }
            Utterance::Interrupt if self.state.accepts_interrupt => {
                out.frames.push(Said::Interrupt.frame());
            }
            // It has no questions of its own, so there is nothing to decide.
            Utterance::Decide { .. } => not_supported(out, "an answer"),
            Utterance::Message { .. } => not_supported(out, "a message"),
            Utterance::Interrupt => not_supported(out, "an interrupt"),
            Utterance::Shutdown { reason } => {
                out.frames.push(Said::Shutdown { reason: reason.word() }.frame());
            }
        }
    }

    /// The protocol waits for nothing.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, out: &mut Out) {
        let State { ended, lines, unrecognised, .. } = self.state;
        if !ended && unrecognised > lines / 2 {
            note(
                out,
                "most of its output was not understood: does this program speak JSON lines?"
                    .to_owned(),
            );
        }
    }

    fn farewell(&self, reason: Code) -> Option<Vec<u8>> {
        Some(Said::Shutdown { reason: reason.word() }.frame())
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

/// One line being heard.
struct Ear<'a> {
    state: &'a mut State,
    out: &'a mut Out,
    raw: Raw,
    /// The line as it came, for a `log`.
    line: &'a str,
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        match line {
            Line::Event(event) => self.event(event),
            Line::Progress(progress) => self.progress(progress),
            Line::ToolCall(call) => self.tool_call(call),
            Line::Comment(Comment { text, mentions }) => {
                let mentions = list(mentions).into_iter().map(text_of).collect();
                self.draft(Body::Comment(event::Comment { text, mentions }));
            }
            Line::Complete(_) | Line::Failed(_) if self.state.ended => self.keep(Some(REPEATED)),
            Line::Complete(complete) => self.complete(complete),
            Line::Failed(failed) => self.failed(failed),
            Line::Hello(hello) => self.hello(hello),
        }
    }

    fn progress(&mut self, progress: Progress) {
        let Progress { summary, beliefs, attempted, cost } = progress;
        let (beliefs, attempted) = (list(beliefs), list(attempted));
        let says = summary.is_some() || !beliefs.is_empty() || !attempted.is_empty();
        if !says && cost.is_null() {
            return self.unrecognised();
        }
        if says {
            let summary = summary.unwrap_or_default();
            self.draft(Body::Progress(event::Progress { summary, beliefs, attempted }));
        }
        self.spent(cost::read(&cost));
    }

    /// A call becomes an obligation once. What cannot become one is refused at once if its id can
    /// be read, so that the agent does not wait for an answer that never comes.
    fn tool_call(&mut self, call: ToolCall) {
        let call_id = match call.id {
            Value::String(id) => Call { id, number: None },
            Value::Number(number) => Call { id: number.to_string(), number: Some(number) },
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return self.unrecognised();
            }
        };
        let id = call_id.id.clone();
        if id.is_empty() || id.len() > CALL_ID_BYTES_MAX {
            return self.unrecognised();
        }
        if self.state.knows(&id) {
            return self.keep(Some(REPEATED));
        }
        let Value::String(tool) = call.tool else {
            return self.refuse(&call_id, "a tool_call needs the name of its tool".to_owned());
        };
        if !self.state.open(call_id.clone()) {
            let open = contract::limits::TOOL_CALLS_OPEN_MAX;
            return self.refuse(&call_id, format!("{open} calls are already waiting for answers"));
        }
        let args = match call.args {
            Value::Null => Value::Object(Map::new()),
            args => args,
        };
        self.draft(Body::ToolUse(event::ToolUse {
            tool_call_id: id.clone(),
            name: tool.clone(),
            input: args.clone(),
            via: Via::Relayed,
            title: None,
            tool_kind: None,
            locations: Vec::new(),
            parent: None,
        }));
        self.signal(Signal::ToolCalled(speech::ToolCall { tool_call_id: id, tool, args }));
    }

    fn refuse(&mut self, call: &Call, message: String) {
        self.unrecognised();
        let answer = ToolAnswer::Error { code: Code::ProtocolError, message };
        self.out.frames.push(answer_frame(call, &answer));
    }

    fn complete(&mut self, complete: Complete) {
        self.state.ended = true;
        self.spent(cost::read(&complete.cost));
        let output = (!complete.output.is_null()).then_some(complete.output);
        let text = complete.text.as_str().map(str::to_owned);
        let text = text.or_else(|| output.as_ref().and_then(answer_in));
        let text = text.or_else(|| self.state.last_text.get());
        self.signal(Signal::Ended(Ending { code: None, text, output, detail: None }));
    }

    fn failed(&mut self, failed: Failed) {
        self.state.ended = true;
        self.spent(cost::read(&failed.cost));
        let (reason, details) = (text_of(failed.reason), text_of(failed.details));
        let code = match reason.trim().to_ascii_lowercase().replace([' ', '-'], "_").as_str() {
            "budget_exceeded" => Code::BudgetExceeded,
            // Without a conversation to resume there is none that could be unknown.
            "native_session_unknown" if self.state.resumes => Code::NativeSessionUnknown,
            _ => Code::AgentFailed,
        };
        let said: Vec<_> = [reason, details].into_iter().filter(|part| !part.is_empty()).collect();
        let detail = (!said.is_empty()).then(|| said.join(": "));
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: detail.clone(),
        }));
        if code == Code::NativeSessionUnknown {
            self.signal(Signal::SessionUnknown);
        }
        self.signal(Signal::Ended(Ending { code: Some(code), text: None, output: None, detail }));
    }

    fn hello(&mut self, hello: Hello) {
        let accepts = list(hello.accepts);
        let accepts = |word: &str| accepts.iter().any(|accepted| accepted == word);
        let (message, interrupt) = (accepts("message"), accepts("interrupt"));
        (self.state.accepts_message, self.state.accepts_interrupt) = (message, interrupt);
        self.state.accepts_resume = accepts("resume");
        self.signal(Signal::Accepts { message, interrupt });
        self.name_session();
    }

    /// The conversation that the agent named can be resumed, when its hello says so. Hello and name may
    /// come in either order.
    fn name_session(&mut self) {
        if let Some(id) = self.state.session.clone().filter(|_| self.state.accepts_resume) {
            self.signal(Signal::Session { id });
        }
    }

    fn session(&mut self, session: event::Session) {
        let named = session.native_session.clone();
        let named = named.filter(|id| !id.is_empty() && id.len() <= SESSION_ID_BYTES_MAX);
        self.draft(Body::Session(session));
        if named.is_some() {
            self.state.session = named;
            self.name_session();
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::AssistantText(text) => {
                self.state.last_text.hear(&text.text, text.block.as_deref(), text.delta);
                // Not through `draft`, which would end the text that is just going on.
                self.push(Body::AssistantText(text));
            }
            Event::Thinking(text) => self.draft(Body::Thinking(text)),
            Event::ToolUse(mut tool) => {
                if self.state.knows(&tool.tool_call_id) {
                    return self.keep(Some(REPEATED));
                }
                tool.via = Via::Native;
                let tool_call_id = tool.tool_call_id.clone();
                self.draft(Body::ToolUse(tool));
                self.signal(Signal::ToolOpened { tool_call_id });
            }
            Event::ToolUpdate(update) => self.draft(Body::ToolUpdate(update)),
            Event::ToolResult(result) => {
                // The answer of a relayed call is ours to state.
                if self.state.knows(&result.tool_call_id) {
                    return self.keep(Some(REPEATED));
                }
                let tool_call_id = result.tool_call_id.clone();
                let denied = result.denied == Some(true);
                self.draft(Body::ToolResult(result));
                self.signal(Signal::ToolClosed { tool_call_id, denied });
            }
            Event::Session(session) => self.session(session),
            Event::Turn(turn) => self.turn(turn),
            Event::UserText(text) => self.draft(Body::UserText(text)),
            Event::Plan(plan) => self.draft(Body::Plan(plan)),
            Event::Diff(diff) => self.draft(Body::Diff(diff)),
            Event::Usage(usage) => self.spent(cost::check(usage)),
            Event::Quota(quota) => self.draft(Body::Quota(quota)),
            Event::Log(log) => {
                let (stream, level) = (event::Stream::Stdout, log.level);
                self.draft(Body::Log(Log { stream, text: log.text, level }));
            }
        }
    }

    /// An agent that does not count its turns has them counted.
    fn turn(&mut self, turn: Turn) {
        let Turn { phase, n, stop_reason } = turn;
        let n = n.unwrap_or(match phase {
            TurnPhase::Started => self.state.turns.saturating_add(1),
            TurnPhase::Ended => self.state.turns.max(1),
        });
        self.state.turns = n;
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(match phase {
            TurnPhase::Started => Signal::TurnStarted,
            TurnPhase::Ended => {
                Signal::TurnEnded { stop: stop_reason.unwrap_or(StopReason::EndTurn) }
            }
        });
    }

    fn spent(&mut self, reading: Reading) {
        for complaint in reading.complaints {
            let raw = Some(self.raw);
            self.out.drafts.push(Draft { raw, ..Draft::ostler(warning(complaint)) });
        }
        if let Some(usage) = reading.usage {
            // How full the window is, alone, is no spending.
            let spending = usage.tokens.is_some()
                || usage.effective_nanousd.is_some()
                || !usage.extras.is_empty();
            if spending {
                self.signal(Signal::Spent(usage.clone()));
            }
            self.push(Body::Usage(usage));
        }
    }

    fn unrecognised(&mut self) {
        self.state.unrecognised = self.state.unrecognised.saturating_add(1);
        self.keep(Some(UNRECOGNISED));
    }

    /// Keeps the line as it came.
    fn keep(&mut self, level: Option<&str>) {
        let (stream, text) = (self.raw.stream, self.line.to_owned());
        self.push(Body::Log(Log { stream, text, level: level.map(str::to_owned) }));
    }

    /// A fact that the agent states, after which a text without a block begins anew.
    fn draft(&mut self, body: Body) {
        self.state.last_text.interrupt();
        self.push(body);
    }

    fn push(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: Some(self.raw), ..Draft::agent(body) });
    }

    fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }
}

fn answer_frame(call: &Call, answer: &ToolAnswer) -> Vec<u8> {
    let id = match &call.number {
        Some(number) => CallId::Number(number.clone()),
        None => CallId::Text(&call.id),
    };
    let (value, error) = match answer {
        ToolAnswer::Value(value) => {
            let failure = answer.foreign_failure();
            (Some(value), failure.map(|text| format!("{}: {text}", Code::UpstreamError)))
        }
        ToolAnswer::Error { code, message } => (None, Some(format!("{code}: {message}"))),
    };
    Said::ToolResult { id, ok: error.is_none(), value, error }.frame()
}

fn warning(text: String) -> Body {
    Body::Log(Log { stream: event::Stream::Ostler, text, level: Some(WARNING.to_owned()) })
}

fn note(out: &mut Out, text: String) {
    out.drafts.push(Draft::ostler(warning(text)));
}

fn not_supported(out: &mut Out, what: &str) {
    let code = Code::NotSupported;
    note(out, format!("{code}: the agent said no hello that accepts {what}, so it was not said"));
}

/// The answer for people inside a structured output.
fn answer_in(output: &Value) -> Option<String> {
    let text = match output {
        Value::Object(fields) => ["text", "summary", "answer", "message"]
            .iter()
            .find_map(|name| fields.get(*name).and_then(Value::as_str)),
        Value::String(text) => Some(text.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    text.map(str::to_owned)
}

/// What should be a list; a single thing is a list of one.
fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![value],
    }
}

/// What should be a text; anything else as JSON, and nothing as nothing.
fn text_of(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
