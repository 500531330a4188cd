//! The other side of the conversation, scripted. It takes the steps of a scene one after the other,
//! each when the one before was answered, answers questions as the scene wants it, and knows when it
//! has waited long enough. It acts by returning what is to be done; the clock is an argument. It
//! offers no files and no terminals, and refuses by name whoever asks for them.

use super::message::{self, Kind, Message, Seen};
use super::script::{self, Answer, Ask, Scene, Step, Then};
use super::{Act, Cancel, Done, Exchange, HURRIED_MS, Recording};
use crate::acp::dialect;
use contract::limits::FAREWELL_MS;
use serde_json::{Value, json};

/// How long the answer to something odd is waited for: nothing else depends on it.
const ODD_MS: u64 = 5_000;
/// How long a turn may take to show a sign before it is taken to be under way.
const SIGN_MS: u64 = 3_000;
/// What JSON-RPC calls a method that is not known.
const METHOD_NOT_FOUND: i32 = -32_601;
/// A session that nobody opened.
const NOBODYS: &str = "00000000-0000-0000-0000-00000000dead";

/// Where a scene is played.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The agent's directory.
    pub cwd: String,
    /// A directory that is not there.
    pub nowhere: String,
    /// What a person wants it to be asked, instead of what is asked by itself.
    pub wish: Option<String>,
    /// How long the agent may be quiet while something is owed to us.
    pub patience_ms: u64,
}

/// One scene being played.
#[derive(Debug)]
pub struct Client {
    scene: Scene,
    setting: Setting,
    /// How many steps were taken.
    taken: usize,
    exchanges: Vec<Exchange>,
    /// The last exchange still waits for its reply.
    waiting: bool,
    /// When something was last said or heard.
    stirred_at_ms: u64,
    said_at_ms: u64,
    lines: usize,
    next_id: u64,
    /// The session that is open, or that is to be taken up.
    session: Option<String>,
    stage: Stage,
    done: Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Talking,
    /// Its stdin is closed, and it must be gone by then.
    Leaving {
        by_ms: u64,
    },
    Stopped,
}

impl Client {
    /// A scene after those that were played.
    pub fn new(scene: Scene, setting: Setting, played: &[Recording]) -> Self {
        let session = (scene == Scene::Loaded).then(|| script::session(played)).flatten();
        // The end of input in the middle of a turn is a point of its own.
        let hurried = played.iter().any(|played| played.done.told) && scene != Scene::Eof;
        Self {
            scene,
            setting,
            taken: 0,
            exchanges: Vec::new(),
            waiting: false,
            stirred_at_ms: 0,
            said_at_ms: 0,
            lines: 0,
            next_id: 1,
            session,
            stage: Stage::Talking,
            done: Done { hurried, ..Done::default() },
        }
    }

    /// The first words.
    pub fn begin(&mut self, now_ms: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        self.go_on(now_ms, &mut acts);
        acts
    }

    /// What was said and done.
    pub fn done(self) -> (Vec<Exchange>, Done) {
        (self.exchanges, self.done)
    }

    /// Hears one line of stdout.
    pub fn hear(&mut self, now_ms: u64, line: &[u8]) -> Vec<Act> {
        let mut acts = Vec::new();
        self.stirred_at_ms = now_ms;
        let at = self.lines;
        self.lines += 1;
        if self.stage != Stage::Talking {
            return acts;
        }
        let Seen::Message(message) = message::look(line) else { return acts };
        match &message.kind {
            Kind::Reply { id } => self.reply(now_ms, at, id, &message, &mut acts),
            Kind::Request { method, id } if method == "session/request_permission" => {
                self.question(now_ms, id, message.params(), &mut acts);
            }
            Kind::Request { method, id } => {
                let message = format!("'{method}' was not offered");
                let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
                acts.push(said(&json!({ "jsonrpc": "2.0", "id": id, "error": error })));
            }
            Kind::Notification { .. } => {
                if message.update().is_some_and(|(kind, _)| is_sign(kind)) {
                    self.sign(now_ms, &mut acts);
                }
            }
            Kind::Nothing => {}
        }
        acts
    }

