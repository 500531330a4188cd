//! The fake agent: a script of steps, done in the order of its flags, by an agent with the manners
//! its other flags gave it.
//!
//! It promises to be harmless to the machine: every process it starts ends by itself after
//! `LIFE_MS_MAX`, and the number of processes it starts is capped. `flags.rs` reads the script,
//! this file plays it, `voice.rs` and `ears.rs` are its two pipes, `leak.rs` and `garbage.rs` hold
//! what it says at its worst, `escape.rs`, `clones.rs` and `swarm.rs` the shapes in which it tries to
//! outlive its run, `witness.rs` what finds them all the same. `again.rs` plays a recording instead of a script; `acp.rs` speaks ACP, and `judged.rs` does
//! so well, or breaks one point of it.

pub mod acp;
pub mod again;
pub mod clones;
pub mod ears;
pub mod encode;
pub mod escape;
pub mod flags;
pub mod garbage;
pub mod judged;
pub mod leak;
pub mod signals;
pub mod swarm;
pub mod voice;
pub mod witness;

use ears::{Ears, Heard};
use flags::{End, Script, Step};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use voice::Voice;

/// No fake agent and no descendant of one lives longer than this.
pub const LIFE_MS_MAX: u64 = 120_000;
/// What it exits with when it was let live too long.
pub const OLD_AGE: u8 = 99;
/// How many lines an agent with slow manners still says after SIGTERM.
pub const PARTING_LINES: u32 = 100;

/// The program.
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|arg| arg == escape::DESCENDANT) {
        return escape::live(args.skip(1));
    }
    if args.peek().is_some_and(|arg| arg == acp::ACP) {
        return acp::talk(args.skip(1));
    }
    if args.peek().is_some_and(|arg| arg == judged::JUDGED) {
        return judged::talk(&args.nth(1).unwrap_or_default());
    }
    if args.peek().is_some_and(|arg| arg == again::AGAIN) {
        return args.nth(1).map_or(ExitCode::FAILURE, |path| again::play(path.as_ref()));
    }
    let script = match flags::parse(args) {
        Ok(Some(script)) => script,
        Ok(None) => return tell(&mut io::stdout(), flags::HELP, 0),
        Err(error) => return tell(&mut io::stderr(), &format!("fake-agent: {error}\n"), 2),
    };
    if script.exit_before_byte {
        return script.exit.into();
    }
    if script.witness
        && let Err(error) = witness::take()
    {
        return tell(&mut io::stderr(), &format!("fake-agent: its witness: {error}\n"), 2);
    }
    if script.ignore_term {
        signals::ignore_all();
    } else if script.slow_term {
        signals::note_term();
    }
    let chatty = script.steps.iter().any(|step| matches!(step, Step::ChattyCall { .. }));
    if script.close_stdin {
        escape::close_stdin();
    }
    let ears = match (script.never_read_stdin || script.close_stdin, chatty) {
        (true, _) => Ears::deaf(),
        (false, true) => Ears::late(io::stdin()),
        (false, false) => Ears::open(io::stdin()),
    };
    let mut voice = Voice::new(io::stdout(), script.silent);
    if script.byte_by_byte {
        voice.byte_by_byte();
    }
    let code = Play::new(&script, ears, &mut voice).play();
    voice.flush();
    code.into()
}

fn tell(out: &mut impl Write, text: &str, code: u8) -> ExitCode {
    // Nobody is left to tell when even this cannot be written.
    let _ = out.write_all(text.as_bytes());
    code.into()
}

/// Why the play is over before its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cue {
    /// The adapter said `shutdown`.
    Shutdown { reason: String },
    /// Standard input came to its end.
    Eof,
    /// SIGTERM came, and the manners are slow.
    Term,
    /// `LIFE_MS_MAX` has passed.
    Old,
}

/// One playing of a script.
struct Play<'a, W: Write> {
    script: &'a Script,
    ears: Ears,
    voice: &'a mut Voice<W>,
    calls: u32,
    /// The last word about the budget.
    budget: Option<Value>,
    old_at: Instant,
}

