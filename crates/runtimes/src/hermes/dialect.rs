//! Hears `-z`: standard output is the bare answer, all at once at the end, and what else there is to
//! know stands in a report on stderr. The answer is no evidence of anything, because errors of the
//! provider are printed in its place with an exit of 0; the report says whether the task was
//! completed. The end is therefore told when both streams are over. It tells nothing of its tools.

use super::trouble;
use super::wire::{Gathering, Heard, Report};
use crate::Stream;
use crate::headless::{Answer, Ear, Listener, REPEATED, preview};
use contract::Code;
use contract::event::{Body, Session, StopReason};
use contract::speech::Close;
use serde::{Deserialize, Serialize};

/// The one text of a run.
const BLOCK: &str = "answer";

/// What is remembered of a run: one prompt, one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
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

impl Listener for State {
    const VERSION: u32 = 1;

    fn hear(&mut self, ear: &mut Ear<'_>) {
        match ear.stream {
            Stream::Stdout => self.say(ear),
            Stream::Stderr => self.aside(ear),
        }
    }

    fn close(&mut self, how: Close, ear: &mut Ear<'_>) {
        ear.keep_all(Stream::Stderr, &self.gathering.rest());
        match how {
            Close::Ended => self.finish(ear),
            // The rest of the answer may be missing.
            Close::Cut => {}
        }
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
        ear.say(piece, Some(BLOCK.to_owned()), true);
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
            failure: report.failure.as_deref().map(preview),
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
        let answer = self.answer.words();
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
        let detail = code.map(|_| preview(&words)).filter(|words| !words.is_empty());
        ear.result(code, answer, detail);
    }
}
