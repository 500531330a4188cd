//! An agent's text as people read it: headings, lists, quotes, code, tables, and within a line what
//! `inline` knows. The text comes in pieces, and what was printed is never taken back, so only as much
//! is held back as is needed to know what a line is: its first signs, or all of a table.
//!
//! With colours, looks stand for the signs of markdown. Without colours the signs stay, because
//! nothing else would show what they say; lines are still broken, and tables laid out.

use super::flow::{Flow, Step};
use super::grid::{self, Layout};
use super::inline::{Inline, Look, Span};

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// As it is: words of a person.
    Verbatim,
    /// Markdown whose signs stay.
    WithSigns,
    /// Markdown whose signs become looks.
    WithLooks,
}

/// Characters of a line that are held back until it is known what it is.
const LINE_CHARS_MAX: usize = 4096;
/// Lines of a table that are held back; more of it is another table.
const TABLE_LINES_MAX: usize = 500;
/// The width of a rule.
const RULE_COLUMNS: usize = 24;
const QUOTE: &str = "│ ";
const CODE_INDENT: &str = "  ";

/// The line that is coming in.
#[derive(Debug, Clone)]
enum Line {
    /// Its kind is not known yet.
    Start(String),
    Text(Inline),
    /// Everything of it has this look.
    Bare(Look),
}

/// An open block of code.
#[derive(Debug, Clone)]
struct Fence {
    sign: char,
    signs: usize,
    is_diff: bool,
}

/// One text on its way in.
#[derive(Debug, Clone)]
pub struct Markdown {
    reading: Reading,
    text_columns: usize,
    columns: usize,
    flow: Flow,
    line: Line,
    fence: Option<Fence>,
    table: Vec<String>,
}

impl Markdown {
    /// A text in lines of at most `text_columns`; code and tables may take `columns`.
    pub fn new(reading: Reading, text_columns: usize, columns: usize) -> Self {
        let line = match reading {
            Reading::Verbatim => Line::Bare(Look::Text),
            Reading::WithSigns | Reading::WithLooks => Line::Start(String::new()),
        };
        let flow = Flow::new(text_columns);
        Self { reading, text_columns, columns, flow, line, fence: None, table: Vec::new() }
    }

    /// The next piece of the text.
    pub fn push(&mut self, text: &str, steps: &mut Vec<Step>) {
        if self.reading == Reading::Verbatim {
            return self.flow.push(text, steps);
        }
        for (i, piece) in text.split('\n').enumerate() {
            if i > 0 {
                self.end_line(steps);
            }
            self.continue_line(piece, steps);
        }
    }

    /// What is known of the text although more of it may come: its words so far.
    pub fn rest(&mut self, steps: &mut Vec<Step>) {
        self.flow.finish(steps);
    }

    /// The end of the text: what is held back comes out.
    pub fn finish(&mut self, steps: &mut Vec<Step>) {
        if self.reading != Reading::Verbatim {
            self.end_line(steps);
            self.end_table(steps);
        }
        self.flow.finish(steps);
    }

    fn continue_line(&mut self, piece: &str, steps: &mut Vec<Step>) {
        match &mut self.line {
            Line::Start(held) => {
                held.push_str(piece);
                let held = held.clone();
                if let Some(kind) = kind(&held, self.fence.as_ref(), false) {
                    self.begin_line(kind, &held, steps);
                }
            }
            Line::Text(inline) => {
                let mut spans = Vec::new();
                inline.push(piece, &mut spans);
                spans.iter().for_each(|span| self.flow.push_span(span, steps));
            }
            Line::Bare(look) => {
                let span = Span { look: *look, text: piece.to_owned() };
                self.flow.push_span(&span, steps);
            }
        }
    }

    fn end_line(&mut self, steps: &mut Vec<Step>) {
        if let Line::Start(held) = &self.line {
            let held = held.clone();
            match kind(&held, self.fence.as_ref(), true).unwrap_or(Kind::Text) {
                Kind::Row => {
                    self.line = Line::Start(String::new());
                    self.table.push(held.trim().to_owned());
                    if self.table.len() >= TABLE_LINES_MAX {
                        self.end_table(steps);
                    }
                    return;
                }
                Kind::Fence(fence) => {
                    self.line = Line::Start(String::new());
                    return self.mark_fence(fence, &held, steps);
                }
                kind => self.begin_line(kind, &held, steps),
            }
        }
        if let Line::Text(inline) = &mut self.line {
            let mut spans = Vec::new();
            inline.finish(&mut spans);
            spans.iter().for_each(|span| self.flow.push_span(span, steps));
        }
        self.line = Line::Start(String::new());
        self.flow.push("\n", steps);
    }

