//! The terminal, or whatever stands in its place: the one writer of what people see. A reader that
//! goes away (`| head`) is not an error: writing ends and the program leaves quietly. The status
//! line is drawn in place on a terminal only, taken away before anything else is written, and never
//! left behind.

use crate::render::{self, Colour, Piece, clean};
use contract::{Code, Fault};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why no more can be written.
#[derive(Debug, thiserror::Error)]
pub enum Gone {
    /// The reader has left; there is nobody to tell.
    #[error("the reader has gone")]
    Closed,
    #[error("cannot write: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for Gone {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

impl Gone {
    /// How a program that only writes ends: quietly when its reader left, else with a fault.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Closed => ExitCode::SUCCESS,
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

/// Whether to use colour: on a terminal that can show it, unless its owner said no.
pub fn colour(vars: &BTreeMap<String, String>, is_terminal: bool) -> Colour {
    let refused = vars.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    if redraws(vars, is_terminal) && !refused { Colour::On } else { Colour::Off }
}

/// Whether a line can be drawn again in its place: on a terminal that obeys sequences.
pub fn redraws(vars: &BTreeMap<String, String>, is_terminal: bool) -> bool {
    is_terminal && vars.get("TERM").is_none_or(|term| term != "dumb")
}

/// The width of the terminal that is written to, else `$COLUMNS`, else 80.
pub fn columns(vars: &BTreeMap<String, String>) -> usize {
    let asked = [
        rustix::termios::tcgetwinsize(rustix::stdio::stdout()),
        rustix::termios::tcgetwinsize(rustix::stdio::stderr()),
    ];
    let of_terminal = asked.into_iter().flatten().map(|size| usize::from(size.ws_col));
    let of_variable = vars.get("COLUMNS").and_then(|value| value.parse().ok());
    of_terminal.chain(of_variable).find(|columns| *columns > 0).unwrap_or(80)
}

/// The height of the terminal that is written to.
pub fn rows() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Writes whole lines to standard output, as they are: what is in them that others said was cleaned
/// by whoever made them.
pub fn print(lines: &str) -> Result<(), Gone> {
    let mut out = io::stdout().lock();
    out.write_all(lines.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// JSON for this reader. To a program it goes as it is; on a terminal the few characters that JSON
/// may hold in the clear and a terminal obeys are written as escapes, which mean the same.
pub fn json(text: &str, is_terminal: bool) -> Cow<'_, str> {
    let obeyed = |c: char| match c {
        '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control() && !matches!(c, '\n' | '\r' | '\t'),
    };
    if !is_terminal || !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match obeyed(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
        shown
    });
    Cow::Owned(escaped)
}

/// Says what went wrong and what to do, to whoever reads standard error. A message may name a file of
/// a repository or repeat what an agent said, so it is cleaned here.
pub fn complain(fault: &Fault) {
    // "usage" would only repeat what the message says; any other code is worth searching for.
    let mut text = match fault.code {
        Code::Usage => format!("error: {}\n", fault.message),
        _ => format!("error: {fault}\n"),
    };
    for line in fault.detail.as_deref().unwrap_or_default().lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("hint: {}\n", fault.hint()));
    let text = render::with_moments(&clean(&text), host::clock::now().wall);
    // Nobody is left to hear that nobody hears.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a fault to standard error as one JSON object in one line, for a program that asked for
/// JSON.
pub fn complain_in_json(fault: &Fault) {
    let mut line = serde_json::json!({
        "code": fault.code,
        "message": fault.message,
        "hint": fault.hint(),
    });
    if let Some(detail) = &fault.detail {
        line["detail"] = detail.as_str().into();
    }
    // Nobody is left to hear that nobody hears.
    let _ = io::stderr().lock().write_all(json(&format!("{line}\n"), true).as_bytes());
}

/// Says something that is not part of the answer, to whoever reads standard error.
pub fn remark(text: &str) {
    // Without standard error there is nowhere to say it.
    let _ = io::stderr().lock().write_all(clean(&format!("{text}\n")).as_bytes());
}

/// Takes the cursor to the line's beginning and the line away.
const WIPE: &str = "\r\u{1b}[K";
/// Takes away everything behind the cursor, on this line and below.
const WIPE_BELOW: &str = "\u{1b}[J";

/// Where a run is shown.
pub struct Screen<W: Write> {
    out: W,
    is_terminal: bool,
    /// The width of the line that is open; `None` at the beginning of one.
    open_columns: Option<usize>,
    columns: usize,
    status: Status,
}

/// Where the status line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Absent,
    /// On the cursor's own line.
    Here,
    /// Below an open line of text, with the cursor back at its end.
    Below,
}

impl<W: Write> Screen<W> {
    /// A screen of `columns` columns.
    pub fn new(out: W, is_terminal: bool, columns: usize) -> Self {
        Self { out, is_terminal, open_columns: None, columns, status: Status::Absent }
    }

    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes what the renderer made of an event, at once.
    pub fn show(&mut self, pieces: &[Piece]) -> Result<(), Gone> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(more) => {
                    text.push_str(more);
                    self.open_columns =
                        Some(self.open_columns.unwrap_or(0) + render::visible_width(more));
                }
                Piece::End => {
                    text.push('\n');
                    self.open_columns = None;
                }
            }
        }
        if text.is_empty() { Ok(()) } else { self.write(&text) }
    }

    /// Writes whole lines.
    pub fn say(&mut self, lines: &str) -> Result<(), Gone> {
        let before = if self.open_columns.take().is_some() { "\n" } else { "" };
        self.write(&format!("{before}{lines}\n"))
    }

    /// Draws the status line on a terminal: on the cursor's line, or below a text that is still
    /// being written.
    pub fn status(&mut self, status: &str) -> Result<(), Gone> {
        match (self.is_terminal, self.open_columns) {
            (false, _) => Ok(()),
            (true, None) => {
                self.status = Status::Here;
                self.write_raw(&format!("{WIPE}{status}"))
            }
            // A line that is full to the edge has its cursor in a place that cannot be named.
            (true, Some(columns)) if columns >= self.columns => Ok(()),
            (true, Some(columns)) => {
                self.status = Status::Below;
                let back = columns + 1;
                self.write_raw(&format!("\n{WIPE}{status}\u{1b}[A\u{1b}[{back}G"))
            }
        }
    }

    /// Rings, where there is a terminal to ring.
    pub fn ring(&mut self) -> Result<(), Gone> {
        match self.is_terminal {
            true => self.write_raw("\u{7}"),
            false => Ok(()),
        }
    }

    /// Leaves the terminal as it was found: no status line, the cursor on a new line.
    pub fn finish(&mut self) -> Result<(), Gone> {
        let end = if self.open_columns.take().is_some() { "\n" } else { "" };
        self.write(end)
    }

    fn write(&mut self, text: &str) -> Result<(), Gone> {
        let wipe = match std::mem::replace(&mut self.status, Status::Absent) {
            Status::Absent => "",
            Status::Here => WIPE,
            Status::Below => WIPE_BELOW,
        };
        self.write_raw(&format!("{wipe}{text}"))
    }

    fn write_raw(&mut self, text: &str) -> Result<(), Gone> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }
}

