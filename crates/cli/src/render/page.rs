//! A thing of its own on the screen: its title, then lines with a name before each, what an agent
//! answered, and last what can be done now. Long texts are broken at words and stay behind their
//! name. Pure, like all of the renderer; who fills it is `tasks.rs` and `agent.rs`.

use super::clean::clean;
use super::flow;
use super::measure::pad;
use super::tone::{Colour, Tone};

const NAME_COLUMNS: usize = 9;
/// Texts are broken at no less than this, however narrow the terminal is.
const TEXT_COLUMNS_MIN: usize = 40;
/// More of a text than this is for `ostler show`.
const TEXT_LINES_MAX: usize = 20;

pub struct Page {
    lines: Vec<String>,
    columns: usize,
    colour: Colour,
}

impl Page {
    pub fn titled(title: &str, columns: usize, colour: Colour) -> Self {
        Self { lines: vec![colour.paint(Tone::Strong, title)], columns, colour }
    }

    pub fn finish(self) -> String {
        self.lines.join("\n")
    }

    pub fn gap(&mut self) {
        self.lines.push(String::new());
    }

    /// One line of the page, or as many as the text takes.
    pub fn say(&mut self, name: &str, text: &str) {
        self.put(name, None, text);
    }

    pub fn painted(&mut self, name: &str, tone: Tone, text: &str) {
        self.put(name, Some(tone), text);
    }

    fn put(&mut self, name: &str, tone: Option<Tone>, text: &str) {
        let mut name = name;
        for line in flow::lines(text, self.room(NAME_COLUMNS + 1)) {
            let named = self.colour.paint(Tone::Gray, &pad(name, NAME_COLUMNS));
            let line = tone.map_or_else(|| line.clone(), |tone| self.colour.paint(tone, &line));
            self.lines.push(format!("{named} {line}").trim_end().to_owned());
            name = "";
        }
    }

    /// A text of its own, under the title.
    pub fn text(&mut self, text: &str) {
        self.behind("", text);
    }

    /// What an agent said last.
    pub fn answer(&mut self, text: &str) {
        self.gap();
        self.behind("● ", text);
    }

    fn behind(&mut self, gutter: &str, text: &str) {
        let indent = " ".repeat(gutter.chars().count());
        let lines = flow::lines(clean(text).trim(), self.room(indent.len()));
        for (n, line) in lines.iter().take(TEXT_LINES_MAX).enumerate() {
            let gutter = if n == 0 { gutter } else { &indent };
            self.lines.push(format!("{gutter}{line}").trim_end().to_owned());
        }
        if let Some(more) = lines.len().checked_sub(TEXT_LINES_MAX).filter(|more| *more > 0) {
            let more = format!("{indent}… {more} more lines");
            self.lines.push(self.colour.paint(Tone::Gray, &more));
        }
    }

    /// What can be done now, as commands that can be typed.
    pub fn next(&mut self, steps: &[String]) {
        if !steps.is_empty() {
            self.gap();
        }
        for (n, step) in steps.iter().enumerate() {
            self.say(if n == 0 { "next" } else { "" }, step);
        }
    }

    fn room(&self, taken: usize) -> usize {
        self.columns.saturating_sub(taken).max(TEXT_COLUMNS_MIN)
    }
}