impl<'a, W: Write> Play<'a, W> {
    fn new(script: &'a Script, ears: Ears, voice: &'a mut Voice<W>) -> Self {
        let old_at = Instant::now() + Duration::from_millis(LIFE_MS_MAX);
        Self { script, ears, voice, calls: 0, budget: None, old_at }
    }

    fn play(mut self) -> u8 {
        let ended = self.steps().and_then(|()| self.end());
        match ended {
            Ok(()) | Err(Cue::Eof) => self.script.exit,
            Err(Cue::Shutdown { reason }) => {
                self.voice.progress(&format!("leaving: {reason}"));
                self.script.exit
            }
            Err(Cue::Term) => self.part(),
            Err(Cue::Old) => OLD_AGE,
        }
    }

    fn steps(&mut self) -> Result<(), Cue> {
        // Who can take more than a prompt says so first.
        if !self.script.steps.contains(&Step::Converse) {
            self.voice.progress("starting");
        }
        for step in &self.script.steps {
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Cue> {
        match step {
            Step::Burst { lines, line_bytes, deltas } => {
                self.voice.burst(*lines, *line_bytes, *deltas);
            }
            Step::Tool { name, args } => self.tool(name, args)?,
            Step::EchoEnv { name } => {
                let value = std::env::var(name).ok();
                self.voice.say(&json!({
                    "type": "progress", "summary": format!("env {name}"), "beliefs": [value],
                }));
            }
            Step::Leak { name } => match std::env::var(name) {
                Ok(value) => leak::leak(self.voice, &mut io::stderr(), name, &value),
                Err(_) => self.voice.progress(&format!("{name} is not set")),
            },
            Step::Garbage => {
                for (_, line) in garbage::lines() {
                    self.voice.raw(&line);
                    self.voice.raw(b"\n");
                }
                self.voice.flush();
            }
            Step::GarbageAside => {
                let _ = io::stderr().write_all(&garbage::aside());
            }
            Step::Odd { bytes } => {
                self.voice.raw(bytes);
                self.voice.flush();
            }
            Step::Tiny { lines } => self.voice.tiny(*lines),
            Step::Endless { bytes } => self.voice.endless(*bytes),
            Step::SplitChar => {
                let line = "{\"type\":\"progress\",\"summary\":\"split: \u{20ac}\u{1f40e}\"}\n";
                for part in line.as_bytes().chunks(43) {
                    self.voice.raw(part);
                    self.voice.flush();
                    self.wait(Duration::from_millis(50))?;
                }
            }
            Step::Interleave { lines } => {
                for n in 1..=*lines {
                    self.voice.progress(&format!("out {n}"));
                    let _ = io::stderr().write_all(format!("err {n}\n").as_bytes());
                }
            }
            Step::SleepMs(ms) => self.wait(Duration::from_millis(*ms))?,
            Step::Steps { count, cost, each_ms, asks } => {
                for n in 1..=*count {
                    self.wait(Duration::from_millis(*each_ms))?;
                    self.voice.say(&json!({
                        "type": "progress", "summary": format!("step {n}"), "cost": cost,
                    }));
                    if *asks {
                        self.tool("get_budget", &json!({}))?;
                    }
                }
            }
            Step::Turns { count } => {
                for _ in 1..=*count {
                    self.voice.event(json!({ "kind": "turn", "phase": "started" }));
                    self.tool("get_budget", &json!({}))?;
                    let end =
                        json!({ "kind": "turn", "phase": "ended", "stop_reason": "end_turn" });
                    self.voice.event(end);
                }
            }
            Step::WaitBudget => self.wait_for_budget()?,
            Step::OpenTool { ms } => {
                self.calls += 1;
                let id = format!("own_{}", self.calls);
                let (name, input) = ("build", json!({}));
                self.voice.event(json!({
                    "kind": "tool_use", "tool_call_id": id, "name": name, "input": input,
                    "via": "native",
                }));
                self.wait(Duration::from_millis(*ms))?;
                self.voice.event(json!({
                    "kind": "tool_result", "tool_call_id": id, "status": "ok", "output": "built",
                }));
            }
            Step::DeafCall => {
                self.calls += 1;
                let id = format!("call_{}", self.calls);
                let call =
                    json!({ "type": "tool_call", "id": id, "tool": "read_task", "args": {} });
                self.voice.say(&call);
            }
            Step::CallAgain => self.call_again()?,
            Step::ChattyCall { bytes } => self.call_chattily(*bytes)?,
            Step::WaitShutdown => self.wait_for_good()?,
            Step::Converse => self.converse()?,
            Step::Escape(shape) => escape::start(shape),
            Step::ForkOften { children } => escape::start_often(*children),
            Step::CloseStdout => {
                self.voice.flush();
                escape::close_stdout();
            }
            Step::Swarm { growth, cap } => swarm::start(*growth, *cap),
            Step::StopSelf => signals::stop_self(),
            Step::KillSelf => signals::kill_self(),
        }
        Ok(())
    }

    /// Calls a relayed tool, waits for its answer and shows it.
    fn tool(&mut self, name: &str, args: &Value) -> Result<(), Cue> {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        self.voice.say(&json!({ "type": "tool_call", "id": id, "tool": name, "args": args }));
        let answer = loop {
            let frame = self.next(self.old_at)?;
            if frame["type"] == "tool_result" && frame["id"] == id.as_str() {
                break frame;
            }
        };
        self.voice.say(&json!({
            "type": "progress", "summary": format!("{name} answered"), "beliefs": [answer],
        }));
        Ok(())
    }

    /// Calls under one id while the call is open and after its answer, and shows how often it was
    /// answered: what comes before the answer to a later call is all that comes.
    fn call_again(&mut self) -> Result<(), Cue> {
        let call = json!({ "type": "tool_call", "id": "again", "tool": "read_task", "args": {} });
        self.voice.say(&call);
        self.voice.say(&call);
        while self.next(self.old_at)?["id"] != "again" {}
        self.voice.say(&call);
        let last = json!({ "type": "tool_call", "id": "last", "tool": "read_task", "args": {} });
        self.voice.say(&last);
        let mut answers = 1;
        loop {
            let frame = self.next(self.old_at)?;
            match frame["id"].as_str() {
                Some("last") => break,
                Some("again") => answers += 1,
                _ => {}
            }
        }
        self.voice.progress(&format!("answered {answers} times"));
        Ok(())
    }

    /// Calls a tool with a long answer and talks instead of listening; only then listens.
    fn call_chattily(&mut self, bytes: usize) -> Result<(), Cue> {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        self.voice.say(&json!({ "type": "tool_call", "id": id, "tool": "read_task", "args": {} }));
        self.voice.banner(bytes);
        let answer = loop {
            let frame = self.next(self.old_at)?;
            if frame["type"] == "tool_result" && frame["id"] == id.as_str() {
                break frame;
            }
        };
        let heard = answer["value"]["prompt"].as_str().map_or(0, str::len);
        self.voice.progress(&format!("heard {heard} bytes"));
        Ok(())
    }

    /// A word about the budget may have come while a tool's answer was waited for.
    fn wait_for_budget(&mut self) -> Result<(), Cue> {
        while self.budget.is_none() {
            self.next(self.old_at)?;
        }
        let told = self.budget.take();
        self.voice.say(&json!({ "type": "progress", "summary": "told", "beliefs": [told] }));
        Ok(())
    }

    /// Says hello and echoes every message, until one says `end`.
    fn converse(&mut self) -> Result<(), Cue> {
        self.voice.say(&json!({ "type": "hello", "accepts": ["message", "interrupt"] }));
        loop {
            let frame = self.next(self.old_at)?;
            match (frame["type"].as_str(), frame["text"].as_str()) {
                (Some("message"), Some("end")) => return Ok(()),
                (Some("message"), Some(text)) => self.voice.text(&format!("heard: {text}")),
                (Some("interrupt"), _) => self.voice.progress("interrupted"),
                _ => {}
            }
        }
    }

    /// Ends as the script says: with a closing line or without, and then perhaps not at all.
    fn end(&mut self) -> Result<(), Cue> {
        if self.script.silent {
            self.wait_for_good()?;
        }
        let leak = self
            .script
            .leak_end
            .as_ref()
            .and_then(|name| std::env::var(name).ok().map(|value| leak::closing(name, &value)));
        let closing = match &self.script.end {
            End::Nothing => None,
            End::Failed { reason } => {
                let details = leak.unwrap_or_else(|| "asked to fail".into());
                Some(json!({ "type": "failed", "reason": reason, "details": details }))
            }
            End::Complete { cost } => {
                let output = leak.unwrap_or_else(|| json!({ "done": true }));
                let mut line = json!({ "type": "complete", "output": output });
                if let Some(cost) = cost {
                    line["cost"] = cost.clone();
                }
                Some(line)
            }
        };
        if let Some(closing) = closing {
            self.voice.closing(&closing, !self.script.no_final_newline);
        }
        if self.script.linger {
            self.ears = Ears::deaf();
            self.wait_for_good()?;
        }
        Ok(())
    }

    /// Goodbye in slow manners: many lines, one after the other.
    fn part(&mut self) -> u8 {
        for n in 1..=PARTING_LINES {
            self.voice.progress(&format!("parting {n}"));
            std::thread::sleep(Duration::from_millis(2));
        }
        self.script.exit
    }

    fn wait_for_good(&mut self) -> Result<(), Cue> {
        loop {
            self.next(self.old_at)?;
        }
    }

    /// Lets time pass; what is heard meanwhile is not acted upon, a shutdown excepted.
    fn wait(&mut self, time: Duration) -> Result<(), Cue> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            match self.next(until) {
                Ok(_) => {}
                Err(Cue::Old) if Instant::now() < self.old_at => return Ok(()),
                // A test may well have closed standard input: that is no reason not to sleep.
                Err(Cue::Eof) => self.ears = Ears::deaf(),
                Err(cue) => return Err(cue),
            }
        }
        Ok(())
    }

