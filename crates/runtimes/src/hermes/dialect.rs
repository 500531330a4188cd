//! Hears `-z`: standard output is the bare answer, all at once at the end, and what else there is to
//! know stands in a report on stderr. The answer is no evidence of anything, because errors of the
//! provider are printed in its place with an exit of 0; the report says whether the task was
//! completed. The end is therefore told when both streams are over. It takes no word after its
//! prompt and tells nothing of its tools.

use super::report::{Gathering, Heard, Report};
use super::trouble;
use crate::oneshot::{Answer, Ear, REPEATED, bounded, unsaid};
use crate::{Dialect, Frame, Out, Stream, saved};
use contract::event::{Body, Session, StopReason};
use contract::speech::Close;
use contract::{Code, Fault, Timestamp, Utterance};
use serde::{Deserialize, Serialize};

/// The version of the saved form.
const VERSION: u32 = 1;
/// The one text of a run.
const BLOCK: &str = "answer";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    version: u32,
    begun: bool,
    answer: Answer,
    gathering: Gathering,
    verdict: Option<Verdict>,
}

/// What the report said of the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Verdict {
    completed: bool,
    failed: bool,
    /// Why it failed, where that is told apart from the answer.
    failure: Option<String>,
}

/// A run of the agent: one prompt, one turn.
pub(super) struct Hermes {
    state: State,
}

impl Hermes {
    pub(super) fn new() -> Self {
        let state = State {
            version: VERSION,
            begun: false,
            answer: Answer::default(),
            gathering: Gathering::default(),
            verdict: None,
        };
        Self { state }
    }

    pub(super) fn restore(state: &[u8]) -> Result<Self, Fault> {
        Ok(Self { state: saved::load(state, VERSION)? })
    }
}

impl Dialect for Hermes {
    /// The prompt is an argument.
    fn open(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn hear(&mut self, frame: &Frame<'_>, out: &mut Out) {
        let text = String::from_utf8_lossy(frame.bytes);
        let line = text.trim_end_matches('\r');
        let mut ear = Ear::of(frame, line, out);
        match frame.stream {
            Stream::Stdout => self.state.say(&mut ear),
            Stream::Stderr => self.state.aside(&mut ear),
        }
    }

    fn say(&mut self, utterance: &Utterance, out: &mut Out) {
        unsaid(utterance, out);
    }

    /// It waits for nothing that a clock could end.
    fn tick(&mut self, _: Timestamp, _: &mut Out) {}

    fn close(&mut self, how: Close, out: &mut Out) {
        let mut ear = Ear::at_close(out);
        ear.keep_all(Stream::Stderr, &self.state.gathering.rest());
        match how {
            Close::Ended => self.state.finish(&mut ear),
            // The rest of the answer may be missing.
            Close::Cut => {}
        }
    }

    fn farewell(&self, _: Code) -> Option<Vec<u8>> {
        None
    }

    fn save(&self) -> Vec<u8> {
        saved::save(&self.state)
    }
}

impl State {
    /// A line of the answer; an empty one is a part of it too.
    fn say(&mut self, ear: &mut Ear<'_>) {
        let piece = format!("{}\n", ear.line);
        if !self.begun && piece.trim().is_empty() {
            return;
        }
        self.begin(None, ear);
        self.answer.push(&piece);
        ear.say(piece, BLOCK.to_owned(), true);
    }

    fn aside(&mut self, ear: &mut Ear<'_>) {
        match self.gathering.hear(ear.line) {
            Heard::Part => {}
            Heard::Report(report) if self.verdict.is_none() => self.report(*report, ear),
            Heard::Report(_) => ear.keep(Some(REPEATED)),
            Heard::Other(lines) => ear.keep_all(Stream::Stderr, &lines),
        }
    }

    fn report(&mut self, report: Report, ear: &mut Ear<'_>) {
        self.begin(Some(&report), ear);
        if let Some(usage) = report.usage() {
            ear.spent(usage);
        }
        self.verdict = Some(Verdict {
            completed: report.completed == Some(true),
            failed: report.failed != Some(false),
            failure: report.failure.as_deref().map(bounded),
        });
    }

    /// The report names the model and the conversation; the answer may be heard before it. The name
    /// is shown and not kept, because the one-shot mode does not take a conversation up again.
    fn begin(&mut self, report: Option<&Report>, ear: &mut Ear<'_>) {
        if let Some(told) = report.filter(|told| told.session_id.is_some()) {
            ear.draft(Body::Session(Session {
                model: told.model.clone(),
                tools: None,
                cwd: None,
                native_session: told.session_id.clone(),
                resumed: false,
            }));
        }
        if !std::mem::replace(&mut self.begun, true) {
            ear.start_turn();
        }
    }

    /// Only a report of a completed task beside an answer is a success.
    fn finish(&mut self, ear: &mut Ear<'_>) {
        let Some(verdict) = self.verdict.take() else { return };
        let answer = self.answer.get();
        let words = verdict.failure.or_else(|| answer.clone()).unwrap_or_default();
        let code = match (verdict.failed, verdict.completed, &answer) {
            (true, _, _) => Some(trouble::of(&words)),
            (false, false, _) | (false, true, None) => Some(Code::EndedWithoutResult),
            (false, true, Some(answer)) => trouble::in_place_of_an_answer(answer),
        };
        if let Some(code) = code {
            ear.error(code, &words);
        }
        ear.end_turn(match code {
            None => StopReason::EndTurn,
            Some(Code::ModelRefusal) => StopReason::Refusal,
            Some(_) => StopReason::Error,
        });
        let detail = code.map(|_| bounded(&words)).filter(|words| !words.is_empty());
        ear.result(code, answer.filter(|_| code.is_none()), detail);
    }
}
