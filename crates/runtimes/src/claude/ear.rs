//! Hears one line: what it states becomes drafts and signals, and what is not known here is kept as
//! a `log`. Text that came in deltas is not said again when its line repeats it whole; every call
//! that was opened is closed, at the latest with its turn; lines that the agent writes to itself are
//! logged and never taken for a person's or the model's words.

use super::result;
use super::state::{ID_BYTES_MAX, State, Streamed};
use super::tools;
use super::wire::{Block, BlockKind, Kind, Line, Message};
use crate::lenient::Lenient;
use crate::{Out, reset};
use contract::event::{self, Body, Log, Quota, Raw, StopReason, Text, TurnPhase, Via};
use contract::event::{ToolStatus, ToolUpdate, UpdateStatus};
use contract::speech::{Ending, Limited};
use contract::{Code, Draft, Reset, Signal, limits};
use serde_json::{Value, json};

/// A longer path of a working directory is not kept.
const CWD_BYTES_MAX: usize = 4096;

/// The level of a line that was not understood.
const UNRECOGNISED: &str = "unrecognised";
/// The level of what the agent says to itself.
const ITS_OWN: &str = "its_own";

/// One line being heard.
pub(super) struct Ear<'a> {
    pub state: &'a mut State,
    pub out: &'a mut Out,
    pub raw: Raw,
    /// The line as it came, for a `log`.
    pub line: &'a str,
}

