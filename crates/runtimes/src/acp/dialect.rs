//! Talks ACP, version 1, as the client: greeting, session, mode, model, prompt, and answers to what the
//! agent asks. Requests that are not ours to serve are refused by name, so that nobody waits for
//! ever; what is not known is kept as a `log`; nothing is fatal here. The end is what the reply to
//! the prompt states (`turn`), and nothing else.

use super::call;
use super::ear::{Ear, UNRECOGNISED};
use super::lane::ToldRetry;
use super::policy;
use super::state::{Asked, Ours, State, frame, short};
use super::turn::cancelled;
use super::wire::{Asking, Choice, Greeting, Line, Opened, Refusal, Updated};
use super::words;
use crate::denial::denied_because;
use crate::{Dialect, Frame, Out, Stream, lenient, registry};
use contract::event::{Body, Log, PermissionOption, Raw};
use contract::plan::TurnEnd;
use contract::speech::{Close, Limited, Question};
use contract::{Code, Signal, Timestamp, Utterance, limits};
use serde_json::{Value, json};

/// The version of the protocol that is spoken here.
const PROTOCOL: u64 = 1;
/// What JSON-RPC calls a method that is not known.
const METHOD_NOT_FOUND: i32 = -32_601;
/// The option kinds that allow something.
const ALLOWING: [&str; 2] = ["allow_once", "allow_always"];
/// The level of an agent's own log about its retries.
const DEBUG: &str = "debug";

/// A conversation with the agent.
pub(super) struct Acp {
    state: State,
}

impl Acp {
    pub(super) fn new(state: State) -> Self {
        Self { state }
    }

    fn ear<'a>(&'a mut self, out: &'a mut Out) -> Ear<'a> {
        Ear { state: &mut self.state, out, raw: None, line: "" }
    }

    /// Gives the agent a message. In a turn, and before there is a session, it waits for its own.
    fn message(&mut self, text: &str, out: &mut Out) {
        self.state.hold(text);
        if self.state.session.is_some() && self.state.waiting.is_none() {
            self.ear(out).begin();
        }
    }
}

/// The first line of every conversation.
pub(super) fn greeting() -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        "clientCapabilities": {
            "fs": { "readTextFile": false, "writeTextFile": false },
            "terminal": false,
        },
        "clientInfo": {
            "name": "ostler", "title": "Ostler", "version": env!("CARGO_PKG_VERSION"),
        },
    })
}

impl Dialect for Acp {
    fn open(&mut self) -> Option<Vec<u8>> {
        Some(self.state.request(Ours::Initialize, "initialize", &greeting()))
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = frame.text();
        let line = text.trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let mut ear = Ear { state: &mut self.state, out, raw: Some(raw), line };
        match frame.stream {
            Stream::Stderr => ear.logged(raw),
            Stream::Stdout if frame.cut => ear.unrecognised(),
            Stream::Stdout => match lenient::object::<Line>(line) {
                Some(heard) => ear.hear(heard),
                None => ear.unrecognised(),
            },
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        match utterance {
            Utterance::Decide { request, option, reason } => {
                self.ear(out).decided(request, option.as_deref());
                // The protocol has no place for a reason, so it follows as a message. An agent that
                // asks without end while its turn goes on does not make them pile up.
                let held_bytes = self.state.prompt.as_ref().map_or(0, String::len);
                if let Some(reason) = reason
                    && held_bytes <= limits::TEXT_BYTES_MAX
                {
                    self.message(&denied_because(reason), out);
                }
            }
            Utterance::Message { text } => self.message(text, out),
            Utterance::Interrupt => match self.state.cancel() {
                Some(cancel) => {
                    self.state.interrupting = true;
                    out.frames.push(cancel);
                    self.ear(out).withdraw_questions();
                }
                None => {
                    self.ear(out).warn("no turn is running, so that nothing was interrupted");
                }
            },
            Utterance::Shutdown { .. } => {
                out.frames.extend(self.state.cancel());
                self.ear(out).withdraw_questions();
            }
            Utterance::BudgetUpdate { .. } => {}
            Utterance::ToolResult { tool_call_id, .. } => {
                let text = format!("the call '{tool_call_id}' is the agent's own to answer");
                self.ear(out).warn(&text);
            }
        }
    }

    /// The protocol waits for nothing.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, _: &mut Out) {}

    /// The end of the turn, and of the questions in it.
    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        let mut lines = self.state.cancel()?;
        lines.extend(self.state.questions().iter().flat_map(|asked| cancelled(&asked.id)));
        Some(lines)
    }