impl<W: Write> Drop for Screen<W> {
    /// A fault on the way may not leave a status line behind.
    fn drop(&mut self) {
        // The terminal may be gone, and the status line with it.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    /// What a screen wrote.
    fn written(is_terminal: bool, act: impl FnOnce(&mut Screen<&mut Vec<u8>>)) -> String {
        let mut bytes = Vec::new();
        act(&mut Screen::new(&mut bytes, is_terminal, 40));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn colour_is_for_terminals_whose_owner_wants_it() {
        assert_eq!(colour(&vars(&[]), true), Colour::On);
        assert_eq!(colour(&vars(&[]), false), Colour::Off);
        assert_eq!(colour(&vars(&[("NO_COLOR", "1")]), true), Colour::Off);
        assert_eq!(colour(&vars(&[("NO_COLOR", "")]), true), Colour::On);
        assert_eq!(colour(&vars(&[("TERM", "dumb")]), true), Colour::Off);
        assert!(redraws(&vars(&[("NO_COLOR", "1")]), true));
        assert!(!redraws(&vars(&[("TERM", "dumb")]), true) && !redraws(&vars(&[]), false));
    }

    #[test]
    fn json_on_a_terminal_means_the_same_and_moves_nothing() {
        let value = serde_json::json!({ "a": "x\u{9b}2J\u{202e}y\u{7f}\u{1b}[2Jé漢" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(json(&text, false), text);
        let shown = json(&text, true);
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert!(shown.contains("\\u009b2J\\u202ey\\u007f") && shown.contains("é漢"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn the_status_line_gives_way_and_is_not_left_behind() {
        let shown = written(true, |screen| {
            screen.status("working").unwrap();
            screen.show(&[text("hello"), Piece::End]).unwrap();
            screen.status("done soon").unwrap();
        });
        assert_eq!(shown, "\r\u{1b}[Kworking\r\u{1b}[Khello\n\r\u{1b}[Kdone soon\r\u{1b}[K");
    }

    #[test]
    fn below_a_text_that_goes_on_the_status_line_leaves_the_cursor_where_it_was() {
        let shown = written(true, |screen| {
            screen.show(&[text("\u{1b}[32mhe\u{1b}[0m")]).unwrap();
            screen.status("working").unwrap();
            screen.show(&[text("llo"), Piece::End]).unwrap();
        });
        assert_eq!(shown, "\u{1b}[32mhe\u{1b}[0m\n\r\u{1b}[Kworking\u{1b}[A\u{1b}[3G\u{1b}[Jllo\n");
    }

    #[test]
    fn what_is_piped_has_no_status_line() {
        let shown = written(false, |screen| {
            screen.status("working").unwrap();
            screen.show(&[text("hello")]).unwrap();
            screen.say("the end").unwrap();
        });
        assert_eq!(shown, "hello\nthe end\n");
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut screen = Screen::new(writer, false, 80);
        let gone = screen.say("anyone there?").unwrap_err();
        assert!(matches!(gone, Gone::Closed));
        assert_eq!(gone.exit_code(), ExitCode::SUCCESS);
    }
}
