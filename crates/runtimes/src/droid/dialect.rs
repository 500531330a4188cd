//! Hears `exec -o stream-json`: whole texts and thoughts, calls with their results, and a completion
//! that says what all of it took. Only the completion is an end that may be a success: the exit is 0
//! after SIGTERM. Errors come twice, first with the reason and then with the word that it failed.

use super::wire::{Complaint, Completion, Init, Line, Message, Spent, ToolCall, ToolResult};
use super::{tools, trouble};
use crate::Spec;
use crate::headless::{
    Calls, Came, Ear, Listener, REPEATED, Read, Turns, UNRECOGNISED, bounded, preview, tool_use,
};
use contract::event::{self, Body, StopReason, ToolStatus, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, Signal, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is remembered of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
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

impl Listener for State {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        self.heard |= !ear.is_blank();
        match ear.read() {
            Read::Blank => {}
            Read::Aside | Read::Stray => {
                ear.stray(trouble::SESSION_UNKNOWN, self.resumes.is_some());
            }
            Read::Line(_) if self.completed => ear.keep(Some(REPEATED)),
            Read::Line(line) => self.line(line, ear),
        }
    }

    fn close(&mut self, how: Close, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
        // It introduces itself before anything else. One that was to take up a conversation and left
        // without a word never did: so it was recorded for every conversation.
        if how == Close::Ended && !self.heard && self.resumes.is_some() {
            ear.signal(Signal::SessionUnknown);
        }
        self.turns.close(None, how, ear);
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        Self { resumes: spec.session.clone(), ..Self::default() }
    }

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::System(init) => self.init(init, ear),
            Line::Message(message) => self.message(message, ear),
            Line::Reasoning(thought) => self.thought(thought, ear),
            Line::ToolCall(call) => self.call(call, ear),
            Line::ToolResult(result) => self.result(result, ear),
            Line::Completion(completion) => self.complete(completion, ear),
            Line::Error(complaint) => self.complain(complaint, ear),
        }
    }

    fn init(&mut self, init: Init, ear: &mut Ear<'_>) {
        if init.subtype.as_deref() != Some("init") {
            return ear.keep(Some(UNRECOGNISED));
        }
        self.model = init.model.as_deref().map(preview);
        let resumed = init.session_id.is_some() && init.session_id == self.resumes;
        let tools = init.tools.and_then(|tools| u32::try_from(tools.len()).ok());
        let (model, cwd, native_session) = (init.model, init.cwd, init.session_id);
        let session = event::Session { model, tools, cwd, native_session, resumed };
        ear.introduce(session);
    }

    /// What the agent does is part of a turn; what it does after an error is part of another.
    fn begin(&mut self, ear: &mut Ear<'_>) {
        if self.turns.begin(ear) {
            self.worked = false;
        }
    }

    fn message(&mut self, message: Message, ear: &mut Ear<'_>) {
        match (message.role.as_deref(), message.text) {
            // The prompt, said back.
            (Some("user"), _) => self.begin(ear),
            (Some("assistant"), Some(text)) => {
                self.begin(ear);
                ear.say(text, message.id, false);
            }
            (Some(_) | None, _) => ear.keep(Some(UNRECOGNISED)),
        }
    }

    fn thought(&mut self, thought: Message, ear: &mut Ear<'_>) {
        let Some(text) = thought.text else {
            return ear.keep(Some(UNRECOGNISED));
        };
        self.begin(ear);
        let kept = Some(bounded(&text, TEXT_BYTES_MAX));
        // The same thought once more: the second of a pair is no third.
        if self.thought == kept {
            self.thought = None;
            return;
        }
        self.thought = kept;
        // A thought has the id of the text that follows it, and is another block.
        let block = thought.id.map(|id| format!("{id}-thought"));
        ear.think(text, block, false);
    }

    fn call(&mut self, call: ToolCall, ear: &mut Ear<'_>) {
        let Some(id) = call.id else {
            return ear.keep(Some(UNRECOGNISED));
        };
        self.begin(ear);
        self.worked = true;
        let (name, input) = (call.tool_name.unwrap_or_default(), call.parameters);
        let (changes, plan) = (tools::changes(&id, &name, &input), tools::plan(&name, &input));
        ear.open(&mut self.calls, tool_use(id, name, input, tools::about), changes);
        plan.into_iter().for_each(|plan| ear.draft(Body::Plan(plan)));
    }

    fn result(&mut self, result: ToolResult, ear: &mut Ear<'_>) {
        let went_well = result.is_error == Some(false);
        let output = match result.error.get("message") {
            Some(message) => message.clone(),
            None if result.error != Value::Null => result.error,
            None => result.value,
        };
        let status = if went_well { ToolStatus::Ok } else { ToolStatus::Error };
        let came = Came { status, denied: false, output, duration_ms: None, changes: Vec::new() };
        ear.close(&mut self.calls, result.id.as_deref(), came);
    }

    /// The end. It says nothing of how the model stopped; an empty one without any work is nothing.
    fn complete(&mut self, completion: Completion, ear: &mut Ear<'_>) {
        self.completed = true;
        ear.abandon(&mut self.calls);
        if let Some(spent) = &completion.usage {
            self.spent(spent, ear);
        }
        let text = completion.final_text.filter(|text| !text.is_empty());
        let trouble = self.turns.take_trouble();
        // Outside a turn it completes nothing.
        let did = self.turns.is_open() && (text.is_some() || self.worked);
        let code = match &trouble {
            Some(trouble) => Some(trouble.code),
            None => (!did).then_some(Code::EndedWithoutResult),
        };
        let stop = if code.is_none() { StopReason::EndTurn } else { StopReason::Error };
        self.turns.end(stop, ear);
        let text = text.map(|text| bounded(&text, TEXT_BYTES_MAX));
        ear.result(code, text, trouble.map(|trouble| trouble.detail));
    }

    /// The completion tells the tokens of the whole run. Credits are told too, and no dollars.
    fn spent(&mut self, spent: &Spent, ear: &mut Ear<'_>) {
        let tokens = Tokens {
            input_uncached: spent.input_tokens,
            cache_read: spent.cache_read_input_tokens,
            cache_write: spent.cache_creation_input_tokens,
            output: spent.output_tokens,
            reasoning: None,
        };
        if tokens.total() > 0 {
            ear.spent(Usage {
                model: self.model.clone(),
                tokens: Some(tokens),
                basis: Basis::RunTotal,
                cost_source: CostSource::Unpriced,
                ..Usage::default()
            });
        }
    }

    /// The turn is over. The second line of a pair has no reason of its own.
    fn complain(&mut self, complaint: Complaint, ear: &mut Ear<'_>) {
        if complaint.source.as_deref() == Some("cli") && self.turns.is_troubled() {
            return ear.keep(Some(REPEATED));
        }
        let detail = complaint.message.unwrap_or_default();
        self.turns.fail(trouble::of(&detail), &detail, ear);
    }
}
