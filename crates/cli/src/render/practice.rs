//! What doctor found, for people: one line per agent that is there, its warnings below it, and what
//! is not installed at the end with the command that installs it. Asked about one agent it shows
//! every check. What is to be read in full is broken into lines and not cut. Pure.

use super::clean::{clean, one_line};
use super::flow;
use super::measure::{fit, pad, width};
use super::tone::{Colour, Tone};
use contract::diagnosis::{Check, CheckCode, CheckLevel, Diagnosis, Status};
use std::path::Path;

/// Everything that was found.
pub struct Practice<'a> {
    pub version: &'a str,
    pub config: Option<&'a Path>,
    /// How strongly agents are held, and why not more.
    pub isolation: Option<(&'a str, Option<&'a str>)>,
    pub diagnoses: &'a [Diagnosis],
}

/// The whole report, without a newline at its end.
pub fn practice(found: &Practice<'_>, whole: bool, columns: usize, colour: Colour) -> String {
    let mut lines = head(found, columns, colour);
    let missing =
        |diagnosis: &&Diagnosis| !whole && of(diagnosis, CheckCode::BinaryMissing).is_some();
    let (absent, present): (Vec<_>, Vec<_>) = found.diagnoses.iter().partition(missing);
    let names = found.diagnoses.iter().map(|diagnosis| width(&one_line(&diagnosis.name)));
    let room = names.max().unwrap_or(0);
    if !present.is_empty() {
        lines.push(String::new());
    }
    for diagnosis in &present {
        lines.push(title(diagnosis, room, columns, colour));
        let shown = |check: &&Check| whole || check.level != CheckLevel::Info;
        for check in diagnosis.checks.iter().filter(shown) {
            lines.extend(check_lines(check, whole, columns, colour));
        }
    }
    if !absent.is_empty() {
        lines.push(String::new());
        lines.push(colour.paint(Tone::Gray, "not installed"));
        for diagnosis in absent {
            let how =
                of(diagnosis, CheckCode::BinaryMissing).and_then(|check| check.hint.as_deref());
            let name = pad(&one_line(&diagnosis.name), room);
            let line = format!("  {name}  {}", one_line(how.unwrap_or_default()));
            lines.push(colour.paint(Tone::Gray, &fit(&line, columns)));
        }
    }
    lines.join("\n")
}

fn head(found: &Practice<'_>, columns: usize, colour: Colour) -> Vec<String> {
    let config = match found.config {
        Some(path) => path.display().to_string(),
        None => "none; `ostler init` writes one".to_owned(),
    };
    let held = match found.isolation {
        Some((level, None)) => format!("{level}: {}", held_by(level)),
        Some((level, Some(note))) => format!("{level}: {}; {note}", held_by(level)),
        None => "unknown: no keeper could be started".to_owned(),
    };
    let line = |key: &str, value: &str| {
        let text = fit(&format!("{key:<14} {}", one_line(value)), columns);
        colour.paint(Tone::Gray, &text)
    };
    vec![line("ostler", found.version), line("configuration", &config), line("isolation", &held)]
}

/// What a level of containment means for the processes that an agent starts.
fn held_by(level: &str) -> &'static str {
    match level {
        "strict" => "the kernel ends all processes of a run with it",
        "cgroup" => "all processes of a run are ended as one group",
        _ => "processes of a run are found by a mark and ended",
    }
}

fn title(diagnosis: &Diagnosis, room: usize, columns: usize, colour: Colour) -> String {
    let (mark, tone) = match diagnosis.status {
        Status::Pass => ("✓", Tone::Good),
        Status::Warn => ("!", Tone::Tool),
        Status::Fail => ("✗", Tone::Bad),
    };
    let version = diagnosis.version.as_deref().unwrap_or_default();
    let place = of(diagnosis, CheckCode::StandsFor)
        .or_else(|| of(diagnosis, CheckCode::BinaryFound))
        .map(|check| check.message.as_str());
    let rest = format!(
        " {}  {}  {}",
        pad(&one_line(&diagnosis.name), room),
        pad(&one_line(version), 12),
        one_line(place.unwrap_or_default())
    );
    format!("{}{}", colour.paint(tone, mark), fit(rest.trim_end(), columns.saturating_sub(1)))
}

fn check_lines(check: &Check, whole: bool, columns: usize, colour: Colour) -> Vec<String> {
    let (mark, tone) = match check.level {
        CheckLevel::Info => ("·", Tone::Gray),
        CheckLevel::Warn => ("!", Tone::Tool),
        CheckLevel::Error => ("✗", Tone::Bad),
    };
    let word = serde_json::to_value(check.code).ok();
    let word = word.as_ref().and_then(|word| word.as_str()).unwrap_or_default();
    let said = match whole {
        true => format!("{word}: {}", one_line(&check.message)),
        false => one_line(&check.message),
    };
    let mut lines = flow::hanging(&format!("    {mark} "), &said, columns);
    lines[0] = lines[0].replacen(mark, &colour.paint(tone, mark), 1);
    let detail = check.detail.as_deref().filter(|detail| whole && !detail.is_empty());
    for line in detail.map(clean).unwrap_or_default().lines() {
        lines.push(colour.paint(Tone::Gray, &format!("        {}", one_line(line))));
    }
    if let Some(hint) = check.hint.as_deref().filter(|hint| !hint.is_empty()) {
        lines.extend(flow::hanging("      → ", &one_line(hint), columns));
    }
    lines
}

fn of(diagnosis: &Diagnosis, code: CheckCode) -> Option<&Check> {
    diagnosis.checks.iter().find(|check| check.code == code)
}
