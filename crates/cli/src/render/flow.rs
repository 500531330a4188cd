//! Running text, broken into lines by words while it is still coming in. A word is held back until
//! it is known to be whole, so that a line never has to be taken back; newlines at the end of a
//! text are held back too, so that it leaves no empty lines behind. Text comes in clean.

use super::inline::{Look, Span};
use super::measure::{joins, wide, width};

/// What to print next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Text(Span),
    Break,
}

/// One block of text in lines of at most `columns`.
#[derive(Debug, Clone)]
pub struct Flow {
    columns: usize,
    column: usize,
    /// Whether anything was printed yet: a text does not begin with empty lines.
    begun: bool,
    /// Newlines and spaces waiting for the word after them.
    breaks: usize,
    spaces: usize,
    word: String,
    /// Where in the word each look begins.
    looks: Vec<(usize, Look)>,
    look: Look,
    /// The look of the last word on this line.
    look_before: Look,
    /// Stands at the beginning of the lines that a long line is broken into.
    hang: String,
}

/// Signs that may not begin a line.
const CLOSING: &str = "、。，．！？：；）］｝」』】〉》〕・ー";

impl Flow {
    pub fn new(columns: usize) -> Self {
        Self {
            columns: columns.max(8),
            column: 0,
            begun: false,
            breaks: 0,
            spaces: 0,
            word: String::new(),
            looks: Vec::new(),
            look: Look::Text,
            look_before: Look::Text,
            hang: String::new(),
        }
    }

    /// Prepares for a line of its own width, whose continuation begins with `hang`.
    pub fn begin_line(&mut self, columns: usize, hang: String, steps: &mut Vec<Step>) {
        self.place_word(steps);
        self.columns = columns.max(8);
        // It may not eat the line.
        self.hang = if width(&hang) > self.columns / 2 { String::new() } else { hang };
    }

    /// The next piece of the text, in a look of its own.
    pub fn push_span(&mut self, span: &Span, steps: &mut Vec<Step>) {
        self.look = span.look;
        self.push(&span.text, steps);
    }

    /// A line that was laid out already; what follows stands on the next.
    pub fn push_line(&mut self, spans: Vec<Span>, steps: &mut Vec<Step>) {
        self.place_word(steps);
        self.place_breaks(steps);
        self.spaces = 0;
        steps.extend(spans.into_iter().filter(|span| !span.text.is_empty()).map(Step::Text));
        (self.begun, self.breaks) = (true, 1);
    }

    /// The next piece of the text.
    pub fn push(&mut self, text: &str, steps: &mut Vec<Step>) {
        for c in text.chars() {
            match c {
                '\n' => {
                    self.place_word(steps);
                    self.breaks += 1;
                    self.spaces = 0;
                }
                ' ' => {
                    self.place_word(steps);
                    self.spaces += 1;
                }
                c => self.letter(c, steps),
            }
        }
    }

    /// The end of the text: what is held back comes out.
    pub fn finish(&mut self, steps: &mut Vec<Step>) {
        self.place_word(steps);
    }

    fn letter(&mut self, c: char, steps: &mut Vec<Step>) {
        let joined = joins(&self.word, c) || CLOSING.contains(c);
        // Scripts without spaces may be broken between any two signs.
        let after_wide = self.word.chars().rfind(|c| width(c.encode_utf8(&mut [0; 4])) > 0);
        if !joined && (wide(c) || after_wide.is_some_and(wide)) {
            self.place_word(steps);
        }
        self.add_to_word(c);
        let room = self.columns - width(&self.hang);
        if width(&self.word) > room && self.word.chars().count() > 1 {
            self.word.pop();
            self.looks.retain(|(at, _)| *at < self.word.len());
            self.place_word(steps);
            self.add_to_word(c);
        }
    }

    fn add_to_word(&mut self, c: char) {
        if self.looks.last().is_none_or(|(_, look)| *look != self.look) {
            self.looks.push((self.word.len(), self.look));
        }
        self.word.push(c);
    }

    fn place_breaks(&mut self, steps: &mut Vec<Step>) {
        if self.breaks > 0 && self.begun {
            // One empty line between paragraphs is enough.
            steps.extend(std::iter::repeat_n(Step::Break, self.breaks.min(2)));
            (self.column, self.look_before) = (0, Look::Text);
        }
        self.breaks = 0;
    }

