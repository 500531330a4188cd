//! Secrets nobody told us of, by where they stand: under a telling name, after `Bearer`, or in the
//! known form of a vendor's token. Every rule hangs on a literal, so one small automaton decides
//! whether a text needs a closer look at all. Works on bytes; what it cuts are whole characters.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::sync::LazyLock;

/// What stands in the place of a value found by a rule.
pub(super) const MARK: &str = "[redacted]";

/// A value under a telling name in running text is looked at from this length on.
const VALUE_BYTES_MIN: usize = 6;
/// What follows `Bearer` in prose is shorter than this; a token is not.
const BEARER_BYTES_MIN: usize = 20;

const NAMES: [&str; 6] = ["key", "token", "secret", "password", "authorization", "cookie"];

/// Words that contain a telling name by accident of spelling.
const HARMLESS: [&str; 18] = [
    "monkey",
    "donkey",
    "turkey",
    "hockey",
    "jockey",
    "whiskey",
    "hotkey",
    "keyboard",
    "keyword",
    "keyframe",
    "keynote",
    "keystroke",
    "keypress",
    "keydown",
    "keyup",
    "tokeniz",
    "tokenis",
    "cookiecutter",
];

/// Vendors' tokens: how they begin and how many characters follow at least.
const VENDORS: [(&str, usize); 11] = [
    ("sk-", 20),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 30),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 16),
    ("eyJ", 30),
];

static TRIGGERS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let literals = NAMES.into_iter().chain(["bearer"]).chain(VENDORS.map(|(begin, _)| begin));
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .build(literals)
        .expect("a fixed handful of literals makes an automaton")
});

/// Whether any rule could apply. Cheap, and right whenever it says no.
pub(super) fn may_apply(text: &[u8]) -> bool {
    TRIGGERS.is_match(text)
}

/// The text with every value that a rule finds replaced; `None` when there is none.
pub(super) fn redact(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut done = 0;
    for hit in TRIGGERS.find_iter(text) {
        if hit.start() < done {
            continue;
        }
        let (start, end) = (hit.start(), hit.end());
        let found = match hit.pattern().as_usize() {
            name @ 0..6 => named(text, start, end, NAMES[name]),
            6 => bearer(text, start, end),
            vendor => vendors(text, start, end, VENDORS[vendor - 7]),
        };
        if let Some((from, to)) = found.filter(|(from, to)| from < to && *from >= done) {
            out.extend_from_slice(&text[done..from]);
            out.extend_from_slice(MARK.as_bytes());
            done = to;
        }
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&text[done..]);
    Some(out)
}

/// Whether a string under an object key of this name is a secret.
pub(super) fn telling(name: &str) -> bool {
    let mut name = name.to_ascii_lowercase();
    for word in HARMLESS {
        if name.contains(word) {
            name = name.replace(word, " ");
        }
    }
    NAMES.iter().any(|word| name.contains(word))
}

/// Whether a value under a telling name is plainly no secret: nothing, a count of tokens, the name
/// of a variable, or what was redacted before.
pub(super) fn harmless(name: &str, value: &[u8]) -> bool {
    value.is_empty()
        || is_variable(value)
        || (value.starts_with(b"[redacted") && value.ends_with(b"]"))
        || value.iter().all(|byte| *byte == b'*')
        || (counts(name) && value.iter().all(|byte| byte.is_ascii_digit() || b"._,".contains(byte)))
}

/// `max_tokens` and `TOKEN_LIMIT`, but not `token`, which may be one of digits.
fn counts(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("tokens")
        || (name.contains("token")
            && ["limit", "count", "max", "num", "budget"].iter().any(|word| name.contains(word)))
}

/// `$NAME` and `${name}`; a password may begin with `$` too.
fn is_variable(value: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    match value {
        [b'$', b'{', .., b'}'] => true,
        [b'$', name @ ..] => !name.is_empty() && name.iter().all(plain),
        _ => false,
    }
}

/// A value under a telling name: `NAME=value`, `"name": "value"`, `authorization: scheme value`.
fn named(text: &[u8], start: usize, end: usize, word: &str) -> Option<(usize, usize)> {
    // A header's value has a scheme before it, so it is looked for first.
    let as_header = (word == "authorization").then(|| header(text, end)).flatten();
    as_header.or_else(|| environment(text, start, end)).or_else(|| {
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let (from, to) = around(text, start, end, part);
        quoted_field(text, from, to)
    })
}

