//! Hears `--mode json`. The model's messages come in pieces and are repeated whole three times over,
//! so only the pieces, the end of each message and the tools' own lines are heard. The end is
//! `agent_settled`, and what it means is how the model's last message ended: this agent exits 0
//! after every error.

use super::wire::{
    self, Line, Message, Piece, RetryStart, Session, ToolEnd, ToolStart, ToolUpdate,
};
use super::{tools, trouble};
use crate::Spec;
use crate::headless::{
    Calls, Came, Ear, Listener, REPEATED, Read, UNRECOGNISED, bounded, is_id, preview, tool_use,
};
use crate::lenient::Lenient;
use contract::event::{self, StopReason, ToolStatus, Usage};
use contract::limits::TEXT_BYTES_MAX;
use contract::money::{Basis, CostSource};
use contract::speech::Close;
use contract::{Code, NanoUsd, Signal, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The conversation that was to be taken up again.
    resumes: Option<String>,
    turn_open: bool,
    settled: bool,
    /// The number of the model's message that is being said; its blocks are named by it.
    message: u32,
    /// A piece of text of this message was heard, so that its end repeats it.
    streamed: bool,
    /// A tool was used at all.
    worked: bool,
    /// How the model's last message ended.
    last: Option<Last>,
    /// What the provider holds the agent back with.
    limited: Option<Code>,
    calls: Calls,
}

/// The end of one of the model's messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Last {
    stop: Option<String>,
    /// What the provider called it.
    raw_stop: Option<String>,
    error: Option<String>,
    text: Option<String>,
}

/// An entry of its record by which a message is left out of what the model is sent.
const STRUCK_OUT: &str = "context_edit";

