//! Hears updates: every kind of them becomes an event by one table, and what is not known is kept as
//! a `log`. The history that an agent tells while a session is taken up again is no news and makes
//! no events. Calls of tools are heard in `call`; beginnings and ends of turns in `turn`.

use super::call::has_diffs;
use super::lane::ToldError;
use super::state::{State, short};
use super::usage;
use super::wire::{Cost, Entry, Update, Updated};
use super::words;
use crate::{Out, registry, reset};
use contract::event::{self, Body, Log, Plan, PlanEntry, Raw, Text, Usage, UserText};
use contract::money::Basis;
use contract::plan::TurnEnd;
use contract::speech::Limited;
use contract::{Code, Draft, NanoUsd, Signal, Tokens, limits};
use serde_json::Value;

/// The level of a line that was not understood.
pub(super) const UNRECOGNISED: &str = "unrecognised";
/// The level of what goes on but is not as it was wanted.
pub(super) const WARNING: &str = "warning";

/// One line being heard, or something being said (then there is no line).
pub(super) struct Ear<'a> {
    pub state: &'a mut State,
    pub out: &'a mut Out,
    pub raw: Option<Raw>,
    /// The line as it came, for a `log`.
    pub line: &'a str,
}

impl Ear<'_> {
    pub(super) fn updated(&mut self, updated: Updated) {
        let Updated { session_id, update } = updated;
        let elsewhere = session_id.is_some()
            && self.state.session.is_some()
            && session_id != self.state.session;
        match update {
            // What the agent's helpers say in sessions of their own is not the answer.
            Some(update) if elsewhere => {
                let diffs = update.content.as_ref().is_some_and(has_diffs);
                self.judge_stranger(&update.call, diffs);
                self.unrecognised();
            }
            Some(update) if self.state.in_history() => self.history(update),
            Some(update) => self.update(update),
            None => self.unrecognised(),
        }
    }

    /// Of what was before, only how things stand now counts.
    fn history(&mut self, update: Update) {
        match update.session_update.as_deref().unwrap_or_default() {
            "agent_message_chunk"
            | "agent_thought_chunk"
            | "user_message_chunk"
            | "tool_call"
            | "tool_call_update"
            | "plan" => {}
            "usage_update" => self.state.cost = nanousd(update.cost).or(self.state.cost),
            _ => self.update(update),
        }
    }

    fn update(&mut self, update: Update) {
        self.meter(&update);
        match update.session_update.as_deref().unwrap_or_default() {
            "agent_message_chunk" => self.piece(update, false),
            "agent_thought_chunk" => self.piece(update, true),
            "user_message_chunk" => match text_of(update.content.as_ref()) {
                // The prompt said back: it is an event already.
                Some(text) if self.state.is_echo(&text) => {}
                Some(text) => self.push(Body::UserText(UserText { text })),
                None => self.unrecognised(),
            },
            "tool_call" | "tool_call_update" => {
                self.call(update.call, update.content, update.meta.as_ref());
            }
            "plan" => self.plan(update.entries),
            "current_mode_update" => {
                let mode = short(update.current_mode_id).unwrap_or_default();
                self.note(format!("its mode is now '{mode}'"), None);
                self.mode_told(&mode);
            }
            "available_commands_update" => {
                let commands = update.available_commands.len();
                self.note(format!("it offers {commands} commands of its own"), None);
            }
            "config_option_update" => {
                let model = update.config_options.iter().find(|option| option.is_model());
                let model = model.and_then(|option| option.current_value.as_ref()?.as_str());
                self.state.model = short(model.map(str::to_owned)).or(self.state.model.take());
                let options: Vec<_> = update.config_options.iter().map(shown).collect();
                self.note(format!("its options are now {}", options.join(", ")), None);
                self.options_told(&update.config_options);
            }
            "notice" => self.notice(update),
            "compaction_update" => {
                let status = short(update.call.status).unwrap_or_default();
                self.note(format!("it makes its conversation shorter: {status}"), None);
            }
            "session_info_update" => self.info(update.call.title, update.meta.as_ref()),
            "usage_update" => self.fill(update),
            "turn_end" if self.state.wanted.turn_end == TurnEnd::Update => self.over(update),
            _ => self.unknown_notification(),
        }
    }

    /// Counts what an update tells of the tokens of one answer, in `_meta.usage`. An answer ends with
    /// its calls; until then its figures may be told again, or grow.
    fn meter(&mut self, update: &Update) {
        if let Some(told) = usage::of_update(update.meta.as_ref()) {
            let added = told.minus(&self.state.told_in_answer);
            if self.state.told_in_answer.total() == 0 {
                self.signal(Signal::ModelAnswer);
            }
            self.state.told_in_answer = self.state.told_in_answer.plus(&added);
            self.spend(self.state.model.clone(), added);
        }
        let calls =
            matches!(update.session_update.as_deref(), Some("tool_call" | "tool_call_update"));
        if calls {
            self.state.told_in_answer = Tokens::default();
        }
    }

    /// A piece of the model's text or thought.
    fn piece(&mut self, update: Update, thinking: bool) {
        let Some(text) = text_of(update.content.as_ref()) else { return self.unrecognised() };
        let agent = self.state.agent.as_deref();
        if !thinking && words::remarks(agent, &text) {
            return self.note(text, None);
        }
        let confesses = words::confesses(agent, &text);
        self.lift();
        let block = self.state.block(thinking, update.message_id);
        if !thinking {
            self.state.confession = confesses.then(|| clipped(&text));
            self.state.keep_answer(&text);
            self.state.refused = false;
        }
        self.state.acted |= !text.trim().is_empty();
        let text = Text { text, block: Some(block), delta: true };
        self.push(if thinking { Body::Thinking(text) } else { Body::AssistantText(text) });
    }

    fn plan(&mut self, entries: Vec<Entry>) {
        let entry = |entry: Entry| PlanEntry {
            text: entry.content.unwrap_or_default(),
            status: entry.status.unwrap_or_else(|| "pending".to_owned()),
            priority: entry.priority,
        };
        let entries = entries.into_iter().map(entry).collect();
        self.push(Body::Plan(Plan { entries }));
    }

    /// Something for people that is no part of the conversation.
    fn notice(&mut self, update: Update) {
        let Update { call, description, severity, .. } = update;
        let said: Vec<_> = call.title.into_iter().chain(description).collect();
        match said.is_empty() {
            true => self.unrecognised(),
            false => self.note(clipped(&said.join(": ")), short(severity).as_deref()),
        }
    }

    /// A new title, or what an agent tells of its model beside the protocol.
    fn info(&mut self, title: Option<String>, meta: Option<&Value>) {
        if let Some(title) = short(title) {
            self.note(format!("its session is called '{title}'"), None);
        }
        let Some(meta) = meta else { return };
        let mut lanes = registry::by_acp().iter();
        let Some(told) = lanes.find_map(|laned| (laned.aside.meta)(meta)) else { return };
        self.state.failing |= told.failing;
        let Some(ToldError { said, status, tries_again }) = told.error else { return };
        let code = words::of_text(status, &said).unwrap_or(Code::UpstreamError);
        self.trouble(code, said, tries_again);
        if tries_again {
            self.state.limited = true;
            let (terminal, wait_ms, resets_at) = (false, None, None);
            self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
        }
    }

    /// How full the window is and what the session has cost, told as often as the agent likes.
    fn fill(&mut self, update: Update) {
        let context = match (update.used, update.size) {
            (Some(used), Some(size)) => self.state.context(used, size),
            _ => None,
        };
        let before = self.state.cost;
        let told = nanousd(update.cost);
        self.state.cost = told.or(before);
        let added = told.map(|told| told.saturating_sub(before.unwrap_or_default()));
        let reported_nanousd = added.filter(|added| added.0 > 0);
        if context.is_none() && reported_nanousd.is_none() {
            return;
        }
        let (model, basis) = (self.state.model.clone(), Basis::Increment);
        self.push(Body::Usage(Usage {
            model,
            context,
            basis,
            reported_nanousd,
            ..Usage::default()
        }));
    }

    /// An error on the way.
    pub(super) fn trouble(&mut self, code: Code, detail: String, tries_again: bool) {
        if code == Code::ProviderQuota
            && let Some(told) = reset::read(&detail)
        {
            self.signal(Signal::Resets(told));
        }
        self.push(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: tries_again || code.retryable(),
            retry_at: None,
            hint: None,
            detail: Some(detail),
        }));
    }

    /// The model answers again.
    pub(super) fn lift(&mut self) {
        if std::mem::take(&mut self.state.limited) {
            self.signal(Signal::LimitLifted);
        }
    }

    pub(super) fn unrecognised(&mut self) {
        self.log(UNRECOGNISED);
    }

    /// Keeps the line itself.
    pub(super) fn log(&mut self, level: &str) {
        let stream = self.raw.map_or(event::Stream::Ostler, |raw| raw.stream);
        let (text, level) = (self.line.to_owned(), Some(level.to_owned()));
        self.push(Body::Log(Log { stream, text, level }));
    }

    /// A fact in our own words.
    pub(super) fn note(&mut self, text: String, level: Option<&str>) {
        let (stream, level) = (event::Stream::Ostler, level.map(str::to_owned));
        self.push(Body::Log(Log { stream, text, level }));
    }

    pub(super) fn push(&mut self, body: Body) {
        let draft = match self.raw {
            Some(_) => Draft::agent(body),
            None => Draft::ostler(body),
        };
        self.out.drafts.push(Draft { raw: self.raw, ..draft });
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }
}

/// The text of one content block; what is no text is named by its type.
pub(super) fn text_of(content: Option<&Value>) -> Option<String> {
    let content = content?;
    match (content["type"].as_str()?, content["text"].as_str()) {
        ("text", text) => text.map(str::to_owned),
        (kind, _) => {
            let name = content["uri"].as_str().or_else(|| content["resource"]["uri"].as_str());
            Some(format!("[{}]", [kind, name.unwrap_or_default()].join(" ").trim_end()))
        }
    }
}

fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(limits::PREVIEW_BYTES)].to_owned()
}

fn shown(option: &super::wire::ConfigOption) -> String {
    let id = option.id.as_deref().unwrap_or_default();
    let value = match &option.current_value {
        Some(Value::String(value)) => value.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let value: String = value.chars().take(80).collect();
    format!("{id} = {value}")
}

/// Dollars; other money cannot be counted here.
fn nanousd(cost: Option<Cost>) -> Option<NanoUsd> {
    let cost = cost.filter(|cost| cost.currency.as_deref().is_none_or(|unit| unit == "USD"))?;
    NanoUsd::from_usd(cost.amount?)
}
