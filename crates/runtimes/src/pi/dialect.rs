//! Hears `--mode json`. The model's messages come in pieces and are repeated whole three times over,
//! so only the pieces, the end of each message and the tools' own lines are heard. The end is
//! `agent_settled`, and what it means is how the model's last message ended: this agent exits 0
//! after every error. It takes no word after its prompt.

use super::state::{CALL_ID_BYTES_MAX, Last, Open, State};
use super::wire::{
    self, Line, Message, Piece, RetryStart, Session, Spent, ToolEnd, ToolStart, ToolUpdate,
};
use super::{tools, trouble};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{
    self, Body, Log, Raw, StopReason, Text, ToolStatus, TurnPhase, UpdateStatus, Usage,
};
use contract::limits::{PREVIEW_BYTES, TEXT_BYTES_MAX};
use contract::money::{Basis, CostSource};
use contract::speech::{Close, Ending, Limited};
use contract::{Code, Draft, Fault, NanoUsd, Signal, Timestamp, Tokens, Utterance};
use serde_json::Value;
use std::borrow::Cow;

/// The level of a line that was not understood.
const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
const REPEATED: &str = "repeated";
const WARNING: &str = "warning";

/// A run of the agent: one prompt, one turn.
pub(super) struct Pi {
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    state: State,
}

impl Pi {
    pub(super) fn new(prompt: String, resumes: Option<String>) -> Self {
        Self { prompt: Some(prompt), state: State::new(resumes) }
    }

    pub(super) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        Ok(Self { prompt: None, state: State::load(saved)? })
    }
}

impl Dialect for Pi {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.prompt.take().map(String::into_bytes)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = String::from_utf8_lossy(frame.bytes);
        let line = text.trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let mut ear = Ear { state: &mut self.state, out, raw, line };
        // Replaced characters could turn one value into another, so such a line is only kept.
        let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
        match frame.stream {
            Stream::Stderr => ear.stray(None),
            Stream::Stdout => match whole.then(|| Line::read(line)) {
                Some(Ok(line)) => ear.hear(line),
                Some(Err(_)) | None => ear.stray(Some(UNRECOGNISED)),
            },
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        let what = match utterance {
            // Nobody is told of a budget, and SIGTERM is all the goodbye it knows.
            Utterance::BudgetUpdate { .. } | Utterance::Shutdown { .. } => return,
            Utterance::ToolResult { .. } => "a tool's answer",
            Utterance::Decide { .. } => "a decision",
            Utterance::Message { .. } => "a message",
            Utterance::Interrupt => "an interrupt",
        };
        let code = Code::NotSupported;
        let text =
            format!("{code}: the agent takes nothing after its prompt, so {what} was not said");
        let (stream, level) = (event::Stream::Ostler, Some(WARNING.to_owned()));
        out.drafts.push(Draft::ostler(Body::Log(Log { stream, text, level })));
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, out: &mut Out) {
        abandon(&mut self.state, out);
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
    out: &'a mut Out,
    raw: Raw,
    /// The line as it came.
    line: &'a str,
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        if self.state.settled {
            return self.keep(Some(REPEATED));
        }
        match line {
            Line::Session(session) => self.session(session),
            Line::AgentStart => self.start(),
            Line::MessageUpdate(update) => {
                if let Some(piece) = update.assistant_message_event {
                    self.piece(piece);
                }
            }
            Line::MessageEnd(end) => match end.message {
                Some(message) => self.message(message),
                None => self.keep(Some(UNRECOGNISED)),
            },
            Line::ToolExecutionStart(call) => self.tool_start(call),
            Line::ToolExecutionUpdate(update) => self.tool_update(update),
            Line::ToolExecutionEnd(end) => self.tool_end(end),
            Line::AutoRetryStart(retry) => self.retry(retry),
            Line::AutoRetryEnd(end) => {
                if end.success {
                    self.lift();
                }
            }
            Line::AgentSettled => self.settle(),
            Line::TurnStart | Line::TurnEnd | Line::MessageStart | Line::AgentEnd => {}
        }
    }

    fn session(&mut self, session: Session) {
        let resumed = session.id.is_some() && session.id == self.state.resumes;
        if let Some(id) = &session.id {
            self.signal(Signal::Session { id: id.clone() });
        }
        self.draft(Body::Session(event::Session {
            model: None,
            tools: None,
            cwd: session.cwd,
            native_session: session.id,
            resumed,
        }));
    }

