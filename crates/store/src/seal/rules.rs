//! Secrets nobody told us of, by where they stand: under a telling name, after `Bearer`, between the
//! rulers of a private key, before the `@` of an address, or in the known form of a vendor's key
//! (`forms.rs`). Every rule hangs on a literal, so a look at every second place decides whether a
//! text needs a closer look at all (`grams.rs`). Works on bytes; what it cuts are whole characters.

mod plain;
mod shapes;
#[cfg(test)]
mod tests;

use super::forms::{Alphabet, FORMS, Form};
use super::grams::{Piece, Sieve};
use shapes::{bot_token, json_web_token, password_in, private_key, private_key_ruler, user_info};
use std::sync::LazyLock;

/// What stands in the place of a value found by a rule.
pub(super) const MARK: &str = "[redacted]";
/// How that begins, and how what stands in the place of a known value does.
const REDACTED: &[u8] = b"[redacted";

/// A value under a telling name in running text is looked at from this length on.
const VALUE_BYTES_MIN: usize = 6;
/// What follows `Bearer` in prose is shorter than this; a token is not.
const BEARER_BYTES_MIN: usize = 20;

/// How often a text is looked at whose secrets run into each other. Each look needs a neighbour that
/// the one before has replaced.
const LOOKS_MAX: usize = 16;

const NAMES: [&str; 8] =
    ["key", "token", "secret", "password", "passwd", "passphrase", "authorization", "cookie"];

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

/// What a literal stands for.
#[derive(Clone, Copy)]
enum Rule {
    /// A telling name, in any case.
    Name(&'static str),
    Bearer,
    Form(&'static Form),
    JsonWebToken,
    /// Telegram: the number of a bot, this, and the key.
    BotToken,
    PrivateKey,
    /// A password in an address.
    Address,
    /// A terminal's control sequence, as JSON writes it: `ansi.rs` looks what runs through it.
    Paint,
}

impl Rule {
    fn begin(&self) -> &'static str {
        match self {
            Self::Name(name) => name,
            Self::Bearer => "bearer",
            Self::Form(form) => form.begin,
            Self::JsonWebToken => "eyJ",
            Self::BotToken => ":AA",
            Self::PrivateKey => "-----BEGIN ",
            Self::Address => "://",
            Self::Paint => super::ansi::ESCAPED,
        }
    }

    /// Whether its literal counts in capitals too.
    fn any_case(&self) -> bool {
        match self {
            // Some writers of JSON have digits in capitals.
            Self::Name(_) | Self::Bearer | Self::Paint => true,
            Self::Form(_)
            | Self::JsonWebToken
            | Self::BotToken
            | Self::PrivateKey
            | Self::Address => false,
        }
    }

    fn begins(&self, text: &[u8]) -> bool {
        let begin = self.begin().as_bytes();
        match self.any_case() {
            true => text.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin)),
            false => text.starts_with(begin),
        }
    }

    /// What may come directly after the literal; 0 stands for the end of the text.
    fn goes_on_with(&self, byte: u8) -> bool {
        match self {
            Self::Name(_) | Self::Bearer | Self::Paint => true,
            Self::Form(form) => form.alphabet.has(byte),
            Self::JsonWebToken | Self::BotToken => Alphabet::Dash.has(byte),
            Self::PrivateKey => byte.is_ascii_uppercase(),
            Self::Address => !byte.is_ascii_whitespace() && byte != b'/' && byte != 0,
        }
    }

    /// Whether JSON that holds this literal deserves the walk through its strings. Looks at bytes
    /// before their escapes are undone, so it must not judge by what stands before the literal.
    fn deserves_a_look(&self, text: &[u8], at: usize) -> bool {
        match self {
            Self::Name(_) | Self::Bearer | Self::Paint => true,
            // A solidus may be written with a backslash.
            Self::Form(form) => match form.alphabet {
                Alphabet::Base64 => true,
                _ => form.end(text, at).is_some(),
            },
            Self::JsonWebToken => json_web_token(text, at).is_some(),
            Self::BotToken => bot_token(text, at).is_some(),
            Self::PrivateKey => private_key_ruler(text, at).is_some(),
            Self::Address => user_info(text, at).is_some(),
        }
    }

    /// What to replace, when this literal stands at `at`.
    fn apply(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let end = at + self.begin().len();
        match self {
            Self::Name(name) => named(text, at, end, name),
            Self::Bearer => bearer(text, at, end),
            Self::Form(form) => form.find(text, at),
            Self::JsonWebToken => {
                let inside_word = text[..at].last().is_some_and(|byte| is_token(*byte));
                json_web_token(text, at).filter(|_| !inside_word).map(|end| (at, end))
            }
            Self::BotToken => bot_token(text, at),
            Self::PrivateKey => private_key(text, at),
            Self::Address => password_in(text, at),
            Self::Paint => None,
        }
    }
}

