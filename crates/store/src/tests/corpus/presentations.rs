//! The ways in which values show up in what agents say, and how to see that one came through.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

/// A text, and what must not be in what is made of it.
pub struct Shown {
    pub text: String,
    needle: String,
    /// What stands between the characters.
    paint: &'static str,
}

impl Shown {
    /// Whether the value can be read in this text.
    pub fn leaks_in(&self, out: &str) -> bool {
        match self.paint {
            "" => out.contains(&self.needle),
            paint => out.replace(paint, "").contains(&self.needle),
        }
    }
}

pub struct Presentation {
    pub name: &'static str,
    /// The characters of the value stand as they are.
    pub verbatim: bool,
    pub show: fn(&str) -> Shown,
}

const PAINT: &str = "\u{1b}[31m";

fn shown(text: String, needle: &str) -> Shown {
    Shown { text, needle: needle.to_owned(), paint: "" }
}

fn painted(value: &str, paint: &'static str) -> Shown {
    let text: String = value.chars().map(|letter| format!("{letter}{paint}")).collect();
    Shown { text: format!("see {text} there"), needle: value.to_owned(), paint }
}

fn quoted(text: &str) -> String {
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn ascii(text: &str) -> String {
    let mut out = String::new();
    for unit in quoted(text).encode_utf16() {
        match u8::try_from(unit).ok().filter(u8::is_ascii) {
            Some(byte) => out.push(char::from(byte)),
            None => out += &format!("\\u{unit:04x}"),
        }
    }
    out
}

fn url(text: &str, upper: bool) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => out.push(char::from(byte)),
            false if upper => out += &format!("%{byte:02X}"),
            false => out += &format!("%{byte:02x}"),
        }
        out
    })
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// What base64 makes of a value behind so many other bytes, without the characters at both ends that
/// depend on the neighbours.
fn base64(before: &str, value: &str) -> Shown {
    let text = STANDARD.encode(format!("{before}{value}:tail"));
    let from = (before.len() * 8).div_ceil(6);
    let to = (before.len() + value.len()) * 8 / 6;
    shown(format!("sent {text} so"), &text[from..to])
}

macro_rules! ways {
    ($($how:ident $name:literal: |$value:ident| $show:expr;)+) => {
        &[$(Presentation {
            name: $name,
            verbatim: ways!(@ $how verbatim),
            show: |$value| $show,
        }),+]
    };
    (@ same verbatim) => { true };
    (@ $how:ident $other:ident) => { false };
}

pub const PRESENTATIONS: &[Presentation] = ways! {
    same "plain": |value| shown(format!("the value is {value} here"), value);
    same "alone": |value| shown(value.to_owned(), value);
    same "end of a sentence": |value| shown(format!("I used {value}. Then it worked."), value);
    same "double quotes": |value| shown(format!("const x = \"{value}\";"), value);
    same "backticks": |value| shown(format!("run it with `{value}` please"), value);
    same "parentheses": |value| shown(format!("login({value})"), value);
    same "environment": |value| shown(format!("HOME=/root\nMY_VALUE={value}\nLANG=C"), value);
    same "flag": |value| shown(format!("argv: tool --with={value} --verbose"), value);
    same "flag and space": |value| shown(format!("tool -u {value} -v"), value);
    same "trace of a shell": |value| shown(format!("+ curl -s -H 'X-Auth: {value}' host"), value);
    same "yaml": |value| shown(format!("prod:\n  value: {value}\n  n: 1"), value);
    same "lines of windows": |value| shown(format!("one\r\n{value}\r\nthree"), value);
    same "query": |value| shown(format!("GET /v1?x={value} 200"), value);
    same "long line": |value| shown(format!("{}{value} {}", "x ".repeat(3000), "y".repeat(500)), value);
    same "diff": |value| shown(format!("@@ -1 +1 @@\n-old\n+  v: '{value}',"), value);
    same "error": |value| shown(format!("error: cannot open {value}: no such file"), value);
    other "json": |value| shown(json!({ "v": value }).to_string(), &quoted(value));
    other "json in json": |value| {
        let inner = json!({ "v": value }).to_string();
        shown(json!({ "body": inner }).to_string(), &quoted(&quoted(value)))
    };
    other "json in ascii": |value| shown(format!("{{\"v\":\"{}\"}}", ascii(value)), &ascii(value));
    other "percent": |value| shown(format!("GET /?v={}&w=1", url(value, true)), &url(value, true));
    other "percent, small": |value| {
        shown(format!("GET /?v={}&w=1", url(value, false)), &url(value, false))
    };
    other "hexadecimal": |value| shown(format!("0x{} end", hex(value)), &hex(value));
    other "hexadecimal, capital": |value| {
        let hex = hex(value).to_uppercase();
        shown(format!("bytes {hex} end"), &hex)
    };
    other "base64": |value| base64("", value);
    other "base64, second place": |value| base64("a", value);
    other "base64, third place": |value| base64("ab", value);
    other "base64, padded": |value| {
        let text = STANDARD.encode(value);
        shown(format!("data: {text}"), text.trim_end_matches('='))
    };
    other "base64 for urls": |value| {
        let text = URL_SAFE_NO_PAD.encode(value);
        shown(format!("state.{text}"), &text)
    };
    other "basic": |value| {
        let text = STANDARD.encode(format!("user:{value}"));
        shown(format!("Authorization: Basic {text}"), &text[7..text.len() - 4])
    };
    other "shell quotes": |value| {
        let text = value.replace('\'', r"'\''");
        shown(format!("export X='{text}'"), &text)
    };
    other "colours": |value| painted(value, PAINT);
    other "colours in json": |value| {
        let Shown { text, needle, .. } = painted(value, PAINT);
        Shown { text: quoted(&text), needle: quoted(&needle), paint: r"\u001b[31m" }
    };
    other "links": |value| painted(value, "\u{1b}]8;;https://example.com/a\u{1b}\\");
};
