//! Talks with the agent: greeting, thread, turn, and answers to its questions, as JSON-RPC lines.
//! Lines of `exec --json` are understood as well, so that one dialect reads all that the agent
//! prints. What is not known is kept as a `log`; nothing is fatal here. The end is what
//! `turn/completed` (or `turn.completed`, `turn.failed`) states, and nothing else.

use super::call;
use super::ear::{Ear, UNRECOGNISED, WARNING};
use super::state::{State, frame, short};
use super::wire::{Line, Params, Reply, Trouble};
use super::words;
use crate::denial::denied_because;
use crate::{Dialect, Frame, Out, Stream, lenient};
use contract::event::{self, Body, Log, PermissionOption, PermissionRequest, Raw};
use contract::speech::{Close, Ending, Question};
use contract::{Billing, Code, Draft, Signal, Timestamp, Utterance};
use serde_json::{Value, json};

/// What we call ourselves by in the greeting: the version of this way of talking.
const CLIENT_VERSION: &str = "1";

/// What commands are known by that only look.
const READING: [&str; 3] = ["read", "listFiles", "search"];

/// Notifications that say nothing a run needs: their facts come by another line as well.
const KNOWN: &[&str] = &[
    "remoteControl/status/changed",
    "thread/started",
    "thread/status/changed",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/reasoning/summaryPartAdded",
    "turn/diff/updated",
];

/// A conversation with the agent.
pub(super) struct Codex {
    state: State,
}

impl Codex {
    pub(super) fn new(state: State) -> Self {
        Self { state }
    }
}

impl Codex {
    /// A message goes into the turn that is under way, or begins one. Before there is a thread, and
    /// while a turn is being interrupted, it would be refused and lost, so it waits.
    fn message(&mut self, text: &str, out: &mut Out) {
        let state = &mut self.state;
        let under_way = state.in_turn && state.turn.is_some();
        if state.thread.is_none() || (under_way && state.interrupting) {
            if !state.hold(text) {
                note(out, "too much waits to be said already, so a message was not".to_owned());
            }
        } else if under_way {
            out.frames.push(state.steer(text));
        } else {
            out.frames.push(state.start_turn(text));
        }
    }
}

impl Dialect for Codex {
    fn open(&mut self) -> Option<Vec<u8>> {
        let client = json!({ "name": "ostler", "title": "Ostler", "version": CLIENT_VERSION });
        Some(self.state.request("initialize", &json!({ "clientInfo": client })))
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = frame.text();
        let line = text.trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let mut ear = Ear { state: &mut self.state, out, raw, line };
        match frame.stream {
            Stream::Stderr => {
                let (stream, text) = (raw.stream, line.to_owned());
                ear.push(Body::Log(Log { stream, text, level: None }));
                if ear.seeks_thread() && words::thread_unknown(line) {
                    ear.signal(Signal::SessionUnknown);
                }
            }
            Stream::Stdout if frame.cut => ear.unrecognised(),
            Stream::Stdout => match lenient::object::<Line>(line) {
                Some(heard) => ear.hear(heard),
                None => ear.unrecognised(),
            },
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        match utterance {
            Utterance::Decide { request, option, reason } => match self.state.answered(request) {
                Some(asked) => {
                    let decision = option.as_deref().unwrap_or("cancel");
                    let result = json!({ "decision": decision });
                    out.frames.push(frame(&json!({ "id": asked.id, "result": result })));
                    // The protocol has no place for a reason, so it follows as a message.
                    if let Some(reason) = reason {
                        self.message(&denied_because(reason), out);
                    }
                }
                None => note(out, format!("the question '{request}' is not open")),
            },
            Utterance::Message { text } => self.message(text, out),
            Utterance::Interrupt => match self.state.interrupt() {
                Some(_) => {
                    self.state.interrupting = true;
                    let params =
                        json!({ "threadId": self.state.thread, "turnId": self.state.turn });
                    out.frames.push(self.state.request("turn/interrupt", &params));
                }
                None => note(out, "no turn is running, so that nothing was interrupted".to_owned()),
            },
            // The agent learns of its end by its turn's end; without a turn its input just closes.
            Utterance::Shutdown { .. } => out.frames.extend(self.state.interrupt()),
            Utterance::BudgetUpdate { .. } => {}
            Utterance::ToolResult { tool_call_id, .. } => {
                note(out, format!("the call '{tool_call_id}' is the agent's own to answer"));
            }
        }
    }

    /// The protocol waits for nothing.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, _: &mut Out) {}

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        self.state.interrupt()
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        match (line.kind.as_deref(), line.method.as_deref()) {
            (Some(_), _) => self.exec(line),
            (None, Some(_)) => self.message(line),
            (None, None) if line.result.is_some() || line.error.is_some() => self.reply(line),
            (None, None) => self.unrecognised(),
        }
    }