/// Every rule, by the first byte of its literal, and the pieces of all literals.
struct Rules {
    by_first: Vec<Vec<Listed>>,
    sieve: Sieve,
}

/// A rule and the first bytes of its literal, which tell most texts from it at once.
#[derive(Clone, Copy)]
struct Listed {
    head: u32,
    mask: u32,
    rule: Rule,
}

impl Rules {
    /// The rules whose literal stands at `at`.
    fn begun<'a>(&'a self, text: &'a [u8], at: usize) -> impl Iterator<Item = &'a Rule> {
        let rest = &text[at..];
        let mut three = [0; 3];
        let there = rest.len().min(3);
        three[..there].copy_from_slice(&rest[..there]);
        let here = piece(three);
        self.by_first[usize::from(rest[0])]
            .iter()
            .filter(move |listed| here & listed.mask == listed.head && listed.rule.begins(rest))
            .map(|listed| &listed.rule)
    }
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let mut rules: Vec<Rule> = FORMS.iter().map(Rule::Form).collect();
    rules.extend([
        Rule::JsonWebToken,
        Rule::BotToken,
        Rule::PrivateKey,
        Rule::Address,
        Rule::Paint,
    ]);
    rules.push(Rule::Bearer);
    rules.extend(NAMES.map(Rule::Name));
    let mut by_first = vec![Vec::new(); 256];
    let mut pieces = Vec::new();
    for rule in rules {
        let begin = rule.begin().as_bytes();
        let mask = if begin.len() == 2 { PIECE & 0xffff } else { PIECE };
        let head = piece([begin[0], begin[1], begin.get(2).copied().unwrap_or(0)]) & mask;
        let listed = Listed { head, mask, rule };
        by_first[usize::from(begin[0])].push(listed);
        let capital = begin[0].to_ascii_uppercase();
        if rule.any_case() && capital != begin[0] {
            by_first[usize::from(capital)].push(listed);
        }
        for start in 0..STRIDE {
            pieces.push(shown(&rule, &begin[start..]));
        }
    }
    Rules { by_first, sieve: Sieve::new(pieces) }
});

/// Every second place is looked at, and three bytes there.
const STRIDE: usize = 2;
/// Three bytes of a literal without regard to case.
const PIECE: u32 = 0x00df_dfdf;

/// What a text that goes on so can show in its first three bytes, with all that may come after the
/// literal.
fn shown(rule: &Rule, literal: &[u8]) -> Piece {
    std::array::from_fn(|place| match literal.get(place) {
        Some(byte) if rule.any_case() => vec![byte.to_ascii_lowercase(), byte.to_ascii_uppercase()],
        Some(byte) => vec![*byte],
        None => (0..=255).filter(|byte| rule.goes_on_with(*byte)).collect(),
    })
}

fn piece([first, second, third]: [u8; 3]) -> u32 {
    u32::from_le_bytes([first, second, third, 0]) & PIECE
}

/// Tries every literal that stands in the text, in order, until one is answered.
fn each<T>(text: &[u8], mut answer: impl FnMut(&Rule, usize) -> Option<T>) -> Option<T> {
    const BLOCK: usize = 32;
    let rules = &*RULES;
    let mut padded;
    for block_at in (0..text.len()).step_by(BLOCK) {
        let rest = &text[block_at..];
        let block: &[u8; BLOCK + 1] = match rest.first_chunk() {
            Some(block) => block,
            None => {
                padded = [0; BLOCK + 1];
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            }
        };
        let groups = |at: usize| rules.sieve.groups([block[at], block[at + 1], block[at + 2]]);
        let places = (0..BLOCK).step_by(STRIDE);
        if places.clone().fold(0, |found, at| found | groups(at)) == 0 {
            continue;
        }
        for place in places.filter(|at| groups(*at) != 0) {
            // A literal begins at the place where its piece was found, or one before it.
            let place = block_at + place;
            for at in place.saturating_sub(1)..=place.min(text.len() - 1) {
                if let Some(found) = rules.begun(text, at).find_map(|rule| answer(rule, at)) {
                    return Some(found);
                }
            }
        }
    }
    None
}

