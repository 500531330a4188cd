//! Hears what both shapes share: items of work, troubles, tokens, and the beginnings and ends of
//! turns. Texts that were heard in pieces are not repeated whole; every call that was opened is
//! closed, at the latest with its turn. `dialect` tells which line is what.

use super::call;
use super::state::{State, short};
use super::wire::{Change, Counts, Item, RateLimits, Step, Trouble, Window};
use super::words;
use crate::{Out, reset};
use contract::event::{
    self, Body, ContextFill, Location, Log, Plan, PlanEntry, Quota, QuotaWindow, Raw, StopReason,
    Text, ToolResult, ToolStatus, ToolUse, TurnPhase, Usage, Via,
};
use contract::money::Basis;
use contract::speech::{Ending, Limited};
use contract::{Billing, Code, Draft, Signal, Timestamp, Tokens};
use serde_json::{Value, json};

/// The level of a line that was not understood.
pub(super) const UNRECOGNISED: &str = "unrecognised";
/// The level of what the agent only warns of.
pub(super) const WARNING: &str = "warning";
/// A turn that completed without a word and without a call.
const NOTHING_DONE: &str = "the turn completed, but nothing was said or done in it";
/// Who counts the windows of an account.
const PROVIDER: &str = "openai";

/// One line being heard.
pub(super) struct Ear<'a> {
    pub state: &'a mut State,
    pub out: &'a mut Out,
    pub raw: Raw,
    /// The line as it came, for a `log`.
    pub line: &'a str,
}

