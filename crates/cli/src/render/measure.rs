//! How wide text is on a terminal, and cutting it to fit: by what a person sees as one character,
//! so that an accent, a flag or a family of emoji is never torn apart. Text comes in clean.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Whether `next` belongs to the same visible character as the end of `before`.
pub fn joins(before: &str, next: char) -> bool {
    let Some(last) = before.chars().next_back() else { return false };
    const JOINER: char = '\u{200d}';
    let is_letter_of_flag = |c: char| ('\u{1f1e6}'..='\u{1f1ff}').contains(&c);
    let tone_of_skin = ('\u{1f3fb}'..='\u{1f3ff}').contains(&next);
    if is_letter_of_flag(next) {
        let letters = before.chars().rev().take_while(|c| is_letter_of_flag(*c)).count();
        return letters % 2 == 1;
    }
    next.width() == Some(0) || last == JOINER || tone_of_skin && wide(last)
}

/// Whether a character takes two columns.
pub fn wide(c: char) -> bool {
    c.width() == Some(2)
}

/// A text cut to `columns`, its end marked when something is missing.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let (mut kept, mut start) = (0, 0);
    for (at, c) in text.char_indices() {
        if at > 0 && !joins(&text[start..at], c) {
            if width(&text[..at]) > room {
                break;
            }
            (kept, start) = (at, at);
        }
    }
    let kept = text[..kept].trim_end();
    if columns == 0 { String::new() } else { format!("{kept}…") }
}

/// A text broken into pieces of at most `columns`, wherever they end: nothing of it is left out.
pub fn pieces(text: &str, columns: usize) -> Vec<&str> {
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    let starts = text.char_indices().filter(|(at, c)| *at > 0 && !joins(&text[..*at], *c));
    for at in starts.map(|(at, _)| at).chain([text.len()]) {
        if width(&text[start..at]) > columns && end > start {
            pieces.push(&text[start..end]);
            start = end;
        }
        end = at;
    }
    pieces.push(&text[start..]);
    pieces
}

/// A text cut to `columns` in its middle, so that its end stays: a file name, or the end of a command.
pub fn fit_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let head_room = room / 2;
    let mut head = String::new();
    for c in text.chars() {
        if width(&head) + width(c.encode_utf8(&mut [0; 4])) > head_room && !joins(&head, c) {
            break;
        }
        head.push(c);
    }
    let tail_room = room.saturating_sub(width(&head));
    // From the first character on that leaves a tail which fits and does not begin inside another.
    let tail = text.char_indices().map(|(at, c)| (&text[at..], joins(&text[..at], c)));
    let tail = tail.filter(|(_, joined)| !joined).map(|(tail, _)| tail);
    let tail = tail.into_iter().find(|tail| width(tail) <= tail_room).unwrap_or_default();
    if columns == 0 { String::new() } else { format!("{head}…{tail}") }
}

/// A text cut or filled up to exactly `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    let missing = columns.saturating_sub(width(&text));
    text + &" ".repeat(missing)
}

/// The same, with the text at the right end.
pub fn pad_left(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    let missing = columns.saturating_sub(width(&text));
    " ".repeat(missing) + &text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_fits_and_tears_nothing_apart() {
        for (text, columns, expected) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("two words", 5, "two…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("👩‍🚀👩‍🚀", 3, "👩‍🚀…"),
            ("🇩🇪🇫🇷", 3, "🇩🇪…"),
            ("👍🏽👍🏽", 3, "👍🏽…"),
            ("x", 0, ""),
        ] {
            assert_eq!(fit(text, columns), expected, "{text} in {columns}");
            assert!(width(&fit(text, columns)) <= columns);
        }
    }

    #[test]
    fn pieces_are_all_of_the_text() {
        for (text, columns, expected) in [
            ("short", 5, &["short"][..]),
            ("longer words", 5, &["longe", "r wor", "ds"]),
            ("漢字漢字", 5, &["漢字", "漢字"]),
            ("e\u{301}e\u{301}e\u{301}", 2, &["e\u{301}e\u{301}", "e\u{301}"]),
            ("👩‍🚀👩‍🚀", 3, &["👩‍🚀", "👩‍🚀"]),
            ("漢", 1, &["漢"]),
            ("", 5, &[""]),
        ] {
            assert_eq!(pieces(text, columns), expected, "{text} in {columns}");
        }
    }

    #[test]
    fn columns_are_filled_by_what_is_seen() {
        assert_eq!(pad("漢", 4), "漢  ");
        assert_eq!(pad_left("7", 3), "  7");
        assert_eq!(pad("longer", 3), "lo…");
    }
}