    fn begin_line(&mut self, kind: Kind, held: &str, steps: &mut Vec<Step>) {
        self.end_table(steps);
        let indent: String = held.chars().take_while(|c| *c == ' ').collect();
        let body = &held[indent.len()..];
        let signs = self.reading == Reading::WithSigns;
        let quiet = |text: &str| Span { look: Look::Quiet, text: text.to_owned() };
        let text = |text: String| Span { look: Look::Text, text };
        let (columns, hang, before, look, body) = match kind {
            Kind::Code(look) => {
                let indent = if signs { String::new() } else { CODE_INDENT.to_owned() };
                self.flow.begin_line(self.columns, indent.clone(), steps);
                self.flow.push_span(&Span { look, text: indent + held }, steps);
                self.line = Line::Bare(look);
                return;
            }
            Kind::Rule if !signs => {
                (self.text_columns, String::new(), quiet(&"─".repeat(RULE_COLUMNS)), Look::Text, "")
            }
            Kind::Heading(signs_wide) if !signs => {
                let title = body[signs_wide..].trim_start();
                (self.text_columns, String::new(), text(String::new()), Look::Heading, title)
            }
            Kind::Quote => {
                let sign = if signs { "> " } else { QUOTE };
                let words = body[1..].strip_prefix(' ').unwrap_or(&body[1..]);
                (self.text_columns, format!("{indent}{sign}"), quiet(sign), Look::Text, words)
            }
            Kind::Item(marker_wide) => {
                let (marker, words) = body.split_at(marker_wide);
                let is_bullet = marker.starts_with(['-', '*', '+']);
                let marker = if is_bullet && !signs { "• " } else { marker };
                let hang = " ".repeat(indent.len() + marker.chars().count());
                (self.text_columns, hang, text(format!("{indent}{marker}")), Look::Text, words)
            }
            Kind::Text | Kind::Rule | Kind::Heading(_) | Kind::Row | Kind::Fence(_) => {
                let before = text(indent.clone());
                (self.text_columns, indent, before, Look::Text, body)
            }
        };
        self.flow.begin_line(columns, hang, steps);
        self.flow.push_span(&before, steps);
        self.line = if signs { Line::Bare(look) } else { Line::Text(Inline::new(look)) };
        self.continue_line(body, steps);
    }

    /// A line that opens or closes a block of code.
    fn mark_fence(&mut self, fence: Option<Fence>, line: &str, steps: &mut Vec<Step>) {
        self.end_table(steps);
        self.fence = fence;
        if self.reading == Reading::WithSigns {
            self.flow.begin_line(self.columns, String::new(), steps);
            let text = format!("{line}\n");
            self.flow.push_span(&Span { look: Look::Text, text }, steps);
        }
    }

    fn end_table(&mut self, steps: &mut Vec<Step>) {
        let rows = std::mem::take(&mut self.table);
        if rows.is_empty() {
            return;
        }
        let keeps_signs = self.reading == Reading::WithSigns;
        let plain = |row: String| vec![Span { look: Look::Text, text: row }];
        let lines = match grid::layout(&rows, self.columns, keeps_signs) {
            Some(Layout::Grid(lines)) => {
                lines.into_iter().for_each(|line| self.flow.push_line(line, steps));
                return;
            }
            Some(Layout::List(lines)) => lines,
            None => rows.into_iter().map(plain).collect(),
        };
        for line in lines {
            self.flow.begin_line(self.columns, String::new(), steps);
            line.iter().for_each(|span| self.flow.push_span(span, steps));
            self.flow.push("\n", steps);
        }
    }
}

/// What a line is.
#[derive(Debug)]
enum Kind {
    Text,
    /// Bytes of its signs.
    Heading(usize),
    /// Bytes of its marker and the blank behind it.
    Item(usize),
    Quote,
    Rule,
    /// A row of a table.
    Row,
    /// A fence; `None` closes the open block.
    Fence(Option<Fence>),
    Code(Look),
}

