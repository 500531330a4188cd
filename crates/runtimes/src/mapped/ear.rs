//! What comes of a rule that fits: drafts and signals, in one fixed order within a rule. Every action
//! is one function; what it needs and does not find makes it do nothing, or keeps the line as a
//! `log`. Decides by the mapping alone.

use super::book::Book;
use super::path::Place;
use super::state::{Ends, Kind, State, Told};
use super::tools::{self, Call};
use super::trouble;
use crate::headless::{Came, Ear, UNRECOGNISED, bounded, preview};
use contract::event::{self, Body, Quota, QuotaWindow, StopReason, ToolStatus};
use contract::limits::{MAPPING_ID_BYTES_MAX, TEXT_BYTES_MAX};
use contract::mapping::{self, Rule, Verdict};
use contract::money::CostSource;
use contract::speech::Limited;
use contract::{Code, NanoUsd, Signal, Tokens};

/// Who is said to hold an account when nobody says who makes the models.
const SOME_PROVIDER: &str = "unknown";

/// One line being heard by the rules.
pub(super) struct Rules<'a, 'line> {
    pub book: &'a Book,
    pub state: &'a mut State,
    pub ear: &'a mut Ear<'line>,
}

impl Rules<'_, '_> {
    /// Everything that a rule gives, in this order.
    pub(super) fn apply(&mut self, rule: &Rule, place: Place<'_>) {
        if let Some(session) = &rule.session {
            self.session(session, place);
        }
        if rule.session_unknown {
            self.session_unknown();
        }
        // A turn that began after it would take back that the conversation is not known.
        let begins = !self.book.turn_by_rule && !rule.ignore && !rule.session_unknown;
        if rule.turn || begins {
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
            self.ear.keep((!level.is_empty()).then_some(level.as_str()));
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
            self.ear.keep((!level.is_empty()).then_some(level.as_str()));
        }
    }

    fn session(&mut self, session: &mapping::Session, place: Place<'_>) {
        let id = self.book.text(session.id.as_ref(), place).filter(|id| is_id(id));
        if id.is_some() && id == self.state.session {
            return;
        }
        let resumed = id.is_some() && id == self.state.resumes;
        self.state.session = id.clone().or(self.state.session.take());
        self.ear.introduce(event::Session {
            model: self.book.text(session.model.as_ref(), place),
            tools: None,
            cwd: self.book.text(session.cwd.as_ref(), place),
            native_session: id,
            resumed,
        });
    }

    /// Only a conversation that was asked for can be unknown.
    fn session_unknown(&mut self) {
        if self.state.resumes.is_none() {
            return self.ear.keep_stray();
        }
        let line = self.ear.line;
        self.complain(&Told { code: Code::NativeSessionUnknown, detail: Some(line.to_owned()) });
        self.ear.signal(Signal::SessionUnknown);
    }

    /// The agent may start again by itself; for us it is the same turn.
    fn start(&mut self) {
        if !std::mem::replace(&mut self.state.turn_open, true) {
            self.ear.start_turn();
        }
    }

    fn text(&mut self, kind: Kind, rule: &mapping::Text, place: Place<'_>) {
        let text = self.book.text(Some(&rule.at), place);
        let key = rule.block.as_ref().and_then(|path| self.book.text_at(path, place));
        if rule.repeats {
            let streamed = std::mem::take(&mut self.state.streamed);
            if kind == Kind::Text {
                self.state.set_answer(text.as_deref());
            }
            if let Some(text) = text.filter(|_| !streamed) {
                self.say(kind, key.as_deref(), text, false);
            }
            return self.state.end_text();
        }
        let Some(text) = text else { return };
        self.lift();
        self.state.streamed |= kind == Kind::Text && rule.delta;
        self.say(kind, key.as_deref(), text, rule.delta);
    }

    fn say(&mut self, kind: Kind, key: Option<&str>, text: String, delta: bool) {
        let block = Some(self.state.hear(kind, key, &text, delta));
        match kind {
            Kind::Text => self.ear.say(text, block, delta),
            Kind::Thinking => self.ear.think(text, block, delta),
        }
    }

