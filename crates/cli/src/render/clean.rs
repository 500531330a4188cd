//! Makes text of an agent safe to print. Escape sequences (CSI, OSC with its links and clipboard
//! writes, DCS and their kin, in their 7-bit and 8-bit forms), control characters and bidirectional
//! overrides never come through; tabs become spaces; newlines stay. Works on text that comes in
//! pieces: a sequence cut in two is still one sequence.

/// Where in a sequence the last piece of text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Text,
    /// After a carriage return: a newline is part of it, anything else means one.
    Return,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte, such as the charset selections.
    Intermediate,
    /// In a control sequence, up to its final byte.
    Control,
    /// In a string (OSC, DCS, SOS, PM, APC), up to BEL or ST.
    String,
    /// After ESC inside a string.
    StringEscape,
}

/// A cleaner remembers where it is between pieces of one text.
#[derive(Debug, Clone, Default)]
pub struct Cleaner {
    place: Place,
}

/// What tabs become: the terminal's own stops would break the gutter.
const TAB: &str = "    ";

impl Cleaner {
    /// The printable part of the next piece.
    pub fn push(&mut self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for c in text.chars() {
            self.place = self.next(c, &mut clean);
        }
        clean
    }

    fn next(&self, c: char, clean: &mut String) -> Place {
        match self.place {
            Place::Text => plain(c, clean),
            Place::Return => {
                // A lone carriage return would let later text overwrite earlier text.
                clean.push('\n');
                if c == '\n' { Place::Text } else { plain(c, clean) }
            }
            Place::Escape => match c {
                '[' => Place::Control,
                ']' | 'P' | 'X' | '^' | '_' => Place::String,
                ' '..='/' => Place::Intermediate,
                '0'..='~' => Place::Text,
                _ => plain(c, clean),
            },
            Place::Intermediate => match c {
                ' '..='/' => Place::Intermediate,
                '0'..='~' => Place::Text,
                _ => plain(c, clean),
            },
            Place::Control => match c {
                ' '..='?' => Place::Control,
                '@'..='~' => Place::Text,
                _ => plain(c, clean),
            },
            Place::String => match c {
                '\u{7}' | '\u{9c}' => Place::Text,
                '\u{1b}' => Place::StringEscape,
                // A string that is never closed may not swallow the lines after it.
                '\n' => plain(c, clean),
                _ => Place::String,
            },
            Place::StringEscape => match c {
                '\\' | '\u{7}' | '\u{9c}' => Place::Text,
                '\u{1b}' => Place::StringEscape,
                '\n' => plain(c, clean),
                _ => Place::String,
            },
        }
    }
}

fn plain(c: char, clean: &mut String) -> Place {
    match c {
        '\n' | '\u{2028}' | '\u{2029}' => clean.push('\n'),
        '\r' => return Place::Return,
        '\t' => clean.push_str(TAB),
        '\u{1b}' => return Place::Escape,
        '\u{9b}' => return Place::Control,
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => return Place::String,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
        c if c.is_control() => {}
        c => clean.push(c),
    }
    Place::Text
}

/// A whole text, cleaned.
pub fn clean(text: &str) -> String {
    Cleaner::default().push(text)
}

/// A whole text on one line: runs of blanks and newlines become one space.
pub fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_that_moves_the_cursor_or_speaks_to_the_terminal_comes_through() {
        for (dirty, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}[2J\u{1b}[Hb", "ab"),
            ("\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;cm0gLXJm\u{7}ok", "ok"),
            ("\u{1b}]0;title\u{9c}ok", "ok"),
            ("\u{1b}Pq#0;2\u{1b}\\ok", "ok"),
            ("\u{9b}31mred", "red"),
            ("\u{9d}52;c;AAAA\u{7}ok", "ok"),
            ("\u{1b}(Bok\u{1b}=ok\u{1b}c", "okok"),
            ("bell\u{7} back\u{8} nul\0 del\u{7f}", "bell back nul del"),
            ("user\u{202e}nimda\u{202c} \u{2066}x\u{2069}", "usernimda x"),
            ("a\tb\r\nc\rd", "a    b\nc\nd"),
            ("shown\u{1b}]never closed\nshown too", "shown\nshown too"),
            ("\u{1b}\u{1b}[31mx", "x"),
            ("naïve 漢字 👩‍🚀", "naïve 漢字 👩‍🚀"),
        ] {
            assert_eq!(clean(dirty), expected, "{dirty:?}");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("  a\n\n b\tc \u{2028}d"), "a b c d");
    }

    proptest! {
        #[test]
        fn however_a_text_is_cut_it_is_cleaned_the_same(
            text in "[\\u{1b}\\u{9b}\\u{9d}\\u{7}\\u{202e}\\r\\n\\]\\[P\\\\;0-9a-cé漢]{0,40}",
            cut in 0usize..40,
        ) {
            let at = text.char_indices().nth(cut).map_or(text.len(), |(at, _)| at);
            let mut cleaner = Cleaner::default();
            let parts = cleaner.push(&text[..at]) + &cleaner.push(&text[at..]);
            prop_assert_eq!(&parts, &clean(&text));
            prop_assert!(parts.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
