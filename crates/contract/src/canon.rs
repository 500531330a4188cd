//! The canonical bytes of a body, as serde writes them and faster where it counts: most events are
//! text, and most text needs no escapes, so it is copied in blocks instead of looked up byte by
//! byte. Writes nothing that `serde_json` would write otherwise; a test compares them.

use crate::event::{Body, Text};
use std::io;

/// Bytes that are looked at together.
const BLOCK: usize = 32;

impl Body {
    /// Appends the body as a JSON object. Fails when a value has no form in JSON; then a part of it
    /// may have been written.
    pub fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::AssistantText(text) | Self::Thinking(text) => {
                out.extend_from_slice(br#"{"kind":""#);
                out.extend_from_slice(self.kind().as_bytes());
                out.extend_from_slice(br#"","text":"#);
                write_fields(text, out);
                Ok(())
            }
            // The others are rarer, or hold values of any shape.
            Self::Session(_)
            | Self::Turn(_)
            | Self::UserText(_)
            | Self::ToolUse(_)
            | Self::ToolUpdate(_)
            | Self::ToolResult(_)
            | Self::Plan(_)
            | Self::Diff(_)
            | Self::Permission(_)
            | Self::Progress(_)
            | Self::Comment(_)
            | Self::Usage(_)
            | Self::Quota(_)
            | Self::Budget(_)
            | Self::Lease(_)
            | Self::Lifecycle(_)
            | Self::Log(_)
            | Self::Error(_)
            | Self::Result(_)
            | Self::Unknown(_) => serde_json::to_writer(out, self).map_err(io::Error::from),
        }
    }
}

/// The fields of a text, from the value of the first one on.
fn write_fields(fields: &Text, out: &mut Vec<u8>) {
    let Text { text, block, delta } = fields;
    quote(text, out);
    if let Some(block) = block {
        out.extend_from_slice(br#","block":"#);
        quote(block, out);
    }
    out.extend_from_slice(if *delta { br#","delta":true}"# } else { br#","delta":false}"# });
}

/// Appends a text as a string of JSON.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    while !rest.is_empty() {
        // All that needs no escapes goes over in one piece, then one block byte by byte.
        let (plain, other) = rest.split_at(plain_bytes(rest));
        out.extend_from_slice(plain);
        let (odd, later) = other.split_at(other.len().min(BLOCK));
        match odd.iter().any(|byte| is_escaped(*byte)) {
            true => odd.iter().for_each(|byte| escape(*byte, out)),
            false => out.extend_from_slice(odd),
        }
        rest = later;
    }
    out.push(b'"');
}

/// The length of the blocks at the beginning that need no escapes. A block has a fixed length and is
/// looked at without a branch, or it would not be compared at once.
fn plain_bytes(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks::<BLOCK>();
    let odd = |block: &[u8; BLOCK]| {
        block.iter().fold(0, |odd, byte| odd | u8::from(is_escaped(*byte))) != 0
    };
    blocks.iter().position(odd).unwrap_or(blocks.len()) * BLOCK
}

fn is_escaped(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x00..0x20 => {
            let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit & 0xf)];
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte)]);
            return;
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::UserText;
    use proptest::prelude::*;

    fn written(body: &Body) -> Vec<u8> {
        let mut out = Vec::new();
        body.write(&mut out).unwrap();
        out
    }

    #[test]
    fn every_character_is_quoted_as_serde_quotes_it() {
        for c in (0..=char::MAX as u32).filter_map(char::from_u32).step_by(7).chain('\0'..='\u{ff}')
        {
            let text = format!("before {c} after, and long enough for more than one block {c}");
            let mut out = Vec::new();
            quote(&text, &mut out);
            assert_eq!(out, serde_json::to_vec(&text).unwrap(), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn a_body_is_written_as_serde_writes_it(
            text in "(\\PC|[\"\\\\\n\t\u{0}]){0,80}",
            block in proptest::option::of("\\PC{0,8}"),
            delta: bool,
        ) {
            let fields = Text { text: text.clone(), block, delta };
            for body in [
                Body::AssistantText(fields.clone()),
                Body::Thinking(fields),
                Body::UserText(UserText { text }),
            ] {
                prop_assert_eq!(written(&body), serde_json::to_vec(&body).unwrap());
            }
        }
    }
}
