//! A diff for a terminal: what was added green, what was removed red, and a line of figures for each
//! file in front. The patch is of an agent's making, so nothing of it reaches the terminal uncleaned.

use super::clean;
use super::tone::{Colour, Tone};
use host::ops::diff::Changed;

/// The files and the patch, in colours.
pub fn diff(files: &[Changed], patch: &str, colour: Colour) -> String {
    let mut lines: Vec<String> = files.iter().map(|file| figures(file, colour)).collect();
    if !files.is_empty() {
        lines.push(String::new());
    }
    let patch = clean(patch);
    lines.extend(patch.lines().map(|line| match tone(line) {
        Some(tone) => colour.paint(tone, line),
        None => line.to_owned(),
    }));
    lines.join("\n")
}

fn figures(file: &Changed, colour: Colour) -> String {
    let count = |tone: Tone, sign: char, lines: Option<u64>| {
        let text = lines.map_or_else(String::new, |lines| format!("{sign}{lines}"));
        format!("{:>width$}", "", width = 6usize.saturating_sub(text.len()))
            + &colour.paint(tone, &text)
    };
    let (added, removed) =
        (count(Tone::Good, '+', file.added), count(Tone::Bad, '-', file.removed));
    let path = super::one_line(&file.path);
    format!("{} {added} {removed} {path}", file.status.letter())
}

/// A line that is as it was has none.
fn tone(line: &str) -> Option<Tone> {
    Some(match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
            Tone::Strong
        }
        [b'+', ..] => Tone::Good,
        [b'-', ..] => Tone::Bad,
        [b'@', b'@', ..] => Tone::System,
        [b' ', ..] | [] => return None,
        _ => Tone::Gray,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::ops::diff::Status;

    #[test]
    fn a_diff_is_shown_with_its_figures_and_nothing_that_moves_the_cursor() {
        let file = |path: &str, status, added, removed| Changed {
            path: path.to_owned(),
            status,
            added,
            removed,
        };
        let files = [
            file("src/a.rs", Status::Modified, Some(12), Some(3)),
            file("logo\u{1b}[2J.png", Status::Added, None, None),
        ];
        let patch = "diff --git a/src/a.rs b/src/a.rs\n@@ -1 +1 @@\n-old\u{1b}[8m\n+new\twide\n";
        insta::assert_snapshot!(diff(&files, patch, Colour::Off), @r"
        M    +12     -3 src/a.rs
        A               logo.png

        diff --git a/src/a.rs b/src/a.rs
        @@ -1 +1 @@
        -old
        +new    wide
        ");
        let painted = diff(&files, patch, Colour::On);
        assert!(painted.contains("\u{1b}[32m+new"), "{painted:?}");
        assert!(!painted.contains("[2J") && !painted.contains("[8m"), "{painted:?}");
    }
}
