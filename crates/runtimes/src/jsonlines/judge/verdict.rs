//! From recordings to verdicts. Each point is one small rule over all scenes; the first line that
//! offends is named, and how many more there are.

use super::fields::{self, Kind, Line, Seen};
use super::orchestrator::KNOWN_TOOLS;
use super::points;
use super::{Exit, Finding, Heard, Point, Recording, Scene};
use crate::verdict::{self, Case, Place};
use serde_json::Value;
use std::collections::HashSet;

/// Why no further scene can show anything: the first one was not started, or none of its lines was one
/// of the protocol.
pub fn dead_end(recordings: &[Recording]) -> Option<&'static str> {
    let first = recordings.first()?;
    let mut lines = first.lines.iter().map(|line| fields::look(&line.bytes));
    let is_object = |seen: Seen| matches!(seen, Seen::NoType { .. } | Seen::Line(_));
    verdict::dead_end(&first.lines, &first.exit, lines.any(is_object))
}

/// Judges every point, in the order of the table.
pub fn judge(recordings: &[Recording]) -> Vec<Finding> {
    let scenes: Vec<Played> = recordings.iter().map(Played::new).collect();
    let started = recordings.first().is_none_or(|first| first.exit.spawn_error.is_none());
    points::POINTS
        .iter()
        .map(|point| match started || *point == points::STARTS {
            true => rule(*point, &scenes),
            false => Case::not_started(*point),
        })
        .collect()
}

fn rule(point: Point, scenes: &[Played]) -> Finding {
    let mut case = Case::new(point);
    match point.id {
        id if id == points::STARTS.id => starts(&mut case, scenes),
        id if id == points::FLUSH.id => flush(&mut case, scenes),
        id if id == points::NEWLINE.id => newline(&mut case, scenes),
        id if id == points::IDS.id => ids(&mut case, scenes),
        id if id == points::ENDS.id => ends(&mut case, scenes),
        id if id == points::ONE_END.id => one_end(&mut case, scenes),
        id if id == points::LAST.id => last(&mut case, scenes),
        id if id == points::LEAVES.id => leaves(&mut case, scenes),
        id if id == points::EXIT.id => exit(&mut case, scenes),
        id if id == points::STRANGERS.id => same_as_plain(&mut case, scenes, Scene::Strangers),
        id if id == points::LATE.id => same_as_plain(&mut case, scenes, Scene::Late),
        id if id == points::REFUSED.id => refused(&mut case, scenes),
        id if id == points::SPOKEN.id => spoken(&mut case, scenes),
        id if id == points::RESUMED.id => resumed(&mut case, scenes),
        id if id == points::SHUTDOWN.id => obeys(&mut case, scenes, Scene::Shutdown),
        id if id == points::EOF.id => obeys(&mut case, scenes, Scene::Eof),
        _ => line_by_line(&mut case, scenes),
    }
    case.finding()
}

/// A scene with its lines looked at.
struct Played<'a> {
    recording: &'a Recording,
    seen: Vec<Seen>,
    /// The places of complete and failed lines.
    ends: Vec<usize>,
    /// A call of `mark_complete` or `mark_failed`, which counts as an end too.
    marked: bool,
}

impl Place for Played<'_> {
    fn scene(&self) -> &'static str {
        self.recording.scene.word()
    }

    fn lines(&self) -> &[Heard] {
        &self.recording.lines
    }
}

impl<'a> Played<'a> {
    fn new(recording: &'a Recording) -> Self {
        let seen: Vec<Seen> =
            recording.lines.iter().map(|line| fields::look(&line.bytes)).collect();
        let line = |at: &usize| matches!(&seen[*at], Seen::Line(line) if line.kind.closes());
        let ends = (0..seen.len()).filter(line).collect();
        let marked = seen.iter().any(|seen| match seen {
            Seen::Line(line) => ["mark_complete", "mark_failed"].contains(&tool(line)),
            Seen::Blank | Seen::NotAnObject { .. } | Seen::NoType { .. } => false,
        });
        Self { recording, seen, ends, marked }
    }

    fn understood(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.seen.iter().enumerate().filter_map(|(at, seen)| match seen {
            Seen::Line(line) => Some((at, line)),
            Seen::Blank | Seen::NotAnObject { .. } | Seen::NoType { .. } => None,
        })
    }

    fn calls(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.understood().filter(|(_, line)| line.kind == Kind::ToolCall)
    }

    /// It said its end and left without being told to.
    fn ended_well(&self) -> bool {
        let done = &self.recording.done;
        self.has_end() && !done.stopped && done.told_after.is_none()
    }

    fn has_end(&self) -> bool {
        self.marked || !self.ends.is_empty()
    }

    fn completed(&self) -> bool {
        let complete = |at: &usize| match &self.seen[*at] {
            Seen::Line(line) => line.kind == Kind::Complete,
            Seen::Blank | Seen::NotAnObject { .. } | Seen::NoType { .. } => false,
        };
        self.ends.first().is_some_and(complete)
    }