/// `NAME=value`, where the name is one of the environment's.
fn environment(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let (from, to) = around(text, start, end, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let named = text.get(to) == Some(&b'=') && is_environment_name(&text[from..to]);
    named.then(|| assigned(text, to + 1, &text[from..to])).flatten()
}

fn around(text: &[u8], start: usize, end: usize, part: impl Fn(u8) -> bool) -> (usize, usize) {
    let before = text[..start].iter().rev().take_while(|byte| part(**byte)).count();
    let after = text[end..].iter().take_while(|byte| part(**byte)).count();
    (start - before, end + after)
}

/// `OPENAI_API_KEY` and `PGPASSWORD`, but not `MONKEY` and not `apiKey`.
fn is_environment_name(name: &[u8]) -> bool {
    let upper = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    name.first().is_some_and(u8::is_ascii_uppercase)
        && name.iter().all(upper)
        && name.split(|byte| *byte == b'_').any(|part| {
            let part = part.strip_suffix(b"S").unwrap_or(part);
            let tail = |word: &str| part.ends_with(word.as_bytes());
            matches!(part, b"KEY" | b"AUTHORIZATION" | b"COOKIE")
                || ["TOKEN", "SECRET", "PASSWORD", "APIKEY"].into_iter().any(tail)
        })
}

/// The value of an assignment, with or without quotes.
fn assigned(text: &[u8], from: usize, name: &[u8]) -> Option<(usize, usize)> {
    let (from, to) = match quote_at(text, from) {
        Some(quote) => (from + quote.len(), closing(text, from + quote.len(), quote)),
        None => (from, run(text, from, |byte| !ends_word(byte))),
    };
    let value = &text[from..to];
    let name = std::str::from_utf8(name).unwrap_or_default();
    (value.len() >= VALUE_BYTES_MIN && !harmless(name, value)).then_some((from, to))
}

/// `"name": "value"` in a text, in plain, single or escaped quotes.
fn quoted_field(text: &[u8], from: usize, to: usize) -> Option<(usize, usize)> {
    let quote = quote_at(text, to)?;
    if !text[..from].ends_with(quote) {
        return None;
    }
    let colon = run(text, to + quote.len(), |byte| byte == b' ');
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let open = run(text, colon + 1, |byte| byte.is_ascii_whitespace());
    if !text[open..].starts_with(quote) {
        return None;
    }
    let value = open + quote.len();
    let end = closing(text, value, quote);
    let name = std::str::from_utf8(&text[from..to]).ok()?;
    (telling(name) && !harmless(name, &text[value..end])).then_some((value, end))
}

/// What follows `authorization`, without the name of its scheme.
fn header(text: &[u8], to: usize) -> Option<(usize, usize)> {
    let to = to + quote_at(text, to).map_or(0, <[u8]>::len);
    let colon = run(text, to, |byte| byte == b' ');
    if !matches!(text.get(colon), Some(b':' | b'=')) {
        return None;
    }
    let open = run(text, colon + 1, |byte| byte == b' ');
    let open = open + quote_at(text, open).map_or(0, <[u8]>::len);
    let scheme = run(text, open, |byte| byte.is_ascii_alphabetic());
    let value = match text.get(scheme) {
        Some(b' ') => run(text, scheme, |byte| byte == b' '),
        _ => open,
    };
    let end = run(text, value, |byte| !ends_word(byte) && byte != b',');
    let schemes = ["basic", "bearer", "digest", "token", "apikey"];
    let credential =
        schemes.iter().any(|known| text[open..scheme].eq_ignore_ascii_case(known.as_bytes()));
    // After any other word this may be prose, which is all letters.
    let prose = !credential && text[value..end].iter().all(u8::is_ascii_alphabetic);
    let long = end - value >= VALUE_BYTES_MIN;
    (long && !prose && !harmless("", &text[value..end])).then_some((value, end))
}

fn bearer(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let inside_word = text[..start].last().is_some_and(u8::is_ascii_alphanumeric);
    let from = run(text, end, |byte| byte == b' ');
    let to = run(text, from, |byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
    (!inside_word && from > end && to - from >= BEARER_BYTES_MIN).then_some((from, to))
}

fn vendors(
    text: &[u8],
    start: usize,
    end: usize,
    (begin, least): (&str, usize),
) -> Option<(usize, usize)> {
    let inside_word = text[..start].last().is_some_and(|byte| is_token(*byte) && *byte != b'.');
    let to = run(text, end, |byte| is_token(byte) && (byte != b'.' || begin == "eyJ"));
    let body = &text[end..to];
    // Words joined by hyphens have no digits; a JWT has its two dots.
    let shaped = match begin {
        "eyJ" => body.iter().filter(|byte| **byte == b'.').count() == 2,
        _ => body.iter().any(u8::is_ascii_digit),
    };
    (text[start..end] == *begin.as_bytes() && !inside_word && body.len() >= least && shaped)
        .then_some((start, to))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`\\".contains(&byte)
}

/// Where a run of such bytes that starts at `from` ends.
fn run(text: &[u8], from: usize, part: impl Fn(u8) -> bool) -> usize {
    from + text[from.min(text.len())..].iter().take_while(|byte| part(**byte)).count()
}

fn quote_at(text: &[u8], at: usize) -> Option<&'static [u8]> {
    let quotes: [&[u8]; 3] = [b"\"", b"'", b"\\\""];
    quotes.into_iter().find(|quote| text[at.min(text.len())..].starts_with(quote))
}

/// Where a quoted value ends: at its closing quote, else (the text was cut) at the end.
fn closing(text: &[u8], from: usize, quote: &[u8]) -> usize {
    let mut at = from;
    while at < text.len() {
        if text[at..].starts_with(quote) {
            return at;
        }
        // A backslash takes the next character with it, so an escaped quote does not close. In
        // escaped quotes the backslash itself is written twice, and so is what it escapes.
        let deep = quote.len() == 2 && text[at..].starts_with(br"\\");
        at += match (deep, text[at] == b'\\') {
            (true, _) => 2 + if text.get(at + 2) == Some(&b'\\') { 2 } else { 1 },
            (false, true) => 2,
            (false, false) => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        redact(text.as_bytes())
            .map_or_else(|| text.to_owned(), |out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_are_redacted_by_where_they_stand() {
        let rows = [
            "export OPENAI_API_KEY=abcdef123",
            "PGPASSWORD=\"two words\" psql",
            "DB_PASSWORD=12345678 OTP_TOKEN=123456 MY_SECRET=$ecret-word",
            "GH_TOKENS='a b c d'",
            "A_KEY=first1 B_TOKEN=second2",
            r#"{"api_key": "x", "name": "y"}"#,
            r#"{\"password\":\"hu\\\"nter\",\"a\":1}"#,
            "{'accessToken': 'zzz'}",
            r#"{"client_secret": "cut of"#,
            "Authorization: Bearer abc.def-123",
            "authorization: Basic dXNlcjpwYXNz",
            "-H 'Authorization: token 0123456789'",
            "AUTHORIZATION=Bearer abcdefgh",
            "send Bearer abcdefghijklmnopqrstuvwxyz please",
            "use sk-proj-abcdefghijklmnop1234 now",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2ln",
        ];
        let out: Vec<String> = rows.iter().map(|row| redacted(row)).collect();
        insta::assert_snapshot!(out.join("\n"), @r##"
export OPENAI_API_KEY=[redacted]
PGPASSWORD="[redacted]" psql
DB_PASSWORD=[redacted] OTP_TOKEN=[redacted] MY_SECRET=[redacted]
GH_TOKENS='[redacted]'
A_KEY=[redacted] B_TOKEN=[redacted]
{"api_key": "[redacted]", "name": "y"}
{\"password\":\"[redacted]\",\"a\":1}
{'accessToken': '[redacted]'}
{"client_secret": "[redacted]
Authorization: Bearer [redacted]
authorization: Basic [redacted]
-H 'Authorization: token [redacted]'
AUTHORIZATION=Bearer [redacted]
send Bearer [redacted] please
use [redacted] now
[redacted]
[redacted]
"##);
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "token count: 5",
            "monkey=banana",
            "MONKEY=banana-split",
            "MAX_TOKENS=4096",
            "TOKEN_LIMIT=1000000",
            "API_KEY=$OTHER_KEY",
            "API_KEY=${other.key}",
            "API_KEY=short",
            "the key is under the mat",
            "a bearer of good news",
            "Bearer tokens are explained below",
            "authorization: required for this page",
            "authorization is handled elsewhere",
            "task-implementation-of-something-long",
            "{\"keyboard\": \"qwerty\"}",
            "{\"max_tokens\": \"4096\"}",
            "cookie cutter",
            "",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn what_was_redacted_stays_as_it_is() {
        for text in ["API_KEY=[redacted:K]", "API_KEY=[redacted]", r#"{"api_key": "[redacted]"}"#] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn names_tell_by_their_parts() {
        for name in ["key", "apiKey", "X-Auth-Token", "clientsecret", "PASSWORD", "Set-Cookie"] {
            assert!(telling(name), "{name}");
        }
        for name in ["monkey", "keyboard_layout", "keywords", "tokenizer", "text", "author"] {
            assert!(!telling(name), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_harm_and_twice_is_once(
            text in "(?s)([a-zA-Z\"'\\\\ =:]|KEY|TOKEN|key|password|bearer |authorization|sk-){0,30}"
        ) {
            let once = redacted(&text);
            proptest::prop_assert_eq!(redacted(&once), once.clone());
        }
    }
}
