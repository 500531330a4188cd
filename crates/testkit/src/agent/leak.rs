//! A value said in every disguise that the seal must see through. Where a secret of the run appears
//! in store, blobs, trace, logs or wire after this, the seal has a hole.

use crate::agent::encode::{Alphabet, Case, base64, json_escaped, percent};
use crate::agent::voice::Voice;
use serde_json::json;
use std::io::Write;

/// Says the value of `name` in text, tool arguments, encodings, deltas, and beside the protocol:
/// on standard error too, which is `aside`.
pub fn leak<W: Write>(voice: &mut Voice<W>, aside: &mut impl Write, name: &str, value: &str) {
    voice.text(&format!("the plain value is {value} and more"));
    voice.progress(&format!("{name}={value}"));
    voice.say(&json!({ "type": "comment", "text": format!("see {value}"), "mentions": [value] }));
    voice.event(json!({
        "kind": "tool_use", "tool_call_id": "leak_1", "name": "shell",
        "input": {
            "command": format!("curl -H 'Authorization: Bearer {value}' http://127.0.0.1/"),
            "nested": { "list": [1, value, { value: "as a key" }] },
        },
    }));
    voice.event(json!({
        "kind": "tool_result", "tool_call_id": "leak_1", "status": "ok",
        "output": format!("{name}={value}\nother=1"),
    }));
    for text in disguises(value) {
        voice.text(&format!("in disguise: {text};"));
    }
    deltas(voice, value);
    voice.raw(format!("a line that is no event: {value}\n").as_bytes());
    voice.flush();
    let _ = aside.write_all(format!("{name}={value}\n").as_bytes());
}

/// The encodings of a value, each as it would stand inside other text.
pub fn disguises(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    for alphabet in [Alphabet::Standard, Alphabet::UrlSafe] {
        // What stands before a value shifts its base64, so there are three of each.
        for before in ["", "x", "xy"] {
            found.push(base64(format!("{before}{value}").as_bytes(), alphabet));
        }
    }
    found.push(percent(value.as_bytes(), Case::Upper));
    found.push(percent(value.as_bytes(), Case::Lower));
    found.push(format!("{{\"inner\":\"{}\"}}", json_escaped(value)));
    found
}

/// The value over the deltas of one block, three characters at a time.
fn deltas<W: Write>(voice: &mut Voice<W>, value: &str) {
    let text: Vec<char> = format!("split: {value} joined").chars().collect();
    for part in text.chunks(3) {
        let part: String = part.iter().collect();
        voice.event(json!({
            "kind": "assistant_text", "text": part, "block": "leak", "delta": true,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_holds_the_value_plainly_and_in_each_disguise() {
        let (mut out, mut aside) = (Vec::new(), Vec::new());
        leak(&mut Voice::new(&mut out, false), &mut aside, "SOME_KEY", "a/secret+value");
        assert_eq!(aside, b"SOME_KEY=a/secret+value\n");
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
}