    /// A line that our own end of the process may have cut says nothing.
    fn was_cut(&self, at: usize) -> bool {
        self.recording.done.stopped && !self.recording.lines[at].ended
    }

    fn how(&self) -> String {
        let Recording { done, exit, .. } = self.recording;
        match exit {
            Exit { spawn_error: Some(error), .. } => format!("it could not be started: {error}"),
            _ if done.stopped => "it did not leave and was killed".to_owned(),
            _ if done.told_after.is_some() => {
                "it was silent for too long and was asked to leave".to_owned()
            }
            Exit { signal: Some(signal), .. } => format!("it died of signal {signal}"),
            Exit { code: Some(code), .. } => format!("it exited with {code}"),
            Exit { code: None, signal: None, .. } => "how it ended is not known".to_owned(),
        }
    }
}

fn tool(line: &Line) -> &str {
    match line.kind {
        Kind::ToolCall => line.fields.get("tool").and_then(Value::as_str).unwrap_or_default(),
        Kind::Progress
        | Kind::Comment
        | Kind::Complete
        | Kind::Failed
        | Kind::Hello
        | Kind::Event => "",
    }
}

/// The points that are about single lines.
fn line_by_line(case: &mut Case, scenes: &[Played]) {
    case.missing = match case.point {
        point if point == points::TASK => "it did not ask for its task",
        point if point == points::TOOLS => "it called no tool",
        point if point == points::COSTS => "it reported no cost",
        _ => "it said nothing",
    };
    for played in scenes {
        for (at, seen) in played.seen.iter().enumerate() {
            if played.was_cut(at) {
                continue;
            }
            match judged(case.point, seen) {
                None => {}
                Some(complaints) if complaints.is_empty() => case.seen = true,
                Some(complaints) => case.offend(played, Some(at), complaints.join("; ")),
            }
        }
    }
}

/// What is wrong with a line in this respect; `None` when it says nothing about it.
fn judged(point: Point, seen: &Seen) -> Option<Vec<String>> {
    match seen {
        Seen::Blank => None,
        Seen::NotAnObject { why } => (point == points::OBJECTS).then(|| vec![why.clone()]),
        Seen::NoType { why } => match point {
            point if point == points::OBJECTS => Some(Vec::new()),
            point if point == points::TYPES => Some(vec![why.clone()]),
            _ => None,
        },
        Seen::Line(line) => match point {
            point if point == points::OBJECTS || point == points::TYPES => Some(Vec::new()),
            point if point == points::FIELDS => Some(line.wrong.clone()),
            point if point == points::COSTS => line.cost.clone(),
            point if point == points::TASK => (tool(line) == "read_task").then(Vec::new),
            point if point == points::TOOLS && line.kind == Kind::ToolCall => {
                let name = tool(line);
                let known = KNOWN_TOOLS.contains(&name);
                Some(if known { Vec::new() } else { vec![format!("there is no tool '{name}'")] })
            }
            _ => None,
        },
    }
}

fn starts(case: &mut Case, scenes: &[Played]) {
    for played in scenes {
        case.seen = true;
        if let Some(error) = &played.recording.exit.spawn_error {
            case.offend(played, None, error.clone());
        }
    }
}

/// A call that is heard only when its writer is told to leave was stuck in a buffer till then; unless
/// another was heard before, and answered: then its writer was slow to begin, and flushes.
fn flush(case: &mut Case, scenes: &[Played]) {
    case.missing = "it never waited for anything";
    case.seen = scenes.iter().any(|played| played.recording.done.answered > 0);
    if case.seen {
        return;
    }
    for played in scenes.iter().filter(|played| played.recording.done.told_after == Some(0)) {
        if let Some((at, _)) = played.calls().next() {
            case.offend(
                played,
                Some(at),
                "this call came only after the request to leave: is the output buffered?",
            );
        }
    }
}

fn newline(case: &mut Case, scenes: &[Played]) {
    for played in scenes {
        let Some(at) = played.recording.lines.len().checked_sub(1) else { continue };
        match played.recording.lines[at].ended || played.was_cut(at) {
            true => case.seen = true,
            false => case.offend(played, Some(at), "there is no newline behind it"),
        }
    }
}

fn ids(case: &mut Case, scenes: &[Played]) {
    case.missing = "it called no tool";
    for played in scenes {
        let mut known = HashSet::new();
        for (at, line) in played.calls() {
            let Some(id) = line.fields.get("id").and_then(fields::id_text) else { continue };
            case.seen = true;
            if !known.insert(id.clone()) {
                case.offend(played, Some(at), format!("the id '{id}' was given before"));
            }
        }
    }
}

fn ends(case: &mut Case, scenes: &[Played]) {
    let Some(plain) = plain(scenes) else { return };
    case.seen = true;
    if !plain.has_end() {
        case.offend(plain, None, format!("neither was said; {}", plain.how()));
    }
}

