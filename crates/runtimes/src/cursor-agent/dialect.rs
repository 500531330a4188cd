//! Hears `-p --output-format stream-json`. Messages come whole, thoughts in pieces, tools in pairs,
//! and one result closes a run that went well; one that did not ends without a result, with words
//! in place of a line and an exit of 1.

use super::tools::{self, Tool};
use super::trouble;
use super::wire::{Count, Finish, Init, Line, Said, Thought, ToolCall};
use crate::headless::{
    Answer, Calls, Came, Ear, Listener, REPEATED, Read, UNRECOGNISED, preview, tool_use,
};
use crate::lenient::Lenient;
use crate::{Spec, provider};
use contract::event::{Body, Session, StopReason, Usage};
use contract::money::Basis;
use contract::speech::Close;
use contract::{Code, Signal, Tokens};
use serde::{Deserialize, Serialize};

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    model: Option<String>,
    /// The first line was heard and the last was not.
    turn_open: bool,
    ended: bool,
    /// The number of what is being said or thought.
    block: u32,
    /// Pieces of one text are being heard.
    pieces: bool,
    thinking: bool,
    answer: Answer,
    /// A tool was used, so that a run without a word still did something.
    acted: bool,
    calls: Calls,
}

impl Listener for State {
    const VERSION: u32 = 2;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Blank => {}
            Read::Aside => self.aside(ear),
            Read::Stray => self.stray(ear),
            Read::Line(_) if self.ended => ear.keep(Some(REPEATED)),
            Read::Line(line) => self.line(line, ear),
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

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::System(init) => self.init(init, ear),
            // It is an event already, and the trace has the line.
            Line::User {} => {}
            Line::Assistant(said) => self.said(&said, ear),
            Line::Thinking(thought) => self.thought(thought, ear),
            Line::ToolCall(call) => self.tool(&call, ear),
            Line::Result(finish) => self.finish(&finish, ear),
        }
    }

    fn init(&mut self, init: Init, ear: &mut Ear<'_>) {
        if init.subtype.as_deref() != Some("init") || self.turn_open {
            return ear.keep(Some(UNRECOGNISED));
        }
        self.turn_open = true;
        self.model.clone_from(&init.model);
        ear.introduce(Session {
            resumed: init.session_id.is_some() && init.session_id == self.resumes,
            model: init.model,
            tools: None,
            cwd: init.cwd,
            native_session: init.session_id,
        });
        ear.start_turn();
    }

    /// A message comes whole. Pieces come only to those who ask for them, and are followed by the
    /// whole once more.
    fn said(&mut self, said: &Said, ear: &mut Ear<'_>) {
        let text = said.text();
        if text.is_empty() {
            return ear.keep(Some(UNRECOGNISED));
        }
        let piece = said.timestamp_ms.is_some() && said.model_call_id.is_none();
        if piece {
            if !self.pieces {
                self.answer.set("");
            }
            let block = self.next_block(!self.pieces);
            (self.pieces, self.thinking) = (true, false);
            self.answer.push(&text);
            return ear.say(text, Some(block), true);
        }
        if !std::mem::take(&mut self.pieces) {
            self.thinking = false;
            self.answer.set(&text);
            let block = self.next_block(true);
            ear.say(text, Some(block), false);
        }
    }

    fn thought(&mut self, thought: Thought, ear: &mut Ear<'_>) {
        match (thought.subtype.as_deref(), thought.text) {
            (Some("delta"), Some(text)) => {
                self.pieces = false;
                let first = !std::mem::replace(&mut self.thinking, true);
                let block = self.next_block(first);
                ear.think(text, Some(block), true);
            }
            (Some("completed"), None) => self.thinking = false,
            _ => ear.keep(Some(UNRECOGNISED)),
        }
    }

    fn tool(&mut self, call: &ToolCall, ear: &mut Ear<'_>) {
        // Ids hold a line break, which has no place in what people see.
        let id = call.call_id.as_deref().map(|id| id.replace(char::is_control, "_"));
        let (Some(id), Some(tool)) = (id, Tool::find(&call.tool_call)) else {
            return ear.keep(Some(UNRECOGNISED));
        };
        (self.pieces, self.thinking) = (false, false);
        match call.subtype.as_deref() {
            Some("started") => {
                let plan = tool.plan();
                let call = tool_use(id, tool.name.to_owned(), tool.args, tools::about);
                if ear.open(&mut self.calls, call, Vec::new()) {
                    self.acted = true;
                    plan.into_iter().for_each(|plan| ear.draft(Body::Plan(plan)));
                }
            }
            Some("completed") => {
                let (status, denied, output) = tool.outcome();
                let changes = tool.change(&id).into_iter().collect();
                let came = Came { status, denied, output, duration_ms: None, changes };
                ear.close(&mut self.calls, Some(&id), came);
            }
            Some(_) | None => ear.keep(Some(UNRECOGNISED)),
        }
    }

    /// Only a result of subtype success that says of itself that it is no error is a success, and
    /// only after something was said or done.
    fn finish(&mut self, finish: &Finish, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
        (self.ended, self.turn_open) = (true, false);
        if let Some(count) = finish.usage.as_ref().and_then(Lenient::known) {
            self.spent(count, ear);
        }
        let words = finish.result.as_str().unwrap_or_default();
        let success = finish.subtype == "success" && finish.is_error == false;
        let idle = self.answer.words().is_none() && !self.acted && words.trim().is_empty();
        let code = match (success, idle) {
            (true, false) => None,
            (true, true) => Some(Code::EndedWithoutResult),
            (false, _) => Some(provider::of_words(words).unwrap_or(Code::AgentFailed)),
        };
        let detail = code.and_then(|_| (!words.is_empty()).then(|| preview(words)));
        if self.answer.words().is_none() {
            self.answer.set(words);
        }
        ear.end_turn(if code.is_none() { StopReason::EndTurn } else { StopReason::Error });
        ear.result(code, self.answer.words(), detail);
    }

    fn spent(&self, count: &Count, ear: &mut Ear<'_>) {
        let tokens = Tokens {
            input_uncached: count.input_tokens,
            cache_read: count.cache_read_tokens,
            cache_write: count.cache_write_tokens,
            output: count.output_tokens,
            reasoning: None,
        };
        if tokens.total() > 0 {
            let (model, basis) = (self.model.clone(), Basis::RunTotal);
            ear.spent(Usage { model, tokens: Some(tokens), basis, ..Usage::default() });
        }
    }

    /// A line of stderr: the reason of a failure, or noise.
    fn aside(&mut self, ear: &mut Ear<'_>) {
        match trouble::of(ear.line) {
            Some(code) => ear.error(code, ear.line),
            None => ear.keep(None),
        }
    }

    /// Words where a line of the protocol was expected.
    fn stray(&mut self, ear: &mut Ear<'_>) {
        match trouble::of(ear.line).filter(|_| !self.ended && !ear.line.starts_with('{')) {
            Some(code) => {
                ear.error(code, ear.line);
                ear.signal(Signal::ModelError { code });
            }
            None => ear.keep(Some(UNRECOGNISED)),
        }
    }

    fn next_block(&mut self, new: bool) -> String {
        self.block = self.block.saturating_add(u32::from(new));
        format!("block-{}", self.block)
    }
}
