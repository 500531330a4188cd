//! Hears `--headless --json`: JSON lines between words for people. That the agent came to its end
//! is one of the words, `Agent finished`, and the conversation is named in another, the last but
//! one; both are needed for a success, because the exit is 0 after every failure of the model too.
//! It takes no word after its prompt, and tells no tokens.

use super::wire::{Action, Line, Message, Observation, Trouble, joined};
use super::{tools, trouble};
use crate::oneshot::{Answer, Calls, Ear, Open, REPEATED, UNRECOGNISED, bounded, unsaid};
use crate::{Dialect, Frame, Out, Stream, saved};
use contract::event::{Body, Session, StopReason};
use contract::speech::Close;
use contract::{Code, Fault, Signal, Timestamp, Utterance};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The version of the saved form.
const VERSION: u32 = 1;

/// The words that mean something, as they begin their lines.
const MODEL: &str = "✓ Agent initialized with model: ";
const WORKING: &str = "Agent is working";
const FINISHED: &str = "Agent finished";
const CONVERSATION: &str = "Conversation ID: ";
/// The heading of what repeats the last message for people.
const SUMMARY: &str = " CONVERSATION SUMMARY ";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    version: u32,
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    model: Option<String>,
    turn_open: bool,
    finished: bool,
    ended: bool,
    /// The heading of the repetition was heard.
    repeats: bool,
    /// The number of the message that was heard last.
    block: u32,
    /// What held the conversation up, and its words.
    trouble: Option<(Code, String)>,
    answer: Answer,
    /// A tool was used, so that a run without a word still did something.
    acted: bool,
    calls: Calls,
}

/// A run of the agent: one prompt, one turn.
pub(super) struct OpenHands {
    state: State,
}

impl OpenHands {
    pub(super) fn new(resumes: Option<String>) -> Self {
        let state = State {
            version: VERSION,
            resumes,
            model: None,
            turn_open: false,
            finished: false,
            ended: false,
            repeats: false,
            block: 0,
            trouble: None,
            answer: Answer::default(),
            acted: false,
            calls: Calls::default(),
        };
        Self { state }
    }

    pub(super) fn restore(state: &[u8]) -> Result<Self, Fault> {
        Ok(Self { state: saved::load(state, VERSION)? })
    }
}

