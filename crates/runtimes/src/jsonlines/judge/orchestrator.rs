//! The other side of the conversation, scripted. It answers calls from a task that asks for nothing,
//! adds what the scene wants, and knows when it has waited long enough. It acts by returning what is
//! to be done; the clock is an argument.

use super::fields::{self, Kind, Seen};
use super::{Act, Done, Scene};
use contract::limits::{FAREWELL_MS, LINGER_MS};
use serde_json::{Value, json};
use std::collections::HashSet;

/// How long answers are held back in the scene of late ones.
const LATE_MS: u64 = 300;
/// How long the first word may take in scenes that begin with it.
const FIRST_WORD_MS: u64 = 1_000;
/// An agent that calls more often than this goes in a circle.
const CALLS_MAX: usize = 1_000;

/// One scene being played.
#[derive(Debug)]
pub struct Orchestrator {
    scene: Scene,
    /// How long an agent may be quiet while nothing is owed to it.
    patience_ms: u64,
    lines: usize,
    heard_at_ms: u64,
    known: HashSet<String>,
    /// Calls whose answers are held back, with the time they came.
    held: Vec<(u64, Call)>,
    stage: Stage,
    done: Done,
    stranger_answered: bool,
}

#[derive(Debug, Clone)]
struct Call {
    id: Value,
    tool: String,
    args: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Working,
    /// It said its end, or was told to leave, and must be gone by then.
    Leaving {
        by_ms: u64,
    },
    Stopped,
}

impl Orchestrator {
    pub fn new(scene: Scene, patience_ms: u64) -> Self {
        Self {
            scene,
            patience_ms,
            lines: 0,
            heard_at_ms: 0,
            known: HashSet::new(),
            held: Vec::new(),
            stage: Stage::Working,
            done: Done::default(),
            stranger_answered: false,
        }
    }

    pub fn done(self) -> Done {
        self.done
    }

    /// Hears one line of stdout.
    pub fn hear(&mut self, now_ms: u64, line: &[u8]) -> Vec<Act> {
        let mut acts = Vec::new();
        self.heard_at_ms = now_ms;
        self.lines += 1;
        if self.stage != Stage::Working {
            return acts;
        }
        let seen = fields::look(line);
        let closes = matches!(&seen, Seen::Line(line) if line.kind.closes());
        // Who ends with the first word cannot be told to leave before it.
        if self.lines == 1 && !closes {
            self.first_word(now_ms, &mut acts);
        }
        let Seen::Line(line) = seen else { return acts };
        if self.stage != Stage::Working {
            return acts;
        }
        match line.kind {
            Kind::ToolCall => {
                let id = line.fields.get("id").cloned().unwrap_or_default();
                let tool = line.fields.get("tool").and_then(Value::as_str).unwrap_or_default();
                let args = line.fields.get("args").cloned().unwrap_or_default();
                let call = Call { id, tool: tool.to_owned(), args };
                self.call(now_ms, call, &mut acts);
            }
            Kind::Complete | Kind::Failed => self.end(now_ms, &mut acts),
            Kind::Hello => self.hello(line.fields.get("accepts"), &mut acts),
            Kind::Progress | Kind::Comment | Kind::Event => {}
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
                self.done.stopped = true;
                acts.push(Act::Stop);
            }
            Stage::Leaving { .. } => {}
            Stage::Working => {
                if self.lines == 0 && now_ms >= FIRST_WORD_MS && self.leaves_early() {
                    self.first_word(now_ms, &mut acts);
                }
                if self.held.first().is_some_and(|(at_ms, _)| now_ms >= at_ms + LATE_MS) {
                    self.answer_held(&mut acts);
                    self.heard_at_ms = now_ms;
                }
                if now_ms >= self.heard_at_ms.saturating_add(self.patience_ms) {
                    self.tell_to_leave(now_ms, &mut acts);
                }
            }
        }
        acts
    }

    fn leaves_early(&self) -> bool {
        matches!(self.scene, Scene::Shutdown | Scene::Eof)
    }

    fn first_word(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        match self.scene {
            Scene::Plain | Scene::Late | Scene::Refused | Scene::Spoken | Scene::Resumed => {}
            Scene::Strangers => {
                self.done.strangers = true;
                acts.push(said(&json!({ "type": "weather", "sky": "clear", "clouds": [] })));
                let remaining = json!({ "usd": 1.5, "tokens": 100_000, "wishes": 3 });
                acts.push(said(
                    &json!({ "type": "budget_update", "remaining": remaining, "mood": "calm" }),
                ));
            }
            Scene::Shutdown => self.tell_to_leave(now_ms, acts),
            Scene::Eof => {
                self.leaving(now_ms, FAREWELL_MS);
                acts.push(Act::CloseStdin);
            }
        }
    }

    fn tell_to_leave(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        self.leaving(now_ms, FAREWELL_MS);
        acts.push(said(&json!({ "type": "shutdown", "reason": "cancelled" })));
    }

    fn leaving(&mut self, now_ms: u64, within_ms: u64) {
        self.done.told_after = Some(self.lines);
        self.stage = Stage::Leaving { by_ms: now_ms + within_ms };
    }

    fn end(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        self.stage = Stage::Leaving { by_ms: now_ms + LINGER_MS };
        acts.push(Act::CloseStdin);
    }

    fn hello(&mut self, accepts: Option<&Value>, acts: &mut Vec<Act>) {
        let accepts = |word: &str| {
            accepts.and_then(Value::as_array).is_some_and(|list| list.iter().any(|w| w == word))
        };
        let (message, interrupt) = (accepts("message"), accepts("interrupt"));
        self.done.accepts |= message || interrupt;
        self.done.accepts_resume |= accepts("resume");
        if self.scene != Scene::Spoken || self.done.spoken {
            return;
        }
        self.done.spoken = message || interrupt;
        if message {
            let text = "One more thing: be brief.";
            acts.push(said(&json!({ "type": "message", "text": text })));
        }
        if interrupt {
            acts.push(said(&json!({ "type": "interrupt" })));
        }
    }

    fn call(&mut self, now_ms: u64, call: Call, acts: &mut Vec<Act>) {
        // A call that repeats an id is not made again.
        let Some(id) = fields::id_text(&call.id) else { return };
        if !self.known.insert(id) {
            return;
        }
        if self.known.len() > CALLS_MAX {
            return self.tell_to_leave(now_ms, acts);
        }
        let ends = matches!(call.tool.as_str(), "mark_complete" | "mark_failed");
        match self.scene {
            Scene::Late => {
                if !self.stranger_answered {
                    self.stranger_answered = true;
                    let value = json!("an answer to nobody");
                    acts.push(said(
                        &json!({ "type": "tool_result", "id": "nobody-asked", "ok": true, "value": value }),
                    ));
                }
                self.held.push((now_ms, call));
            }
            Scene::Refused => {
                self.done.answered += 1;
                acts.push(refused(&call.id, "internal_error: every call is refused in this scene"));
            }
            Scene::Plain
            | Scene::Strangers
            | Scene::Spoken
            | Scene::Resumed
            | Scene::Shutdown
            | Scene::Eof => {
                self.done.answered += 1;
                let session = (self.scene == Scene::Resumed).then_some(SESSION);
                self.done.resumed |= session.is_some() && call.tool == "read_task";
                acts.push(answered(&call, session));
            }
        }
        if ends && self.scene != Scene::Refused {
            self.answer_held(acts);
            self.end(now_ms, acts);
        }
    }

    /// The last call first.
    fn answer_held(&mut self, acts: &mut Vec<Act>) {
        for (_, call) in std::mem::take(&mut self.held).into_iter().rev() {
            self.done.answered += 1;
            acts.push(answered(&call, None));
        }
    }
}

