//! Emphasis, code and links inside a line of an agent's text, while it is still coming in. Text behind
//! an opening sign is held back until its closing sign or the end of the line decides what the sign
//! means, so that nothing that was printed has to be taken back. A sign without a partner is text.

/// The part that a piece of text plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Text,
    Strong,
    Emphasis,
    Code,
    Heading,
    /// Signs of ours and addresses of links: less important than the words.
    Quiet,
    Added,
    Removed,
}

/// A piece of text and its part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub look: Look,
    pub text: String,
}

/// Characters that are held back for a closing sign.
const HELD_CHARS_MAX: usize = 512;

/// One line on its way in.
#[derive(Debug, Clone)]
pub struct Inline {
    look: Look,
    held: String,
    /// The character before what is held back.
    before: Option<char>,
}

impl Inline {
    /// A line whose words have this look where nothing else is said.
    pub fn new(look: Look) -> Self {
        Self { look, held: String::new(), before: None }
    }

    /// The next piece of the line.
    pub fn push(&mut self, text: &str, out: &mut Vec<Span>) {
        self.held.push_str(text);
        self.settle(false, out);
    }

    /// The end of the line: what is held back comes out.
    pub fn finish(&mut self, out: &mut Vec<Span>) {
        self.settle(true, out);
    }

    fn settle(&mut self, is_whole: bool, out: &mut Vec<Span>) {
        let is_whole = is_whole || self.held.chars().count() > HELD_CHARS_MAX;
        let used = scan(&self.held, self.before, self.look, is_whole, out);
        self.before = self.held[..used].chars().next_back().or(self.before);
        self.held.drain(..used);
    }
}

/// A whole line in spans.
pub fn spans(line: &str, look: Look) -> Vec<Span> {
    let mut out = Vec::new();
    scan(line, None, look, true, &mut out);
    out
}

/// What a sign turned out to be.
enum Sign {
    /// Spans that take up so many bytes.
    Spans(usize, Vec<Span>),
    /// So many bytes of text.
    Text(usize),
    /// It depends on what follows.
    Open,
}

/// Takes up as much of `text` as is decided, and says how many bytes that is.
fn scan(
    text: &str,
    before: Option<char>,
    look: Look,
    is_whole: bool,
    out: &mut Vec<Span>,
) -> usize {
    let (mut at, mut before) = (0, before);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let sign = match c {
            '\\' => escape(rest, look, is_whole),
            '`' => code(rest, look, is_whole),
            '*' | '_' | '~' => emphasis(rest, before, look, is_whole),
            '[' => link(rest, look, is_whole),
            _ => Sign::Text(rest.find(['\\', '`', '*', '_', '~', '[']).unwrap_or(rest.len())),
        };
        let used = match sign {
            Sign::Open => break,
            Sign::Text(bytes) => {
                add(out, look, &rest[..bytes]);
                bytes
            }
            Sign::Spans(bytes, spans) => {
                spans.iter().for_each(|span| add(out, span.look, &span.text));
                bytes
            }
        };
        before = rest[..used].chars().next_back();
        at += used;
    }
    at
}

fn add(out: &mut Vec<Span>, look: Look, text: &str) {
    match out.last_mut().filter(|last| last.look == look) {
        Some(last) => last.text.push_str(text),
        None => out.push(Span { look, text: text.to_owned() }),
    }
}

/// Undecided as long as more may come.
fn open_unless(is_whole: bool, bytes: usize) -> Sign {
    if is_whole { Sign::Text(bytes) } else { Sign::Open }
}

fn run_of(text: &str, sign: char) -> usize {
    text.bytes().take_while(|byte| u32::from(*byte) == u32::from(sign)).count()
}

fn escape(rest: &str, look: Look, is_whole: bool) -> Sign {
    match rest[1..].chars().next() {
        Some(c) if "\\`*_~[]#|<>".contains(c) => {
            Sign::Spans(2, vec![Span { look, text: c.to_string() }])
        }
        Some(_) => Sign::Text(1),
        None => open_unless(is_whole, 1),
    }
}

/// The place behind the code that begins here with `run` backquotes, if it is closed.
fn code_end(rest: &str, run: usize) -> Option<usize> {
    let mut at = run;
    while let Some(found) = rest[at..].find('`') {
        let closing = run_of(&rest[at + found..], '`');
        at += found + closing;
        if closing == run {
            return Some(at);
        }
    }
    None
}

fn code(rest: &str, look: Look, is_whole: bool) -> Sign {
    let run = run_of(rest, '`');
    match code_end(rest, run) {
        // Another backquote may follow.
        Some(end) if end == rest.len() && !is_whole => Sign::Open,
        Some(end) => {
            let inside = &rest[run..end - run];
            let bare = inside.strip_prefix(' ').and_then(|inside| inside.strip_suffix(' '));
            let text = bare.filter(|bare| !bare.trim().is_empty()).unwrap_or(inside).to_owned();
            let look = if look == Look::Heading { look } else { Look::Code };
            Sign::Spans(end, vec![Span { look, text }])
        }
        None => open_unless(is_whole, run),
    }
}

