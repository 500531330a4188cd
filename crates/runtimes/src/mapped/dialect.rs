//! The dialect of a mapping: one prompt, one turn, lines that only come. Finds the rules that fit a
//! line and lets `ear` apply them; a line that no rule knows is kept as a `log`. A line of stdout
//! that is no JSON object, and every line of stderr, is one text to the rules. The mapping is saved
//! with the state: whoever takes the run over has it from here, not from a file that may have changed.

use super::book::Book;
use super::ear::Rules;
use super::path::Place;
use super::state::State;
use crate::Stream;
use crate::headless::{Ear, Listener, REPEATED};
use contract::Signal;
use contract::mapping::{Mapping, On, Success};
use contract::speech::{Close, Ending};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::sync::Arc;

/// A run of an agent that a mapping describes.
#[derive(Deserialize)]
#[serde(from = "Saved<String, Mapping, State>")]
pub(super) struct Mapped {
    /// The adapter's name.
    pub name: String,
    pub book: Arc<Book>,
    state: State,
}

/// Everything that is saved. The mapping is bounded by its check.
#[derive(Serialize, Deserialize)]
struct Saved<N, M, S> {
    name: N,
    mapping: M,
    state: S,
}

impl From<Saved<String, Mapping, State>> for Mapped {
    fn from(Saved { name, mapping, state }: Saved<String, Mapping, State>) -> Self {
        Self { name, book: Arc::new(Book::new(mapping)), state }
    }
}

impl Serialize for Mapped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, book, state } = self;
        Saved { name, mapping: &book.mapping, state }.serialize(serializer)
    }
}

impl Mapped {
    pub(super) fn new(name: String, book: Arc<Book>, resumes: Option<String>) -> Self {
        Self { name, book, state: State::new(resumes) }
    }
}

impl Listener for Mapped {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        if ear.is_blank() {
            return;
        }
        if !ear.whole {
            return ear.keep_stray();
        }
        let line = || Value::from(ear.line);
        let (on, value) = match ear.stream {
            Stream::Stderr => (On::Stderr, line()),
            Stream::Stdout if self.state.ended => return ear.keep(Some(REPEATED)),
            Stream::Stdout => {
                let object = serde_json::from_str(ear.line).ok().filter(Value::is_object);
                (On::Stdout, object.unwrap_or_else(line))
            }
        };
        hear(&mut Rules { book: &self.book, state: &mut self.state, ear }, on, &value);
    }

    /// Where no end is told, the exit decides whether what was said is an answer.
    fn close(&mut self, how: Close, ear: &mut Ear<'_>) {
        let state = &mut self.state;
        ear.abandon(&mut state.calls);
        let by_exit = self.book.mapping.exit.success == Success::Zero && how == Close::Ended;
        if state.ended || !by_exit {
            return;
        }
        let verdict = state.verdict.take();
        let failed = verdict.as_ref().is_some_and(|ends| ends.code.is_some());
        let text = state.answer();
        if !failed && (text.is_some() || state.worked) {
            let text = verdict.and_then(|ends| ends.text).or(text);
            let ending = Ending { code: None, text, output: None, detail: None };
            ear.signal(Signal::ResultAtExit(ending));
        } else if let Some(ends) = verdict.filter(|_| failed) {
            ear.result(ends.code, None, ends.detail);
        }
    }
}

/// Applies every rule that fits.
fn hear(rules: &mut Rules<'_, '_>, on: On, value: &Value) {
    let book = rules.book;
    let place = Place::line(value);
    let mut answers = book.answers(place);
    let mut known = false;
    for (index, rule) in book.mapping.rules.iter().enumerate() {
        if rule.on != on || !book.fits(index, &mut answers) {
            continue;
        }
        known = true;
        let mut apply = |place| match on {
            On::Stdout => rules.apply(rule, place),
            On::Stderr => rules.aside(rule, place),
        };
        match &rule.each {
            Some(each) => book.members(index, each, place).into_iter().for_each(apply),
            None => apply(place),
        }
        // What follows the end on its own line is no part of the run any more.
        if rule.last || (on == On::Stdout && rules.state.ended) {
            break;
        }
    }
    if !known {
        rules.ear.keep_stray();
    }
}