    fn tool_use(&mut self, rule: &mapping::ToolUse, place: Place<'_>) {
        let book = self.book;
        let Some(id) = book.text(Some(&rule.id), place).filter(|id| is_id(id)) else {
            return self.ear.keep(Some(UNRECOGNISED));
        };
        let name = book.text(Some(&rule.name), place).unwrap_or_default();
        let input = book.value(rule.input.as_ref(), place).unwrap_or_default();
        let parent = book.text(rule.parent.as_ref(), place);
        let call = Call { id, name, input, parent };
        self.lift();
        self.state.end_text();
        let (changes, plan) = (tools::changes(book, &call), tools::plan(book, &call));
        if self.ear.open(&mut self.state.calls, tools::event(book, call), changes) {
            self.state.worked = true;
            plan.into_iter().for_each(|plan| self.ear.draft(Body::Plan(plan)));
        }
    }

    fn tool_update(&mut self, rule: &mapping::ToolUpdate, place: Place<'_>) {
        let id = self.book.text(Some(&rule.id), place);
        let open = id.filter(|id| self.state.calls.is_open(id));
        if let (Some(id), Some(content)) = (open, self.book.value(Some(&rule.content), place)) {
            self.ear.update(&id, content);
        }
    }

    fn tool_result(&mut self, rule: &mapping::ToolResult, place: Place<'_>) {
        let book = self.book;
        let ok = book.holds(&rule.ok, place);
        let came = Came {
            status: if ok { ToolStatus::Ok } else { ToolStatus::Error },
            denied: !rule.denied.is_empty() && book.holds(&rule.denied, place),
            output: book.value(rule.output.as_ref(), place).unwrap_or_default(),
            duration_ms: None,
            changes: Vec::new(),
        };
        let id = book.text(Some(&rule.id), place);
        if self.ear.close(&mut self.state.calls, id.as_deref(), came) {
            self.state.end_text();
        }
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
        self.ear.spent(event::Usage {
            model: book.text(rule.model.as_ref(), place),
            provider: provider.or_else(|| book.mapping.provider.clone()),
            tokens,
            basis: rule.basis,
            reported_nanousd: usd,
            effective_nanousd: usd,
            cost_source: if usd.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
            ..event::Usage::default()
        });
    }

    fn error(&mut self, rule: &mapping::Trouble, place: Place<'_>) -> Told {
        let (code, message) = trouble::of(self.book, rule, place);
        let detail = (!message.is_empty()).then(|| preview(&message));
        let told = Told { code, detail };
        self.complain(&told);
        if rule.fatal {
            self.ear.signal(Signal::ModelError { code });
        }
        self.state.trouble = Some(told.clone());
        told
    }

    fn complain(&mut self, Told { code, detail }: &Told) {
        self.ear.error(*code, detail.as_deref().unwrap_or_default());
        self.quota(*code);
    }

    /// Says once that nothing is left; when there will be is not told.
    fn quota(&mut self, code: Code) {
        let Some(mapping::Window { window }) = &self.book.mapping.quota else { return };
        if code != Code::ProviderQuota || std::mem::replace(&mut self.state.quota_told, true) {
            return;
        }
        let provider = self.book.mapping.provider.as_deref().unwrap_or(SOME_PROVIDER);
        self.ear.draft(Body::Quota(Quota {
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
        self.ear.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at: None }));
    }

    /// The model answers, so whatever held it back is over.
    fn lift(&mut self) {
        if self.state.limited.take().is_some() {
            self.ear.signal(Signal::LimitLifted);
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
        self.ear.abandon(&mut self.state.calls);
        (self.state.ended, self.state.turn_open) = (true, false);
        let judged = self.judge(rule, told, place).or_else(|| self.state.verdict.take());
        let nothing = Some(Code::EndedWithoutResult);
        let Ends { code, stop, detail, text } =
            judged.unwrap_or(Ends { code: nothing, stop: None, detail: None, text: None });
        let text = text.or_else(|| self.state.answer());
        let empty = code.is_none() && text.is_none() && !self.state.worked;
        let (code, stop) = if empty { (nothing, None) } else { (code, stop) };
        let stop = stop.unwrap_or(stop_of(code));
        self.ear.end_turn(stop);
        self.ear.result(code, text, detail);
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
