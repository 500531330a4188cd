//! For agents whose errors are not always the end: turns that are numbered, because what follows an
//! error is another one, and the error itself, which becomes the end when nothing follows. What an
//! error means is each listener's own business.

use super::ear::{Ear, ended};
use super::preview;
use contract::event::StopReason;
use contract::speech::Close;
use contract::{Code, Signal};
use serde::{Deserialize, Serialize};

/// The turns of a run, and the error that was told last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turns {
    /// The number of the turn that is going on, or was the last.
    n: u32,
    open: bool,
    trouble: Option<Trouble>,
}

/// An error and its words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub code: Code,
    pub detail: String,
}

impl Turns {
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Begins a turn if none is going on. The error before it was not the end then. True for a new
    /// turn.
    pub fn begin(&mut self, ear: &mut Ear<'_>) -> bool {
        if std::mem::replace(&mut self.open, true) {
            return false;
        }
        self.n = self.n.saturating_add(1);
        self.trouble = None;
        ear.turn_started(self.n);
        true
    }

    /// Ends the turn that is going on, if there is one.
    pub fn end(&mut self, stop: StopReason, ear: &mut Ear<'_>) -> bool {
        let open = std::mem::take(&mut self.open);
        if open {
            ear.turn_ended(self.n, stop);
        }
        open
    }

    /// An error ends the turn, and perhaps the run.
    pub fn fail(&mut self, code: Code, detail: &str, ear: &mut Ear<'_>) {
        ear.error(code, detail);
        ear.signal(Signal::ModelError { code });
        self.end(stop_of(code), ear);
        self.trouble = Some(Trouble { code, detail: preview(detail) });
    }

    /// Whether an error was told after which nothing was begun.
    pub fn is_troubled(&self) -> bool {
        self.trouble.is_some()
    }

    /// The error after which nothing was begun; whoever takes it tells the end.
    pub fn take_trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    /// No more lines come: the error that was told last was the end, or else the one given here, if
    /// a turn is still going on. Of output that was cut nobody knows what followed.
    pub fn close(&mut self, otherwise: Option<Trouble>, how: Close, ear: &mut Ear<'_>) {
        let otherwise = otherwise.filter(|_| self.open);
        if let (Close::Ended, Some(Trouble { code, detail })) =
            (how, self.trouble.take().or(otherwise))
        {
            if std::mem::take(&mut self.open) {
                let stop = stop_of(code);
                ear.draft_ours(ended(self.n, stop));
                ear.signal(Signal::TurnEnded { stop });
            }
            ear.result(Some(code), None, Some(detail));
        }
    }
}

/// How a turn ends by an error.
fn stop_of(code: Code) -> StopReason {
    match code {
        Code::ModelRefusal => StopReason::Refusal,
        _ => StopReason::Error,
    }
}