    fn note_relayed(&mut self, tool: &str) -> Option<String> {
        self.state.note_relayed(tool)
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        let Line { method, id, params, result, error } = line;
        // What an extension tells is no progress of the turn: some tell their retries so, without end.
        let is_known = match (&method, &id) {
            (Some(method), None) => method == "session/update",
            (Some(_), Some(_)) => true,
            (None, Some(id)) => self.state.awaits(id),
            (None, None) => false,
        };
        match (method.as_deref(), id) {
            (Some("session/update"), None) => match read::<Updated>(params) {
                Some(updated) => self.updated(updated),
                None => self.unrecognised(),
            },
            (Some("session/request_permission"), Some(id)) => self.question(&id, params),
            (Some(method), Some(id)) => self.refuse(method, &id),
            (Some(_), None) => self.unknown_notification(),
            (None, Some(id)) => self.reply(&id, result, error),
            (None, None) => self.unrecognised(),
        }
        if is_known && !self.state.limited {
            self.signal(Signal::Progress);
        }
    }

    /// A notification or an update that the protocol does not have. Some agents tell so that their
    /// provider limits the rate, and then the clock of patience runs instead of the one of silence.
    pub(super) fn unknown_notification(&mut self) {
        self.unrecognised();
        if words::tells_limit(self.line) {
            self.held_back(Code::RateLimited, None, false);
        }
    }

    /// A line on stderr, where some log their retries and nothing else tells them.
    fn logged(&mut self, raw: Raw) {
        let mut lanes = registry::by_acp().iter();
        let told = lanes.find_map(|laned| (laned.aside.stderr)(self.line));
        let level = told.as_ref().map(|_| DEBUG.to_owned());
        let (stream, text) = (raw.stream, self.line.to_owned());
        self.push(Body::Log(Log { stream, text, level }));
        match told {
            Some(ToldRetry { code, said, wait_ms, is_limit, terminal }) => {
                self.trouble(code, said, true);
                if is_limit {
                    self.held_back(code, wait_ms, terminal);
                }
            }
            None if self.state.in_turn() && words::tells_retry(self.line) => {
                self.held_back(Code::RateLimited, None, false);
            }
            None => {}
        }
    }

