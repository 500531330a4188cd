//! An agent that speaks ACP, for what no recording shows: messages in a later turn, an interrupt, the
//! tools of the relay, a process that stays after its end or dies before it, one that answers late or
//! does not listen. The first word of each prompt says what to do; anything else is echoed, and `work`
//! is in `labour`. With `--odd NAME` it says something odd on the way (`odd`). It knows the protocol by itself, so that it does not share mistakes with the
//! dialect it is driven by.

mod labour;
pub mod odd;

use odd::{ODD, Then};
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The first word of the command line that means it.
pub const ACP: &str = "--acp";
/// Answers the greeting when the file that follows is there.
pub const GREETS_WHEN: &str = "--greets-when";
/// Answers the greeting and listens to nothing more until the file that follows is there.
pub const DEAF_UNTIL: &str = "--deaf-until";
/// How long it stays when it is told to linger: longer than any test waits.
const LINGER: Duration = Duration::from_secs(120);
/// How often a file is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// More than a pipe takes: what answers a request of this length stays on its way.
const LONG_ID_BYTES: usize = 300_000;

/// Talks until its input ends.
pub fn talk(mut args: impl Iterator<Item = String>) -> ExitCode {
    let (how, file) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let (name, file) = (file.as_str(), Path::new(&file));
    let mut agent = Agent { lines: io::stdin().lines(), server: Value::Null };
    while let Some(message) = agent.next() {
        let id = &message["id"];
        let method = message["method"].as_str().unwrap_or_default();
        if how == ODD {
            match odd::say(name, method, id) {
                Some(Then::Answer) => {}
                Some(Then::Wait) => continue,
                Some(Then::Leave) => return ExitCode::SUCCESS,
                None => return ExitCode::FAILURE,
            }
        }
        match method {
            "initialize" => {
                if how == GREETS_WHEN && !appears(file) {
                    return ExitCode::FAILURE;
                }
                if how == DEAF_UNTIL {
                    let id = "x".repeat(LONG_ID_BYTES);
                    say(&json!({ "jsonrpc": "2.0", "id": id, "method": "not/served" }));
                }
                let info = json!({ "name": "fake", "version": "1" });
                answer(id, &json!({ "protocolVersion": 1, "agentInfo": info }));
                if how == DEAF_UNTIL && !appears(file) {
                    return ExitCode::FAILURE;
                }
            }
            "session/new" => {
                agent.server = message["params"]["mcpServers"][0].clone();
                answer(id, &json!({ "sessionId": "fake-session" }));
            }
            "session/prompt" => match agent.prompted(&message) {
                Some(stop) => answer(id, &json!({ "stopReason": stop })),
                None => return ExitCode::FAILURE,
            },
            _ => {}
        }
    }
    ExitCode::SUCCESS
}

struct Agent {
    lines: io::Lines<io::StdinLock<'static>>,
    /// The MCP server it was offered.
    server: Value,
}

impl Agent {
    fn next(&mut self) -> Option<Value> {
        serde_json::from_str(&self.lines.next()?.ok()?).ok()
    }

    /// Does as it is told; `None` when it dies of it.
    fn prompted(&mut self, message: &Value) -> Option<&'static str> {
        let text = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default();
        match text.split_whitespace().next().unwrap_or_default() {
            "tools" => chunk(&self.tools().unwrap_or_else(|error| format!("no tools: {error}"))),
            "die" => {
                chunk("about to die");
                return None;
            }
            "linger" => {
                chunk("staying");
                answer(&message["id"], &json!({ "stopReason": "end_turn" }));
                std::thread::sleep(LINGER);
                return None;
            }
            "wait" => {
                chunk("waiting");
                while self.next()?["method"] != "session/cancel" {}
                return Some("cancelled");
            }
            "work" => return labour::work(self, text),
            "silent" => {}
            _ => chunk(&format!("you said {text}")),
        }
        Some("end_turn")
    }

    /// The names of the tools that the offered server has.
    fn tools(&self) -> io::Result<String> {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let args = self.server["args"].as_array().into_iter().flatten().map(word);
        let pair = |pair: &Value| (word(&pair["name"]), word(&pair["value"]));
        let env = self.server["env"].as_array().into_iter().flatten().map(pair);
        let mut child: Child = Command::new(word(&self.server["command"]))
            .args(args)
            // Only what it was given with the server: an agent need not hand on its own.
            .env_clear()
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let client = json!({ "name": "fake", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let says = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
        ];
        for line in says {
            writeln!(input, "{line}")?;
        }
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        for line in BufReader::new(output).lines() {
            let heard: Value = serde_json::from_str(&line?)?;
            if heard["id"] == 2 {
                let tools = heard["result"]["tools"].as_array().into_iter().flatten();
                let names: Vec<_> = tools.map(|tool| word(&tool["name"])).collect();
                drop(input);
                child.wait()?;
                return Ok(names.join(" "));
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Waits until a file is there; false when it never comes.
fn appears(file: &Path) -> bool {
    let looks = LINGER.as_millis() / LOOK.as_millis();
    (0..looks).any(|_| {
        std::thread::sleep(LOOK);
        file.exists()
    })
}

fn chunk(text: &str) {
    piece("agent_message_chunk", text);
}

fn piece(kind: &str, text: &str) {
    let content = json!({ "type": "text", "text": text });
    update(&json!({ "sessionUpdate": kind, "content": content }));
}

fn update(update: &Value) {
    let params = json!({ "sessionId": "fake-session", "update": update });
    say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
}

fn answer(id: &Value, result: &Value) {
    say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn say(message: &Value) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{message}");
    let _ = stdout.flush();
}
