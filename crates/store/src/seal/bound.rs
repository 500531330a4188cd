//! A field that is too long becomes a preview, and its whole becomes a blob that
//! `<field>_blob` names by its hash. Works on the sealed body, so a preview never cuts a secret in
//! two and a blob holds none. Text is kept as text; other JSON is kept as JSON and says so.

use super::walk::{string_end, unquoted};
use super::{Sealed, SealedBlob};
use contract::limits::{PREVIEW_BYTES, TEXT_BYTES_MAX, TOOL_BYTES_MAX};
use std::borrow::Cow;
use std::io::Write as _;
use std::ops::Range;

/// The bounded body and the blobs it names; `None` when every field is short enough.
pub(super) fn bound(body: &[u8]) -> Option<(Vec<u8>, Vec<SealedBlob>)> {
    if body.len() <= TOOL_BYTES_MAX {
        return None;
    }
    let mut out = vec![b'{'];
    let mut blobs = Vec::new();
    for (key, value) in fields(body) {
        if out.len() > 1 {
            out.push(b',');
        }
        let name = String::from_utf8_lossy(&body[key.start + 1..key.end - 1]);
        out.extend_from_slice(&body[key]);
        out.push(b':');
        let value = &body[value];
        match preview(&name, value) {
            None => out.extend_from_slice(value),
            Some((preview, whole)) => {
                out.extend_from_slice(&preview);
                let hash = blake3::hash(&whole).to_hex().to_string();
                let form = if value[0] == b'"' { "" } else { r#","as":"json""# };
                // Writing to a Vec cannot fail.
                let _ = write!(
                    out,
                    r#","{name}_blob":{{"hash":"{hash}","bytes":{}{form}}}"#,
                    whole.len()
                );
                blobs.push(SealedBlob { hash, bytes: Sealed(whole.into_owned()) });
            }
        }
    }
    if blobs.is_empty() {
        return None;
    }
    out.extend_from_slice(br#","truncated":true}"#);
    Some((out, blobs))
}

/// What is shown of a field that is too long, of the same shape as the field, and its whole.
fn preview<'a>(name: &str, value: &'a [u8]) -> Option<(Vec<u8>, Cow<'a, [u8]>)> {
    let anything = matches!(name, "input" | "output" | "content");
    let bytes_max = if anything { TOOL_BYTES_MAX } else { TEXT_BYTES_MAX };
    if value.len() <= bytes_max {
        return None;
    }
    match value[0] {
        b'"' => {
            let whole = unquoted(value);
            (whole.len() > bytes_max).then(|| (quoted_start(&whole), whole))
        }
        _ if anything => Some((quoted_start(value), Cow::Borrowed(value))),
        b'[' if matches!(name, "beliefs" | "attempted") => {
            let mut shown = vec![b'['];
            shown.extend(quoted_start(value));
            shown.push(b']');
            Some((shown, Cow::Borrowed(value)))
        }
        b'[' => Some((b"[]".to_vec(), Cow::Borrowed(value))),
        // The objects of the contract hold numbers and our own short notes.
        _ => None,
    }
}

/// The first characters that fit a preview, as a JSON string.
fn quoted_start(text: &[u8]) -> Vec<u8> {
    let start = String::from_utf8_lossy(&text[..text.len().min(PREVIEW_BYTES)]);
    // The cut may have halved the last character.
    let start = start.trim_end_matches(char::REPLACEMENT_CHARACTER);
    serde_json::Value::from(start).to_string().into_bytes()
}

/// The keys (with their quotes) and values of an object written by serde: no white space between.
fn fields(object: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut fields = Vec::new();
    let mut at = 1;
    while object.get(at) == Some(&b'"') {
        let key_end = string_end(object, at);
        let value = key_end + 1;
        let end = value_end(object, value);
        fields.push((at..key_end, value..end));
        at = end + 1;
    }
    fields
}

fn value_end(json: &[u8], from: usize) -> usize {
    let mut depth = 0usize;
    let mut at = from;
    while at < json.len() {
        match json[at] {
            b'"' => {
                at = string_end(json, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    json.len()
}