impl Dialect for OpenHands {
    /// The prompt is an argument.
    fn open(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = String::from_utf8_lossy(frame.bytes);
        let line = text.trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        // Replaced characters could turn one value into another, so such a line is only kept.
        let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
        let mut ear = Ear::of(frame, line, out);
        match (frame.stream, whole) {
            (Stream::Stderr, _) => ear.keep(None),
            (Stream::Stdout, false) => ear.keep(Some(UNRECOGNISED)),
            (Stream::Stdout, true) if line.starts_with('{') => match Line::read(line) {
                Ok(line) => self.state.hear(line, &mut ear),
                Err(_) => ear.keep(Some(UNRECOGNISED)),
            },
            (Stream::Stdout, true) => self.state.words(&mut ear),
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        unsaid(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, _: Close, out: &mut Out) {
        self.state.calls.abandon(out);
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        saved::save(&self.state)
    }
}

impl State {
    /// Words for people, some of which are all that is told of a fact.
    fn words(&mut self, ear: &mut Ear<'_>) {
        let line = ear.line;
        if let Some(id) = line.strip_prefix(CONVERSATION).filter(|id| is_id(id)) {
            return self.finish(id.trim(), ear);
        }
        if line.contains(SUMMARY) {
            self.repeats = true;
        }
        // The last message once more, in a frame. The trace has it.
        if self.repeats && line.starts_with(['│', '╭', '╰', '─']) {
            return;
        }
        if let Some(model) = line.strip_prefix(MODEL) {
            self.model = Some(bounded(model));
        } else if line == WORKING {
            return self.begin(ear);
        } else if line == FINISHED && self.turn_open && !self.repeats {
            self.finished = true;
            return;
        } else if let Some(code) = trouble::before_the_turn(line).filter(|_| !self.turn_open) {
            ear.error(code, line);
            return ear.signal(Signal::ModelError { code });
        }
        ear.keep(None);
    }

    fn begin(&mut self, ear: &mut Ear<'_>) {
        if self.turn_open || self.ended {
            return ear.keep(Some(REPEATED));
        }
        self.turn_open = true;
        ear.begin(Session {
            model: self.model.clone(),
            tools: None,
            cwd: None,
            // Its id is told at the end.
            native_session: None,
            resumed: self.resumes.is_some(),
        });
    }

    fn hear(&mut self, line: Line, ear: &mut Ear<'_>) {
        if self.ended {
            return ear.keep(Some(REPEATED));
        }
        match line {
            Line::MessageEvent(message) => self.message(message, ear),
            Line::ActionEvent(call) => self.call(&call, ear),
            Line::ObservationEvent(result) | Line::AgentErrorEvent(result) => {
                self.observe(&result, false, ear);
            }
            Line::UserRejectObservation(result) => self.observe(&result, true, ear),
            Line::ConversationErrorEvent(trouble) => self.trouble(&trouble, ear),
        }
    }

    fn message(&mut self, message: Message, ear: &mut Ear<'_>) {
        match (message.source.as_deref(), message.llm_message) {
            (Some("agent"), Some(words)) => {
                self.think(words.reasoning_content, ear);
                self.say(joined(&words.content), ear);
            }
            // The prompt said back: it is an event already, and the trace has the line.
            (Some("user"), Some(_)) => {}
            _ => ear.keep(Some(UNRECOGNISED)),
        }
    }

    fn call(&mut self, call: &Action, ear: &mut Ear<'_>) {
        self.think(call.reasoning_content.clone(), ear);
        self.say(joined(&call.thought), ear);
        let id = call.tool_call_id.clone().unwrap_or_default();
        if !self.calls.open(Open { id: id.clone(), change: None }) {
            return ear.keep(Some(REPEATED));
        }
        self.acted = true;
        ear.open(tools::event(call, &id));
        if let Some(plan) = tools::plan(call) {
            ear.draft(Body::Plan(plan));
        }
        if let Some(answer) = tools::answer(call) {
            self.say(answer.to_owned(), ear);
        }
    }

    fn observe(&mut self, result: &Observation, denied: bool, ear: &mut Ear<'_>) {
        let open = result.tool_call_id.as_deref().and_then(|id| self.calls.close(id));
        let Some(open) = open else { return ear.keep(Some(REPEATED)) };
        let (status, output) = tools::outcome(result);
        let change = tools::change(result, &open.id);
        ear.close(Open { change, ..open }, status, denied, output);
    }

    fn trouble(&mut self, trouble: &Trouble, ear: &mut Ear<'_>) {
        let kind = trouble.code.as_deref().unwrap_or_default();
        let detail = trouble.detail.as_deref().unwrap_or(kind);
        let code = trouble::of(kind, detail);
        ear.error(code, detail);
        ear.signal(Signal::ModelError { code });
        self.trouble = Some((code, bounded(detail)));
    }

    /// The conversation is named when all is over, however it went.
    fn finish(&mut self, id: &str, ear: &mut Ear<'_>) {
        if self.ended {
            return ear.keep(Some(REPEATED));
        }
        ear.abandon(&mut self.calls);
        self.ended = true;
        let id = id.to_owned();
        ear.signal(Signal::Session { id: id.clone() });
        ear.draft(Body::Session(Session {
            resumed: self.resumes.as_deref().is_some_and(|asked| same(asked, &id)),
            model: self.model.clone(),
            tools: None,
            cwd: None,
            native_session: Some(id),
        }));
        let idle = self.answer.get().is_none() && !self.acted;
        let (code, detail) = match (self.trouble.take(), self.finished, idle) {
            (Some((code, detail)), _, _) => (Some(code), Some(detail)),
            (None, true, false) => (None, None),
            (None, true, true) => (Some(Code::EndedWithoutResult), None),
            (None, false, _) => (Some(Code::AgentFailed), None),
        };
        if self.turn_open {
            self.turn_open = false;
            ear.end_turn(match code {
                None => StopReason::EndTurn,
                Some(Code::MaxTurns) => StopReason::MaxTurns,
                Some(_) => StopReason::Error,
            });
        }
        let text = self.answer.get().filter(|_| code.is_none());
        ear.result(code, text, detail);
    }

    fn say(&mut self, text: String, ear: &mut Ear<'_>) {
        if !text.trim().is_empty() {
            self.answer.set(&text);
            let block = self.next_block();
            ear.say(text, block, false);
        }
    }

    fn think(&mut self, text: Option<String>, ear: &mut Ear<'_>) {
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let block = self.next_block();
            ear.think(text, block, false);
        }
    }

    fn next_block(&mut self) -> String {
        self.block = self.block.saturating_add(1);
        format!("block-{}", self.block)
    }
}

/// An id is 32 hexadecimal digits, with or without hyphens.
fn is_id(id: &str) -> bool {
    let digits = id.trim().bytes().filter(|byte| *byte != b'-');
    digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
}

fn same(one: &str, other: &str) -> bool {
    one.replace('-', "") == other.replace('-', "")
}
