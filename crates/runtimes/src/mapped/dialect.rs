//! The dialect of a mapping: one prompt, one turn, lines that only come. Finds the rules that fit a
//! line and lets `ear` apply them; a line that no rule knows is kept as a `log`. A line of stdout
//! that is no JSON object, and every line of stderr, is one text to the rules.

use super::book::Book;
use super::ear::{Ear, abandon};
use super::path::Place;
use super::state::{self, State};
use crate::{Dialect, Frame, Out, Stream};
use contract::event::{self, Body, Log, Raw};
use contract::mapping::{On, Success};
use contract::speech::{Close, Ending};
use contract::{Code, Draft, Fault, Signal, Timestamp, Utterance};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The level of a line that was not understood.
pub(super) const UNRECOGNISED: &str = "unrecognised";
/// The level of a line that was understood and comes too late or twice.
pub(super) const REPEATED: &str = "repeated";
const WARNING: &str = "warning";

/// A run of an agent that a mapping describes.
pub(super) struct Mapped {
    name: String,
    book: Arc<Book>,
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    state: State,
}

impl Mapped {
    /// `prompt` is what standard input is given, if that is where the prompt goes.
    pub(super) fn new(
        name: String,
        book: Arc<Book>,
        prompt: Option<String>,
        resumes: Option<String>,
    ) -> Self {
        Self { name, book, prompt, state: State::new(resumes) }
    }

    pub(super) fn restore(saved: &[u8]) -> Result<Self, Fault> {
        let (name, mapping, state) = state::load(saved)?;
        Ok(Self { name, book: Arc::new(Book::new(mapping)), prompt: None, state })
    }
}

impl Dialect for Mapped {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.prompt.take().map(String::into_bytes)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = String::from_utf8_lossy(frame.bytes);
        let line = text.trim_end_matches('\r');
        if line.trim_ascii().is_empty() {
            return;
        }
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let book = Arc::clone(&self.book);
        let mut ear = Ear { book: &book, state: &mut self.state, out, raw, line };
        // Replaced characters could turn one value into another, so such a line is only kept.
        if frame.cut || matches!(text, Cow::Owned(_)) {
            return ear.unknown();
        }
        let (on, value) = match frame.stream {
            Stream::Stderr => (On::Stderr, Value::from(line)),
            Stream::Stdout => {
                let object = serde_json::from_str(line).ok().filter(Value::is_object);
                (On::Stdout, object.unwrap_or_else(|| Value::from(line)))
            }
        };
        if on == On::Stdout && ear.state.ended {
            return ear.keep(Some(REPEATED));
        }
        hear(&mut ear, on, &value);
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        let what = match utterance {
            // Nobody is told of a budget, and SIGTERM is all the goodbye it knows.
            Utterance::BudgetUpdate { .. } | Utterance::Shutdown { .. } => return,
            Utterance::ToolResult { .. } => "a tool's answer",
            Utterance::Decide { .. } => "a decision",
            Utterance::Message { .. } => "a message",
            Utterance::Interrupt => "an interrupt",
        };
        let code = Code::NotSupported;
        let text =
            format!("{code}: the agent takes nothing after its prompt, so {what} was not said");
        let (stream, level) = (event::Stream::Ostler, Some(WARNING.to_owned()));
        out.drafts.push(Draft::ostler(Body::Log(Log { stream, text, level })));
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    /// Where no end is told, the exit decides whether what was said is an answer.
    fn close(&mut self, how: Close, out: &mut Out) {
        abandon(&mut self.state, out);
        let by_exit = self.book.mapping.exit.success == Success::Zero && how == Close::Ended;
        if self.state.ended || !by_exit {
            return;
        }
        let verdict = self.state.verdict.take();
        let failed = verdict.as_ref().is_some_and(|ends| ends.code.is_some());
        let text = self.state.answer().map(str::to_owned);
        if !failed && (text.is_some() || self.state.worked) {
            let text = verdict.and_then(|ends| ends.text).or(text);
            let ending = Ending { code: None, text, output: None, detail: None };
            out.signals.push(Signal::ResultAtExit(ending));
        } else if let Some(ends) = verdict.filter(|_| failed) {
            let (code, detail) = (ends.code, ends.detail);
            out.signals.push(Signal::Result(Ending { code, text: None, output: None, detail }));
        }
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        state::save(&self.name, &self.book.mapping, &self.state)
    }
}

/// Applies every rule that fits.
fn hear(ear: &mut Ear<'_>, on: On, value: &Value) {
    let book = ear.book;
    let place = Place::line(value);
    let mut known = false;
    for (index, rule) in book.mapping.rules.iter().enumerate() {
        if rule.on != on || !book.fits(index, place) {
            continue;
        }
        known = true;
        for place in book.places(index, place) {
            match on {
                On::Stdout => ear.apply(rule, place),
                On::Stderr => ear.aside(rule, place),
            }
        }
        // What follows the end on its own line is no part of the run any more.
        if rule.last || (on == On::Stdout && ear.state.ended) {
            break;
        }
    }
    if !known {
        ear.unknown();
    }
}
