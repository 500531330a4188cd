//! What comes of a rule that fits: drafts and signals, in one fixed order within a rule. Every action
//! is one function; what it needs and does not find makes it do nothing, or keeps the line as a
//! `log`. Decides by the mapping alone.

use super::book::Book;
use super::dialect::{REPEATED, UNRECOGNISED};
use super::path::Place;
use super::state::{Ends, Kind, Open, State, Told, bounded};
use super::tools::{self, Call};
use super::trouble;
use crate::Out;
use contract::event::{
    self, Body, Log, Quota, QuotaWindow, Raw, StopReason, ToolStatus, TurnPhase, UpdateStatus,
};
use contract::limits::{MAPPING_ID_BYTES_MAX, PREVIEW_BYTES, TEXT_BYTES_MAX};
use contract::mapping::{self, Rule, Verdict};
use contract::money::CostSource;
use contract::speech::{Ending, Limited};
use contract::{Code, Draft, NanoUsd, Signal, Tokens};
use serde_json::Value;

/// Who is said to hold an account when nobody says who makes the models.
const SOME_PROVIDER: &str = "unknown";

/// One line being heard.
pub(super) struct Ear<'a> {
    pub book: &'a Book,
    pub state: &'a mut State,
    pub out: &'a mut Out,
    pub raw: Raw,
    /// The line as it came.
    pub line: &'a str,
}

