//! Running text, broken into lines by words while it is still coming in. A word is held back until
//! it is known to be whole, so that a line never has to be taken back; newlines at the end of a
//! text are held back too, so that it leaves no empty lines behind. Text comes in clean.

use super::measure::{joins, wide, width};

/// What to print next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Text(String),
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
}

/// Signs that may not begin a line.
const CLOSING: &str = "、。，．！？：；）］｝」』】〉》〕・ー";

impl Flow {
    pub fn new(columns: usize) -> Self {
        let word = String::new();
        Self { columns: columns.max(8), column: 0, begun: false, breaks: 0, spaces: 0, word }
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
        self.word.push(c);
        if width(&self.word) > self.columns && self.word.chars().count() > 1 {
            self.word.pop();
            self.place_word(steps);
            self.word.push(c);
        }
    }

    fn place_word(&mut self, steps: &mut Vec<Step>) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let word_columns = width(&word);
        if self.breaks > 0 && self.begun {
            // One empty line between paragraphs is enough.
            steps.extend(std::iter::repeat_n(Step::Break, self.breaks.min(2)));
            self.column = 0;
            // The spaces are an indentation; it may not eat the line.
            self.spaces = self.spaces.min(self.columns / 2);
        } else if !self.begun {
            self.spaces = 0;
        }
        self.breaks = 0;
        if self.column + self.spaces + word_columns > self.columns && self.column > 0 {
            steps.push(Step::Break);
            (self.column, self.spaces) = (0, 0);
        }
        if self.column + self.spaces + word_columns > self.columns {
            self.spaces = 0;
        }
        self.column += self.spaces + word_columns;
        steps.push(Step::Text(" ".repeat(self.spaces) + &word));
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
            Step::Text(text) => line.push_str(&text),
            Step::Break => lines.push(std::mem::take(&mut line)),
        }
    }
    lines.push(line);
    lines
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
                Step::Text(text) => text.as_str(),
                Step::Break => "\n",
            }).collect();
            prop_assert_eq!(printed, whole.join("\n"));
        }
    }
}
