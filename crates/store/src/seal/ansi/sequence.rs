//! Where a terminal's control sequence ends: colours and cursors (`ESC [ … letter`), strings such as
//! titles and links (`ESC ] … BEL`), and the short ones. The escape character may also be written as
//! JSON writes it, under several layers of quoting. Looks at the beginning of a text only, and says
//! when the text is too short to tell.

use super::super::known::JSON_LAYERS;
use super::End;

pub(in super::super) const ESCAPE: u8 = 0x1b;

/// How JSON writes the escape character.
pub(in super::super) const ESCAPED: &str = r"\u001b";

const BELL: u8 = 0x07;

/// What the written forms of escape character and bell have in common, without their backslashes.
const WRITTEN: &[u8] = b"u00";

/// Every layer of JSON doubles the backslashes of the one inside.
const BACKSLASHES_MAX: usize = 1 << JSON_LAYERS;

/// What a text begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    None,
    /// A sequence of this length.
    Whole(usize),
    /// What may become one, or the end of one, when more comes.
    Cut,
    /// A string that is not closed. It counts without what is in it, by this length, unless more
    /// comes and closes it.
    Unclosed(usize),
}

/// Whether a sequence may begin with this byte.
pub(super) fn may_lead(byte: u8) -> bool {
    byte == ESCAPE || byte == b'\\'
}

/// A place before which no sequence begins; `None` when none begins at all.
pub(super) fn first_lead(text: &[u8], end: End) -> Option<usize> {
    let plain = memchr::memchr(ESCAPE, text);
    let before = &text[..plain.unwrap_or(text.len())];
    let written = memchr::memmem::find(before, b"u001")
        .or_else(|| (end == End::Open).then(|| written_tail(before)).flatten())
        .map(|at| at.saturating_sub(BACKSLASHES_MAX));
    written.or(plain)
}

/// Where the end of a text begins the written form of an escape character, its backslashes left out.
fn written_tail(text: &[u8]) -> Option<usize> {
    let tails: [&[u8]; 4] = [b"", b"u", b"u0", b"u00"];
    tails.into_iter().find_map(|tail| {
        text.strip_suffix(tail).filter(|head| head.ends_with(b"\\")).map(<[u8]>::len)
    })
}

/// The sequence that a text begins with, behind so many backslashes.
pub(super) fn sequence(text: &[u8], backslashes_before: usize) -> Sequence {
    let backslashes = text.iter().take_while(|byte| **byte == b'\\').count();
    // A written backslash has twice as many as the escape character at the same layer. So of all
    // that stand together, those of the escape character are the greatest power of two in their
    // number; the others are text.
    let all = backslashes_before + backslashes;
    if backslashes < text.len() && backslashes > 0 && backslashes != 1 << all.trailing_zeros() {
        return Sequence::None;
    }
    let after = match control(text, ESCAPE, b"1b") {
        Sequence::Whole(after) => after,
        other @ (Sequence::None | Sequence::Cut | Sequence::Unclosed(_)) => return other,
    };
    let rest = &text[after..];
    let length = match rest.first() {
        None => Sequence::Cut,
        Some(b'[') => closed(rest, 1, 0x20..=0x3f, 0x40..=0x7e),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => string(rest),
        Some(0x20..=0x2f) => closed(rest, 1, 0x20..=0x2f, 0x30..=0x7e),
        Some(0x30..=0x7e) => Sequence::Whole(1),
        Some(_) => Sequence::Whole(0),
    };
    match length {
        Sequence::Whole(length) => Sequence::Whole(after + length),
        Sequence::Unclosed(length) => Sequence::Unclosed(after + length),
        Sequence::Cut | Sequence::None => Sequence::Cut,
    }
}

/// A control character, as it is or written with these digits.
fn control(text: &[u8], plain: u8, digits: &[u8; 2]) -> Sequence {
    if text.first() == Some(&plain) {
        return Sequence::Whole(1);
    }
    let backslashes = text.iter().take_while(|byte| **byte == b'\\').count();
    if !(1..=BACKSLASHES_MAX).contains(&backslashes) {
        return Sequence::None;
    }
    let rest = &text[backslashes..];
    let length = WRITTEN.len() + digits.len();
    // Only the digits may be capitals.
    let (mark, number) = rest.split_at(rest.len().min(WRITTEN.len()));
    let written = WRITTEN.starts_with(mark)
        && digits.iter().zip(number).all(|(wanted, byte)| *wanted == byte.to_ascii_lowercase());
    if !written {
        return Sequence::None;
    }
    if rest.len() < length { Sequence::Cut } else { Sequence::Whole(backslashes + length) }
}

type Bytes = std::ops::RangeInclusive<u8>;

/// Bytes of one kind and one that closes them; without it they are the sequence.
fn closed(text: &[u8], from: usize, inside: Bytes, closing: Bytes) -> Sequence {
    let end = from + text[from..].iter().take_while(|byte| inside.contains(byte)).count();
    match text.get(end) {
        None => Sequence::Cut,
        Some(byte) => Sequence::Whole(end + usize::from(closing.contains(byte))),
    }
}

/// Up to the bell, or an escape character and a backslash; another control character or sequence
/// breaks it off, and then it is one without a string.
fn string(text: &[u8]) -> Sequence {
    let mut at = 1;
    while at < text.len() {
        let rest = &text[at..];
        match (control(rest, BELL, b"07"), control(rest, ESCAPE, b"1b")) {
            (Sequence::Whole(length), _) => return Sequence::Whole(at + length),
            (_, Sequence::Whole(length)) => return terminated(text, at, length),
            (Sequence::None, Sequence::None) if rest[0] < 0x20 => return Sequence::Whole(1),
            (Sequence::None, Sequence::None) => at += 1,
            _ => break,
        }
    }
    Sequence::Unclosed(1)
}

/// With the backslash behind the escape character that may close a string, written like it.
fn terminated(text: &[u8], at: usize, escape: usize) -> Sequence {
    let rest = &text[at + escape..];
    let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    // Written, the backslash is doubled as often as the one before the escape character.
    let wanted = match escape {
        1 => 1,
        written => 2 * (written - WRITTEN.len() - 2),
    };
    match backslashes {
        _ if backslashes >= wanted => Sequence::Whole(at + escape + wanted),
        _ if backslashes == rest.len() => Sequence::Unclosed(1),
        _ => Sequence::Whole(1),
    }
}