fn said(line: &Value) -> Act {
    Act::Say(format!("{line}\n").into_bytes())
}

fn refused(id: &Value, error: &str) -> Act {
    said(&json!({ "type": "tool_result", "id": id, "ok": false, "error": error }))
}

/// The tools of the scripted side: they know one task and one file.
fn answered(call: &Call, session: Option<&str>) -> Act {
    let path = call.args.get("path").and_then(Value::as_str);
    let value = match call.tool.as_str() {
        "read_task" => json!({
            "id": "task_00000000000000000000000000000001",
            "title": "Say what you see",
            "body": TASK,
            "prompt": TASK,
            "system_prompt": null,
            "inputs": [],
            "budget": {},
            "comments": [],
            "session": session,
        }),
        "get_budget" => json!({ "remaining": { "nanousd": 1_500_000_000, "tokens": 100_000 } }),
        "list_files" => json!({ "files": [NOTE], "truncated": false }),
        "read_file" if path.is_none_or(|path| path.trim_start_matches("./") == NOTE) => {
            json!({ "path": NOTE, "content": NOTE_TEXT, "truncated": false })
        }
        "read_file" => return refused(&call.id, "not_found: there is no such file"),
        tool if KNOWN_TOOLS.contains(&tool) => json!({ "noted": true }),
        tool => return refused(&call.id, &format!("unknown_tool: '{tool}' is not a tool here")),
    };
    said(&json!({ "type": "tool_result", "id": call.id, "ok": true, "value": value }))
}

const TASK: &str =
    "This tests how you speak, not what you can do: answer in one short sentence, and be done.";
/// The name of a conversation that no agent has.
const SESSION: &str = "no-agent-knows-this-conversation";
/// The one file in the agent's directory.
pub const NOTE: &str = "note.txt";
pub const NOTE_TEXT: &str = "nothing to see here\n";

/// The relayed tools of the contract.
pub(super) const KNOWN_TOOLS: &[&str] = &[
    "read_task",
    "report_progress",
    "comment",
    "get_budget",
    "mark_complete",
    "mark_failed",
    "read_file",
    "list_files",
    "write_file",
    "apply_patch",
    "upload_asset",
    "request_approval",
    "handoff",
    "create_subtask",
    "list_runtimes",
    "propose_agent",
];