    /// A line of `exec --json`.
    fn exec(&mut self, line: Line) {
        let Line { kind, thread_id, message, item, usage, error, .. } = line;
        match (kind.as_deref().unwrap_or_default(), item) {
            ("thread.started", _) => match short(thread_id) {
                Some(id) => self.session(id, self.state.wanted.model.clone(), None),
                None => self.unrecognised(),
            },
            ("turn.started", _) => self.turn_started(),
            ("item.started" | "item.updated", Some(item)) => self.item_started(&item),
            ("item.completed", Some(item)) => self.item_completed(item),
            ("error", _) => {
                let trouble = Trouble { message, ..Trouble::default() };
                let tries_again = words::tries_again(trouble.message.as_deref().unwrap_or(""));
                self.trouble(&trouble, tries_again);
            }
            ("turn.completed", _) => {
                if let Some(usage) = usage {
                    self.spent_in_session(&usage);
                }
                self.completed();
            }
            ("turn.failed", _) => self.failed(&error.unwrap_or_default()),
            _ => self.unrecognised(),
        }
    }

    /// A notification, or with an id a question.
    fn message(&mut self, line: Line) {
        let Line { method, id, params, .. } = line;
        let (method, params) = (method.unwrap_or_default(), params.unwrap_or_default());
        if let Some(id) = id {
            return self.question(&method, &id, params);
        }
        if params.thread_id.is_some() && params.thread_id != self.state.thread {
            return self.elsewhere(&method, params);
        }
        match method.as_str() {
            "turn/started" => {
                self.state.turn = short(params.turn.and_then(|turn| turn.id));
                self.turn_started();
            }
            "turn/completed" => {
                let turn = params.turn.unwrap_or_default();
                match turn.status.as_deref() {
                    Some("completed") => self.completed(),
                    Some("interrupted") => self.interrupted(),
                    Some("failed") => self.failed(&turn.error.unwrap_or_default()),
                    _ => self.unrecognised(),
                }
            }
            "item/started" => self.item_started(&params.item.unwrap_or_default()),
            "item/completed" => self.item_completed(params.item.unwrap_or_default()),
            "item/agentMessage/delta" => self.piece(params, false),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.piece(params, true);
            }
            "turn/plan/updated" => self.plan(params.plan.unwrap_or_default()),
            "thread/tokenUsage/updated" => {
                let usage = params.token_usage.unwrap_or_default();
                let (total, last) =
                    (usage.total.unwrap_or_default(), usage.last.unwrap_or_default());
                self.counted(&total, &last, usage.model_context_window);
            }
            "account/rateLimits/updated" => self.quota(params.rate_limits.unwrap_or_default()),
            "account/updated" => {
                let billing = match params.auth_mode.as_deref() {
                    Some("apikey" | "apiKey") => Some(Billing::Metered),
                    Some(mode) if mode.starts_with("chatgpt") => Some(Billing::Subscription),
                    Some(_) | None => None,
                };
                if let Some(billing) = billing {
                    self.signal(Signal::Billing { billing });
                }
            }
            "error" => {
                let trouble = params.error.unwrap_or_default();
                let words = words::tries_again(trouble.message.as_deref().unwrap_or(""));
                self.trouble(&trouble, params.will_retry.unwrap_or(words));
                // The end of the turn may never be told after this.
                if params.will_retry == Some(false) {
                    self.give_up(&trouble);
                }
            }
            "serverRequest/resolved" => {
                let request = params.request_id.unwrap_or_default().to_string();
                if self.state.answered(&request).is_some() {
                    self.signal(Signal::AskWithdrawn { request });
                }
            }
            "warning" | "configWarning" | "deprecationNotice" => {
                let text = params.message.or(params.summary);
                self.log(text.unwrap_or_else(|| self.line.to_owned()), WARNING);
            }
            "mcpServer/startupStatus/updated" => {
                match params.status.as_ref().and_then(Value::as_str) {
                    Some("starting" | "ready") => {}
                    _ => self.log(self.line.to_owned(), WARNING),
                }
            }
            method if KNOWN.contains(&method) => {}
            _ => self.unrecognised(),
        }
    }

    /// A notification of another thread, which the agent's helpers have. What they do and spend
    /// counts; what they say, and when they end, is not ours.
    fn elsewhere(&mut self, method: &str, params: Params) {
        let item = params.item.unwrap_or_default();
        match method {
            "item/started" if call::is_one(&item) => self.item_started(&item),
            "item/completed" if call::is_one(&item) => self.item_completed(item),
            "thread/tokenUsage/updated" => {
                let usage = params.token_usage.unwrap_or_default();
                self.spent_elsewhere(&usage.last.unwrap_or_default());
            }
            "error" => self.log(self.line.to_owned(), WARNING),
            _ => {}
        }
    }

    /// A thread is to be taken up and is not there yet.
    fn seeks_thread(&self) -> bool {
        self.state.wanted.resume.is_some() && self.state.thread.is_none()
    }

    fn piece(&mut self, params: Params, thinking: bool) {
        match (params.item_id, params.delta) {
            (Some(block), Some(text)) => self.delta(block, text, thinking),
            (_, _) => self.unrecognised(),
        }
    }

    /// The agent asks whether it may. What cannot be put to anyone is refused at once, so that it
    /// does not wait for ever.
    fn question(&mut self, method: &str, id: &Value, params: Params) {
        let (title, reads, content) = match method {
            "item/commandExecution/requestApproval" => {
                let actions = params.command_actions.unwrap_or_default();
                let reads = |kind: Option<&str>| kind.is_some_and(|kind| READING.contains(&kind));
                let all = actions.iter().all(|action| reads(action.kind.as_deref()));
                let content = PermissionRequest {
                    tool: Some("shell".to_owned()),
                    tool_kind: Some("execute".to_owned()),
                    command: params.command.clone(),
                    cwd: params.cwd.or_else(|| self.state.wanted.cwd.clone()),
                    reason: params.reason.clone(),
                    ..PermissionRequest::default()
                };
                let command = params.command.or(params.reason).unwrap_or_default();
                (format!("run {command}"), all && !actions.is_empty(), content)
            }
            "item/fileChange/requestApproval" => {
                let reason = params.reason.map_or(String::new(), |reason| format!(": {reason}"));
                let id = params.item_id.as_ref();
                let proposed = self.state.proposed.take();
                let proposed = proposed.filter(|proposed| Some(&proposed.tool_call_id) == id);
                let content = proposed.map(|proposed| proposed.request).unwrap_or_default();
                let files = match content.paths.as_slice() {
                    [] => "files".to_owned(),
                    paths => paths.join(", "),
                };
                (format!("change {files}{reason}"), false, content)
            }
            _ => return self.refuse(id, format!("'{method}' is not supported")),
        };
        let request = id.to_string();
        if !self.state.ask(&request, id) {
            return self.refuse(id, "too many questions are open".to_owned());
        }
        let mut options = vec![option("accept", "allow_once", "allow it this once")];
        let offered = params.available_decisions.unwrap_or_default();
        if offered.iter().any(|decision| decision == "acceptForSession") {
            options.push(option(
                "acceptForSession",
                "allow_always",
                "allow it for the whole session",
            ));
        }
        options.push(option("decline", "reject_once", "deny it and continue"));
        let tool_call_id = params.item_id;
        let content = Box::new(content.bounded());
        let question = Question { request, tool_call_id, title, reads, content, options };
        self.signal(Signal::Asked(question));
    }

    fn refuse(&mut self, id: &Value, message: String) {
        self.unrecognised();
        let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
        self.out.frames.push(frame(&json!({ "id": id, "error": error })));
    }

    /// The answer to a request of ours: each leads to the next.
    fn reply(&mut self, line: Line) {
        let id = line.id.as_ref().and_then(Value::as_u64);
        let starts = id.is_some() && id == self.state.starting;
        if let Some(error) = line.error {
            return self.refused(&error, starts);
        }
        let Reply { user_agent, thread, turn, model, cwd } = line.result.unwrap_or_default();
        if user_agent.is_some() && self.state.thread.is_none() {
            let method =
                if self.state.wanted.resume.is_some() { "thread/resume" } else { "thread/start" };
            let params = self.state.wanted.params();
            self.out.frames.push(frame(&json!({ "method": "initialized" })));
            let request = self.state.request(method, &params);
            self.out.frames.push(request);
        } else if let Some(thread) = thread {
            let Some(id) = short(thread.id) else { return self.unrecognised() };
            self.session(id, model.or(thread.model), cwd);
            self.signal(Signal::Accepts { message: true, interrupt: true });
            self.begin();
        } else if let Some(turn) = turn {
            self.state.starting = None;
            self.state.turn = short(turn.id);
        }
    }

    /// A request of ours was refused. Without a thread or a turn there is nothing to wait for.
    fn refused(&mut self, error: &Trouble, starts: bool) {
        let message = error.message.clone().unwrap_or_default();
        if self.state.thread.is_some() && !starts {
            return self.log(self.line.to_owned(), UNRECOGNISED);
        }
        let unknown = self.seeks_thread() && words::thread_unknown(&message);
        let code = if unknown { Code::NativeSessionUnknown } else { words::code(&message, None) };
        if unknown {
            self.signal(Signal::SessionUnknown);
        }
        self.push(Body::Error(event::Error {
            code,
            message: code.row().message.to_owned(),
            retryable: code.retryable(),
            retry_at: None,
            hint: None,
            detail: Some(message.clone()),
        }));
        let detail = Some(message);
        self.signal(Signal::Result(Ending { code: Some(code), text: None, output: None, detail }));
    }
}

/// What JSON-RPC calls a method that is not known.
const METHOD_NOT_FOUND: i32 = -32601;

fn option(id: &str, kind: &str, name: &str) -> PermissionOption {
    PermissionOption { id: id.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

fn note(out: &mut Out, text: String) {
    let (stream, level) = (event::Stream::Ostler, Some(WARNING.to_owned()));
    out.drafts.push(Draft::ostler(Body::Log(Log { stream, text, level })));
}