fn one_end(case: &mut Case, scenes: &[Played]) {
    case.missing = "it never ended";
    for played in scenes {
        case.seen |= played.has_end();
        if let Some(second) = played.ends.get(1) {
            case.offend(played, Some(*second), "it had ended before");
        }
    }
}

fn last(case: &mut Case, scenes: &[Played]) {
    case.missing = "it never ended";
    for played in scenes {
        let Some(end) = played.ends.first() else { continue };
        case.seen = true;
        for at in end + 1..played.seen.len() {
            if played.seen[at] != Seen::Blank {
                case.offend(played, Some(at), format!("its end was line {}", end + 1));
            }
        }
    }
}

fn leaves(case: &mut Case, scenes: &[Played]) {
    case.missing = "it never ended";
    for played in scenes.iter().filter(|played| played.has_end()) {
        case.seen = true;
        let done = &played.recording.done;
        if done.stopped && done.told_after.is_none() {
            let at = played.ends.first().copied();
            case.offend(played, at, "it was still there five seconds later and was killed");
        }
    }
}

fn exit(case: &mut Case, scenes: &[Played]) {
    case.missing = "it never completed";
    for played in scenes.iter().filter(|played| played.completed()) {
        if played.recording.done.stopped {
            continue;
        }
        case.seen = true;
        if played.recording.exit.code != Some(0) {
            case.offend(played, played.ends.first().copied(), played.how());
        }
    }
}

fn plain<'s>(scenes: &'s [Played<'s>]) -> Option<&'s Played<'s>> {
    scenes.iter().find(|played| played.recording.scene == Scene::Plain)
}

/// What the agent can do undisturbed it can do in this scene.
fn same_as_plain(case: &mut Case, scenes: &[Played], scene: Scene) {
    let Some(plain) = plain(scenes).filter(|plain| plain.ended_well()) else {
        case.missing = match plain(scenes) {
            Some(plain) if !plain.has_end() => "it says no end even when it is left alone",
            Some(_) | None => "it does not exit by itself even when it is left alone",
        };
        return;
    };
    for played in scenes.iter().filter(|played| played.recording.scene == scene) {
        let done = &played.recording.done;
        if !done.strangers && done.answered == 0 {
            match played.calls().find(|(_, line)| needs_answer(line)) {
                Some((at, _)) => case.offend(played, Some(at), ENDED_BEFORE_ITS_ANSWER),
                None => case.missing = "it called no tool whose answer it needs",
            }
            continue;
        }
        case.seen = true;
        if !played.ended_well() {
            case.offend(played, None, played.how());
        } else if plain.completed() && !played.completed() {
            let at = played.ends.first().copied();
            case.offend(played, at, "it completes when it is left alone, and failed here");
        }
    }
}

const ENDED_BEFORE_ITS_ANSWER: &str =
    "it ended before this call was answered: it took the answer to another id, or did not wait";

/// Whether the agent called a tool for its answer; notes can be left without waiting.
fn needs_answer(call: &Line) -> bool {
    !["report_progress", "comment"].contains(&tool(call))
}

fn refused(case: &mut Case, scenes: &[Played]) {
    case.missing = "it called no tool";
    let of_scene = |played: &&Played| played.recording.scene == Scene::Refused;
    for played in scenes.iter().filter(of_scene) {
        if played.recording.done.answered == 0 {
            continue;
        }
        case.seen = true;
        if !played.ended_well() {
            case.offend(played, None, played.how());
        }
    }
}

fn spoken(case: &mut Case, scenes: &[Played]) {
    case.missing = "no hello accepts a message or an interrupt";
    let of_scene = |played: &&Played| played.recording.scene == Scene::Spoken;
    for played in scenes.iter().filter(of_scene) {
        let Recording { done, .. } = played.recording;
        if !done.spoken {
            continue;
        }
        case.seen = true;
        // One that waits for more to be said leaves when it is told to.
        let left = done.told_after.is_some() && !done.stopped;
        if !played.ended_well() && !left {
            case.offend(played, None, played.how());
        }
    }
}

fn resumed(case: &mut Case, scenes: &[Played]) {
    case.missing = "no hello accepts to be resumed";
    let of_scene = |played: &&Played| played.recording.scene == Scene::Resumed;
    for played in scenes.iter().filter(of_scene) {
        if !played.recording.done.resumed {
            case.missing = "it did not read its task";
            continue;
        }
        case.seen = true;
        if !played.ended_well() {
            case.offend(played, None, played.how());
        }
    }
}

fn obeys(case: &mut Case, scenes: &[Played], scene: Scene) {
    case.missing = "it ended before the request could be sent";
    for played in scenes.iter().filter(|played| played.recording.scene == scene) {
        let Recording { done, exit, .. } = played.recording;
        if done.told_after.is_none() || exit.spawn_error.is_some() {
            continue;
        }
        case.seen = true;
        if done.stopped {
            case.offend(played, None, "it was still there five seconds later and was killed");
        } else if let Some(signal) = exit.signal {
            case.offend(played, None, format!("it died of signal {signal}"));
        }
    }
}