impl Ear<'_> {
    pub(super) fn hear(&mut self, line: Line) {
        match line.kind {
            Kind::System => self.system(&line),
            Kind::Assistant => self.assistant(&line),
            Kind::User => self.user(line),
            Kind::StreamEvent => self.stream(&line),
            Kind::Result => self.result(line),
            Kind::RateLimitEvent => match &line.rate_limit_info {
                Some(info) => self.quota(info),
                None => self.unrecognised(),
            },
            Kind::ControlRequest => self.asked(line),
            Kind::ControlResponse => self.answered(&line),
            Kind::ControlCancelRequest => {
                let request = line.request_id.unwrap_or_default();
                if self.state.answer(&request).is_some() {
                    self.signal(Signal::AskWithdrawn { request });
                }
            }
            Kind::KeepAlive => {}
            Kind::Other => self.unrecognised(),
        }
    }

    /// A line of stderr, where an unknown conversation is told in words.
    pub(super) fn stderr(&mut self) {
        self.keep(None);
        if self.state.session.is_none() && result::names_unknown_session(self.line) {
            self.unknown_session();
        }
    }

    fn unknown_session(&mut self) {
        if self.state.resumes && !std::mem::replace(&mut self.state.unknown_told, true) {
            self.signal(Signal::SessionUnknown);
        }
    }

    fn system(&mut self, line: &Line) {
        match line.subtype.as_deref().unwrap_or_default() {
            "init" => self.init(line),
            "api_retry" => self.retry(line),
            // Signs of life without a fact in them: the raw line is in the trace.
            "status" | "thinking_tokens" => {}
            "task_started" => {
                let id = line.tool_use_id.clone().unwrap_or_default();
                match self.state.is_open(&id) {
                    true => self.update(&id, line.description.clone(), None),
                    false => self.keep(None),
                }
            }
            "informational" => match line.content.as_ref().and_then(Value::as_str) {
                Some(text) => {
                    let (stream, text) = (event::Stream::Stdout, text.to_owned());
                    self.draft(Body::Log(Log { stream, text, level: line.level.clone() }));
                }
                None => self.keep(None),
            },
            _ => self.keep(None),
        }
    }

    /// Every turn begins with one; the conversation is shown when there is something new in it.
    fn init(&mut self, line: &Line) {
        let news = self.state.session != line.session_id || self.state.model != line.model;
        (self.state.session, self.state.model) = (line.session_id.clone(), line.model.clone());
        self.state.cwd = line.cwd.clone().filter(|cwd| cwd.len() <= CWD_BYTES_MAX);
        if news {
            let tools = line.tools.as_ref().and_then(|tools| u32::try_from(tools.len()).ok());
            self.draft(Body::Session(event::Session {
                model: line.model.clone(),
                tools,
                cwd: line.cwd.clone(),
                native_session: line.session_id.clone(),
                resumed: self.state.resumes,
            }));
            let billing = line.api_key_source.as_deref().and_then(result::billing);
            if let Some(billing) = billing {
                self.signal(Signal::Billing { billing });
            }
        }
        self.accepts();
        if let Some(id) = line.session_id.clone() {
            self.signal(Signal::Session { id });
        }
        self.begin_turn();
    }

    pub(super) fn accepts(&mut self) {
        if !std::mem::replace(&mut self.state.accepts_told, true) {
            self.signal(Signal::Accepts { message: true, interrupt: true });
        }
    }

    fn begin_turn(&mut self) {
        if std::mem::replace(&mut self.state.in_turn, true) {
            return;
        }
        self.state.turns = self.state.turns.saturating_add(1);
        (self.state.acted, self.state.error_told) = (false, false);
        let (phase, n) = (TurnPhase::Started, self.state.turns);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason: None }));
        self.signal(Signal::TurnStarted);
    }

    fn end_turn(&mut self, stop: StopReason) {
        self.leave_nothing_open();
        if std::mem::replace(&mut self.state.in_turn, false) {
            let (phase, n, stop_reason) = (TurnPhase::Ended, self.state.turns, Some(stop));
            self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
            self.signal(Signal::TurnEnded { stop });
        }
    }

    /// Calls and questions that the agent left behind.
    pub(super) fn leave_nothing_open(&mut self) {
        for tool_call_id in self.state.close_all() {
            let result = event::ToolResult {
                tool_call_id: tool_call_id.clone(),
                status: ToolStatus::Error,
                denied: None,
                output: json!("the agent reported no result of this call"),
                duration_ms: None,
            };
            let raw = Some(self.raw);
            self.out.drafts.push(Draft { raw, ..Draft::ostler(Body::ToolResult(result)) });
            self.signal(Signal::ToolClosed { tool_call_id, denied: false });
        }
        for question in self.state.drop_questions() {
            self.signal(Signal::AskWithdrawn { request: question.request });
        }
        self.state.streamed = None;
    }

    fn assistant(&mut self, line: &Line) {
        let Some(message) = &line.message else { return self.unrecognised() };
        let parent = line.parent_tool_use_id.as_deref();
        if line.is_api_error_message == Some(true) {
            return self.api_error(line, parent);
        }
        self.answers_again();
        if parent.is_none() {
            self.begin_turn();
        }
        let text = line.text();
        if self.state.keeps_text && parent.is_none() && !text.trim().is_empty() {
            let end = text.floor_char_boundary(limits::TEXT_BYTES_MAX);
            self.state.last_text = Some(text[..end].to_owned());
        }
        self.note_spending(message);
        if let (Some(_), Some(id)) = (parent, &message.id) {
            let bytes = line.blocks().iter().map(Block::written_bytes).sum();
            self.state.spending.note_written(id, bytes);
        }
        let unfinished = self.state.streamed.as_ref().map(|streamed| streamed.message.clone());
        self.report_spending(unfinished.as_deref());
        for block in line.blocks() {
            match block.kind {
                BlockKind::Text | BlockKind::Thinking => {
                    self.text(message.id.as_deref(), block, parent);
                }
                BlockKind::ToolUse => self.tool_use(block, parent),
                BlockKind::ToolResult | BlockKind::Other => self.keep(Some(UNRECOGNISED)),
            }
        }
    }

    /// The agent says in the model's place that the model did not answer. Not the model's words.
    fn api_error(&mut self, line: &Line, parent: Option<&str>) {
        let said = line.text();
        let verdict = match line.error.as_ref().and_then(Value::as_str) {
            Some("max_output_tokens") => Code::AnswerCut,
            _ if said.contains("safeguards") => Code::ModelRefusal,
            _ => result::of_provider(line, &said).unwrap_or(Code::UpstreamError),
        };
        if verdict == Code::ProviderQuota {
            match reset::read(&said) {
                Some(Reset::At(at)) => self.state.resets_at = Some(at),
                Some(told @ (Reset::After { .. } | Reset::Clock(_))) => {
                    self.signal(Signal::Resets(told));
                }
                None => {}
            }
            self.draft(Body::Quota(Quota {
                provider: "anthropic".to_owned(),
                account: None,
                windows: Vec::new(),
                rate_limited: true,
                resets_at: self.state.resets_at,
            }));
            self.state.held = true;
            self.signal(Signal::Limited(Limited {
                code: verdict,
                terminal: false,
                wait_ms: None,
                resets_at: self.state.resets_at,
            }));
        }
        self.complain(verdict, said);
        // A sub-agent's trouble is for the agent to deal with.
        if parent.is_none() {
            self.state.error_told = true;
            self.signal(Signal::ModelError { code: verdict });
        }
    }

    fn text(&mut self, message: Option<&str>, block: &Block, parent: Option<&str>) {
        let thinks = block.kind == BlockKind::Thinking;
        let whole = if thinks { &block.thinking } else { &block.text };
        let whole = whole.as_deref().unwrap_or_default();
        if let Some(parent) = parent {
            let key = if thinks { "thinking" } else { "text" };
            return self.update(parent, None, Some(json!({ key: whole })));
        }
        self.state.acted |= !whole.is_empty() && !thinks;
        let streamed = self.state.streamed.as_ref();
        let streamed = streamed.filter(|streamed| Some(streamed.message.as_str()) == message);
        let heard_bytes =
            streamed.map_or(0, |s| if thinks { s.thinking_bytes } else { s.text_bytes });
        let rest = whole.get(heard_bytes..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let delta = heard_bytes > 0;
        let block = streamed.filter(|_| delta).map(Streamed::block);
        self.say_text(thinks, Text { text: rest.to_owned(), block, delta });
    }

    fn say_text(&mut self, thinks: bool, text: Text) {
        self.draft(if thinks { Body::Thinking(text) } else { Body::AssistantText(text) });
    }

    /// A piece of the model's own stream. A sub-agent's pieces wait for their whole.
    fn stream(&mut self, line: &Line) {
        let Some(event) = &line.event else { return self.unrecognised() };
        if line.parent_tool_use_id.is_some() {
            return;
        }
        match event.kind.as_deref().unwrap_or_default() {
            "message_start" => {
                self.answers_again();
                self.begin_turn();
                // The end of the answer before is missing if it was not reported by now.
                self.report_spending(None);
                if let Some(message) = &event.message {
                    self.note_spending(message);
                }
                let id = event.message.as_ref().and_then(|message| message.id.clone());
                self.state.streamed = id.filter(|id| id.len() <= ID_BYTES_MAX).map(|message| {
                    Streamed { message, index: 0, text_bytes: 0, thinking_bytes: 0 }
                });
            }
            "content_block_start" => {
                if let Some(streamed) = &mut self.state.streamed {
                    streamed.index = event.index.unwrap_or(streamed.index.saturating_add(1));
                    (streamed.text_bytes, streamed.thinking_bytes) = (0, 0);
                }
            }
            "content_block_delta" => {
                let Some(delta) = &event.delta else { return };
                let Some(streamed) = &mut self.state.streamed else { return };
                let block = Some(streamed.block());
                let (thinks, text) = match (&delta.text, &delta.thinking) {
                    (Some(text), _) => (false, text.clone()),
                    (None, Some(text)) => (true, text.clone()),
                    (None, None) => return,
                };
                match thinks {
                    true => streamed.thinking_bytes += text.len(),
                    false => streamed.text_bytes += text.len(),
                }
                self.state.acted |= !thinks && !text.is_empty();
                if !text.is_empty() {
                    self.say_text(thinks, Text { text, block, delta: true });
                }
            }
            "message_delta" => {
                let State { streamed, spending, .. } = &mut *self.state;
                let counts = event.usage.as_ref().and_then(Lenient::known);
                if let (Some(streamed), Some(counts)) = (streamed, counts) {
                    spending.note(&streamed.message, None, counts);
                }
                self.report_spending(None);
            }
            _ => {}
        }
    }

    /// An answer of the model tells what it has cost so far.
    fn note_spending(&mut self, message: &Message) {
        let counts = message.usage.as_ref().and_then(Lenient::known);
        if let (Some(id), Some(counts)) = (&message.id, counts)
            && self.state.spending.note(id, message.model.as_deref(), counts)
        {
            self.signal(Signal::ModelAnswer);
        }
    }

    /// Reports what the answers told, except that of the one still being written, whose end tells
    /// more.
    pub(super) fn report_spending(&mut self, unfinished: Option<&str>) {
        for usage in self.state.spending.report(unfinished) {
            self.spent(usage);
        }
    }

    fn spent(&mut self, usage: event::Usage) {
        self.draft(Body::Usage(usage.clone()));
        self.signal(Signal::Spent(usage));
    }

    fn tool_use(&mut self, block: &Block, parent: Option<&str>) {
        let id = block.id.clone().unwrap_or_default();
        if !self.state.open(&id) {
            return self.unrecognised();
        }
        self.state.acted = true;
        let name = block.name.clone().unwrap_or_default();
        let input = block.input.clone().unwrap_or_else(|| json!({}));
        let plan = tools::plan(&name, &input);
        self.draft(Body::ToolUse(event::ToolUse {
            tool_call_id: id.clone(),
            title: input["description"].as_str().map(str::to_owned),
            tool_kind: tools::kind(&name),
            locations: tools::locations(&input),
            name,
            input,
            via: Via::Native,
            parent: parent.map(str::to_owned),
        }));
        self.signal(Signal::ToolOpened { tool_call_id: id });
        if let Some(plan) = plan {
            self.draft(Body::Plan(plan));
        }
    }

    fn update(&mut self, id: &str, title: Option<String>, content: Option<Value>) {
        self.draft(Body::ToolUpdate(ToolUpdate {
            tool_call_id: id.to_owned(),
            status: Some(UpdateStatus::InProgress),
            title,
            content,
            locations: Vec::new(),
        }));
    }

    /// Results of calls, and what the agent writes to the model in a person's place.
    fn user(&mut self, line: Line) {
        if line.is_replay == Some(true) {
            return;
        }
        let mut told = false;
        for block in line.blocks() {
            match (block.kind, line.parent_tool_use_id.as_deref()) {
                (BlockKind::ToolResult, _) => self.tool_result(block, &line),
                (BlockKind::Text, Some(parent)) => {
                    self.update(parent, None, Some(json!({ "prompt": block.text })));
                }
                (BlockKind::Text, None) => {
                    let text = block.text.clone().unwrap_or_default();
                    let (stream, level) = (event::Stream::Stdout, Some(ITS_OWN.to_owned()));
                    self.draft(Body::Log(Log { stream, text, level }));
                }
                (BlockKind::Thinking | BlockKind::ToolUse | BlockKind::Other, _) => continue,
            }
            told = true;
        }
        if !told {
            self.unrecognised();
        }
    }

    fn tool_result(&mut self, block: &Block, line: &Line) {
        let id = block.tool_use_id.clone().unwrap_or_default();
        if !self.state.close(&id) {
            // The end of the turn closed the calls of its sub-agents, which go on in the background.
            let is_of_sub_agent = line.parent_tool_use_id.is_some();
            return self.keep(Some(if is_of_sub_agent { ITS_OWN } else { UNRECOGNISED }));
        }
        let metas = line.tool_result_meta.iter().flatten();
        let meta = metas.into_iter().find(|meta| meta.id.as_deref() == Some(id.as_str()));
        let decided = meta.and_then(|meta| meta.permission_decision.as_ref());
        let denied = decided.is_some_and(|decided| decided.decision.as_deref() == Some("reject"));
        let failed = block.is_error == Some(true);
        self.draft(Body::ToolResult(event::ToolResult {
            tool_call_id: id.clone(),
            status: if failed { ToolStatus::Error } else { ToolStatus::Ok },
            denied: denied.then_some(true),
            output: block.content.clone().unwrap_or(Value::Null),
            duration_ms: None,
        }));
        let diff = line.tool_use_result.as_ref().and_then(|result| tools::diff(&id, result));
        self.signal(Signal::ToolClosed { tool_call_id: id, denied });
        if let Some(diff) = diff {
            self.draft(Body::Diff(diff));
        }
    }

    /// The end of a turn, and of the run unless a message waits.
    fn result(&mut self, line: Line) {
        let (resumes, model) = (self.state.resumes, self.state.model.as_deref());
        let told = self.state.dollars_told;
        let spent = result::spent(&line, resumes, model, told);
        self.state.dollars_told = result::dollars(&line).or(told);
        // An interrupted turn tells no figures; what its answers told stands until a result has some.
        let spent = match spent.is_empty() {
            true => self.state.spending.report(None),
            false => self.state.spending.settle(spent),
        };
        spent.into_iter().for_each(|usage| self.spent(usage));
        let verdict = result::judge(&line, self.state.acted);
        if verdict.code == Some(Code::NativeSessionUnknown) {
            self.unknown_session();
        }
        if let Some(code) = verdict.code.filter(|code| *code != Code::Cancelled)
            && !std::mem::replace(&mut self.state.error_told, true)
        {
            self.complain(code, verdict.detail.clone().unwrap_or_default());
        }
        self.end_turn(verdict.stop);
        if line.queued_turn_count.unwrap_or(0) > 0 {
            return;
        }
        let text = line.result.filter(|text| !text.is_empty()).or(self.state.last_text.take());
        let text = text.filter(|_| verdict.code.is_none());
        let (code, detail, output) = (verdict.code, verdict.detail, line.structured_output);
        self.signal(Signal::Result(Ending { code, text, output, detail }));
    }

    /// An error on the way.
    pub(super) fn complain(&mut self, code: Code, detail: String) {
        let quota = matches!(code, Code::ProviderQuota | Code::RateLimited);
        self.draft(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: self.state.resets_at.filter(|_| quota),
            hint: None,
            detail: Some(detail).filter(|detail| !detail.is_empty()),
        }));
    }

    pub(super) fn unrecognised(&mut self) {
        self.keep(Some(UNRECOGNISED));
    }

    /// Keeps the line as it came.
    pub(super) fn keep(&mut self, level: Option<&str>) {
        let text = &self.line[..self.line.floor_char_boundary(limits::TEXT_BYTES_MAX)];
        let (stream, text) = (self.raw.stream, text.to_owned());
        self.draft(Body::Log(Log { stream, text, level: level.map(str::to_owned) }));
    }

    pub(super) fn draft(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: Some(self.raw), ..Draft::agent(body) });
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }
}
