//! Hears `-o stream-json`. Standard output has the facts: text in pieces, tools in pairs, and one
//! result with the tokens of every model that was asked. Retries are told on stderr only. The end
//! is a `result` of status success and nothing else: this agent exits 0 after SIGTERM, after an
//! empty answer and after a broken stream. It takes no word after its prompt.

use super::state::{CALL_ID_BYTES_MAX, Open, State};
use super::wire::{Complaint, Count, Finish, Init, Line, Message, Stats, ToolResult, ToolUse};
use super::{tools, trouble};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{
    self, Body, Log, Quota, QuotaWindow, Raw, Session, StopReason, Text, ToolStatus, TurnPhase,
    Usage,
};
use contract::money::Basis;
use contract::speech::{Close, Ending, Limited};
use contract::{Code, Draft, Fault, Signal, Timestamp, Tokens, Utterance};
use serde_json::Value;
use std::borrow::Cow;

/// The level of a line that was not understood.
const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
const REPEATED: &str = "repeated";
const WARNING: &str = "warning";

/// Who makes the models.
const PROVIDER: &str = "google";
/// The one window that is told of, and only when nothing is left of it.
const QUOTA_WINDOW: &str = "gemini_model_quota";

/// A run of the agent: one prompt, one turn.
pub(super) struct Gemini {
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    state: State,
}

impl Gemini {
    pub(super) fn new(prompt: String, resumes: Option<String>) -> Self {
        Self { prompt: Some(prompt), state: State::new(resumes) }
    }

    pub(super) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        Ok(Self { prompt: None, state: State::load(saved)? })
    }
}

impl Dialect for Gemini {
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
        match frame.stream {
            Stream::Stderr => ear.aside(),
            Stream::Stdout => {
                // Replaced characters could turn one value into another, so such a line is only kept.
                let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
                match whole.then(|| Line::read(line)) {
                    Some(Ok(line)) => ear.hear(line),
                    Some(Err(_)) | None => ear.stray(),
                }
            }
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
        if self.state.ended {
            return self.keep(Some(REPEATED));
        }
        match line {
            Line::Init(init) => self.init(init),
            Line::Message(message) => self.message(message),
            Line::ToolUse(call) => self.tool_use(call),
            Line::ToolResult(result) => self.tool_result(result),
            Line::Error(complaint) => self.complaint(complaint),
            Line::Result(finish) => self.finish(*finish),
        }
    }