    /// The next frame, or why none will come. `Old` when `until` has passed.
    fn next(&mut self, until: Instant) -> Result<Value, Cue> {
        loop {
            if self.script.slow_term && signals::term_noted() {
                return Err(Cue::Term);
            }
            match self.ears.listen(until) {
                Heard::Frame(frame) if frame["type"] == "shutdown" => {
                    let reason = frame["reason"].as_str().unwrap_or("no reason").to_owned();
                    return Err(Cue::Shutdown { reason });
                }
                Heard::Frame(frame) => {
                    if frame["type"] == "budget_update" {
                        self.budget = Some(frame.clone());
                    }
                    return Ok(frame);
                }
                Heard::Eof => return Err(Cue::Eof),
                Heard::Nothing if Instant::now() >= until => return Err(Cue::Old),
                Heard::Nothing => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a script of flags against given lines of standard input.
    fn play(flags: &[&str], stdin: &str) -> (Vec<Value>, u8) {
        let script = flags::parse(flags.iter().map(|flag| (*flag).to_owned()))
            .expect("the flags are known")
            .expect("no help was asked for");
        let ears = Ears::open(io::Cursor::new(stdin.to_owned()));
        let mut out = Vec::new();
        let mut voice = Voice::new(&mut out, script.silent);
        let code = Play::new(&script, ears, &mut voice).play();
        voice.flush();
        drop(voice);
        let lines = String::from_utf8(out).expect("text");
        (lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), code)
    }

    #[test]
    fn without_flags_it_starts_and_completes() {
        let (lines, code) = play(&[], "");
        assert_eq!(
            lines,
            [
                json!({ "type": "progress", "summary": "starting" }),
                json!({ "type": "complete", "output": { "done": true } }),
            ]
        );
        assert_eq!(code, 0);
    }

    #[test]
    fn a_tool_call_waits_for_its_own_answer_and_shows_it() {
        let stdin = concat!(
            r#"{"type":"tool_result","id":"call_9","ok":true,"value":"a stranger's"}"#,
            "\nnot JSON\n",
            r#"{"type":"tool_result","id":"call_1","ok":true,"value":7}"#,
            "\n"
        );
        let (lines, _) = play(&["--tool", "get_budget", "{\"a\":1}"], stdin);
        assert_eq!(
            lines[1],
            json!({ "type": "tool_call", "id": "call_1", "tool": "get_budget", "args": { "a": 1 } })
        );
        assert_eq!(lines[2]["beliefs"][0]["value"], 7);
        assert_eq!(lines[3]["type"], "complete");
    }

    #[test]
    fn a_shutdown_ends_it_without_a_closing_line() {
        let (lines, code) =
            play(&["--exit", "3", "--wait-shutdown"], "{\"type\":\"shutdown\",\"reason\":\"x\"}\n");
        assert_eq!(lines.last().expect("a line")["summary"], "leaving: x");
        assert_eq!((lines.len(), code), (2, 3));
    }

    #[test]
    fn a_conversation_echoes_until_it_is_told_to_end() {
        let stdin = concat!(
            "{\"type\":\"message\",\"text\":\"good day\"}\n",
            "{\"type\":\"interrupt\"}\n",
            "{\"type\":\"message\",\"text\":\"end\"}\n"
        );
        let (lines, _) = play(&["--converse"], stdin);
        assert_eq!(lines[0]["accepts"], json!(["message", "interrupt"]));
        assert_eq!(lines[1]["event"]["text"], "heard: good day");
        assert_eq!(lines[2]["summary"], "interrupted");
        assert_eq!(lines[3]["type"], "complete");
    }

    #[test]
    fn each_step_has_its_cost_and_can_ask_what_is_left() {
        let stdin = concat!(
            r#"{"type":"tool_result","id":"call_1","ok":true,"value":1}"#,
            "\n",
            r#"{"type":"budget_update","remaining":{"usd":0.1}}"#,
            "\n",
            r#"{"type":"shutdown","reason":"budget_exceeded"}"#,
            "\n"
        );
        let (lines, _) =
            play(&["--step-cost", "{\"usd\":0.2}", "--step-asks", "--steps", "9"], stdin);
        let costs: Vec<_> = lines.iter().filter(|line| line["cost"]["usd"] == 0.2).collect();
        assert_eq!(costs.len(), 2, "the second step is the last: {lines:?}");
        let (lines, _) = play(&["--steps", "3", "--open-tool", "1"], "");
        assert_eq!(lines.iter().filter(|line| line["cost"]["usd"] == 0.1).count(), 3);
        let kinds: Vec<_> =
            lines.iter().filter_map(|line| line["event"]["kind"].as_str()).collect();
        assert_eq!(kinds, ["tool_use", "tool_result"]);
    }

    #[test]
    fn it_can_fail_end_without_a_word_and_report_its_cost() {
        let (lines, _) = play(&["--failed", "budget_exceeded"], "");
        assert_eq!(
            (&lines[1]["type"], &lines[1]["reason"]),
            (&json!("failed"), &json!("budget_exceeded"))
        );
        let (lines, code) = play(&["--no-complete", "--exit", "4"], "");
        assert_eq!((lines.len(), code), (1, 4));
        let (lines, _) = play(&["--cost", "{\"usd\":0.25}"], "");
        assert_eq!(lines[1]["cost"], json!({ "usd": 0.25 }));
    }

    #[test]
    fn a_silent_agent_says_nothing_and_leaves_when_told() {
        let (lines, code) = play(&["--silent"], "{\"type\":\"shutdown\",\"reason\":\"x\"}\n");
        assert_eq!((lines.len(), code), (0, 0));
    }
}
