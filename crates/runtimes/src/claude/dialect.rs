//! The conversation by stream-json, both ways. It opens with the protocol's greeting and the prompt;
//! after that messages, interrupts and the answers to the agent's questions are said, and each line
//! is heard by `ear.rs`. The plain one-shot mode prints the same lines and is heard the same way.

use super::ear::Ear;
use super::state::State;
use super::wire::{self, Control, Line, Permit};
use crate::denial::{DENIED, denied_because};
use crate::{Dialect, Frame, Out, Stream, lenient};
use contract::event::{self, Body, Log, Raw};
use contract::speech::Close;
use contract::{Code, Draft, Timestamp, Utterance};
use std::borrow::Cow;

/// The ids of our own requests.
const GREETING: &str = "ostler-initialize";
const FAREWELL: &str = "ostler-farewell";
/// A conversation with the agent.
pub(super) struct StreamJson {
    state: State,
    /// The prompt, until it is said with the launch.
    prompt: Option<String>,
}

impl StreamJson {
    pub(super) fn new(state: State, prompt: Option<String>) -> Self {
        Self { state, prompt }
    }
}

impl Dialect for StreamJson {
    fn open(&mut self) -> Option<Vec<u8>> {
        let prompt = self.prompt.take()?;
        let mut words = wire::control(GREETING, Control::Initialize);
        words.extend(wire::user(&prompt));
        Some(words)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = frame.text();
        let line = text.trim_start_matches('\u{feff}').trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let mut ear = Ear { state: &mut self.state, out, raw, line };
        match frame.stream {
            Stream::Stderr => ear.stderr(),
            Stream::Stdout => {
                // Replaced characters could turn one value into another, so such a line is only kept.
                let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
                match whole.then(|| lenient::object::<Line>(line)).flatten() {
                    Some(line) => ear.hear(line),
                    None => ear.unrecognised(),
                }
            }
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        match utterance {
            Utterance::Message { text } => out.frames.push(wire::user(text)),
            Utterance::Interrupt => {
                self.state.requests = self.state.requests.saturating_add(1);
                let id = format!("ostler-interrupt-{}", self.state.requests);
                out.frames.push(wire::control(&id, Control::Interrupt));
            }
            Utterance::Decide { request, option, reason } => match self.state.answer(request) {
                Some(question) => {
                    let allowed = option.as_deref() == Some("allow");
                    let denied = reason.as_deref().map(denied_because);
                    let permit = match allowed {
                        true => Permit::Allow { updated_input: question.input.as_ref() },
                        false => Permit::Deny { message: denied.as_deref().unwrap_or(DENIED) },
                    };
                    out.frames.push(wire::permit(request, permit));
                }
                None => note(out, "a question that is no longer open was not answered"),
            },
            Utterance::Shutdown { reason } => out.frames.extend(self.farewell(*reason)),
            Utterance::ToolResult { .. } => {
                note(out, "this agent calls tools by MCP, so no result of a tool is said to it");
            }
            // It asks for its budget by a tool; during a turn nothing is said to it.
            Utterance::BudgetUpdate { .. } => {}
        }
    }

    /// The protocol waits for nothing.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, out: &mut Out) {
        let raw = Raw { stream: event::Stream::Stdout, line: 0 };
        let first = out.drafts.len();
        let mut ear = Ear { state: &mut self.state, out, raw, line: "" };
        ear.leave_nothing_open();
        ear.report_spending(None);
        // What is closed here stands in no line.
        out.drafts[first..].iter_mut().for_each(|draft| draft.raw = None);
    }

    /// An interrupt: the turn ends at once and its result tells what was spent.
    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        Some(wire::control(FAREWELL, Control::Interrupt))
    }

    fn save(&self) -> Vec<u8> {
        self.state.save()
    }
}

fn note(out: &mut Out, text: &str) {
    let (stream, level) = (event::Stream::Ostler, Some("warning".to_owned()));
    out.drafts.push(Draft::ostler(Body::Log(Log { stream, text: text.to_owned(), level })));
}