impl Ear<'_> {
    pub(super) fn session(&mut self, id: String, model: Option<String>, cwd: Option<String>) {
        let resumed = self.state.wanted.resume.as_deref() == Some(id.as_str());
        self.state.model = short(model.clone());
        self.state.thread = Some(id.clone());
        // It was said with the thread.
        self.state.wanted.system_prompt = None;
        let native_session = Some(id.clone());
        self.push(Body::Session(event::Session {
            model,
            tools: None,
            cwd,
            native_session,
            resumed,
        }));
        self.signal(Signal::Session { id });
    }

    pub(super) fn turn_started(&mut self) {
        self.state.turns = self.state.turns.saturating_add(1);
        self.state.in_turn = true;
        self.state.answer = None;
        self.state.acted = false;
        let (phase, n) = (TurnPhase::Started, self.state.turns);
        self.push(Body::Turn(event::Turn { phase, n, stop_reason: None }));
        self.signal(Signal::TurnStarted);
    }

    /// Closes what is open, then the turn.
    fn turn_ended(&mut self, stop: StopReason) {
        for tool_call_id in self.state.drain() {
            let output = json!("the turn ended before this call did");
            self.tool_result(ToolResult {
                tool_call_id,
                status: ToolStatus::Error,
                denied: None,
                output,
                duration_ms: None,
            });
        }
        self.state.in_turn = false;
        self.state.turn = None;
        let (phase, n) = (TurnPhase::Ended, self.state.turns.max(1));
        self.push(Body::Turn(event::Turn { phase, n, stop_reason: Some(stop) }));
        self.signal(Signal::TurnEnded { stop });
    }

    pub(super) fn completed(&mut self) {
        self.lift();
        self.turn_ended(StopReason::EndTurn);
        let text = self.state.answer.clone();
        let (code, detail) =
            match self.state.acted || text.as_ref().is_some_and(|text| !text.is_empty()) {
                true => (None, None),
                false => (Some(Code::EndedWithoutResult), Some(NOTHING_DONE.to_owned())),
            };
        self.signal(Signal::Result(Ending { code, text, output: None, detail }));
    }

    /// A turn that was interrupted is the end only when nobody here asked for it; else it goes on
    /// with the message that waits, or with the next one.
    pub(super) fn interrupted(&mut self) {
        self.turn_ended(StopReason::Cancelled);
        if !std::mem::take(&mut self.state.interrupting) {
            let code = Some(Code::Cancelled);
            self.signal(Signal::Result(Ending { code, text: None, output: None, detail: None }));
        } else {
            self.begin();
        }
    }

    /// Starts a turn with what waits to be said.
    pub(super) fn begin(&mut self) {
        if let Some(prompt) = self.state.prompt.take() {
            let request = self.state.start_turn(&prompt);
            self.out.frames.push(request);
        }
    }

    /// A turn failed, and nothing is tried any more.
    pub(super) fn failed(&mut self, trouble: &Trouble) {
        let code = words::code(&said(trouble), trouble.codex_error_info.as_ref());
        self.turn_ended(match code {
            Code::AnswerCut => StopReason::MaxTokens,
            Code::ModelRefusal => StopReason::Refusal,
            _ => StopReason::Error,
        });
        self.signal(Signal::ModelError { code });
        self.give_up(trouble);
    }

    /// The agent says that it failed.
    pub(super) fn give_up(&mut self, trouble: &Trouble) {
        let message = said(trouble);
        let code = words::code(&message, trouble.codex_error_info.as_ref());
        let (text, detail) = (self.state.answer.clone(), Some(message));
        self.signal(Signal::Result(Ending { code: Some(code), text, output: None, detail }));
    }

    /// A trouble on the way. What is tried again holds the agent back; what is not is told once more
    /// by the end of the turn.
    pub(super) fn trouble(&mut self, trouble: &Trouble, tries_again: bool) {
        let message = said(trouble);
        let code = words::code(&message, trouble.codex_error_info.as_ref());
        let (wait_ms, resets_at) = (reset::wait_ms(&message), self.state.resets_at);
        let told = reset::read(&message);
        let quota = code == Code::ProviderQuota;
        self.push(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: tries_again || code.retryable(),
            retry_at: resets_at.filter(|_| quota),
            hint: None,
            detail: Some(message),
        }));
        if tries_again || quota {
            if let Some(told) = told.filter(|_| quota) {
                self.signal(Signal::Resets(told));
            }
            (self.state.limited, self.state.used_up) = (true, quota);
            let resets_at = resets_at.filter(|_| quota);
            self.signal(Signal::Limited(Limited { code, terminal: quota, wait_ms, resets_at }));
        } else {
            self.signal(Signal::ModelError { code });
        }
    }

    /// The model answers, so nothing holds the agent back.
    fn lift(&mut self) {
        if std::mem::take(&mut self.state.limited) {
            self.state.used_up = false;
            self.signal(Signal::LimitLifted);
        }
    }

    pub(super) fn delta(&mut self, block: String, text: String, thinking: bool) {
        self.lift();
        self.state.stream(&block);
        let text = Text { text, block: Some(block), delta: true };
        self.push(if thinking { Body::Thinking(text) } else { Body::AssistantText(text) });
    }

    pub(super) fn item_started(&mut self, item: &Item) {
        self.lift();
        self.tool_use(item);
    }

    pub(super) fn item_completed(&mut self, item: Item) {
        let id = item.id.clone().unwrap_or_default();
        let kind = item.kind.clone().unwrap_or_default();
        match kind.as_str() {
            "agent_message" | "agentMessage" => {
                self.lift();
                let text = item.text.unwrap_or_default();
                self.state.keep_answer(&text);
                self.signal(Signal::FinalText);
                if !self.state.was_streamed(&id) && !text.is_empty() {
                    self.push(Body::AssistantText(Text { text, block: Some(id), delta: false }));
                }
            }
            "reasoning" => {
                self.lift();
                let parts = item.summary.filter(|parts| !parts.is_empty()).or(item.content);
                let text = item.text.unwrap_or_else(|| joined(parts.unwrap_or_default()));
                if !self.state.was_streamed(&id) && !text.is_empty() {
                    self.push(Body::Thinking(Text { text, block: Some(id), delta: false }));
                }
            }
            // A mere warning: what fails is told by the turn.
            "error" => {
                let text = item.message.unwrap_or_default();
                self.log(text, WARNING);
            }
            "todo_list" => self.plan(item.items.unwrap_or_default()),
            "userMessage" => {}
            _ if call::is_one(&item) => self.tool_completed(item),
            _ => self.unrecognised(),
        }
    }

    pub(super) fn plan(&mut self, steps: Vec<Step>) {
        let entry = |step: Step| {
            let done = step.completed.map(|done| if done { "completed" } else { "pending" });
            let status = step.status.as_deref().or(done).unwrap_or("pending").to_owned();
            PlanEntry { text: step.text.unwrap_or_default(), status, priority: None }
        };
        let entries = steps.into_iter().map(entry).collect();
        self.push(Body::Plan(Plan { entries }));
    }

    /// States a call once.
    fn tool_use(&mut self, item: &Item) {
        let (Some(id), Some(call)) = (&item.id, call::of(item)) else { return };
        if !self.state.open(id) {
            return;
        }
        if call.kind == "edit" {
            self.state.proposed = Some(call::proposed(item, id, self.state.wanted.cwd.clone()));
        }
        let place = |change: &Change| Some(Location { path: change.path.clone()?, line: None });
        let changes = item.changes.iter().flatten();
        self.push(Body::ToolUse(ToolUse {
            tool_call_id: id.clone(),
            name: call.name,
            input: call.input,
            via: Via::Native,
            title: call.title,
            tool_kind: Some(call.kind.to_owned()),
            locations: changes.filter_map(place).collect(),
            parent: None,
        }));
        self.state.acted = true;
        self.signal(Signal::ToolOpened { tool_call_id: id.clone() });
    }

    fn tool_completed(&mut self, item: Item) {
        let Some(id) = item.id.clone() else { return self.unrecognised() };
        // Some calls are told only when they are done.
        self.tool_use(&item);
        if !self.state.is_open(&id) {
            return self.unrecognised();
        }
        self.state.close(&id);
        let denied = item.status.as_deref() == Some("declined");
        let well = !denied && item.status.as_deref() != Some("failed") && item.error.is_none();
        let output = match (item.aggregated_output, item.exit_code) {
            (Some(text), Some(code)) => json!({ "output": text, "exit_code": code }),
            (Some(text), None) => json!(text),
            (None, Some(code)) => json!({ "exit_code": code }),
            (None, None) => item.result.or(item.error).unwrap_or(Value::Null),
        };
        self.tool_result(ToolResult {
            tool_call_id: id.clone(),
            status: if well { ToolStatus::Ok } else { ToolStatus::Error },
            denied: denied.then_some(true),
            output,
            duration_ms: item.duration_ms,
        });
        if well {
            for change in item.changes.unwrap_or_default() {
                self.push(Body::Diff(change.to_diff(Some(id.clone()))));
            }
        }
    }

    fn tool_result(&mut self, result: ToolResult) {
        let (tool_call_id, denied) = (result.tool_call_id.clone(), result.denied == Some(true));
        self.push(Body::ToolResult(result));
        self.signal(Signal::ToolClosed { tool_call_id, denied });
    }

    /// The tokens of a whole session: all that `exec` tells.
    pub(super) fn spent_in_session(&mut self, counts: &Counts) {
        self.spent(counts.tokens(), Basis::SessionTotal, None);
    }

    /// What the thread's total adds over what was told before. Of a thread that was taken up again
    /// only what this process spends counts, so its first total is where counting begins.
    pub(super) fn counted(&mut self, total: &Counts, last: &Counts, window: Option<u64>) {
        let total = total.tokens();
        let before = match (self.state.counted, self.state.in_turn) {
            (Some(before), _) => before,
            (None, true) => total.minus(&last.tokens()),
            (None, false) => total,
        };
        self.state.counted = Some(total);
        let added = total.minus(&before);
        let context = window.map(|size| ContextFill { used: last.tokens().total(), size });
        if added.total() > 0 {
            self.spent(added, Basis::Increment, context);
        }
    }

    /// The tokens of one request of another thread: the agent's own helpers are paid for as well.
    pub(super) fn spent_elsewhere(&mut self, last: &Counts) {
        self.spent(last.tokens(), Basis::Increment, None);
    }

    fn spent(&mut self, tokens: Tokens, basis: Basis, context: Option<ContextFill>) {
        // One report for each answer; the total of a session is none.
        if basis == Basis::Increment {
            self.signal(Signal::ModelAnswer);
        }
        let model = self.state.model.clone();
        let usage = Usage { model, tokens: Some(tokens), context, basis, ..Usage::default() };
        self.push(Body::Usage(usage.clone()));
        self.signal(Signal::Spent(usage));
    }

    pub(super) fn quota(&mut self, limits: RateLimits) {
        let RateLimits { primary, secondary, rate_limit_reached_type, plan_type } = limits;
        // An account with a key has no plan.
        if let Some(plan) = plan_type.as_deref().filter(|plan| !plan.is_empty()) {
            let billing = if plan == "free" { Billing::Free } else { Billing::Subscription };
            self.signal(Signal::Billing { billing });
        }
        let windows: Vec<_> = [("primary", primary), ("secondary", secondary)]
            .into_iter()
            .filter_map(|(id, window)| Some(quota_window(id, window?)))
            .collect();
        let fullest = windows
            .iter()
            .max_by(|a, b| a.used_percent.unwrap_or(0.0).total_cmp(&b.used_percent.unwrap_or(0.0)));
        self.state.resets_at = fullest.and_then(|window| window.resets_at);
        let rate_limited =
            rate_limit_reached_type.is_some() || windows.iter().any(|window| window.exhausted);
        let resets_at = self.state.resets_at.filter(|_| rate_limited);
        let (provider, account) = (PROVIDER.to_owned(), None);
        let quota = Quota { provider, account, windows, rate_limited, resets_at };
        // It is told with every answer of the model, and mostly nothing changed.
        if self.state.quota.as_ref() != Some(&quota) {
            self.state.quota = Some(quota.clone());
            self.push(Body::Quota(quota));
        }
        // Some versions tell of the windows only after the limit itself.
        if let (true, Some(_)) = (self.state.used_up, resets_at) {
            let (code, terminal, wait_ms) = (Code::ProviderQuota, true, None);
            self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
        }
    }

    pub(super) fn unrecognised(&mut self) {
        self.log(self.line.to_owned(), UNRECOGNISED);
    }

    pub(super) fn log(&mut self, text: String, level: &str) {
        let stream = self.raw.stream;
        self.push(Body::Log(Log { stream, text, level: Some(level.to_owned()) }));
    }

    pub(super) fn push(&mut self, body: Body) {
        self.out.drafts.push(Draft { raw: Some(self.raw), ..Draft::agent(body) });
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }
}

/// Everything that is said of a trouble.
fn said(trouble: &Trouble) -> String {
    let parts = [&trouble.message, &trouble.additional_details];
    let parts: Vec<_> = parts.into_iter().flatten().map(String::as_str).collect();
    parts.join(": ")
}

/// Parts of a reasoning: texts, or objects that hold one.
fn joined(parts: Vec<Value>) -> String {
    let text = |part: &Value| {
        part.as_str().or_else(|| part.get("text")?.as_str()).unwrap_or_default().to_owned()
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

fn quota_window(id: &str, window: Window) -> QuotaWindow {
    let Window { used_percent, window_duration_mins, resets_at } = window;
    QuotaWindow {
        id: id.to_owned(),
        label: window_duration_mins.map(|minutes| format!("{minutes} min")),
        used_percent,
        resets_at: resets_at.map(|seconds| Timestamp(seconds.saturating_mul(1_000))),
        exhausted: used_percent.is_some_and(|percent| percent >= 100.0),
    }
}
