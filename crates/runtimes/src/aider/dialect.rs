//! Hears plain text on stdout and, on stderr, the lines of `--analytics-log`. A message of the model
//! is all that stands before a line of its tokens; why the agent exits is a line of the log. A
//! success needs both, in whatever order the two streams are heard, and therefore is told when both
//! are over. The agent has no tools: it changes files by what it writes, and says which.

use super::trouble;
use super::wire::{Entry, Properties};
use crate::Stream;
use crate::headless::{Answer, Ear, Listener, preview};
use contract::event::{Body, Diff, Session, StopReason, Usage};
use contract::money::Basis;
use contract::speech::{Close, Limited};
use contract::{Code, NanoUsd, Signal, Tokens};
use serde::{Deserialize, Serialize};

/// How the lines begin that mean something.
const MODEL: &str = "Model: ";
/// The last line before the first message.
const READY: &str = "Repo-map: ";
const TOKENS: &str = "Tokens: ";
const APPLIED: &str = "Applied edit to ";
/// The agent's own words between two messages; all else there is taken for the model's.
const OWN: &[&str] =
    &["Commit ", "Added ", "Retrying in ", "Warning", "Did not apply", "HTTPSConn"];
/// The reason of an exit after all messages.
const COMPLETED: &str = "Completed --message";

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    model: Option<String>,
    turn_open: bool,
    /// The number of the message that is being heard, and whether something of it was.
    block: u32,
    speaking: bool,
    heard: Answer,
    /// A first line after a message: the name of a file that is changed next, or the next message.
    held: Option<String>,
    /// What follows a complaint explains it, up to the next try or message.
    explaining: bool,
    /// The last message that its tokens closed.
    answer: Option<String>,
    /// What was said to be wrong since then.
    trouble: Option<(Code, String)>,
    limited: bool,
    exit: Option<String>,
}

impl Listener for State {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.stream {
            Stream::Stdout => self.line(ear),
            Stream::Stderr => self.aside(ear),
        }
    }

    fn close(&mut self, how: Close, ear: &mut Ear<'_>) {
        match how {
            Close::Ended => self.finish(ear),
            // The rest of what it said may be missing.
            Close::Cut => {}
        }
    }
}

impl State {
    fn line(&mut self, ear: &mut Ear<'_>) {
        let line = ear.line;
        if let Some(code) = trouble::of(line) {
            return self.trouble(code, ear);
        }
        if !self.turn_open {
            return self.greeting(ear);
        }
        if let Some(wait_ms) = trouble::wait_ms(line) {
            self.limit(wait_ms, ear);
        } else if line.starts_with(TOKENS) {
            self.close_message(ear);
        } else if let Some(path) = line.strip_prefix(APPLIED).filter(|_| !self.speaking) {
            self.change(path, ear);
        } else if line.trim().is_empty() && !self.speaking && self.held.is_none() {
            // Between two messages it means nothing.
        } else if self.explaining || (!self.speaking && is_own(line)) {
            ear.keep(None);
        } else if !self.speaking && self.answer.is_some() && self.held.is_none() {
            self.held = Some(preview(line));
        } else {
            self.say_held(ear);
            self.message(line, ear);
        }
    }

    /// What stands before the first message.
    fn greeting(&mut self, ear: &mut Ear<'_>) {
        let line = ear.line;
        if line.trim().is_empty() {
            return;
        }
        ear.keep(None);
        if let Some(model) = line.strip_prefix(MODEL) {
            let name = model.split_once(" with ").map_or(model, |(name, _)| name);
            self.model = Some(preview(name));
        }
        if line.starts_with(READY) {
            self.turn_open = true;
            ear.introduce(Session {
                model: self.model.clone(),
                tools: None,
                cwd: None,
                native_session: None,
                resumed: false,
            });
            ear.start_turn();
        }
    }

    /// What was held back is the beginning of a message after all.
    fn say_held(&mut self, ear: &mut Ear<'_>) {
        if let Some(held) = self.held.take() {
            self.message(&held, ear);
        }
    }

    fn message(&mut self, line: &str, ear: &mut Ear<'_>) {
        if !std::mem::replace(&mut self.speaking, true) {
            self.block = self.block.saturating_add(1);
            self.heard.set("");
        }
        let piece = format!("{line}\n");
        self.heard.push(&piece);
        ear.say(piece, Some(format!("message-{}", self.block)), true);
    }