    /// The provider holds the agent back, and the agent tries again by itself.
    fn held_back(&mut self, code: Code, wait_ms: Option<u64>, terminal: bool) {
        self.state.limited = true;
        self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at: None }));
    }

    /// The reply to a request of ours: each leads to the next. One that nobody waits for is noise.
    fn reply(&mut self, id: &Value, result: Option<Value>, error: Option<Refusal>) {
        if let Some(reset) = self.state.reset_of(id) {
            return self.reset_answered(&reset, error.as_ref());
        }
        let Some(ours) = self.state.answered_by(Some(id)) else {
            return match self.state.wanted.turn_end {
                TurnEnd::Reply => self.unrecognised(),
                // The turn was ended by an update already.
                TurnEnd::Update => {}
            };
        };
        self.state.update_owed |= ours == Ours::Prompt;
        match (ours, error) {
            (Ours::Initialize, None) => self.greeted(read(result).unwrap_or_default()),
            (Ours::New | Ours::Load, None) => {
                self.opened(&read::<Opened>(result).unwrap_or_default());
            }
            (Ours::Echo, _) => self.next_setting(),
            (Ours::Setting, None) => self.setting_taken(),
            (Ours::Model, None) => self.wish_granted(),
            (Ours::Prompt, None) => self.prompted(&read(result).unwrap_or_default()),
            (Ours::Initialize | Ours::New, Some(refusal)) => {
                self.give_up(words::code(&refusal), words::said(&refusal));
            }
            (Ours::Load, Some(refusal)) => {
                // Whatever it says, there is no such session here any more; a missing login is
                // another matter.
                let code = match words::code(&refusal) {
                    code @ (Code::AuthRequired | Code::AuthFailed) => code,
                    _ => Code::NativeSessionUnknown,
                };
                self.give_up(code, words::said(&refusal));
            }
            (Ours::Setting, Some(refusal)) => self.setting_refused(&refusal),
            (Ours::Model, Some(refusal)) => self.wish_refused(&refusal),
            (Ours::Prompt, Some(refusal)) => self.prompt_refused(&refusal),
        }
    }

    /// The agent greets back: only the one version is gone on with.
    fn greeted(&mut self, greeting: Greeting) {
        let Greeting { protocol_version, agent_capabilities: can, agent_info } = greeting;
        let version = protocol_version.unwrap_or_default();
        match version.as_u64() {
            Some(PROTOCOL) => {}
            Some(other) => {
                let detail = format!(
                    "the agent speaks version {other} of ACP, and only {PROTOCOL} is spoken here"
                );
                return self.give_up(Code::NotSupported, detail);
            }
            None => {
                let detail = "it greeted without a version of ACP".to_owned();
                return self.give_up(Code::ProtocolError, detail);
            }
        }
        let name = short(agent_info.name);
        let version = short(agent_info.version).unwrap_or_default();
        if let Some(name) = &name {
            self.note(format!("it is {name} {version}"), None);
        }
        self.state.agent = name;
        self.signal(Signal::Greeted);
        let (ours, method) = match (&self.state.wanted.resume, can.load_session) {
            (None, _) => (Ours::New, "session/new"),
            (Some(_), true) => (Ours::Load, "session/load"),
            (Some(_), false) if can.session_capabilities.resume.is_some() => {
                (Ours::Load, "session/resume")
            }
            (Some(_), false) => {
                let detail = "it cannot load a session again".to_owned();
                return self.give_up(Code::NativeSessionUnknown, detail);
            }
        };
        let servers = self.servers(can.mcp_capabilities.http);
        let cwd = self.state.wanted.cwd.as_deref().unwrap_or("/");
        let mut params = json!({ "cwd": cwd, "mcpServers": servers });
        if let Some(session) = &self.state.wanted.resume {
            params["sessionId"] = json!(session);
        }
        let request = self.state.request(ours, method, &params);
        self.out.frames.push(request);
    }

    /// Our own tools, the way the agent takes them: by address, or by a program of ours.
    fn servers(&mut self, http: bool) -> Vec<Value> {
        let Some(relay) = self.state.wanted.relay.take() else { return Vec::new() };
        if !relay.is_whole() {
            self.warn(
                "the host changed before the session was opened, so that it gets no relayed tools",
            );
            return Vec::new();
        }
        vec![relay.server(http)]
    }

    /// The agent asks whether it may.
    fn question(&mut self, id: &Value, params: Option<Value>) {
        let Asking { tool_call, options } = read(params).unwrap_or_default();
        let asked = tool_call.call;
        let tool_call_id = short(asked.tool_call_id.clone()).map(|id| self.meant(id));
        let title = asked.title.clone().or(asked.kind.clone());
        let content =
            call::request(&asked, tool_call.content.as_ref(), self.state.wanted.cwd.clone());
        let reads = call::reads(asked.kind.as_deref());
        if let Some(call) = &tool_call_id {
            // Some ask about a call that they never announced.
            self.announce(call, &asked, true);
            self.note_conduct(call, &asked, false);
            self.keep_diffs(call, &tool_call.content.unwrap_or_default());
        }
        let options: Vec<_> = options.into_iter().filter_map(option).collect();
        let allows = |option: &&PermissionOption| ALLOWING.contains(&option.kind.as_str());
        let allowing = options.iter().filter(allows).map(|option| option.id.clone()).collect();
        let always = options.iter().filter(|option| option.kind == ALLOWING[1]);
        let always = always.map(|option| option.id.clone()).collect();
        let (request, kind) = (id.to_string(), policy::kind(&asked));
        let (name, id_of_reply) = (request.clone(), id.clone());
        let asked = Asked { request: name, id: id_of_reply, tool_call_id, allowing, always, kind };
        let tool_call_id = asked.tool_call_id.clone();
        if !self.state.ask(asked) {
            self.unrecognised();
            self.out.frames.push(cancelled(id));
            return;
        }
        let title = title.unwrap_or_else(|| "may it go on?".to_owned());
        let question =
            Question { request, tool_call_id, title, reads, content: Box::new(content), options };
        self.signal(Signal::Asked(question));
    }

    /// The call that a question is about. Some ask under an id of its own about the call that they
    /// announced last.
    fn meant(&self, id: String) -> String {
        let mut lanes = registry::by_acp().iter().filter_map(|laned| laned.aside.asks_as);
        let known = self.state.open.iter().any(|call| call.id == id);
        match self.state.open.last() {
            Some(last) if !known && lanes.any(|prefix| id.starts_with(prefix)) => last.id.clone(),
            _ => id,
        }
    }

    /// A question of the agent's has its answer.
    fn decided(&mut self, request: &str, option: Option<&str>) {
        let Some(asked) = self.state.answered(request) else {
            return self.warn(&format!("the question '{request}' is not open"));
        };
        let allowed = option.is_some_and(|id| asked.allowing.iter().any(|known| known == id));
        let call = asked.tool_call_id.as_deref().and_then(|id| self.state.call(id));
        if let Some(call) = call {
            (call.denied, call.allowed) = (!allowed, allowed);
            let (input, apart) = (call.input, !call.reported);
            if apart && !allowed {
                self.note_denied(input);
            }
        }
        if let Some(option) = option.filter(|_| allowed) {
            self.note_allowed(&asked, option);
        }
        self.state.refused |= !allowed;
        self.out.frames.push(match option {
            Some(id) => {
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": id } });
                frame(&json!({ "jsonrpc": "2.0", "id": asked.id, "result": outcome }))
            }
            None => cancelled(&asked.id),
        });
    }

    /// A request that is not served here: the files and terminals of the workspace are the agent's
    /// own business.
    fn refuse(&mut self, method: &str, id: &Value) {
        self.log(UNRECOGNISED);
        let method: String = method.chars().take(80).collect();
        let message = format!("'{method}' is not supported");
        let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
        self.out.frames.push(frame(&json!({ "jsonrpc": "2.0", "id": id, "error": error })));
    }
}

fn option(choice: Choice) -> Option<PermissionOption> {
    let id = choice.option_id?;
    let name = choice.name.unwrap_or_else(|| id.clone());
    Some(PermissionOption { name, kind: choice.kind.unwrap_or_default(), id })
}

fn read<T: serde::de::DeserializeOwned>(value: Option<Value>) -> Option<T> {
    serde_json::from_value(value?).ok()
}