impl Ear<'_> {
    /// Everything that a rule gives, in this order.
    pub(super) fn apply(&mut self, rule: &Rule, place: Place<'_>) {
        if let Some(session) = &rule.session {
            self.session(session, place);
        }
        if rule.session_unknown {
            self.session_unknown();
        }
        if rule.turn || !self.book.turn_by_rule && !rule.ignore {
            self.start();
        }
        for (kind, text) in [(Kind::Text, &rule.text), (Kind::Thinking, &rule.thinking)] {
            if let Some(text) = text {
                self.text(kind, text, place);
            }
        }
        if let Some(call) = &rule.tool_use {
            self.tool_use(call, place);
        }
        if let Some(update) = &rule.tool_update {
            self.tool_update(update, place);
        }
        if let Some(result) = &rule.tool_result {
            self.tool_result(result, place);
        }
        if let Some(usage) = &rule.usage {
            self.usage(usage, place);
        }
        let told = rule.error.as_ref().map(|error| {
            self.state.end_text();
            self.error(error, place)
        });
        if let Some(limit) = &rule.limit {
            self.limit(limit, told.as_ref(), place);
        }
        if rule.lifted {
            self.lift();
        }
        if let Some(verdict) = &rule.verdict {
            self.state.verdict = self.judge(verdict, told.as_ref(), place);
        }
        if let Some(level) = &rule.log {
            self.keep((!level.is_empty()).then_some(level.as_str()));
        }
        if let Some(end) = &rule.end {
            self.end(end, told.as_ref(), place);
        }
    }

    /// A line of stderr tells of trouble, and is kept unless that was told. It is read apart from
    /// stdout, so it may come when the end is long heard.
    pub(super) fn aside(&mut self, rule: &Rule, place: Place<'_>) {
        if rule.session_unknown {
            return self.session_unknown();
        }
        let told = rule.error.as_ref().map(|error| self.error(error, place));
        if let (Some(limit), false) = (&rule.limit, self.state.ended) {
            self.limit(limit, told.as_ref(), place);
        }
        if let Some(level) = &rule.log {
            self.keep((!level.is_empty()).then_some(level.as_str()));
        }
    }

    fn session(&mut self, session: &mapping::Session, place: Place<'_>) {
        let id = self.book.text(session.id.as_ref(), place).filter(|id| is_id(id));
        if id.is_some() && id == self.state.session {
            return;
        }
        let resumed = id.is_some() && id == self.state.resumes;
        if let Some(id) = &id {
            self.state.session = Some(id.clone());
            self.signal(Signal::Session { id: id.clone() });
        }
        self.draft(Body::Session(event::Session {
            model: self.book.text(session.model.as_ref(), place),
            tools: None,
            cwd: self.book.text(session.cwd.as_ref(), place),
            native_session: id,
            resumed,
        }));
    }

    /// Only a conversation that was asked for can be unknown.
    fn session_unknown(&mut self) {
        if self.state.resumes.is_none() {
            return self.unknown();
        }
        let line = self.line;
        self.complain(&Told { code: Code::NativeSessionUnknown, detail: Some(line.to_owned()) });
        self.signal(Signal::SessionUnknown);
    }

    /// The agent may start again by itself; for us it is the same turn.
    fn start(&mut self) {
        if std::mem::replace(&mut self.state.turn_open, true) {
            return;
        }
        let (phase, n, stop_reason) = (TurnPhase::Started, 1, None);
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnStarted);
    }

    fn text(&mut self, kind: Kind, rule: &mapping::Text, place: Place<'_>) {
        let text = self.book.text(Some(&rule.at), place);
        let key = rule.block.as_ref().and_then(|path| self.book.text_at(path, place));
        if rule.repeats {
            let streamed = std::mem::take(&mut self.state.streamed);
            if let Some(text) = text.as_ref().filter(|_| !streamed) {
                self.say(kind, key.as_deref(), text, false);
            }
            if kind == Kind::Text {
                self.state.set_answer(text.as_deref());
            }
            return self.state.end_text();
        }
        let Some(text) = text else { return };
        self.lift();
        self.state.streamed |= kind == Kind::Text && rule.delta;
        self.say(kind, key.as_deref(), &text, rule.delta);
    }

    fn say(&mut self, kind: Kind, key: Option<&str>, text: &str, delta: bool) {
        let block = Some(self.state.hear(kind, key, text, delta));
        let text = event::Text { text: text.to_owned(), block, delta };
        self.draft(match kind {
            Kind::Text => Body::AssistantText(text),
            Kind::Thinking => Body::Thinking(text),
        });
    }

    fn tool_use(&mut self, rule: &mapping::ToolUse, place: Place<'_>) {
        let book = self.book;
        let Some(id) = book.text(Some(&rule.id), place).filter(|id| is_id(id)) else {
            return self.keep(Some(UNRECOGNISED));
        };
        let name = book.text(Some(&rule.name), place).unwrap_or_default();
        let input = book.value(rule.input.as_ref(), place).unwrap_or_default();
        let parent = book.text(rule.parent.as_ref(), place);
        let call = Call { id, name, input, parent };
        self.lift();
        self.state.end_text();
        let open = Open { id: call.id.clone(), changes: tools::changes(book, &call) };
        if !self.state.open_call(open) {
            return self.keep(Some(REPEATED));
        }
        self.state.worked = true;
        self.draft(Body::ToolUse(tools::event(book, &call)));
        if let Some(plan) = tools::plan(book, &call) {
            self.draft(Body::Plan(plan));
        }
        self.signal(Signal::ToolOpened { tool_call_id: call.id });
    }

    fn tool_update(&mut self, rule: &mapping::ToolUpdate, place: Place<'_>) {
        let id = self.book.text(Some(&rule.id), place).filter(|id| self.state.is_open(id));
        let content = self.book.value(Some(&rule.content), place);
        if let (Some(tool_call_id), Some(_)) = (id, &content) {
            let status = Some(UpdateStatus::InProgress);
            let (title, locations) = (None, Vec::new());
            let update = event::ToolUpdate { tool_call_id, status, title, content, locations };
            self.draft(Body::ToolUpdate(update));
        }
    }

    fn tool_result(&mut self, rule: &mapping::ToolResult, place: Place<'_>) {
        let book = self.book;
        let id = book.text(Some(&rule.id), place);
        let Some(Open { id, changes }) = id.and_then(|id| self.state.close_call(&id)) else {
            return self.keep(Some(REPEATED));
        };
        self.state.end_text();
        let ok = book.holds(&rule.ok, place);
        let status = if ok { ToolStatus::Ok } else { ToolStatus::Error };
        let denied = (!rule.denied.is_empty() && book.holds(&rule.denied, place)).then_some(true);
        let output = book.value(rule.output.as_ref(), place).unwrap_or_default();
        let (tool_call_id, duration_ms) = (id.clone(), None);
        let result = event::ToolResult { tool_call_id, status, denied, output, duration_ms };
        self.draft(Body::ToolResult(result));
        if status == ToolStatus::Ok {
            changes.into_iter().for_each(|change| self.draft(Body::Diff(change)));
        }
        self.signal(Signal::ToolClosed { tool_call_id: id });
    }

    /// What is not told is not zero: without a single number there is nothing to say.
    fn usage(&mut self, rule: &mapping::Usage, place: Place<'_>) {
        let book = self.book;
        let [input, cache_read, cache_write, output, reasoning] =
            [&rule.input, &rule.cache_read, &rule.cache_write, &rule.output, &rule.reasoning]
                .map(|sum| book.sum(sum.as_ref(), place).unwrap_or(0));
        let tokens = Tokens {
            input_uncached: input,
            cache_read,
            cache_write,
            output: output.saturating_add(if rule.reasoning_apart { reasoning } else { 0 }),
            reasoning: (reasoning > 0).then_some(reasoning),
        };
        let tokens = (tokens.total() > 0).then_some(tokens);
        // No dollars for tokens are a model without a price, not one that is free.
        let usd = book.number(rule.usd.as_ref(), place).filter(|usd| *usd > 0.0);
        let usd = usd.and_then(NanoUsd::from_usd);
        if tokens.is_none() && usd.is_none() {
            return;
        }
        let provider = book.text(rule.provider.as_ref(), place);
        let usage = event::Usage {
            model: book.text(rule.model.as_ref(), place),
            provider: provider.or_else(|| book.mapping.provider.clone()),
            tokens,
            basis: rule.basis,
            reported_nanousd: usd,
            effective_nanousd: usd,
            cost_source: if usd.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
            ..event::Usage::default()
        };
        self.signal(Signal::Spent(usage.clone()));
        self.draft(Body::Usage(usage));
    }

    fn error(&mut self, rule: &mapping::Trouble, place: Place<'_>) -> Told {
        let (code, message) = trouble::of(self.book, rule, place);
        let detail = (!message.is_empty()).then(|| bounded(&message, PREVIEW_BYTES));
        let told = Told { code, detail };
        self.complain(&told);
        if rule.fatal {
            self.signal(Signal::ModelError { code });
        }
        self.state.trouble = Some(told.clone());
        told
    }

    fn complain(&mut self, Told { code, detail }: &Told) {
        self.draft(Body::Error(event::Error {
            code: *code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: detail.as_deref().map(|detail| bounded(detail, PREVIEW_BYTES)),
        }));
        self.quota(*code);
    }

    /// Says once that nothing is left; when there will be is not told.
    fn quota(&mut self, code: Code) {
        let Some(mapping::Window { window }) = &self.book.mapping.quota else { return };
        if code != Code::ProviderQuota || std::mem::replace(&mut self.state.quota_told, true) {
            return;
        }
        let provider = self.book.mapping.provider.as_deref().unwrap_or(SOME_PROVIDER);
        self.draft(Body::Quota(Quota {
            provider: provider.to_owned(),
            account: None,
            windows: vec![QuotaWindow {
                id: window.clone(),
                label: None,
                used_percent: None,
                resets_at: None,
                exhausted: true,
            }],
            rate_limited: true,
            resets_at: None,
        }));
    }

    fn limit(&mut self, rule: &mapping::Limit, told: Option<&Told>, place: Place<'_>) {
        let wait_ms = trouble::wait_ms(self.book, rule, place);
        let own = trouble::of_limit(self.book, rule, place).or(told.map(|told| told.code));
        // Of a limit that was told before, only the wait is news.
        let Some(code) = own.or(self.state.limited.filter(|_| wait_ms.is_some())) else { return };
        self.state.limited = Some(code);
        let terminal = rule.terminal;
        self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at: None }));
    }

    /// The model answers, so whatever held it back is over.
    fn lift(&mut self) {
        if self.state.limited.take().is_some() {
            self.signal(Signal::LimitLifted);
        }
    }

    /// What a verdict means; `None` for one that says nothing.
    fn judge(&self, rule: &Verdict, told: Option<&Told>, place: Place<'_>) -> Option<Ends> {
        let text = self.book.text(rule.text.as_ref(), place);
        let text = text.map(|text| bounded(&text, TEXT_BYTES_MAX));
        match (rule.success, rule.code) {
            (Some(true), _) => Some(Ends { code: None, stop: rule.stop, detail: None, text }),
            (Some(false) | None, Some(code)) => {
                let detail = told.and_then(|told| told.detail.clone());
                Some(Ends { code: Some(code), stop: rule.stop, detail, text })
            }
            (Some(false), None) => {
                let told = told.or(self.state.trouble.as_ref());
                let code = told.map_or(Code::AgentFailed, |told| told.code);
                let detail = told.and_then(|told| told.detail.clone());
                Some(Ends { code: Some(code), stop: rule.stop, detail, text })
            }
            (None, None) => None,
        }
    }

    /// The end. A success without a text and without a call is none: nothing was done.
    fn end(&mut self, rule: &Verdict, told: Option<&Told>, place: Place<'_>) {
        self.lift();
        abandon(self.state, self.out);
        (self.state.ended, self.state.turn_open) = (true, false);
        let judged = self.judge(rule, told, place).or_else(|| self.state.verdict.take());
        let nothing = Some(Code::EndedWithoutResult);
        let Ends { code, stop, detail, text } =
            judged.unwrap_or(Ends { code: nothing, stop: None, detail: None, text: None });
        let text = text.or_else(|| self.state.answer().map(str::to_owned));
        let empty = code.is_none() && text.is_none() && !self.state.worked;
        let (code, stop) = if empty { (nothing, None) } else { (code, stop) };
        let stop = stop.unwrap_or(stop_of(code));
        let (phase, n, stop_reason) = (TurnPhase::Ended, 1, Some(stop));
        self.draft(Body::Turn(event::Turn { phase, n, stop_reason }));
        self.signal(Signal::TurnEnded { stop });
        let text = text.filter(|_| code.is_none());
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }

    /// A line that no rule knows.
    pub(super) fn unknown(&mut self) {
        match self.raw.stream {
            event::Stream::Stderr => self.keep(None),
            event::Stream::Stdout | event::Stream::Ostler => self.keep(Some(UNRECOGNISED)),
        }
    }

    /// Keeps the line as it came.
    pub(super) fn keep(&mut self, level: Option<&str>) {
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
pub(super) fn abandon(state: &mut State, out: &mut Out) {
    for Open { id, .. } in state.close_all() {
        let output = Value::from("the agent ended before it told a result");
        let (tool_call_id, status) = (id.clone(), ToolStatus::Error);
        let result =
            event::ToolResult { tool_call_id, status, denied: None, output, duration_ms: None };
        out.drafts.push(Draft::ostler(Body::ToolResult(result)));
        out.signals.push(Signal::ToolClosed { tool_call_id: id });
    }
}

/// Why a turn ended, told from how it went.
fn stop_of(code: Option<Code>) -> StopReason {
    match code {
        None => StopReason::EndTurn,
        Some(Code::MaxTurns) => StopReason::MaxTurns,
        Some(Code::ModelRefusal) => StopReason::Refusal,
        Some(Code::Cancelled) => StopReason::Cancelled,
        Some(_) => StopReason::Error,
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAPPING_ID_BYTES_MAX
}