/// The kind of a line that begins with `held`, or `None` while that depends on what follows.
fn kind(held: &str, fence: Option<&Fence>, is_whole: bool) -> Option<Kind> {
    let is_whole = is_whole || held.chars().count() > LINE_CHARS_MAX;
    let body = held.trim_start_matches(' ');
    match fence {
        Some(fence) => code_kind(body, fence, is_whole),
        None if body.is_empty() => is_whole.then_some(Kind::Text),
        None => text_kind(body, is_whole),
    }
}

fn code_kind(body: &str, fence: &Fence, is_whole: bool) -> Option<Kind> {
    let rest = body.trim_start_matches(fence.sign);
    let signs = body.len() - rest.len();
    match (rest.trim().is_empty(), is_whole) {
        (true, false) => None,
        (true, true) if signs >= fence.signs => Some(Kind::Fence(None)),
        _ => Some(Kind::Code(match body.chars().next().filter(|_| fence.is_diff) {
            Some('+') => Look::Added,
            Some('-') => Look::Removed,
            _ => Look::Code,
        })),
    }
}

fn text_kind(body: &str, is_whole: bool) -> Option<Kind> {
    let first = body.chars().next()?;
    let signs = body.len() - body.trim_start_matches(first).len();
    let next = body[signs..].chars().next();
    let all_are = body.trim_end().chars().all(|c| c == first);
    match first {
        '#' if signs <= 6 => match next {
            Some(' ') if !body[signs..].trim().is_empty() => Some(Kind::Heading(signs)),
            Some(' ') => is_whole.then_some(Kind::Text),
            Some(_) => Some(Kind::Text),
            None => is_whole.then_some(Kind::Text),
        },
        '>' => (is_whole || body.len() > 1).then_some(Kind::Quote),
        '|' if body.len() <= LINE_CHARS_MAX => is_whole.then_some(Kind::Row),
        '`' | '~' if signs >= 3 => {
            let info = body[signs..].trim();
            match (info.contains('`'), is_whole) {
                (true, _) => Some(Kind::Text),
                (false, false) => None,
                (false, true) => {
                    let is_diff = matches!(info, "diff" | "patch");
                    Some(Kind::Fence(Some(Fence { sign: first, signs, is_diff })))
                }
            }
        }
        '`' | '~' if next.is_none() && !is_whole => None,
        '-' | '*' | '+' | '_' => match (all_are, is_whole, next) {
            (true, true, _) if signs >= 3 && first != '+' => Some(Kind::Rule),
            (_, _, Some(' ')) if signs == 1 && first != '_' => Some(Kind::Item(2)),
            (true, false, _) => None,
            _ => Some(Kind::Text),
        },
        '0'..='9' => {
            let number = body.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = body.len() - number.len();
            let mut after = number.chars();
            match (digits <= 3, after.next(), after.next()) {
                (false, _, _) => Some(Kind::Text),
                (true, Some('.' | ')'), Some(' ')) => Some(Kind::Item(digits + 2)),
                (true, None, _) | (true, Some('.' | ')'), None) if !is_whole => None,
                _ => Some(Kind::Text),
            }
        }
        _ => Some(Kind::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::width;
    use super::*;
    use proptest::prelude::*;

    /// A text as it is printed, with its looks in pointed brackets, coming in pieces of `chars`.
    fn shown(text: &str, reading: Reading, columns: usize, chars: usize) -> String {
        let mut markdown = Markdown::new(reading, columns, columns);
        let (mut steps, letters) = (Vec::new(), text.chars().collect::<Vec<_>>());
        for piece in letters.chunks(chars) {
            markdown.push(&piece.iter().collect::<String>(), &mut steps);
        }
        markdown.finish(&mut steps);
        let (mut shown, mut look) = (String::new(), Look::Text);
        for step in steps {
            let (next, text) = match step {
                Step::Text(span) => (span.look, span.text),
                Step::Break => (Look::Text, "\n".to_owned()),
            };
            if next != look {
                shown += if look == Look::Text { "" } else { ">" };
                shown += &if next == Look::Text { String::new() } else { format!("<{next:?}:") };
                look = next;
            }
            shown += &text;
        }
        shown + if look == Look::Text { "" } else { ">" }
    }

    const SAMPLE: &str = "## What I changed\n\nThe bug was an **off-by-one** in `split_fields`.\n\n- \
        `src/a.rs`: keeps the last field\n  - nested, and too long for one line\n10. tenth\n\n\
        ```diff\n-old\n+new\n```\n\n> A quote that goes on and on.\n\n---\n\nDone: 2 * 3 * 4.";

    #[test]
    fn looks_stand_for_the_signs_of_markdown() {
        insta::assert_snapshot!(shown(SAMPLE, Reading::WithLooks, 30, 7), @r"
        <Heading:What I changed>

        The bug was an <Strong:off-by-one> in
        <Code:split_fields>.

        • <Code:src/a.rs>: keeps the last
          field
          • nested, and too long for
            one line
        10. tenth

          <Removed:-old>
          <Added:+new>

        <Quiet:│> A quote that goes on and on.

        <Quiet:────────────────────────>

        Done: 2 * 3 * 4.
        ");
    }

    #[test]
    fn signs_stay_where_there_is_no_colour() {
        insta::assert_snapshot!(shown(SAMPLE, Reading::WithSigns, 30, 7), @r"
        ## What I changed

        The bug was an **off-by-one**
        in `split_fields`.

        - `src/a.rs`: keeps the last
          field
          - nested, and too long for
            one line
        10. tenth

        ```diff
        <Removed:-old>
        <Added:+new>
        ```

        <Quiet:>> A quote that goes on and on.

        ---

        Done: 2 * 3 * 4.
        ");
    }

    const TABLE: &str = "Files:\n\n| file | change | lines |\n|:--|---|--:|\n| `a.rs` | keeps the \
        last field of each line | 12 |\n| 漢字.txt | **new** | 1,024 |\n\nThat is all.";

    #[test]
    fn tables_are_laid_out_or_listed() {
        insta::assert_snapshot!(shown(TABLE, Reading::WithLooks, 60, 9), @r"
        Files:

        <Strong:file>      <Strong:change>                             <Strong:lines>
        <Quiet:────────  ─────────────────────────────────  ─────>
        <Code:a.rs>      keeps the last field of each line     12
        漢字.txt  <Strong:new>                                1,024

        That is all.
        ");
        insta::assert_snapshot!(shown(TABLE, Reading::WithSigns, 36, 9), @r"
        Files:

        <Strong:file>      <Strong:change>               <Strong:lines>
        <Quiet:────────  ───────────────────  ─────>
        `a.rs`    keeps the last          12
                  field of each line
        漢字.txt  **new**              1,024

        That is all.
        ");
        insta::assert_snapshot!(shown(TABLE, Reading::WithLooks, 20, 9), @r"
        Files:

        <Strong:file>: <Code:a.rs>
        <Strong:change>: keeps the
        last field of each
        line
        <Strong:lines>: 12

        <Strong:file>: 漢字.txt
        <Strong:change>: <Strong:new>
        <Strong:lines>: 1,024

        That is all.
        ");
    }

    #[test]
    fn half_finished_markdown_comes_out_at_the_end() {
        for text in ["see **this", "a `b", "| a | b", "```", "##", "- ", "[x](y", "> "] {
            let shown = shown(text, Reading::WithLooks, 30, 1);
            let is_fence = text == "```";
            assert!(is_fence || text.starts_with('>') || !shown.is_empty(), "{text}: {shown}");
        }
        assert_eq!(shown("see **this", Reading::WithLooks, 30, 1), "see **this");
        assert_eq!(shown("| a | b", Reading::WithLooks, 30, 1), "| a | b");
    }

    proptest! {
        #[test]
        fn however_markdown_comes_in_it_fits_and_looks_the_same(
            text in "([-*+>#`|~_0-9.a \\[\\]()漢]{0,12}\n?){0,6}",
            chars in 1usize..9,
        ) {
            for reading in [Reading::WithLooks, Reading::WithSigns] {
                let whole = shown(&text, reading, 24, 1000);
                prop_assert_eq!(&shown(&text, reading, 24, chars), &whole);
                let mut markdown = Markdown::new(reading, 24, 24);
                let mut steps = Vec::new();
                markdown.push(&text, &mut steps);
                markdown.finish(&mut steps);
                let lines = steps.split(|step| *step == Step::Break);
                for line in lines {
                    let texts = line.iter().map(|step| match step {
                        Step::Text(span) => span.text.as_str(),
                        Step::Break => "",
                    });
                    let line: String = texts.collect();
                    prop_assert!(width(&line) <= 24, "{line:?} in {text:?}");
                    prop_assert_eq!(line.trim_end(), &line, "blanks at an end, {:?}", text);
                }
            }
        }
    }
}