    /// A retry starts the agent again; for us it is the same turn.
    fn start(&mut self) {
        if std::mem::replace(&mut self.state.turn_open, true) {
            return;
        }
        let (phase, n, stop_reason) = (TurnPhase::Started, 1, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    fn piece(&mut self, piece: Piece) {
        let Some(text) = piece.delta else {
            return;
        };
        let block = Some(format!("message-{}-{}", self.state.message, piece.content_index));
        let text = Text { text, block, delta: true };
        match piece.kind.as_deref() {
            Some("text_delta") => {
                self.lift();
                self.state.streamed = true;
                self.draft(Body::AssistantText(text));
            }
            Some("thinking_delta") => {
                self.lift();
                self.draft(Body::Thinking(text));
            }
            // A call is told whole when it begins to run.
            Some("toolcall_delta") => {}
            Some(_) | None => self.keep(Some(UNRECOGNISED)),
        }
    }

    fn message(&mut self, message: Message) {
        if message.role.as_deref() != Some("assistant") {
            return;
        }
        let text = wire::text_in(&message.content);
        if let (false, Some(text)) = (self.state.streamed, text.clone()) {
            let block = Some(format!("message-{}", self.state.message));
            self.draft(Body::AssistantText(Text { text, block, delta: false }));
        }
        self.state.streamed = false;
        self.state.message = self.state.message.saturating_add(1);
        self.spent(&message);
        let failed = message.stop_reason.as_deref() == Some("error");
        let error = message.error_message.as_deref().map(|error| bounded(error, PREVIEW_BYTES));
        if failed {
            let error = error.clone().unwrap_or_default();
            self.error(trouble::of(&error), &error);
        }
        self.state.last = Some(Last {
            stop: message.stop_reason,
            raw_stop: message.raw_stop_reason,
            error,
            text: text.map(|text| bounded(&text, TEXT_BYTES_MAX)),
        });
    }

    /// Each message tells what it cost alone, in tokens and, by the agent's own prices, in dollars.
    fn spent(&mut self, message: &Message) {
        if message.usage.is_null() {
            return;
        }
        let Ok(spent) = serde_json::from_value::<Spent>(message.usage.clone()) else {
            return self.keep(Some(UNRECOGNISED));
        };
        let tokens = Tokens {
            input_uncached: spent.input,
            cache_read: spent.cache_read,
            cache_write: spent.cache_write,
            output: spent.output,
            reasoning: spent.reasoning.filter(|reasoning| *reasoning > 0),
        };
        if tokens.total() == 0 {
            return;
        }
        // No dollars for tokens are a model without a price, not one that is free.
        let usd = spent.cost.and_then(|cost| cost.total).filter(|usd| *usd > 0.0);
        let usd = usd.and_then(NanoUsd::from_usd);
        let usage = Usage {
            model: message.model.clone(),
            provider: message.provider.clone(),
            tokens: Some(tokens),
            basis: Basis::Increment,
            reported_nanousd: usd,
            effective_nanousd: usd,
            cost_source: if usd.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
            ..Usage::default()
        };
        self.signal(Signal::Spent(usage.clone()));
        self.draft(Body::Usage(usage));
    }

    fn tool_start(&mut self, call: ToolStart) {
        let is_id = |id: &String| !id.is_empty() && id.len() <= CALL_ID_BYTES_MAX;
        let Some(id) = call.tool_call_id.clone().filter(is_id) else {
            return self.keep(Some(UNRECOGNISED));
        };
        let changes = tools::changes(&call, &id);
        if !self.state.open(Open { id: id.clone(), changes }) {
            return self.keep(Some(REPEATED));
        }
        self.state.worked = true;
        self.draft(Body::ToolUse(tools::event(&call, &id)));
        self.signal(Signal::ToolOpened { tool_call_id: id });
    }

    fn tool_update(&mut self, update: ToolUpdate) {
        let content = wire::text_in(&update.partial_result["content"]).map(Value::from);
        let open = update.tool_call_id.filter(|id| self.state.is_open(id));
        if let (Some(tool_call_id), Some(_)) = (open, &content) {
            let status = Some(UpdateStatus::InProgress);
            let (title, locations) = (None, Vec::new());
            let update = event::ToolUpdate { tool_call_id, status, title, content, locations };
            self.draft(Body::ToolUpdate(update));
        }
    }

    fn tool_end(&mut self, end: ToolEnd) {
        let open = end.tool_call_id.as_deref().and_then(|id| self.state.close(id));
        let Some(Open { id, changes }) = open else {
            return self.keep(Some(REPEATED));
        };
        let status = if end.is_error == Some(false) { ToolStatus::Ok } else { ToolStatus::Error };
        let output = wire::text_in(&end.result["content"]).map_or(end.result, Value::from);
        let (tool_call_id, denied, duration_ms) = (id.clone(), None, None);
        let result = event::ToolResult { tool_call_id, status, denied, output, duration_ms };
        self.draft(Body::ToolResult(result));
        if status == ToolStatus::Ok {
            changes.into_iter().for_each(|change| self.draft(Body::Diff(change)));
        }
        self.signal(Signal::ToolClosed { tool_call_id: id });
    }

    fn retry(&mut self, retry: RetryStart) {
        let code = trouble::of(retry.error_message.as_deref().unwrap_or_default());
        self.state.limited = Some(code);
        let wait_ms = retry.delay_ms;
        self.signal(Signal::Limited(Limited { code, terminal: false, wait_ms, resets_at: None }));
    }

    /// The model answers, so whatever held it back is over.
    fn lift(&mut self) {
        if self.state.limited.take().is_some() {
            self.signal(Signal::LimitLifted);
        }
    }

    /// The end. Only a last message that stopped by itself is a success, and only if something was
    /// said or done at all.
    fn settle(&mut self) {
        self.lift();
        abandon(self.state, self.out);
        (self.state.settled, self.state.turn_open) = (true, false);
        let last = self.state.last.take();
        let Last { stop, raw_stop, error, text } =
            last.unwrap_or(Last { stop: None, raw_stop: None, error: None, text: None });
        let (stop, code) = match stop.as_deref() {
            Some("stop") if text.is_some() || self.state.worked => (StopReason::EndTurn, None),
            Some("length") => (StopReason::MaxTokens, Some(Code::EndedWithoutResult)),
            Some("aborted") => (StopReason::Cancelled, Some(Code::Cancelled)),
            Some("error") => {
                let refused = raw_stop.as_deref() == Some("content_filter");
                let said = error.as_deref().unwrap_or_default();
                let code = if refused { Code::ModelRefusal } else { trouble::of(said) };
                let refused = code == Code::ModelRefusal;
                (if refused { StopReason::Refusal } else { StopReason::Error }, Some(code))
            }
            Some(_) | None => (StopReason::Error, Some(Code::EndedWithoutResult)),
        };
        let (phase, n, stop_reason) = (TurnPhase::Ended, 1, Some(stop));
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnEnded { stop });
        let text = text.filter(|_| code.is_none());
        self.signal(Signal::Result(Ending { code, text, output: None, detail: error }));
    }

    fn error(&mut self, code: Code, detail: &str) {
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: (!detail.is_empty()).then(|| detail.to_owned()),
        }));
    }

    /// A line that is none of the protocol; a conversation that is not known is told in one.
    fn stray(&mut self, level: Option<&str>) {
        // What a model said may be in a line of the protocol that was cut.
        let is_words = !self.line.trim_start().starts_with('{');
        if is_words && trouble::session_unknown(self.line) && self.state.resumes.is_some() {
            self.signal(Signal::SessionUnknown);
        }
        self.keep(level);
    }

    /// Keeps the line as it came.
    fn keep(&mut self, level: Option<&str>) {
        let (stream, text) = (self.raw.stream, self.line.to_owned());
        self.draft(Body::Log(Log { stream, text, level: level.map(str::to_owned) }));
    }

    fn draft(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: Some(self.raw), ..Draft::agent(body) });
    }

    fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }
}

/// Closes the calls whose results will not come.
fn abandon(state: &mut State, out: &mut Out) {
    for Open { id, .. } in state.close_all() {
        let output = Value::from("the agent ended before it told a result");
        let (tool_call_id, status) = (id.clone(), ToolStatus::Error);
        let result =
            event::ToolResult { tool_call_id, status, denied: None, output, duration_ms: None };
        out.drafts.push(Draft::ostler(Body::ToolResult(result)));
        out.signals.push(Signal::ToolClosed { tool_call_id: id });
    }
}

/// A foreign text, not longer than this.
fn bounded(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