    fn init(&mut self, init: Init) {
        if self.state.turn_open {
            return self.keep(Some(REPEATED));
        }
        self.state.turn_open = true;
        let resumed = init.session_id.is_some() && init.session_id == self.state.resumes;
        if let Some(id) = &init.session_id {
            self.signal(Signal::Session { id: id.clone() });
        }
        self.draft(Body::Session(Session {
            model: init.model,
            tools: None,
            cwd: None,
            native_session: init.session_id,
            resumed,
        }));
        let (phase, n, stop_reason) = (TurnPhase::Started, 1, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    fn message(&mut self, message: Message) {
        let Message { role, content: Some(content), delta } = message else {
            return self.keep(Some(UNRECOGNISED));
        };
        match role.as_deref() {
            Some("assistant") => {
                self.lift();
                let block = Some(self.state.hear_text(&content, delta));
                self.draft(Body::AssistantText(Text { text: content, block, delta }));
            }
            // The prompt said back: it is an event already, and the trace has the line.
            Some("user") => {}
            Some(_) | None => self.keep(Some(UNRECOGNISED)),
        }
    }

    fn tool_use(&mut self, call: ToolUse) {
        let Some(id) = call.tool_id.clone().filter(|id| is_id(id)) else {
            return self.keep(Some(UNRECOGNISED));
        };
        self.lift();
        self.state.end_text();
        let change = tools::change(&call, &id);
        if !self.state.open(Open { id: id.clone(), change }) {
            return self.keep(Some(REPEATED));
        }
        self.draft(Body::ToolUse(tools::event(&call, &id)));
        if let Some(plan) = tools::plan(&call) {
            self.draft(Body::Plan(plan));
        }
        self.signal(Signal::ToolOpened { tool_call_id: id });
    }

    fn tool_result(&mut self, result: ToolResult) {
        let open = result.tool_id.as_deref().and_then(|id| self.state.close(id));
        let Some(Open { id, change }) = open else {
            return self.keep(Some(REPEATED));
        };
        self.state.end_text();
        let status = match result.status.as_deref() {
            Some("success") => ToolStatus::Ok,
            Some(_) | None => ToolStatus::Error,
        };
        let denied = refused(&result.error).then_some(true);
        let output = if result.output.is_null() { result.error } else { result.output };
        let tool_call_id = id.clone();
        let result = event::ToolResult { tool_call_id, status, denied, output, duration_ms: None };
        self.draft(Body::ToolResult(result));
        if let (ToolStatus::Ok, Some(change)) = (status, change) {
            self.draft(Body::Diff(change));
        }
        self.signal(Signal::ToolClosed { tool_call_id: id });
    }

    fn complaint(&mut self, complaint: Complaint) {
        let message = complaint.message.unwrap_or_default();
        if complaint.severity.as_deref() != Some("error") {
            return self.keep(Some(WARNING));
        }
        self.state.end_text();
        let code = trouble::of(&message).unwrap_or(Code::UpstreamError);
        self.error(code, &message);
        self.signal(Signal::ModelError { code });
        self.state.complaint = Some(bounded(&message));
    }

    /// Only a status of success is one.
    fn finish(&mut self, finish: Finish) {
        self.lift();
        abandon(self.state, self.out);
        (self.state.ended, self.state.turn_open) = (true, false);
        self.spent(finish.stats);
        let success = finish.status == "success";
        let code = (!success).then(|| self.fault(&finish.error));
        let stop = match code {
            None => StopReason::EndTurn,
            Some(Code::MaxTurns) => StopReason::MaxTurns,
            Some(_) => StopReason::Error,
        };
        let (phase, n, stop_reason) = (TurnPhase::Ended, 1, Some(stop));
        let detail = if success { None } else { self.detail(&finish.error) };
        if let Some(code) = code {
            if finish.error.is_object() {
                self.error(code, detail.as_deref().unwrap_or_default());
            }
            self.quota(code);
        }
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnEnded { stop });
        let text = self.state.answer().filter(|_| success);
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }

    /// What a result that is no success means. One without an error of its own follows an `error`
    /// line about the model's stream.
    fn fault(&self, error: &Value) -> Code {
        let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
        let message = self.detail(error).unwrap_or_default();
        match kind {
            "FatalAuthenticationError" => Code::AuthRequired,
            "FatalTurnLimitedError" => Code::MaxTurns,
            _ => trouble::of(&message).unwrap_or_else(|| {
                let about_the_model = error.is_null() || message.starts_with("[API Error");
                if about_the_model { Code::UpstreamError } else { Code::AgentFailed }
            }),
        }
    }

    fn detail(&self, error: &Value) -> Option<String> {
        let message = error.get("message").and_then(Value::as_str).map(bounded);
        message.or_else(|| self.state.complaint.clone())
    }

    /// The tokens of every model that was asked, the small one that chooses among models included.
    fn spent(&mut self, stats: Value) {
        if stats.is_null() {
            return;
        }
        let Ok(Stats { all, models }) = serde_json::from_value(stats) else {
            return self.keep(Some(UNRECOGNISED));
        };
        // Without models the sum is all there is.
        let rows: Vec<_> = match models.is_empty() {
            true => vec![(None, all)],
            false => models.into_iter().map(|(model, count)| (Some(model), count)).collect(),
        };
        for (model, count) in rows {
            let tokens = tokens(count);
            if tokens.total() == 0 {
                continue;
            }
            let usage = Usage {
                model,
                provider: Some(PROVIDER.to_owned()),
                tokens: Some(tokens),
                basis: Basis::RunTotal,
                ..Usage::default()
            };
            self.signal(Signal::Spent(usage.clone()));
            self.draft(Body::Usage(usage));
        }
    }

    /// A line of stderr: a retry, an error of the provider, or noise.
    fn aside(&mut self) {
        let line = self.line;
        if trouble::session_unknown(line) && self.state.resumes.is_some() {
            self.error(Code::NativeSessionUnknown, line);
            return self.signal(Signal::SessionUnknown);
        }
        if !trouble::about_the_provider(line) {
            self.waits(trouble::wait_ms_in(line));
            return self.keep(None);
        }
        let code = trouble::of(line).unwrap_or(Code::UpstreamError);
        let retries = line.starts_with("Attempt ");
        // What is used up for the day is not tried again; the words that say so may be cut off,
        // because the provider's message goes on in the lines below.
        let passes = retries && code == Code::ProviderQuota;
        let code = if passes { Code::RateLimited } else { code };
        self.error(code, line);
        self.quota(code);
        if retries && !self.state.ended {
            self.state.limited = Some(code);
            let wait_ms = trouble::wait_ms_in(line);
            self.signal(Signal::Limited(Limited {
                code,
                terminal: false,
                wait_ms,
                resets_at: None,
            }));
        }
    }

    /// The wait that belongs to the retry before.
    fn waits(&mut self, wait_ms: Option<u64>) {
        if let (Some(code), Some(_)) = (self.state.limited, wait_ms) {
            self.signal(Signal::Limited(Limited {
                code,
                terminal: false,
                wait_ms,
                resets_at: None,
            }));
        }
    }

    /// The model answers, so whatever held it back is over.
    fn lift(&mut self) {
        if self.state.limited.take().is_some() {
            self.signal(Signal::LimitLifted);
        }
    }

    /// Says once that nothing is left; when there will be is never told.
    fn quota(&mut self, code: Code) {
        if code != Code::ProviderQuota || self.state.quota_told {
            return;
        }
        self.state.quota_told = true;
        self.draft(Body::Quota(Quota {
            provider: PROVIDER.to_owned(),
            account: None,
            windows: vec![QuotaWindow {
                id: QUOTA_WINDOW.to_owned(),
                label: None,
                used_percent: None,
                resets_at: None,
                exhausted: true,
            }],
            rate_limited: true,
            resets_at: None,
        }));
    }

    fn error(&mut self, code: Code, detail: &str) {
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: (!detail.is_empty()).then(|| bounded(detail)),
        }));
    }

    /// A line of standard output that is no line of the protocol; a conversation that is not known
    /// may be told here too.
    fn stray(&mut self) {
        // What a model said may be in a line of the protocol that was cut.
        let is_words = !self.line.trim_start().starts_with('{');
        if is_words && trouble::session_unknown(self.line) && self.state.resumes.is_some() {
            self.signal(Signal::SessionUnknown);
        }
        self.keep(Some(UNRECOGNISED));
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

/// Disjoint buckets: the cached part leaves the input, and the thoughts join the output.
fn tokens(count: Count) -> Tokens {
    let Count { total_tokens, input_tokens, output_tokens, cached } = count;
    let thoughts = total_tokens.saturating_sub(input_tokens.saturating_add(output_tokens));
    Tokens {
        input_uncached: input_tokens.saturating_sub(cached),
        cache_read: cached.min(input_tokens),
        cache_write: 0,
        output: output_tokens.saturating_add(thoughts),
        reasoning: (thoughts > 0).then_some(thoughts),
    }
}

/// Whether a tool was held back by a policy and never ran.
fn refused(error: &Value) -> bool {
    let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
    kind == "policy_violation"
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= CALL_ID_BYTES_MAX
}

/// A foreign text as long as a detail may be.
fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(contract::limits::PREVIEW_BYTES)].to_owned()
}
