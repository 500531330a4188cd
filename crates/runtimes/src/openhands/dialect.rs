//! Hears `--headless --json`: JSON lines between words for people. That the agent came to its end
//! is one of the words, `Agent finished`, and the conversation is named in another, the last but
//! one; both are needed for a success, because the exit is 0 after every failure of the model too.
//! It tells no tokens.

use super::wire::{Action, Line, Message, Observation, Trouble, joined};
use super::{tools, trouble};
use crate::headless::{
    Answer, Calls, Came, Ear, Listener, REPEATED, UNRECOGNISED, preview, tool_use,
};
use crate::{Spec, Stream};
use contract::event::{Body, Session, StopReason};
use contract::speech::Close;
use contract::{Code, Signal};
use serde::{Deserialize, Serialize};

/// The words that mean something, as they begin their lines.
const MODEL: &str = "✓ Agent initialized with model: ";
const WORKING: &str = "Agent is working";
const FINISHED: &str = "Agent finished";
const CONVERSATION: &str = "Conversation ID: ";
/// The heading of what repeats the last message for people.
const SUMMARY: &str = " CONVERSATION SUMMARY ";

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
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

impl Listener for State {
    const VERSION: u32 = 2;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match (ear.stream, ear.whole) {
            _ if ear.is_blank() => {}
            (Stream::Stderr, _) => ear.keep(None),
            (Stream::Stdout, false) => ear.keep(Some(UNRECOGNISED)),
            (Stream::Stdout, true) if !ear.line.starts_with('{') => self.words(ear),
            (Stream::Stdout, true) => match serde_json::from_str(ear.line) {
                Ok(_) if self.ended => ear.keep(Some(REPEATED)),
                Ok(line) => self.line(line, ear),
                // A line that is no message is kept as output.
                Err(_) => ear.keep(Some(UNRECOGNISED)),
            },
        }
    }

    fn close(&mut self, _: Close, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        Self { resumes: spec.session.clone(), ..Self::default() }
    }

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
            self.model = Some(preview(model));
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
        ear.introduce(Session {
            model: self.model.clone(),
            tools: None,
            cwd: None,
            // Its id is told at the end.
            native_session: None,
            resumed: self.resumes.is_some(),
        });
        ear.start_turn();
    }

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::MessageEvent(message) => self.message(message, ear),
            Line::ActionEvent(call) => self.call(*call, ear),
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

    fn call(&mut self, call: Action, ear: &mut Ear<'_>) {
        self.think(call.reasoning_content, ear);
        self.say(joined(&call.thought), ear);
        let (id, name) =
            (call.tool_call_id.unwrap_or_default(), call.tool_name.unwrap_or_default());
        let (plan, answer) = (tools::plan(&name, &call.action), tools::answer(&name, &call.action));
        let input = tools::input(call.action, &call.tool_call);
        if !ear.open(&mut self.calls, tool_use(id, name, input, tools::about), Vec::new()) {
            return;
        }
        self.acted = true;
        plan.into_iter().for_each(|plan| ear.draft(Body::Plan(plan)));
        answer.into_iter().for_each(|answer| self.say(answer, ear));
    }

    fn observe(&mut self, result: &Observation, denied: bool, ear: &mut Ear<'_>) {
        let id = result.tool_call_id.as_deref();
        let (status, output) = tools::outcome(result);
        let changes = tools::change(id.unwrap_or_default(), result).into_iter().collect();
        let came = Came { status, denied, output, duration_ms: None, changes };
        ear.close(&mut self.calls, id, came);
    }

    fn trouble(&mut self, trouble: &Trouble, ear: &mut Ear<'_>) {
        let kind = trouble.code.as_deref().unwrap_or_default();
        let detail = trouble.detail.as_deref().unwrap_or(kind);
        let code = trouble::of(kind, detail);
        ear.error(code, detail);
        ear.signal(Signal::ModelError { code });
        self.trouble = Some((code, preview(detail)));
    }

    /// The conversation is named when all is over, however it went.
    fn finish(&mut self, id: &str, ear: &mut Ear<'_>) {
        if self.ended {
            return ear.keep(Some(REPEATED));
        }
        ear.abandon(&mut self.calls);
        self.ended = true;
        let id = id.to_owned();
        ear.introduce(Session {
            resumed: self.resumes.as_deref().is_some_and(|asked| same(asked, &id)),
            model: self.model.clone(),
            tools: None,
            cwd: None,
            native_session: Some(id),
        });
        let idle = self.answer.words().is_none() && !self.acted;
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
        ear.result(code, self.answer.words(), detail);
    }

    fn say(&mut self, text: String, ear: &mut Ear<'_>) {
        if !text.trim().is_empty() {
            self.answer.set(&text);
            let block = self.next_block();
            ear.say(text, Some(block), false);
        }
    }

    fn think(&mut self, text: Option<String>, ear: &mut Ear<'_>) {
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let block = self.next_block();
            ear.think(text, Some(block), false);
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
