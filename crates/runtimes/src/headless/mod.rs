//! The dialect of every agent that is given one prompt and is then only listened to. What they share
//! is here, once: the prompt is said with the launch, lines are heard, nothing can be said after, and
//! the state is saved with its version. What its lines mean is each agent's own business: it is a
//! `Listener`, the state of a run that hears. `ear` is one line being heard, `calls` and `turns` are
//! what listeners remember, `text` bounds what they keep, `tools` has what calls have in common.

mod calls;
mod ear;
mod text;
mod tools;
mod turns;

#[cfg(test)]
mod tests;

pub(crate) use calls::{Calls, Came, is_id};
pub(crate) use ear::{DEBUG, Ear, INFO, REPEATED, Read, UNRECOGNISED, WARNING};
pub(crate) use text::{Answer, bounded, preview};
pub(crate) use tools::{About, change, kept, part, short, todos, tool_use};
pub(crate) use turns::{Trouble, Turns};

use crate::{Dialect, ExitEvidence, Frame, Out, provider, saved};
use contract::event::{self, Body, Log};
use contract::speech::Close;
use contract::{Code, Draft, Fault, Timestamp, Utterance};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// What an agent's own dialect is: all that is remembered of a run, and what a line makes of it.
/// It is stored with every batch, so everything in it is bounded.
pub(crate) trait Listener: Serialize + DeserializeOwned + Send + 'static {
    /// The version of the saved form; state of another one is refused.
    const VERSION: u32;

    /// Hears one line of either stream. It cannot fail: what is not understood is kept.
    fn hear(&mut self, ear: &mut Ear<'_>);

    /// No more lines will come.
    fn close(&mut self, how: Close, ear: &mut Ear<'_>);
}

/// A fresh run. The prompt is given where standard input takes it.
pub(crate) fn dialect(prompt: Option<String>, listener: impl Listener) -> Box<dyn Dialect> {
    Box::new(Run { prompt, listener })
}

/// The run that was saved.
pub(crate) fn restore<L: Listener>(saved: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
    let listener: L = saved::load(saved, L::VERSION)?;
    Ok(Box::new(Run { prompt: None, listener }))
}

/// A run of such an agent.
struct Run<L> {
    /// Said once, before anything is heard, and therefore no part of what is saved.
    prompt: Option<String>,
    listener: L,
}

impl<L: Listener> Dialect for Run<L> {
    fn open(&mut self) -> Option<Vec<u8>> {
        self.prompt.take().map(String::into_bytes)
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = frame.text();
        // Replaced characters could turn one value into another.
        let whole = !frame.cut && matches!(text, Cow::Borrowed(_));
        self.listener.hear(&mut Ear::of(frame, &text, whole, out));
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

    fn close(&mut self, how: Close, out: &mut Out) {
        self.listener.close(how, &mut Ear::at_close(out));
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Versioned<'a, L> {
            version: u32,
            #[serde(flatten)]
            listener: &'a L,
        }
        saved::save(&Versioned { version: L::VERSION, listener: &self.listener })
    }
}

/// What the last words mean when no line told the end: that the conversation to be taken up is not
/// known, by any of these words, or what a table of the agent's own says.
pub(crate) fn at_exit(
    evidence: &ExitEvidence<'_>,
    unknown: &[&str],
    table: &[(&str, Code)],
) -> Option<Code> {
    evidence.exit_code.filter(|exit| *exit != 0)?;
    if says(evidence.stderr_tail, unknown) {
        return Some(Code::NativeSessionUnknown);
    }
    provider::in_words(evidence.stderr_tail, table)
}

/// Whether a text has any of these words, which are in lower case.
pub(crate) fn says(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|words| text.contains(words))
}