fn emphasis(rest: &str, before: Option<char>, look: Look, is_whole: bool) -> Sign {
    let sign = rest.chars().next().unwrap_or_default();
    let run = run_of(rest, sign);
    let is_known = match sign {
        // Names such as __init__ are no emphasis.
        '_' => run == 1,
        '~' => run == 2,
        _ => run <= 3,
    };
    let in_word = before.is_some_and(char::is_alphanumeric) && (sign == '_' || run == 1);
    let Some(next) = rest[run..].chars().next() else { return open_unless(is_whole, run) };
    if !is_known || in_word || next.is_whitespace() {
        return Sign::Text(run);
    }
    match emphasis_end(rest, sign, run, is_whole) {
        Some(end) if end + run == rest.len() && !is_whole => Sign::Open,
        Some(end) => {
            let look = match (sign, run, look) {
                (_, _, Look::Heading) => look,
                ('~', _, _) => Look::Quiet,
                (_, 1, Look::Text) => Look::Emphasis,
                (_, 1, look) => look,
                _ => Look::Strong,
            };
            let mut inside = Vec::new();
            scan(&rest[run..end], None, look, true, &mut inside);
            Sign::Spans(end + run, inside)
        }
        None => open_unless(is_whole, run),
    }
}

/// Where the closing sign of an emphasis begins, if that is known.
fn emphasis_end(rest: &str, sign: char, run: usize, is_whole: bool) -> Option<usize> {
    let mut at = run;
    while let Some(c) = rest[at..].chars().next() {
        if c == '`' {
            let ticks = run_of(&rest[at..], '`');
            at += match code_end(&rest[at..], ticks) {
                Some(end) if at + end < rest.len() || is_whole => end,
                // What looks like a closing sign may be inside code.
                Some(_) | None if !is_whole => return None,
                Some(_) | None => ticks,
            };
        } else if c == sign {
            let closing = run_of(&rest[at..], sign);
            let follows_blank = rest[..at].ends_with(char::is_whitespace);
            let next = rest[at + closing..].chars().next();
            let in_word = sign == '_' && next.is_some_and(char::is_alphanumeric);
            if closing == run && !follows_blank && !in_word {
                return Some(at);
            }
            at += closing;
        } else {
            at += c.len_utf8();
        }
    }
    None
}

/// `[words](address)`: the words, then the address where it says more than they do.
fn link(rest: &str, look: Look, is_whole: bool) -> Sign {
    let mut depth = 0_usize;
    let close = rest.char_indices().find_map(|(at, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    });
    let Some(close) = close else { return open_unless(is_whole, 1) };
    match rest[close + 1..].chars().next() {
        None => return open_unless(is_whole, 1),
        Some('(') => {}
        Some(_) => return Sign::Text(1),
    }
    let Some(end) = rest[close..].find(')').map(|at| close + at) else {
        return open_unless(is_whole, 1);
    };
    let (words, address) = (&rest[1..close], &rest[close + 2..end]);
    if words.is_empty() || address.contains(char::is_whitespace) {
        return Sign::Text(1);
    }
    let mut inside = Vec::new();
    scan(words, None, look, true, &mut inside);
    if words.trim_matches('`') != address {
        add(&mut inside, Look::Quiet, &format!(" ({address})"));
    }
    Sign::Spans(end + 1, inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(spans: &[Span]) -> String {
        let part = |span: &Span| match span.look {
            Look::Text => span.text.clone(),
            look => format!("<{look:?} {}>", span.text),
        };
        spans.iter().map(part).collect()
    }

    #[test]
    fn emphasis_code_and_links_are_told_apart() {
        for (line, expected) in [
            ("a **bold** word", "a <Strong bold> word"),
            ("*soft* and _soft_", "<Emphasis soft> and <Emphasis soft>"),
            ("***both*** ~~old~~", "<Strong both> <Quiet old>"),
            ("run `ls -l`, ``a`b``", "run <Code ls -l>, <Code a`b>"),
            ("**see `a**b` here**", "<Strong see ><Code a**b><Strong  here>"),
            ("[docs](https://a.example/x)", "docs<Quiet  (https://a.example/x)>"),
            ("[`a.rs`](a.rs) is it", "<Code a.rs> is it"),
            ("\\*not\\* this", "*not* this"),
        ] {
            assert_eq!(told(&spans(line, Look::Text)), expected, "{line}");
        }
    }

    #[test]
    fn signs_without_a_partner_are_text() {
        for line in [
            "2 * 3 * 4 ** 2",
            "f(**kwargs) and *args",
            "snake_case_name, __init__ and a_b",
            "an open `quote",
            "list[0] and [x] and [a](b c)",
            "~/.config ~ and C:\\dir",
            "a*b*c",
        ] {
            assert_eq!(told(&spans(line, Look::Text)), line);
        }
    }

    proptest! {
        #[test]
        fn however_a_line_comes_in_it_looks_the_same(
            line in "[ab *_`~\\[\\]()漢\\\\]{0,40}",
            cut in 0usize..40,
        ) {
            let cut = line.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(line.len());
            let (mut inline, mut out) = (Inline::new(Look::Text), Vec::new());
            inline.push(&line[..cut], &mut out);
            inline.push(&line[cut..], &mut out);
            inline.finish(&mut out);
            let mut joined = Vec::new();
            out.iter().for_each(|span| add(&mut joined, span.look, &span.text));
            let whole = spans(&line, Look::Text);
            prop_assert_eq!(told(&joined), told(&whole));
        }
    }
}