    fn place_word(&mut self, steps: &mut Vec<Step>) {
        if self.word.is_empty() {
            return;
        }
        let (word, looks) = (std::mem::take(&mut self.word), std::mem::take(&mut self.looks));
        let word_columns = width(&word);
        if self.breaks > 0 && self.begun {
            // The spaces are an indentation; it may not eat the line.
            self.spaces = self.spaces.min(self.columns / 2);
        } else if !self.begun {
            self.spaces = 0;
        }
        self.place_breaks(steps);
        if self.column + self.spaces + word_columns > self.columns && self.column > 0 {
            steps.push(Step::Break);
            (self.column, self.spaces) = (width(&self.hang), 0);
            self.look_before = Look::Text;
            if !self.hang.is_empty() {
                let is_blank = self.hang.trim().is_empty();
                let look = if is_blank { Look::Text } else { Look::Quiet };
                steps.push(Step::Text(Span { look, text: self.hang.clone() }));
            }
        }
        if self.column + self.spaces + word_columns > self.columns {
            self.spaces = 0;
        }
        self.column += self.spaces + word_columns;
        let ends = looks.iter().skip(1).map(|(at, _)| *at).chain([word.len()]);
        let mut blanks = " ".repeat(self.spaces);
        for ((at, look), end) in looks.iter().zip(ends) {
            // Blanks belong to the words on both sides of them.
            let joins = *look == Look::Text || *look == self.look_before;
            self.look_before = *look;
            if !joins && !blanks.is_empty() {
                let text = std::mem::take(&mut blanks);
                steps.push(Step::Text(Span { look: Look::Text, text }));
            }
            let text = std::mem::take(&mut blanks) + &word[*at..end];
            steps.push(Step::Text(Span { look: *look, text }));
        }
        (self.begun, self.spaces) = (true, 0);
    }
}

/// A whole text in lines.
pub fn lines(text: &str, columns: usize) -> Vec<String> {
    let (mut flow, mut steps) = (Flow::new(columns), Vec::new());
    flow.push(text, &mut steps);
    flow.finish(&mut steps);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for step in steps {
        match step {
            Step::Text(span) => line.push_str(&span.text),
            Step::Break => lines.push(std::mem::take(&mut line)),
        }
    }
    lines.push(line);
    lines
}

/// A text in lines behind a sign; the lines after the first begin below the text.
pub fn hanging(sign: &str, text: &str, columns: usize) -> Vec<String> {
    let room = width(sign);
    let broken = lines(text, columns.saturating_sub(room));
    let line = |(i, line): (usize, String)| match i {
        0 => format!("{sign}{line}"),
        _ => format!("{:room$}{line}", ""),
    };
    broken.into_iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_stay_whole_and_newlines_stay() {
        assert_eq!(lines("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(lines("\n\na\n\n\n\nb\n", 9), ["a", "", "b"]);
        assert_eq!(lines("fn main() {\n    go();\n}", 20), ["fn main() {", "    go();", "}"]);
        assert_eq!(lines("a   b", 9), ["a   b"]);
    }

    #[test]
    fn what_has_no_spaces_is_broken_where_it_must() {
        assert_eq!(lines("abcdefghijklmno", 10), ["abcdefghij", "klmno"]);
        assert_eq!(lines("漢字漢字漢字", 8), ["漢字漢字", "漢字"]);
        assert_eq!(lines("漢字漢字。漢", 8), ["漢字漢", "字。漢"]);
        assert_eq!(lines("👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀", 8), ["👩‍🚀👩‍🚀👩‍🚀👩‍🚀", "👩‍🚀"]);
    }

    proptest! {
        #[test]
        fn however_a_text_comes_in_it_fits_and_reads_the_same(
            text in "[a-d \\n漢e\u{301}👍]{0,80}",
            cuts in proptest::collection::vec(0usize..80, 0..4),
        ) {
            let whole = lines(&text, 12);
            for line in &whole {
                prop_assert!(width(line) <= 12, "{line:?}");
            }
            let letters = |t: &str| t.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&whole.concat()), letters(&text));

            let (mut flow, mut steps) = (Flow::new(12), Vec::new());
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(chars.len())).collect();
            cuts.extend([0, chars.len()]);
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                flow.push(&chars[pair[0]..pair[1]].iter().collect::<String>(), &mut steps);
            }
            flow.finish(&mut steps);
            let printed: String = steps.iter().map(|step| match step {
                Step::Text(span) => span.text.as_str(),
                Step::Break => "\n",
            }).collect();
            prop_assert_eq!(printed, whole.join("\n"));
        }
    }
}
