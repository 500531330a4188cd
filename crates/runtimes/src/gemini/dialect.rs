//! Hears `-o stream-json`. Standard output has the facts: text in pieces, tools in pairs, and one
//! result with the tokens of every model that was asked. Retries are told on stderr only. The end
//! is a `result` of status success and nothing else: this agent exits 0 after SIGTERM, after an
//! empty answer and after a broken stream.

use super::wire::{Complaint, Count, Finish, Init, Line, Message, Stats, ToolResult, ToolUse};
use super::{tools, trouble};
use crate::Spec;
use crate::headless::{
    Answer, Calls, Came, Ear, Listener, REPEATED, Read, UNRECOGNISED, WARNING, is_id, preview,
    tool_use,
};
use crate::lenient::Lenient;
use crate::reset;
use contract::event::{Body, Quota, QuotaWindow, Session, StopReason, ToolStatus, Usage};
use contract::money::Basis;
use contract::reset::Reset;
use contract::speech::Close;
use contract::{Code, Signal, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who makes the models.
const PROVIDER: &str = "google";
/// The one window that is told of, and only when nothing is left of it.
const QUOTA_WINDOW: &str = "gemini_model_quota";

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    /// The first line was heard and the last was not.
    turn_open: bool,
    ended: bool,
    /// The number of the text that is being said; a tool between two pieces begins another.
    block: u32,
    text: Answer,
    text_open: bool,
    /// The model's present answer was counted.
    #[serde(default)]
    in_answer: bool,
    calls: Calls,
    /// What the provider holds the agent back with, by the last word of stderr.
    limited: Option<Code>,
    quota_told: bool,
    /// What the last `error` line said, for a result that does not repeat it.
    complaint: Option<String>,
}

