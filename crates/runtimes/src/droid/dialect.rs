//! Hears `exec -o stream-json`: whole texts and thoughts, calls with their results, and a completion
//! that says what all of it took. Only the completion is an end that may be a success: the exit is 0
//! after SIGTERM. Errors come twice, first with the reason and then with the word that it failed. The
//! agent takes no word after its prompt.

use super::wire::{Complaint, Completion, Init, Line, Message, Spent, ToolCall, ToolResult};
use super::{tools, trouble};
use crate::headless::{self, Calls, Came, Line as Heard, REPEATED, UNRECOGNISED, bounded, preview};
use crate::told::{self, Turns};
use crate::{Dialect, Frame, Out, Stream, saved};
use contract::event::{self, Body, StopReason, ToolStatus, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, Fault, Signal, Timestamp, Tokens, Utterance};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the saved form.
const VERSION: u32 = 1;

/// A run of the agent.
pub(super) struct Droid {
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    state: State,
}

/// What is remembered between two lines; stored with every batch, so all of it is bounded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    version: u32,
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    model: Option<String>,
    /// Anything at all was heard.
    heard: bool,
    turns: Turns,
    /// A tool was used in this turn.
    worked: bool,
    /// The thought that was told last: each is printed twice.
    thought: Option<String>,
    completed: bool,
    calls: Calls,
}

impl Droid {
    pub(super) fn new(prompt: String, resumes: Option<String>) -> Self {
        let state = State { version: VERSION, resumes, ..State::default() };
        Self { prompt: Some(prompt), state }
    }

    pub(super) fn restore(bytes: &[u8]) -> Result<Self, Fault> {
        Ok(Self { prompt: None, state: saved::load(bytes, VERSION)? })
    }
}

impl Dialect for Droid {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.prompt.take().map(String::into_bytes)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let Some((text, whole)) = headless::text(frame) else {
            return;
        };
        self.state.heard = true;
        let mut ear = Ear { state: &mut self.state, to: Heard::new(frame, &text, out) };
        let is_protocol = whole && frame.stream == Stream::Stdout;
        match is_protocol.then(|| serde_json::from_str(ear.to.text)) {
            Some(Ok(line)) => ear.hear(line),
            Some(Err(_)) | None => {
                let resumes = ear.state.resumes.is_some();
                told::stray(&mut ear.to, frame.stream, trouble::SESSION_UNKNOWN, resumes);
            }
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        headless::say(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, how: Close, out: &mut Out) {
        let state = &mut self.state;
        state.calls.abandon(out);
        // It introduces itself before anything else. One that was to take up a conversation and left
        // without a word never did: so it was recorded for every conversation.
        if how == Close::Ended && !state.heard && state.resumes.is_some() {
            out.signals.push(Signal::SessionUnknown);
        }
        state.turns.close(None, how, out);
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        saved::save(&self.state)
    }
}

/// One line being heard.
struct Ear<'a> {
    state: &'a mut State,
    to: Heard<'a>,
}

