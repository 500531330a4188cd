//! An agent that speaks ACP well, and on demand breaks one point of `ostler conformance acp`, which
//! is named by its id. It is a machine without IO, so that a test can play it on paper; `talk` gives
//! it pipes. It knows the protocol by itself, so that it shares no mistake with its judge.

use super::signals;
use serde_json::{Value, json};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The first word of the command line that means it; the second names the point to break.
pub const JUDGED: &str = "--acp-judged";
/// How long it stays where it should leave: longer than its judge waits.
const STAY: Duration = Duration::from_millis(super::LIFE_MS_MAX);
/// A line that an agent with small buffers does not survive.
const SMALL_BYTES: usize = 100 * 1024;
/// Later than a turn that ended by itself could still be told.
const LATE_MS: u64 = 4_000;

/// What it does about a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    Say(String),
    /// Lets time pass.
    Pause(u64),
    /// Makes a file in its directory.
    Write(String),
    Exit(u8),
}

/// A conversation.
#[derive(Debug, Default)]
pub struct Agent {
    /// The point that it breaks; none is broken by an empty one.
    fault: String,
    session: String,
    turns: u32,
    /// The id of the prompt that is not answered yet.
    open: Option<Value>,
    /// It waits for the answer to a question.
    asking: bool,
    cancelled: bool,
    loaded: bool,
    deeds: Vec<Deed>,
}

/// The id of its question, and of a request for a file.
const QUESTION: &str = "may-i";

impl Agent {
    pub fn new(fault: &str) -> Self {
        Self { fault: fault.to_owned(), ..Self::default() }
    }

    fn breaks(&self, point: &str) -> bool {
        self.fault == point
    }

    /// Hears one line; `exists` says whether a directory is there.
    pub fn hear(&mut self, line: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Deed> {
        match serde_json::from_str::<Value>(line) {
            Err(_) if self.breaks("hears.broken") => self.deeds.push(Deed::Exit(1)),
            Err(_) => self.refuse(&Value::Null, -32_700, "not JSON"),
            Ok(_) if self.breaks("turn.large") && line.len() > SMALL_BYTES => {
                self.deeds.push(Deed::Exit(1));
            }
            Ok(message) => self.message(&message, exists),
        }
        std::mem::take(&mut self.deeds)
    }

    /// Whether it leaves at the end of its input.
    pub fn leaves(&self) -> bool {
        let in_turn = self.open.is_some() && self.breaks("leaves.midturn");
        let stays = in_turn || self.breaks("leaves.eof") || self.breaks("leaves.term");
        !stays
    }

    /// Whether it obeys SIGTERM.
    pub fn obeys(&self) -> bool {
        !self.breaks("leaves.term")
    }

    fn message(&mut self, message: &Value, exists: &dyn Fn(&str) -> bool) {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("initialize") => self.greeted(id, params),
            Some("session/new") => self.new_session(id, params, exists),
            Some("session/load") => self.load(id, params),
            Some("session/prompt") => self.prompted(id, params),
            Some("session/cancel") => self.cancel(),
            None => self.answered(message),
            Some(_) if id.is_null() && self.breaks("hears.strangers") => {
                self.deeds.push(Deed::Exit(1));
            }
            Some(_) if id.is_null() => {}
            Some(_) if self.breaks("errors.method") => self.answer(id, &json!({})),
            Some(method) => self.refuse(id, -32_601, &format!("no method '{method}'")),
        }
    }

    fn greeted(&mut self, id: &Value, params: &Value) {
        let asked = params["protocolVersion"].as_u64().unwrap_or_default();
        let version = match asked {
            1 if self.breaks("greets.version") => 3,
            2 if self.breaks("greets.draft") => 2,
            3.. if self.breaks("greets.future") => asked,
            _ => 1,
        };
        let mut result = json!({
            "protocolVersion": version,
            "agentCapabilities": { "loadSession": true },
            "agentInfo": { "name": "fake", "version": "1" },
        });
        if self.breaks("greets.name") {
            result["agentInfo"] = Value::Null;
        }
        if self.breaks("lines.json") {
            self.deeds.push(Deed::Say("npm notice: a new version is available".to_owned()));
        }
        if self.breaks("lines.rpc") {
            self.say(&json!({ "id": id, "result": result }));
            return;
        }
        self.answer(id, &result);
        if self.breaks("lines.ids") {
            self.answer(id, &result);
        }
        if self.breaks("lines.methods") {
            self.say(&json!({ "jsonrpc": "2.0", "method": "weather/changed", "params": {} }));
        }
    }

    fn new_session(&mut self, id: &Value, params: &Value, exists: &dyn Fn(&str) -> bool) {
        let opened = match params["cwd"].as_str() {
            None if self.breaks("errors.params") => {
                return self.refuse(id, -32_603, "internal error");
            }
            None => return self.refuse(id, -32_602, "cwd is missing"),
            Some(cwd) if !exists(cwd) && !self.breaks("session.nowhere") => {
                return self.refuse(id, -32_602, "there is no such directory");
            }
            _ if self.breaks("session.opens") => "",
            _ => "session-1",
        };
        self.session = opened.to_owned();
        self.answer(id, &json!({ "sessionId": opened }));
    }

    fn load(&mut self, id: &Value, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let known = session.starts_with("session-");
        if (!known && !self.breaks("load.unknown")) || (known && self.breaks("load.opens")) {
            return self.refuse(id, -32_002, "there is no such session");
        }
        self.session = session;
        self.loaded = known;
        if !self.breaks("load.history") {
            self.chunk("user_message_chunk", "what was asked");
            self.chunk("agent_message_chunk", "what was said");
        }
        self.answer(id, &Value::Null);
    }