impl Listener for State {
    const VERSION: u32 = 2;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Blank => {}
            Read::Aside => self.aside(ear),
            Read::Stray => ear.stray(trouble::SESSION_UNKNOWN, self.resumes.is_some()),
            Read::Line(_) if self.ended => ear.keep(Some(REPEATED)),
            Read::Line(line) => self.line(line, ear),
        }
    }

    fn close(&mut self, _: Close, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        Self { resumes: spec.session.clone(), ..Self::default() }
    }

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::Init(init) => self.init(init, ear),
            Line::Message(message) => self.message(message, ear),
            Line::ToolUse(call) => self.tool_use(call, ear),
            Line::ToolResult(result) => self.tool_result(result, ear),
            Line::Error(complaint) => self.complaint(complaint, ear),
            Line::Result(finish) => self.finish(*finish, ear),
        }
    }

    fn init(&mut self, init: Init, ear: &mut Ear<'_>) {
        if std::mem::replace(&mut self.turn_open, true) {
            return ear.keep(Some(REPEATED));
        }
        ear.introduce(Session {
            resumed: init.session_id.is_some() && init.session_id == self.resumes,
            model: init.model,
            tools: None,
            cwd: None,
            native_session: init.session_id,
        });
        ear.start_turn();
    }

    fn message(&mut self, message: Message, ear: &mut Ear<'_>) {
        let Message { role, content: Some(content), delta } = message else {
            return ear.keep(Some(UNRECOGNISED));
        };
        match role.as_deref() {
            Some("assistant") => {
                self.lift(ear);
                self.answer(ear);
                if !(delta && self.text_open) {
                    self.block = self.block.saturating_add(1);
                    self.text.set("");
                }
                self.text.push(&content);
                self.text_open = delta;
                ear.say(content, Some(format!("text-{}", self.block)), delta);
            }
            // The prompt said back: it is an event already, and the trace has the line.
            Some("user") => {}
            Some(_) | None => ear.keep(Some(UNRECOGNISED)),
        }
    }

    fn tool_use(&mut self, call: ToolUse, ear: &mut Ear<'_>) {
        let Some(id) = call.tool_id.filter(|id| is_id(id)) else {
            return ear.keep(Some(UNRECOGNISED));
        };
        self.lift(ear);
        self.answer(ear);
        self.text_open = false;
        let (name, input) = (call.tool_name.unwrap_or_default(), call.parameters);
        let (changes, plan) = (tools::changes(&id, &name, &input), tools::plan(&name, &input));
        if ear.open(&mut self.calls, tool_use(id, name, input, tools::about), changes) {
            plan.into_iter().for_each(|plan| ear.draft(Body::Plan(plan)));
        }
    }

    fn tool_result(&mut self, result: ToolResult, ear: &mut Ear<'_>) {
        let status = match result.status.as_deref() {
            Some("success") => ToolStatus::Ok,
            Some(_) | None => ToolStatus::Error,
        };
        // Held back by a policy, it never ran.
        let denied = result.error.get("type").is_some_and(|kind| kind == "policy_violation");
        let output = if result.output.is_null() { result.error } else { result.output };
        let came = Came { status, denied, output, duration_ms: None, changes: Vec::new() };
        if ear.close(&mut self.calls, result.tool_id.as_deref(), came) {
            (self.text_open, self.in_answer) = (false, false);
        }
    }

    /// Text and calls belong to one answer until results of its calls are told: all calls of an
    /// answer come before the first of their results.
    fn answer(&mut self, ear: &mut Ear<'_>) {
        if !std::mem::replace(&mut self.in_answer, true) {
            ear.signal(Signal::ModelAnswer);
        }
    }

    fn complaint(&mut self, complaint: Complaint, ear: &mut Ear<'_>) {
        let message = complaint.message.unwrap_or_default();
        if complaint.severity.as_deref() != Some("error") {
            return ear.keep(Some(WARNING));
        }
        self.text_open = false;
        let code = trouble::of(&message).unwrap_or(Code::UpstreamError);
        ear.error(code, &message);
        ear.signal(Signal::ModelError { code });
        self.complaint = Some(preview(&message));
    }

    /// Only a status of success is one.
    fn finish(&mut self, finish: Finish, ear: &mut Ear<'_>) {
        self.lift(ear);
        ear.abandon(&mut self.calls);
        (self.ended, self.turn_open) = (true, false);
        self.spent(finish.stats, ear);
        let success = finish.status == "success";
        let code = (!success).then(|| self.fault(&finish.error));
        let stop = match code {
            None => StopReason::EndTurn,
            Some(Code::MaxTurns) => StopReason::MaxTurns,
            Some(_) => StopReason::Error,
        };
        let detail = if success { None } else { self.detail(&finish.error) };
        if let Some(code) = code {
            if finish.error.is_object() {
                ear.error(code, detail.as_deref().unwrap_or_default());
            }
            self.quota(code, ear);
        }
        ear.end_turn(stop);
        ear.result(code, self.text.said(), detail);
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
        let message = error.get("message").and_then(Value::as_str).map(preview);
        message.or_else(|| self.complaint.clone())
    }

    /// The tokens of every model that was asked, the small one that chooses among models included.
    fn spent(&mut self, stats: Option<Lenient<Stats>>, ear: &mut Ear<'_>) {
        let Stats { all, models } = match stats {
            None => return,
            Some(Lenient::Other(_)) => return ear.keep(Some(UNRECOGNISED)),
            Some(Lenient::Known(stats)) => stats,
        };
        // Without models the sum is all there is.
        let rows: Vec<_> = match models.is_empty() {
            true => vec![(None, all)],
            false => models.into_iter().map(|(model, count)| (Some(model), count)).collect(),
        };
        for (model, count) in rows {
            let tokens = tokens(count);
            if tokens.total() > 0 {
                ear.spent(Usage {
                    model,
                    provider: Some(PROVIDER.to_owned()),
                    tokens: Some(tokens),
                    basis: Basis::RunTotal,
                    ..Usage::default()
                });
            }
        }
    }

    /// A line of stderr: a retry, an error of the provider, or noise.
    fn aside(&mut self, ear: &mut Ear<'_>) {
        let line = ear.line;
        if trouble::session_unknown(line) && self.resumes.is_some() {
            ear.error(Code::NativeSessionUnknown, line);
            return ear.signal(Signal::SessionUnknown);
        }
        let wait_ms = trouble::wait_ms_in(line);
        if !trouble::about_the_provider(line) {
            // The wait that belongs to the retry before.
            if let (Some(code), Some(_)) = (self.limited, wait_ms) {
                ear.limited(code, wait_ms);
            }
            return ear.keep(None);
        }
        let code = trouble::of(line).unwrap_or(Code::UpstreamError);
        let retries = line.starts_with("Attempt ");
        // What is used up for the day is not tried again; the words that say so may be cut off,
        // because the provider's message goes on in the lines below. One that is tried again may name
        // its reset all the same: the longer of the two waits counts.
        let passes = retries && code == Code::ProviderQuota;
        let reset = reset::read(line).filter(|_| passes);
        let stated_ms = reset.as_ref().and_then(|reset| match reset {
            Reset::After { ms } => Some(*ms),
            Reset::At(_) | Reset::Clock(_) => None,
        });
        let wait_ms = wait_ms.max(stated_ms);
        if let Some(reset) = reset {
            ear.signal(Signal::Resets(reset));
            self.quota(code, ear);
        }
        let code = if passes { Code::RateLimited } else { code };
        ear.error(code, line);
        self.quota(code, ear);
        if retries && !self.ended {
            self.limited = Some(code);
            ear.limited(code, wait_ms);
        }
    }

    /// The model answers, so whatever held it back is over.
    fn lift(&mut self, ear: &mut Ear<'_>) {
        if self.limited.take().is_some() {
            ear.signal(Signal::LimitLifted);
        }
    }

    /// Says once that nothing is left. When there will be is told by a signal, where it is told.
    fn quota(&mut self, code: Code, ear: &mut Ear<'_>) {
        if code != Code::ProviderQuota || std::mem::replace(&mut self.quota_told, true) {
            return;
        }
        ear.draft(Body::Quota(Quota {
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