/// Whether any rule could apply. Cheap, and right whenever it says no.
pub(super) fn may_apply(text: &[u8]) -> bool {
    each(text, |rule, at| rule.deserves_a_look(text, at).then_some(())).is_some()
}

/// Which rules are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Those that go by the form of the value itself, whatever name it stands under.
    Forms,
}

/// The text with every value that a rule finds replaced; `None` when there is none.
pub(super) fn redact(text: &[u8]) -> Option<Vec<u8>> {
    redact_by(text, Which::All)
}

pub(super) fn redact_by(text: &[u8], which: Which) -> Option<Vec<u8>> {
    let mut out = one_look(text, which)?;
    // What was replaced runs into its neighbours no more, so a name may stand alone that did not
    // before; and a rule may have reached over a key, as over the user of an address. Only a text with
    // a secret in it is looked at again.
    for _ in 1..LOOKS_MAX {
        match one_look(&out, which) {
            Some(next) if next != out => out = next,
            Some(_) | None => break,
        }
    }
    Some(out)
}

fn one_look(text: &[u8], which: Which) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut done = 0;
    each(text, |rule, at| -> Option<()> {
        if at < done || (which == Which::Forms && matches!(rule, Rule::Name(_))) {
            return None;
        }
        let found = rule.apply(text, at);
        if let Some((from, to)) = found.filter(|(from, to)| from < to && *from >= done) {
            out.extend_from_slice(&text[done..from]);
            out.extend_from_slice(MARK.as_bytes());
            done = to;
        }
        None
    });
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&text[done..]);
    Some(out)
}

/// Whether a string under an object key of this name is a secret.
pub(super) fn telling(name: &str) -> bool {
    let mut name = name.to_ascii_lowercase();
    // Most names tell nothing, and taking words out of one cannot make it tell.
    if !NAMES.iter().any(|word| name.contains(word)) {
        return false;
    }
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
        || (value.starts_with(REDACTED) && value.ends_with(b"]"))
        // The user of an address may be called so; its password is gone already.
        || value.starts_with(b"[redacted]@")
        || value.iter().all(|byte| *byte == b'*')
        || (counts(name) && value.iter().all(|byte| byte.is_ascii_digit() || b"._,".contains(byte)))
}

/// The same of a field, whose name may be anyone's.
pub(super) fn harmless_field(name: &str, value: &[u8]) -> bool {
    harmless(name, value) || plain::is_word_under(name, value)
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
    // A header's value has a scheme before it, so it is looked for first; once the value is gone the
    // scheme is no value either.
    let as_header = match word {
        "authorization" => match header(text, end) {
            Some((from, to)) if text[from..to].starts_with(REDACTED) => return None,
            found => found,
        },
        _ => None,
    };
    as_header.or_else(|| environment(text, start, end)).or_else(|| {
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let (from, to) = around(text, start, end, part);
        quoted_field(text, from, to).or_else(|| plain::given(text, from, to))
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
                || ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY"]
                    .into_iter()
                    .any(tail)
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
    (telling(name) && !harmless_field(name, &text[value..end])).then_some((value, end))
}

/// What follows `authorization`, without the name of its scheme; also when it was redacted before.
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
    let redacted = text[value..end].starts_with(REDACTED);
    (long && !prose && (redacted || !harmless("", &text[value..end]))).then_some((value, end))
}

fn bearer(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let inside_word = text[..start].last().is_some_and(u8::is_ascii_alphanumeric);
    let from = run(text, end, |byte| byte == b' ');
    let to = run(text, from, |byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
    (!inside_word && from > end && to - from >= BEARER_BYTES_MIN).then_some((from, to))
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