    /// Its tokens close a message. They are rounded, and the log has them as they are.
    fn close_message(&mut self, ear: &mut Ear<'_>) {
        self.say_held(ear);
        ear.keep(None);
        self.explaining = false;
        if std::mem::take(&mut self.limited) {
            ear.signal(Signal::LimitLifted);
        }
        if std::mem::take(&mut self.speaking) {
            self.answer = self.heard.words();
            self.trouble = None;
        }
    }

    /// The file is named; what changed in it is in the message before.
    fn change(&mut self, path: &str, ear: &mut Ear<'_>) {
        let path = path.trim().to_owned();
        if self.held.as_ref() == Some(&path) {
            self.held = None;
        }
        self.say_held(ear);
        let (patch, old_text, new_text, tool_call_id) = (None, None, None, None);
        ear.draft(Body::Diff(Diff { path, patch, old_text, new_text, tool_call_id }));
    }

    fn trouble(&mut self, code: Code, ear: &mut Ear<'_>) {
        // A limit of tokens after a part of the answer is one of the answer and not of the context.
        let cut = std::mem::take(&mut self.speaking) && trouble::is_limit_of_tokens(ear.line);
        let code = if cut { Code::AnswerCut } else { code };
        self.explaining = true;
        ear.error(code, ear.line);
        self.trouble = Some((code, preview(ear.line)));
        if code == Code::AuthRequired {
            // It would go on to offer a login in a browser and wait for that.
            let (terminal, wait_ms, resets_at) = (true, None, None);
            ear.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
        }
    }

    fn limit(&mut self, wait_ms: u64, ear: &mut Ear<'_>) {
        ear.keep(None);
        (self.limited, self.explaining) = (true, false);
        let code = self.trouble.as_ref().map_or(Code::UpstreamError, |(code, _)| *code);
        // It waits for seconds, and tries again for a minute; a quota that is used up takes longer.
        let terminal = code == Code::ProviderQuota;
        let (wait_ms, resets_at) = (Some(wait_ms), None);
        ear.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
    }

    fn aside(&mut self, ear: &mut Ear<'_>) {
        let Some(Entry { event, properties }) = Entry::read(ear.line) else {
            if !ear.line.trim().is_empty() {
                ear.keep(None);
            }
            return;
        };
        match event.as_str() {
            "message_send" => {
                ear.signal(Signal::ModelAnswer);
                self.spent(&properties, ear);
            }
            "message_send_exception" => {
                let words = properties.exception.unwrap_or_default();
                let code = trouble::of(&words).unwrap_or(Code::AgentFailed);
                ear.error(code, &words);
                self.trouble = Some((code, preview(&words)));
            }
            "exit" => self.exit = Some(preview(&properties.reason.unwrap_or_default())),
            // What it would tell its makers of its settings; the trace has the line.
            _ => {}
        }
    }

    /// What was cached is among what was sent and is not told apart, so that a price made of it is
    /// too high rather than too low.
    fn spent(&mut self, told: &Properties, ear: &mut Ear<'_>) {
        let (Some(sent), Some(received)) = (told.prompt_tokens, told.completion_tokens) else {
            return ear.keep(None);
        };
        let tokens = Tokens { input_uncached: sent, output: received, ..Tokens::default() };
        let dollars = told.cost.filter(|cost| *cost > 0.0).and_then(NanoUsd::from_usd);
        ear.spent(Usage {
            model: self.model.clone(),
            tokens: Some(tokens),
            basis: Basis::Increment,
            reported_nanousd: dollars,
            ..Usage::default()
        });
    }

    /// Only a message that was closed, nothing wrong after it, and the word of a completed exit
    /// together are a success.
    fn finish(&mut self, ear: &mut Ear<'_>) {
        let Some(exit) = self.exit.take() else { return };
        self.say_held(ear);
        let completed = exit.starts_with(COMPLETED);
        let (code, detail) = match (self.trouble.take(), completed, &self.answer) {
            (Some((code, words)), _, _) => (Some(code), Some(words)),
            (None, false, _) => (Some(Code::AgentFailed), Some(exit)),
            (None, true, None) => (Some(Code::EndedWithoutResult), None),
            (None, true, Some(_)) => (None, None),
        };
        if std::mem::take(&mut self.turn_open) {
            ear.end_turn(if code.is_none() { StopReason::EndTurn } else { StopReason::Error });
        }
        ear.result(code, self.answer.take(), detail);
    }
}

/// Whether a line between two messages is the agent's own.
fn is_own(line: &str) -> bool {
    OWN.iter().any(|own| line.starts_with(own))
}