impl Listener for State {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.read() {
            Read::Blank => {}
            Read::Aside | Read::Stray => {
                ear.stray(trouble::SESSION_UNKNOWN, self.resumes.is_some());
            }
            Read::Line(_) if self.settled => ear.keep(Some(REPEATED)),
            Read::Line(line) => self.line(line, ear),
        }
    }

    fn close(&mut self, _: Close, ear: &mut Ear<'_>) {
        ear.abandon(&mut self.calls);
    }
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        Self { resumes: spec.session.clone(), message: 1, ..Self::default() }
    }

    fn line(&mut self, line: Line, ear: &mut Ear<'_>) {
        match line {
            Line::Session(session) => self.session(session, ear),
            Line::AgentStart => self.start(ear),
            Line::MessageUpdate(update) => {
                if let Some(piece) = update.assistant_message_event {
                    self.piece(piece, ear);
                }
            }
            Line::MessageEnd(end) => match end.message {
                Some(message) => self.message(message, ear),
                None => ear.keep(Some(UNRECOGNISED)),
            },
            Line::ToolExecutionStart(call) => self.tool_start(call, ear),
            Line::ToolExecutionUpdate(update) => self.tool_update(&update, ear),
            Line::ToolExecutionEnd(end) => self.tool_end(end, ear),
            Line::AutoRetryStart(retry) => self.retry(&retry, ear),
            Line::AutoRetryEnd(end) => {
                if end.success {
                    self.lift(ear);
                }
            }
            Line::EntryAppended(appended) => {
                let kind = appended.entry.and_then(|entry| entry.kind);
                // A message that failed is struck out before it is tried again: the error was told.
                if kind.as_deref() != Some(STRUCK_OUT) {
                    ear.keep(Some(UNRECOGNISED));
                }
            }
            Line::AgentSettled => self.settle(ear),
            Line::TurnStart | Line::TurnEnd | Line::MessageStart | Line::AgentEnd => {}
        }
    }

    fn session(&mut self, session: Session, ear: &mut Ear<'_>) {
        ear.introduce(event::Session {
            resumed: session.id.is_some() && session.id == self.resumes,
            model: None,
            tools: None,
            cwd: session.cwd,
            native_session: session.id,
        });
    }

    /// A retry starts the agent again; for us it is the same turn.
    fn start(&mut self, ear: &mut Ear<'_>) {
        if !std::mem::replace(&mut self.turn_open, true) {
            ear.start_turn();
        }
    }

    fn piece(&mut self, piece: Piece, ear: &mut Ear<'_>) {
        let Some(text) = piece.delta else {
            return;
        };
        let block = || Some(format!("message-{}-{}", self.message, piece.content_index));
        match piece.kind.as_deref() {
            Some("text_delta") => {
                ear.say(text, block(), true);
                self.streamed = true;
                self.lift(ear);
            }
            Some("thinking_delta") => {
                ear.think(text, block(), true);
                self.lift(ear);
            }
            // A call is told whole when it begins to run.
            Some("toolcall_delta") => {}
            Some(_) | None => ear.keep(Some(UNRECOGNISED)),
        }
    }

    fn message(&mut self, message: Message, ear: &mut Ear<'_>) {
        if message.role.as_deref() != Some("assistant") {
            return;
        }
        let text = wire::text_in(&message.content);
        if let (false, Some(text)) = (self.streamed, text.clone()) {
            ear.say(text, Some(format!("message-{}", self.message)), false);
        }
        self.streamed = false;
        self.message = self.message.saturating_add(1);
        ear.signal(Signal::ModelAnswer);
        spent(&message, ear);
        let error = message.error_message.as_deref().map(preview);
        if message.stop_reason.as_deref() == Some("error") {
            let error = error.as_deref().unwrap_or_default();
            ear.error(trouble::of(error), error);
        }
        self.last = Some(Last {
            stop: message.stop_reason,
            raw_stop: message.raw_stop_reason,
            error,
            text: text.map(|text| bounded(&text, TEXT_BYTES_MAX)),
        });
    }

    fn tool_start(&mut self, call: ToolStart, ear: &mut Ear<'_>) {
        let Some(id) = call.tool_call_id.filter(|id| is_id(id)) else {
            return ear.keep(Some(UNRECOGNISED));
        };
        let (name, input) = (call.tool_name.unwrap_or_default(), call.args);
        let changes = tools::changes(&id, &name, &input);
        if ear.open(&mut self.calls, tool_use(id, name, input, tools::about), changes) {
            self.worked = true;
        }
    }

    fn tool_update(&mut self, update: &ToolUpdate, ear: &mut Ear<'_>) {
        let open = update.tool_call_id.as_deref().filter(|id| self.calls.is_open(id));
        let content = wire::text_in(&update.partial_result["content"]);
        if let (Some(id), Some(content)) = (open, content) {
            ear.update(id, Value::from(content));
        }
    }

    fn tool_end(&mut self, end: ToolEnd, ear: &mut Ear<'_>) {
        let status = if end.is_error == Some(false) { ToolStatus::Ok } else { ToolStatus::Error };
        let output = wire::text_in(&end.result["content"]).map_or(end.result, Value::from);
        let came = Came { status, denied: false, output, duration_ms: None, changes: Vec::new() };
        ear.close(&mut self.calls, end.tool_call_id.as_deref(), came);
    }

    fn retry(&mut self, retry: &RetryStart, ear: &mut Ear<'_>) {
        let code = trouble::of(retry.error_message.as_deref().unwrap_or_default());
        self.limited = Some(code);
        ear.limited(code, retry.delay_ms);
    }

    /// The model answers, so whatever held it back is over.
    fn lift(&mut self, ear: &mut Ear<'_>) {
        if self.limited.take().is_some() {
            ear.signal(Signal::LimitLifted);
        }
    }

    /// The end. Only a last message that stopped by itself is a success, and only if something was
    /// said or done at all.
    fn settle(&mut self, ear: &mut Ear<'_>) {
        self.lift(ear);
        ear.abandon(&mut self.calls);
        (self.settled, self.turn_open) = (true, false);
        let Last { stop, raw_stop, error, text } = self.last.take().unwrap_or_default();
        let (stop, code) = match stop.as_deref() {
            Some("stop") if text.is_some() || self.worked => (StopReason::EndTurn, None),
            Some("length") => (StopReason::MaxTokens, Some(Code::AnswerCut)),
            Some("aborted") => (StopReason::Cancelled, Some(Code::Cancelled)),
            Some("error") => {
                let refused = raw_stop.as_deref() == Some("content_filter");
                let said = error.as_deref().unwrap_or_default();
                let code = if refused { Code::ModelRefusal } else { trouble::of(said) };
                let refused = code == Code::ModelRefusal;
                (if refused { StopReason::Refusal } else { StopReason::Error }, Some(code))
            }
            Some(_) | None => (StopReason::Error, Some(Code::EndedWithoutResult)),
        };
        ear.end_turn(stop);
        ear.result(code, text, error);
    }
}

/// Each message tells what it cost alone, in tokens and, by the agent's own prices, in dollars.
fn spent(message: &Message, ear: &mut Ear<'_>) {
    let spent = match &message.usage {
        None => return,
        Some(Lenient::Other(_)) => return ear.keep(Some(UNRECOGNISED)),
        Some(Lenient::Known(spent)) => spent,
    };
    let tokens = Tokens {
        input_uncached: spent.input,
        cache_read: spent.cache_read,
        cache_write: spent.cache_write,
        output: spent.output,
        reasoning: spent.reasoning.filter(|reasoning| *reasoning > 0),
    };
    if tokens.total() == 0 {
        return;
    }
    // No dollars for tokens are a model without a price, not one that is free.
    let usd = spent.cost.as_ref().and_then(|cost| cost.total).filter(|usd| *usd > 0.0);
    let usd = usd.and_then(NanoUsd::from_usd);
    ear.spent(Usage {
        model: message.model.clone(),
        provider: message.provider.clone(),
        tokens: Some(tokens),
        basis: Basis::Increment,
        reported_nanousd: usd,
        effective_nanousd: usd,
        cost_source: if usd.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
        ..Usage::default()
    });
}
