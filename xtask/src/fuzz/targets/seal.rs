//! The door to disk and wire: no known value comes through it in any string, what was JSON stays
//! JSON, an event stays an event, and a text in pieces comes to the same as the whole.

use super::{Target, holds};
use crate::fuzz::mutate::Chance;
use crate::fuzz::search::Try;
use contract::event::{Body, Envelope, Event, Origin, Text};
use contract::{RunId, Timestamp};
use serde_json::{Value, json};
use store::{Carry, Seal};

/// Values with characters that JSON, shells and terminals write in other ways, and values that begin
/// alike.
const KNOWN: [(&str, &str); 6] = [
    ("PLAIN", "hunter2-hunter2"),
    ("ODD", "a\"b\\c\nd/e"),
    ("WIDE", "pässwörd-✓"),
    ("SHORT", "abcabd"),
    ("LONG", "abcabdabcabc"),
    ("SPACED", "correct horse battery"),
];

pub const TARGET: Target = Target {
    name: "seal",
    everyday: None,
    seeds: || {
        let mut seeds = super::recordings();
        seeds.extend(KNOWN.map(|(name, value)| format!("{name}={value} said").into_bytes()));
        seeds.extend(KNOWN.map(|(name, value)| json!({ name: [value, 1] }).to_string().into()));
        seeds.push(b"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----".into());
        seeds.push(b"postgres://me:hush@host/db Authorization: Bearer 0123456789abcdef0123".into());
        seeds.push(br#"{"text":"\u0068unter2-hunter2","a":"a\"b\\c\nd\/e"}"#.into());
        seeds
    },
    words: &[
        b"hunter2-hunter2",
        b"hunter2-",
        b"hunter2",
        b"a\"b\\c\nd/e",
        br#"a\"b\\c\nd/e"#,
        br#"a\\\"b\\\\c\\nd/e"#,
        br"a\u0022b\u005cc\u000ad\/e",
        "pässwörd-✓".as_bytes(),
        br"p\u00e4ssw\u00f6rd-\u2713",
        b"abcabd",
        b"abcabdabcab",
        b"abcabc",
        b"correct horse",
        b" battery",
        b"correct%20horse%20battery",
        b"aHVudGVyMi1odW50ZXIy",
        b"hunter2-\x1b[31mhunter2",
        br"hunter2-\u001b[31mhunter2",
        b"[redacted:PLAIN]",
        b"[held:0:5:0000]",
        b"token=",
        b"API_KEY=",
        b"\"password\": \"",
        b"\\\"secret\\\": \\\"",
        b"Authorization: Basic ",
        b"Bearer ",
        b"://a:",
        b"@",
        b"-----BEGIN PRIVATE KEY-----",
        b"-----END",
        b"ghp_0123456789abcdefghij0123456789abcdef",
        b"sk-0123456789abcdefghij",
        b"eyJhbGciOi.eyJzdWIiOiIxMjM0NTY3ODkw.c2lnbmF0dXJl",
        b"123456789:AA",
    ],
    make,
};

fn make() -> Try {
    let known = KNOWN.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let seal = Seal::new(known);
    Box::new(move |input, chance| {
        let text = String::from_utf8_lossy(input);
        no_value_in("text", &seal.text(&text))?;
        no_value_in("given", &seal.given(&text).text())?;
        no_value_in("asset", &seal.asset(input).bytes.text())?;
        no_value_in("head", &seal.head(input).text())?;
        line(&seal, input)?;
        deltas(&seal, &text, chance)?;
        let said = Body::AssistantText(Text {
            text: text.clone().into_owned(),
            block: None,
            delta: false,
        });
        event(&seal, &said)?;
        let value = serde_json::from_slice(input).unwrap_or_else(|_| json!([text, { &*text: 1 }]));
        state(&seal, &value)?;
        let called = json!({"kind": "tool_use", "tool_call_id": "1", "name": "n", "input": value});
        match serde_json::from_value(called) {
            Ok(body) => event(&seal, &body),
            Err(_) => Ok(()),
        }
    })
}

fn line(seal: &Seal, input: &[u8]) -> Result<(), String> {
    let out = seal.line(input);
    let was_json = matches!(input.first(), Some(b'{' | b'['))
        && serde_json::from_slice::<serde::de::IgnoredAny>(input).is_ok();
    match serde_json::from_slice::<Value>(out.bytes()) {
        Ok(value) if was_json => no_value_inside("line", &value),
        // JSON may hold what a value cannot: a number beyond any float, half a pair of surrogates.
        Err(_) if was_json && serde_json::from_slice::<Value>(input).is_err() => Ok(()),
        Err(error) if was_json => Err(format!("a line of JSON is none any more: {error}")),
        Ok(_) | Err(_) => no_value_in("line", &out.text()),
    }
}

fn deltas(seal: &Seal, text: &str, chance: &mut Chance) -> Result<(), String> {
    let mut carry = Carry::default();
    let mut joined = String::new();
    for cut in chance.cuts(text.len()).windows(2) {
        let ends = [text.floor_char_boundary(cut[0]), text.floor_char_boundary(cut[1])];
        joined += &seal.delta(&mut carry, "s", &text[ends[0]..ends[1]]);
        let stored = serde_json::to_vec(&carry).map_err(|error| format!("no carry: {error}"))?;
        carry = serde_json::from_slice(&stored).map_err(|error| format!("carry: {error}"))?;
    }
    joined += &seal.flush(&mut carry, "s").unwrap_or_default();
    let whole = seal.given(text).text();
    holds(joined == whole, || format!("pieces come to something else: {joined:?} not {whole:?}"))
}

fn event(seal: &Seal, body: &Body) -> Result<(), String> {
    let envelope = Envelope {
        run_id: RunId::new(uuid::Uuid::from_u128(7)),
        seq: 3,
        ts: Timestamp(0),
        attempt: 1,
        fence: 2,
        origin: Origin::Agent,
    };
    let sealed = seal.event(&envelope, body, None);
    let bytes = sealed.bytes.bytes();
    let read: Event =
        serde_json::from_slice(bytes).map_err(|error| format!("no event any more: {error}"))?;
    holds(read.body.kind() == body.kind(), || "another kind of event".to_owned())?;
    let value = serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
    no_value_inside("event", &value)?;
    sealed.blobs.iter().try_for_each(|blob| no_value_in("blob", &blob.bytes.text()))
}

fn state(seal: &Seal, value: &Value) -> Result<(), String> {
    let stored = seal.json(value);
    let read: Value = serde_json::from_slice(stored.bytes())
        .map_err(|error| format!("state is no JSON any more: {error}"))?;
    no_value_inside("state", &read)?;
    serde_json::from_slice::<Value>(&seal.unheld(stored.bytes()))
        .map(|_| ())
        .map_err(|error| format!("state that was held is no JSON: {error}"))
}

fn no_value_in(place: &str, text: &str) -> Result<(), String> {
    match KNOWN.iter().find(|(_, value)| text.contains(value)) {
        Some((name, _)) => Err(format!("{name} comes through {place}: {text:?}")),
        None => Ok(()),
    }
}

fn no_value_inside(place: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => no_value_in(place, text),
        Value::Array(items) => items.iter().try_for_each(|item| no_value_inside(place, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, item)| {
            no_value_in(place, key).and_then(|()| no_value_inside(place, item))
        }),
    }
}
