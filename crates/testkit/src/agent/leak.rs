//! A value said in every disguise that the seal must see through. Where a secret of the run appears
//! in store, blobs, trace, logs or wire after this, the seal has a hole.

use crate::agent::encode::{Alphabet, Case, base64, hex, html, json_escaped, painted, percent};
use crate::agent::voice::Voice;
use serde_json::{Value, json};
use std::io::Write;

/// A line longer than anything that is kept in one piece.
const LONG_LINE_BYTES: usize = 1_500_000;

/// Says the value of `name` in every presentation, by every kind of event, in deltas split at every
/// place, and beside the protocol: on standard error too, which is `aside`.
pub fn leak<W: Write>(voice: &mut Voice<W>, aside: &mut impl Write, name: &str, value: &str) {
    voice.text(&format!("the plain value is {value} and more"));
    for (n, (what, text)) in presentations(name, value).into_iter().enumerate() {
        let id = format!("leak_{name}_{n}");
        voice.text(&format!("{what}: {text};"));
        voice.progress(&format!("{what}: {text};"));
        voice.say(&json!({
            "type": "progress", "summary": what, "beliefs": [{ "found": text }], "attempted": [text],
        }));
        voice.say(&json!({ "type": "comment", "text": format!("see {text}"), "mentions": [text] }));
        voice.event(json!({
            "kind": "tool_use", "tool_call_id": id, "name": "shell",
            "input": { "command": format!("echo {text}"), "nested": [1, text, { &text: "as a key" }] },
        }));
        voice.event(json!({
            "kind": "tool_result", "tool_call_id": id, "status": "ok", "output": text,
        }));
        voice.event(json!({ "kind": "thinking", "text": text }));
        voice.event(json!({ "kind": "log", "text": text }));
        voice.raw(format!("a line that is no event: {text}\n").as_bytes());
        voice.raw(format!("{{\"type\":\"unknown\",\"cut\":\"{}\n", json_escaped(&text)).as_bytes());
        let _ = aside.write_all(format!("{what}: {text}\n").as_bytes());
    }
    let filler = "x".repeat(LONG_LINE_BYTES / 2);
    voice.text(&format!("{filler} {value} {filler}"));
    deltas(voice, name, value);
    voice.flush();
}

/// What the closing line holds when it leaks too.
pub fn closing(name: &str, value: &str) -> Value {
    let presentations = presentations(name, value);
    presentations.into_iter().map(|(what, text)| json!({ "what": what, "found": text })).collect()
}

/// The value as it is met in the output of programs, each with what it is.
pub fn presentations(name: &str, value: &str) -> Vec<(&'static str, String)> {
    let json = json_escaped(value);
    let ascii: String = json
        .chars()
        .map(|c| match c.is_ascii() {
            true => c.to_string(),
            false => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
        })
        .collect();
    let shell = value.replace('\'', "'\\''");
    let lines = |between: &str| value.lines().collect::<Vec<_>>().join(between);
    let basic = base64(format!("user:{value}").as_bytes(), Alphabet::Standard);
    let mut found = vec![
        ("plain", value.to_owned()),
        ("as JSON", format!("{{\"inner\":\"{json}\"}}")),
        ("as JSON in JSON", format!("{{\\\"inner\\\":\\\"{}\\\"}}", json_escaped(&json))),
        ("as JSON in JSON in JSON", json_escaped(&json_escaped(&json))),
        ("as JSON of ASCII", ascii.clone()),
        ("as JSON with every slash escaped", ascii.replace('/', "\\/")),
        ("percent", percent(value.as_bytes(), Case::Upper)),
        ("percent in lower case", percent(value.as_bytes(), Case::Lower)),
        ("in a form", percent(value.as_bytes(), Case::Upper).replace("%20", "+")),
        ("hexadecimal", hex(value.as_bytes(), Case::Lower)),
        ("hexadecimal in capitals", hex(value.as_bytes(), Case::Upper)),
        ("basic authorization", format!("Authorization: Basic {basic}")),
        ("bearer", format!("curl -H 'Authorization: Bearer {value}' http://127.0.0.1/")),
        ("in shell quotes", format!("export X='{shell}'")),
        ("a shell's echo", format!("+ curl --key '{shell}'")),
        ("environment", format!("HOME=/root\n{name}={value}\nTERM=dumb")),
        ("in colours", painted(value)),
        ("HTML", format!("<b>{}</b>", html(value))),
        ("in an address", format!("postgres://u:{}@db/x", percent(value.as_bytes(), Case::Upper))),
        ("file name", format!("cannot open '/tmp/{value}.txt'")),
        ("panic", format!("thread 'main' panicked at main.rs:1: {value:?}")),
        ("constraint", format!("duplicate key: Key (token)=({value}) already exists.")),
        ("with other line ends", lines("\r\n")),
        ("indented", format!("  {}", lines("\n    "))),
        ("on one line", lines(" ")),
    ];
    for alphabet in [Alphabet::Standard, Alphabet::UrlSafe] {
        // What stands before a value shifts its base64, so there are three of each.
        for before in ["", "x", "xy"] {
            let encoded = base64(format!("{before}{value}").as_bytes(), alphabet);
            found.push(("base64 without padding", encoded.trim_end_matches('=').to_owned()));
            found.push(("base64", encoded));
        }
    }
    found
}

/// The value over the deltas of one block: cut in two at every place, and by three characters.
fn deltas<W: Write>(voice: &mut Voice<W>, name: &str, value: &str) {
    let text: Vec<char> = value.chars().collect();
    let mut say = |block: &str, part: &[char]| {
        let part: String = part.iter().collect();
        voice.event(json!({
            "kind": "assistant_text", "text": part, "block": block, "delta": true,
        }));
    };
    for cut in 1..text.len() {
        let block = format!("{name}_{cut}");
        say(&block, &text[..cut]);
        say(&block, &text[cut..]);
    }
    let text: Vec<char> = format!("split: {value} joined").chars().collect();
    for part in text.chunks(3) {
        say("leak", part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_holds_the_value_plainly_and_in_each_disguise() {
        let (mut out, mut aside) = (Vec::new(), Vec::new());
        leak(&mut Voice::new(&mut out, false), &mut aside, "SOME_KEY", "a/secret+value");
        assert!(String::from_utf8(aside).expect("text").contains("plain: a/secret+value\n"));
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("the plain value is a/secret+value"));
        assert!(text.contains("YS9zZWNyZXQrdmFsdWU="), "base64");
        assert!(text.contains("a%2Fsecret%2Bvalue") && text.contains("a%2fsecret%2bvalue"));
        let joined: String = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|line| line["event"]["block"] == "leak")
            .filter_map(|line| line["event"]["text"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(joined, "split: a/secret+value joined");
    }

    #[test]
    fn there_are_more_presentations_than_a_day_has_hours() {
        let presentations = presentations("N", "a\"b/c 'd'é\nsecond");
        let mut texts: Vec<_> = presentations.into_iter().map(|(_, text)| text).collect();
        texts.sort_unstable();
        texts.dedup();
        assert!(texts.len() >= 24, "{}", texts.len());
    }
}
