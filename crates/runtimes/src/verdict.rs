//! What every judge of a protocol says, whichever protocol it is: points, and what was found of
//! each, with the line that offends. The judges themselves are `jsonlines::judge` and `acp::judge`;
//! each plays the other side of a conversation, scene by scene, and rules over what was heard.
//! Nothing here knows a protocol, waits, or starts anything.

use serde::Serialize;

/// One thing an agent does right or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    pub id: &'static str,
    /// Completes the sentence "a good agent …".
    pub what: &'static str,
    /// The specification requires it; what is not required is advice.
    pub required: bool,
    /// Without it Ostler cannot run the agent.
    pub to_run: bool,
}

/// The weight of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Ostler cannot run an agent without it; the specification requires it too.
    Run,
    /// The specification requires it.
    Spec,
    /// Better so.
    Advice,
}

impl Point {
    pub const fn new(id: &'static str, what: &'static str, need: Need) -> Self {
        let required = matches!(need, Need::Run | Need::Spec);
        Self { id, what, required, to_run: matches!(need, Need::Run) }
    }

    /// Its weight, as the pages of the protocols name it.
    pub const fn weight(self) -> &'static str {
        match (self.to_run, self.required) {
            (true, _) => "to run",
            (false, true) => "required",
            (false, false) => "advice",
        }
    }
}

/// What was found about one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    #[serde(flatten)]
    pub point: Point,
    pub verdict: Verdict,
    /// The scene in which it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scene: Option<&'static str>,
    /// The number of the line that offends, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The beginning of that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How often it was found besides.
    pub more: usize,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    /// Whether the agent breaks the specification here.
    pub fn breaks_spec(&self) -> bool {
        self.verdict == Verdict::Fail && self.point.required
    }

    /// Whether Ostler cannot run the agent because of it.
    pub fn prevents_runs(&self) -> bool {
        self.verdict == Verdict::Fail && self.point.to_run
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    NotSeen,
}

/// One line of the agent's stdout, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub at_ms: u64,
    pub bytes: Vec<u8>,
    /// False for a last line without a newline.
    pub ended: bool,
}

/// How the process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Why it could not be started.
    pub spawn_error: Option<String>,
}

/// What is to be done to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A line with its newline.
    Say(Vec<u8>),
    CloseStdin,
    /// It does not go by itself: end it.
    Stop,
}

/// A scene that was played, as far as an offence must name it.
pub(crate) trait Place {
    fn scene(&self) -> &'static str;
    fn lines(&self) -> &[Heard];
}

/// One point being judged.
pub(crate) struct Case {
    pub point: Point,
    pub seen: bool,
    /// Why it may not have been seen.
    pub missing: &'static str,
    offences: Vec<Offence>,
}

struct Offence {
    scene: &'static str,
    line: Option<(usize, String)>,
    why: String,
}

impl Case {
    pub(crate) fn new(point: Point) -> Self {
        Self { point, seen: false, missing: "it said nothing", offences: Vec::new() }
    }

    /// Nothing is known of an agent that was not started, except that.
    pub(crate) fn not_started(point: Point) -> Finding {
        Self { missing: "it could not be started", ..Self::new(point) }.finding()
    }

    /// Holds something against the agent: a line by its place from 0, or none.
    pub(crate) fn offend(&mut self, place: &impl Place, at: Option<usize>, why: impl Into<String>) {
        self.seen = true;
        let line = at.and_then(|at| Some((at + 1, shown(&place.lines().get(at)?.bytes))));
        self.offences.push(Offence { scene: place.scene(), line, why: why.into() });
    }

    pub(crate) fn finding(self) -> Finding {
        let Self { point, seen, offences, missing } = self;
        let more = offences.len().saturating_sub(1);
        let mut finding = Finding {
            point,
            verdict: Verdict::Pass,
            scene: None,
            line: None,
            text: None,
            why: None,
            more,
            hint: None,
        };
        match (offences.into_iter().next(), seen) {
            (Some(Offence { scene, line, why }), _) => {
                finding.verdict = Verdict::Fail;
                (finding.scene, finding.why) = (Some(scene), Some(why));
                (finding.line, finding.text) = line.unzip();
            }
            (None, true) => {}
            (None, false) => {
                finding.verdict = Verdict::NotSeen;
                finding.why = Some(missing.to_owned());
            }
        }
        finding
    }
}

/// Why no further scene can show anything, when the first one was so.
pub(crate) fn dead_end(lines: &[Heard], exit: &Exit, has_message: bool) -> Option<&'static str> {
    let has_text = || lines.iter().any(|line| !line.bytes.trim_ascii().is_empty());
    match exit.spawn_error {
        Some(_) => Some("it could not be started"),
        None if has_message => None,
        None if has_text() => Some("no line of its output is a JSON object"),
        None => Some("it printed nothing"),
    }
}

/// The complaint about a line that is not JSON.
pub(crate) fn not_json(text: &str, error: &serde_json::Error) -> String {
    match text.trim_start().starts_with('{') {
        false => "it is not JSON: write logs to stderr".to_owned(),
        true if error.is_eof() => "it is not JSON: it ends too early".to_owned(),
        true => format!("it is not JSON from column {} on", error.column()),
    }
}

/// A foreign line as it can be shown: short, and without control characters.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_CHARS_MAX: usize = 160;
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .flat_map(|char| match char.is_control() || is_invisible(char) {
            true => char.escape_unicode().collect::<Vec<_>>(),
            false => vec![char],
        })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters that reorder or hide what a person reads.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_line_is_short_and_harmless() {
        let text = shown("\u{1b}[31mred\u{202e}\u{0}".as_bytes());
        assert_eq!(text, "\\u{1b}[31mred\\u{202e}\\u{0}");
        assert_eq!(shown(&[b'x'; 1_000]).chars().count(), 161);
    }
}