impl Ear<'_> {
    fn hear(&mut self, line: Line) {
        if self.state.completed {
            return self.to.keep(Some(REPEATED));
        }
        match line {
            Line::System(init) => self.init(init),
            Line::Message(message) => self.message(message),
            Line::Reasoning(thought) => self.thought(thought),
            Line::ToolCall(call) => self.call(&call),
            Line::ToolResult(result) => self.result(result),
            Line::Completion(completion) => self.complete(completion),
            Line::Error(complaint) => self.complain(complaint),
        }
    }

    fn init(&mut self, init: Init) {
        if init.subtype.as_deref() != Some("init") {
            return self.to.keep(Some(UNRECOGNISED));
        }
        self.state.model = init.model.as_deref().map(preview);
        let resumed = init.session_id.is_some() && init.session_id == self.state.resumes;
        let tools = init.tools.and_then(|tools| u32::try_from(tools.len()).ok());
        let (model, cwd, native_session) = (init.model, init.cwd, init.session_id);
        let session = event::Session { model, tools, cwd, native_session, resumed };
        told::session(&mut self.to, session);
    }

    /// What the agent does is part of a turn; what it does after an error is part of another.
    fn begin(&mut self) {
        if self.state.turns.begin(&mut self.to) {
            self.state.worked = false;
        }
    }

    fn message(&mut self, message: Message) {
        match (message.role.as_deref(), message.text) {
            // The prompt, said back.
            (Some("user"), _) => self.begin(),
            (Some("assistant"), Some(text)) => {
                self.begin();
                self.to.draft(Body::AssistantText(told::whole(text, message.id)));
            }
            (Some(_) | None, _) => self.to.keep(Some(UNRECOGNISED)),
        }
    }

    fn thought(&mut self, thought: Message) {
        let Some(text) = thought.text else {
            return self.to.keep(Some(UNRECOGNISED));
        };
        self.begin();
        let kept = Some(bounded(&text, TEXT_BYTES_MAX));
        // The same thought once more: the second of a pair is no third.
        if self.state.thought == kept {
            self.state.thought = None;
            return;
        }
        self.state.thought = kept;
        // A thought has the id of the text that follows it, and is another block.
        let block = thought.id.map(|id| format!("{id}-thought"));
        self.to.draft(Body::Thinking(told::whole(text, block)));
    }

    fn call(&mut self, call: &ToolCall) {
        let Some(id) = call.id.as_deref() else {
            return self.to.keep(Some(UNRECOGNISED));
        };
        self.begin();
        self.state.worked = true;
        let (event, changes) = (tools::event(call, id), tools::changes(call, id));
        self.to.tool_opened(&mut self.state.calls, event, changes);
        tools::plan(call).into_iter().for_each(|plan| self.to.draft(Body::Plan(plan)));
    }

    fn result(&mut self, result: ToolResult) {
        let went_well = result.is_error == Some(false);
        let output = match result.error.get("message") {
            Some(message) => message.clone(),
            None if result.error != Value::Null => result.error,
            None => result.value,
        };
        let status = if went_well { ToolStatus::Ok } else { ToolStatus::Error };
        let came = Came { status, denied: false, output, duration_ms: None };
        self.to.tool_closed(&mut self.state.calls, result.id.as_deref(), came);
    }

    /// The end. It says nothing of how the model stopped; an empty one without any work is nothing.
    fn complete(&mut self, completion: Completion) {
        self.state.completed = true;
        self.state.calls.abandon(self.to.out);
        if let Some(spent) = &completion.usage {
            self.spent(spent);
        }
        let text = completion.final_text.filter(|text| !text.is_empty());
        let trouble = self.state.turns.take_trouble();
        // Outside a turn it completes nothing.
        let did = self.state.turns.is_open() && (text.is_some() || self.state.worked);
        let code = match &trouble {
            Some(trouble) => Some(trouble.code),
            None => (!did).then_some(Code::EndedWithoutResult),
        };
        let stop = if code.is_none() { StopReason::EndTurn } else { StopReason::Error };
        self.state.turns.end(stop, &mut self.to);
        let text = text.map(|text| bounded(&text, TEXT_BYTES_MAX));
        told::result(&mut self.to, code, text, trouble.map(|trouble| trouble.detail));
    }

    /// The completion tells the tokens of the whole run. Credits are told too, and no dollars.
    fn spent(&mut self, spent: &Spent) {
        let tokens = Tokens {
            input_uncached: spent.input_tokens,
            cache_read: spent.cache_read_input_tokens,
            cache_write: spent.cache_creation_input_tokens,
            output: spent.output_tokens,
            reasoning: None,
        };
        if tokens.total() > 0 {
            self.to.spent(Usage {
                model: self.state.model.clone(),
                tokens: Some(tokens),
                basis: Basis::RunTotal,
                cost_source: CostSource::Unpriced,
                ..Usage::default()
            });
        }
    }

    /// The turn is over. The second line of a pair has no reason of its own.
    fn complain(&mut self, complaint: Complaint) {
        if complaint.source.as_deref() == Some("cli") && self.state.turns.is_troubled() {
            return self.to.keep(Some(REPEATED));
        }
        let detail = complaint.message.unwrap_or_default();
        self.state.turns.fail(trouble::of(&detail), &detail, &mut self.to);
    }
}