    fn prompted(&mut self, id: &Value, params: &Value) {
        let text = params["prompt"][0]["text"].as_str().unwrap_or_default();
        let known = params["sessionId"].as_str() == Some(&self.session) && !self.session.is_empty();
        if !known && self.breaks("errors.session") {
            return self.answer(id, &json!({ "stopReason": "end_turn" }));
        }
        if !known {
            return self.refuse(id, -32_602, "there is no such session");
        }
        self.turns += 1;
        let deaf = (self.turns == 2 && self.breaks("turn.again"))
            || (self.cancelled && self.breaks("cancel.again"))
            || (self.loaded && self.breaks("load.again"));
        self.open = Some(id.clone());
        if deaf {
            return;
        }
        if text.starts_with("Count") {
            return self.chunk("agent_message_chunk", "one");
        }
        if text.starts_with("Create") {
            return self.ask();
        }
        self.work();
        self.end("end_turn");
    }

    /// A turn as it should be, with what may be wrong in it.
    fn work(&mut self) {
        if self.breaks("turn.says") {
            return;
        }
        if self.breaks("asks.offered") {
            let params = json!({ "sessionId": self.session, "path": "/srv/note.txt" });
            let method = "fs/read_text_file";
            self.say(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }));
        }
        match self.breaks("updates.calls") {
            true => {}
            false => self.update(
                &json!({ "sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "look" }),
            ),
        }
        self.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "call-1",
            "status": "completed" }));
        if self.breaks("updates.kinds") {
            self.update(&json!({ "sessionUpdate": "agent_mood", "mood": "calm" }));
        }
        if self.breaks("updates.fields") {
            self.update(&json!({ "sessionUpdate": "plan", "entries": "soon" }));
        }
        self.chunk("agent_message_chunk", "hello");
    }

    fn ask(&mut self) {
        self.asking = true;
        let call = json!({ "toolCallId": "call-2", "title": "make a file", "kind": "edit" });
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
        let options = match self.breaks("asks.options") {
            true => json!([{ "optionId": "yes", "kind": "allow_once" }]),
            false => json!([option("yes", "allow_once"), option("no", "reject_once")]),
        };
        let params = json!({ "sessionId": self.session, "toolCall": call, "options": options });
        let method = "session/request_permission";
        self.say(&json!({ "jsonrpc": "2.0", "id": QUESTION, "method": method, "params": params }));
    }

    /// An answer to something of ours.
    fn answered(&mut self, message: &Value) {
        if message["id"] != QUESTION || !std::mem::take(&mut self.asking) {
            return;
        }
        let allowed = message["result"]["outcome"]["optionId"] == "yes";
        let deaf = match allowed {
            true => self.breaks("asks.allowed"),
            false => self.breaks("asks.denied"),
        };
        if deaf {
            return;
        }
        if allowed || self.breaks("asks.obeys") {
            self.deeds.push(Deed::Write("conformance.txt".to_owned()));
        }
        self.chunk("agent_message_chunk", if allowed { "it is there" } else { "as you wish" });
        self.end("end_turn");
    }

    fn cancel(&mut self) {
        if self.open.is_none() {
            return;
        }
        let asked = std::mem::take(&mut self.asking);
        self.cancelled = true;
        match asked {
            true if self.breaks("asks.withdrawn") => self.end("end_turn"),
            false if self.breaks("cancel.ends") => {
                self.deeds.push(Deed::Pause(LATE_MS));
                self.end("end_turn");
            }
            true | false => self.end("cancelled"),
        }
    }

    fn end(&mut self, reason: &str) {
        let Some(id) = self.open.take() else { return };
        let odd = self.breaks("turn.ends") && reason == "end_turn";
        let reason = if odd { "finished" } else { reason };
        let mut result = json!({ "stopReason": reason });
        if !self.breaks("turn.usage") {
            result["usage"] = json!({ "inputTokens": 1, "outputTokens": 1, "totalTokens": 2 });
        }
        self.answer(&id, &result);
        if self.breaks("turn.after") {
            self.chunk("agent_message_chunk", "one more thing");
        }
    }

    fn chunk(&mut self, kind: &str, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(&json!({ "sessionUpdate": kind, "content": content }));
    }

    fn update(&mut self, update: &Value) {
        let odd = self.breaks("updates.session") && update["sessionUpdate"] == "tool_call_update";
        let session = if odd { "another" } else { &self.session };
        let params = json!({ "sessionId": session, "update": update });
        self.say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    fn answer(&mut self, id: &Value, result: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn refuse(&mut self, id: &Value, code: i32, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    fn say(&mut self, message: &Value) {
        self.deeds.push(Deed::Say(message.to_string()));
    }
}

/// Talks until its input ends, with this point broken.
pub fn talk(fault: &str) -> ExitCode {
    let mut agent = Agent::new(fault);
    if !agent.obeys() {
        signals::ignore_all();
    }
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        for deed in agent.hear(&line, &|path| Path::new(path).is_dir()) {
            match deed {
                Deed::Say(line) => {
                    let mut stdout = io::stdout().lock();
                    // Nobody is left to tell when even this cannot be written.
                    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
                }
                Deed::Pause(ms) => std::thread::sleep(Duration::from_millis(ms)),
                Deed::Write(name) => {
                    let _ = std::fs::write(name, "hello\n");
                }
                Deed::Exit(code) => return code.into(),
            }
        }
    }
    if !agent.leaves() {
        std::thread::sleep(STAY);
    }
    ExitCode::SUCCESS
}