    /// Lets time pass.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        match self.stage {
            Stage::Stopped => {}
            Stage::Leaving { by_ms } if now_ms >= by_ms => {
                self.stage = Stage::Stopped;
                self.done.told = true;
                acts.push(Act::Stop);
            }
            Stage::Leaving { .. } => {}
            Stage::Talking => {
                if now_ms >= self.said_at_ms.saturating_add(SIGN_MS) {
                    self.sign(now_ms, &mut acts);
                }
                let vital = self.exchanges.last().is_none_or(|last| last.step.is_vital());
                let patience_ms = match vital {
                    true => self.setting.patience_ms,
                    false => self.setting.patience_ms.min(ODD_MS),
                };
                if now_ms >= self.stirred_at_ms.saturating_add(patience_ms) {
                    match vital {
                        true => self.close(now_ms, &mut acts),
                        false => self.go_on(now_ms, &mut acts),
                    }
                }
            }
        }
        acts
    }

    /// Takes steps until one of them wants an answer.
    fn go_on(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        self.waiting = false;
        while self.stage == Stage::Talking && !self.waiting {
            match self.scene.steps().get(self.taken) {
                Some(step) => self.take(now_ms, *step, acts),
                None => self.close(now_ms, acts),
            }
        }
    }

    fn take(&mut self, now_ms: u64, step: Step, acts: &mut Vec<Act>) {
        self.taken += 1;
        (self.stirred_at_ms, self.said_at_ms) = (now_ms, now_ms);
        let mut exchange = Exchange {
            step,
            id: None,
            session: None,
            after: self.lines,
            reply: None,
            cancel: None,
        };
        match self.words(step) {
            Words::Line(line) => acts.push(Act::Say(line)),
            Words::Notification(method, params) => {
                let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
                acts.push(said(&message));
            }
            Words::Request(method, params) => {
                let id = self.next_id;
                self.next_id += 1;
                exchange.id = Some(id);
                exchange.session = params["sessionId"].as_str().map(str::to_owned);
                self.waiting = true;
                acts.push(said(
                    &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
                ));
            }
        }
        self.exchanges.push(exchange);
    }

    fn words(&self, step: Step) -> Words {
        let session = self.session.as_deref().unwrap_or(NOBODYS);
        let cwd = self.setting.cwd.as_str();
        let new = |cwd: &str| json!({ "cwd": cwd, "mcpServers": [] });
        let load = |session: &str| json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        let prompt = |session: &str, ask: Ask| {
            let text = ask.text(self.setting.wish.as_deref());
            json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
        };
        match step {
            Step::Greet(version) => {
                let mut greeting = dialect::greeting();
                greeting["protocolVersion"] = json!(version);
                Words::Request("initialize", greeting)
            }
            Step::UnknownMethod => Words::Request("weather/forecast", json!({ "days": 3 })),
            Step::UnknownNotification => {
                Words::Notification("weather/changed", json!({ "sky": "clear" }))
            }
            Step::BrokenLine => Words::Line(b"{\"jsonrpc\":\"2.0\",\"method\":\"broken\n".to_vec()),
            Step::NewWithout => Words::Request("session/new", json!({})),
            Step::NewNowhere => Words::Request("session/new", new(&self.setting.nowhere)),
            Step::New => Words::Request("session/new", new(cwd)),
            Step::Load => Words::Request("session/load", load(session)),
            Step::LoadUnknown => Words::Request("session/load", load(NOBODYS)),
            Step::Prompt(ask, _) => Words::Request("session/prompt", prompt(session, ask)),
            Step::PromptUnknown => Words::Request("session/prompt", prompt(NOBODYS, Ask::Word)),
        }
    }

    /// A reply to what was said last leads to the next step; one that comes late is kept.
    fn reply(
        &mut self,
        now_ms: u64,
        at: usize,
        id: &Value,
        message: &Message,
        acts: &mut Vec<Act>,
    ) {
        let number = id.as_u64().or_else(|| id.as_str()?.parse().ok());
        let asked = |exchange: &Exchange| exchange.id.is_some() && exchange.id == number;
        let Some(place) = self.exchanges.iter().position(asked) else { return };
        let awaited = self.waiting && place + 1 == self.exchanges.len();
        let exchange = &mut self.exchanges[place];
        // The first answer counts.
        exchange.reply.get_or_insert(at);
        if !awaited {
            return;
        }
        let step = exchange.step;
        let refused = message.error().is_some();
        if step == Step::New {
            let id = message.result().and_then(|result| result["sessionId"].as_str());
            let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
            exchange.session = id.clone();
            self.session = id;
        }
        let lost = step.is_vital() && (refused || (step == Step::New && self.session.is_none()));
        match lost || is_other_version(step, message) {
            true => self.close(now_ms, acts),
            false => self.go_on(now_ms, acts),
        }
    }

    /// The turn is under way.
    fn sign(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        let Some(last) = self.exchanges.last().filter(|_| self.waiting) else { return };
        let Step::Prompt(_, then) = last.step else { return };
        match then {
            Then::Wait => {}
            Then::Cancel if last.cancel.is_none() => self.cancel(now_ms, false, acts),
            Then::Cancel => {}
            Then::CloseStdin => self.close(now_ms, acts),
        }
    }

    fn cancel(&mut self, now_ms: u64, asked: bool, acts: &mut Vec<Act>) {
        let after = self.lines;
        let Some(last) = self.exchanges.last_mut() else { return };
        last.cancel = Some(Cancel { at_ms: now_ms, after, asked });
        let params = json!({ "sessionId": self.session });
        let message = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
        acts.push(said(&message));
    }

    fn question(&mut self, now_ms: u64, id: &Value, params: &Value, acts: &mut Vec<Act>) {
        self.sign(now_ms, acts);
        if self.stage != Stage::Talking {
            return;
        }
        let cancelled = self.exchanges.last().is_some_and(|last| last.cancel.is_some());
        let option = |kinds: [&str; 2]| {
            let options = || params["options"].as_array().into_iter().flatten();
            let of = |kind: &str| options().find(|option| option["kind"] == kind);
            kinds.into_iter().find_map(|kind| of(kind)?["optionId"].as_str())
        };
        let chosen = match self.scene.answer() {
            Answer::Allow | Answer::Deny if cancelled => None,
            Answer::Allow => {
                let chosen = option(["allow_once", "allow_always"]);
                self.done.allowed += usize::from(chosen.is_some());
                chosen
            }
            Answer::Deny => {
                self.done.denied += 1;
                option(["reject_once", "reject_always"])
            }
            Answer::Withdraw => {
                self.done.withdrawn += 1;
                if !cancelled {
                    self.cancel(now_ms, true, acts);
                }
                None
            }
        };
        let outcome = match chosen {
            Some(id) => json!({ "outcome": "selected", "optionId": id }),
            None => json!({ "outcome": "cancelled" }),
        };
        let result = json!({ "outcome": outcome });
        acts.push(said(&json!({ "jsonrpc": "2.0", "id": id, "result": result })));
    }

    fn close(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        let in_turn = |last: &Exchange| matches!(last.step, Step::Prompt(..));
        self.done.closed_after = Some(self.lines);
        self.done.mid_turn = self.waiting
            && self.exchanges.last().is_some_and(|last| in_turn(last) && last.reply.is_none());
        self.waiting = false;
        let patience_ms = if self.done.hurried { HURRIED_MS } else { FAREWELL_MS };
        self.stage = Stage::Leaving { by_ms: now_ms + patience_ms };
        acts.push(Act::CloseStdin);
    }
}

/// What a step says.
enum Words {
    Line(Vec<u8>),
    Notification(&'static str, Value),
    Request(&'static str, Value),
}

/// Whether an update shows that a turn is under way.
fn is_sign(kind: &str) -> bool {
    ["agent_message_chunk", "agent_thought_chunk", "tool_call", "plan"].contains(&kind)
}

/// Whether the greeting was answered with a version that is not spoken here.
fn is_other_version(step: Step, message: &Message) -> bool {
    let version = message.result().map(|result| &result["protocolVersion"]);
    matches!(step, Step::Greet(_)) && version.is_some_and(|version| *version != script::VERSION)
}

fn said(message: &Value) -> Act {
    Act::Say(format!("{message}\n").into_bytes())
}
