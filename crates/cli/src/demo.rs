//! The demo agent: a foreign agent that happens to live in this binary. It speaks the process
//! protocol over its standard streams as any other program would, knows nothing of Ostler but what
//! it is told in JSON lines, and may not touch a file except by asking. It has no model: it tells a
//! short story (`demo/story.rs`) so that a run can be seen from end to end with nothing installed.
//! It reads all the time, obeys a shutdown at once, and leaves quietly when nobody listens.

mod story;

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long the story takes its time.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Between two lines of a story, so that it can be seen to live.
    beat_ms: u64,
    /// Between two lines of the slow story.
    slow_ms: u64,
    /// How long an interrupted agent waits to be told what to do instead.
    patience_ms: u64,
}

const LIVELY: Pace = Pace { beat_ms: 30, slow_ms: 300, patience_ms: 5_000 };

/// Runs the agent on this process's own standard input and output.
pub fn demo_agent() -> ExitCode {
    play(BufReader::new(std::io::stdin()), std::io::stdout(), LIVELY);
    ExitCode::SUCCESS
}

/// Plays the whole part, on any two streams. Returns when the story is told or nobody listens.
fn play(input: impl BufRead + Send + 'static, output: impl Write, pace: Pace) {
    // A full channel makes the reader wait, and that makes the other side wait: nothing is lost.
    let (heard, line) = sync_channel(64);
    #[expect(
        clippy::disallowed_methods,
        reason = "the demo agent is a program of its own without a log"
    )]
    std::thread::spawn(move || listen(input, &heard));
    let mut wire = Wire { output, line, pace, tried: Vec::new(), messages: VecDeque::new() };
    let told = match story::tell(&mut wire) {
        Err(Left::Interrupted) => story::after_interrupt(&mut wire),
        told => told,
    };
    match told {
        // Whoever told us to leave, or stopped listening, wants to hear nothing more.
        Ok(()) | Err(Left::ToldToGo | Left::Unheard | Left::Interrupted) => {}
    }
}

/// Why a story is not told to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    ToldToGo,
    Interrupted,
    /// Nobody reads, or nobody speaks, any more.
    Unheard,
}

/// A line from the other side, as far as it matters here.
#[derive(Debug)]
enum Heard {
    ToolResult { id: String, answer: Result<Value, String> },
    Message(String),
    Interrupt,
    Shutdown,
}

/// Reads lines until there are no more. What is not understood is skipped: it is not for us.
fn listen(mut input: impl BufRead, heard: &SyncSender<Heard>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            // An input that cannot be read has ended.
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Some(understood) = understood(&line) else { continue };
        if heard.send(understood).is_err() {
            return;
        }
    }
}

fn understood(line: &[u8]) -> Option<Heard> {
    let line: Value = serde_json::from_slice(line).ok()?;
    match line["type"].as_str()? {
        "tool_result" => {
            let id = line["id"].as_str()?.to_owned();
            let answer = match line["ok"].as_bool() {
                Some(true) => Ok(line["value"].clone()),
                Some(false) | None => Err(line["error"].as_str().unwrap_or("no reason").to_owned()),
            };
            Some(Heard::ToolResult { id, answer })
        }
        "message" => Some(Heard::Message(line["text"].as_str()?.to_owned())),
        "interrupt" => Some(Heard::Interrupt),
        "shutdown" => Some(Heard::Shutdown),
        // A budget update is heard and asks nothing of an agent without a model.
        _ => None,
    }
}

/// An object with its tag in front, as people write it and readers like it.
fn tagged(tag: &str, name: &str, fields: &Value) -> String {
    let fields = fields.to_string();
    match fields.strip_prefix('{') {
        Some("}") | None => format!("{{\"{tag}\":\"{name}\"}}"),
        Some(rest) => format!("{{\"{tag}\":\"{name}\",{rest}"),
    }
}

/// Both directions of the conversation.
struct Wire<W> {
    output: W,
    line: Receiver<Heard>,
    pace: Pace,
    /// The tools that were called, in order.
    tried: Vec<String>,
    /// Messages of the person that are not answered yet.
    messages: VecDeque<String>,
}

impl<W: Write> Wire<W> {
    /// Says one line of the protocol.
    fn say(&mut self, kind: &str, fields: Value) -> Result<(), Left> {
        self.write(tagged("type", kind, &fields))
    }

    /// States an event of the contract.
    fn event(&mut self, kind: &str, fields: Value) -> Result<(), Left> {
        let event = tagged("kind", kind, &fields);
        self.write(format!("{{\"type\":\"event\",\"event\":{event}}}"))
    }

    fn write(&mut self, mut line: String) -> Result<(), Left> {
        line.push('\n');
        let said = self.output.write_all(line.as_bytes()).and_then(|()| self.output.flush());
        said.map_err(|_| Left::Unheard)
    }

    /// Calls a tool of the other side and waits for its answer.
    fn call(&mut self, tool: &str, args: Value) -> Result<Result<Value, String>, Left> {
        self.tried.push(tool.to_owned());
        let call = format!("call_{}", self.tried.len());
        self.say("tool_call", json!({ "id": call, "tool": tool, "args": args }))?;
        loop {
            let heard = self.line.recv().map_err(|_| Left::Unheard)?;
            if let Some((id, answer)) = self.take(heard)?
                && id == call
            {
                return Ok(answer);
            }
        }
    }

    /// A moment's rest. Anything that is heard ends it; what ends the story ends it at once.
    fn rest(&mut self, ms: u64) -> Result<(), Left> {
        match self.line.recv_timeout(Duration::from_millis(ms)) {
            Ok(heard) => self.take(heard).map(drop),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Left::Unheard),
        }
    }

    fn beat(&mut self) -> Result<(), Left> {
        self.rest(self.pace.beat_ms)
    }

    /// Waits for a message of the person, but not for ever.
    fn message(&mut self, ms: u64) -> Result<Option<String>, Left> {
        if self.messages.is_empty() {
            self.rest(ms)?;
        }
        Ok(self.messages.pop_front())
    }

    /// Takes note of a line; gives back the answer to a call, if it is one.
    #[allow(clippy::type_complexity)]
    fn take(&mut self, heard: Heard) -> Result<Option<(String, Result<Value, String>)>, Left> {
        match heard {
            Heard::ToolResult { id, answer } => Ok(Some((id, answer))),
            Heard::Message(text) => {
                self.messages.push_back(text);
                Ok(None)
            }
            Heard::Interrupt => Err(Left::Interrupted),
            Heard::Shutdown => Err(Left::ToldToGo),
        }
    }
}

#[cfg(test)]
mod tests;
