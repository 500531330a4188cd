//! Secrets that are known by their shape and not by a literal alone: JSON web tokens, tokens of bots,
//! private keys between their rulers, passwords in addresses. Each function is asked at the place
//! where its literal stands and says what to replace.

use super::{BEARER_BYTES_MIN, ends_word, harmless, is_token, run};

/// The shortest JSON web token worth the name.
const TOKEN_BYTES_MIN: usize = 33;

/// Where the JSON web token that begins at `at` ends: three parts (five when encrypted), in dots.
pub(super) fn json_web_token(text: &[u8], at: usize) -> Option<usize> {
    let end = run(text, at, is_token);
    let token = &text[at..end];
    let token =
        &token[..token.len() - token.iter().rev().take_while(|byte| **byte == b'.').count()];
    let parts = token.split(|byte| *byte == b'.').count();
    // Without a signature the last dot is its end, and was taken for a full stop.
    let unsigned = parts == 2 && text.get(at + token.len()) == Some(&b'.');
    (token.len() >= TOKEN_BYTES_MIN && (parts == 3 || parts == 5 || unsigned))
        .then_some(at + token.len())
}

pub(super) fn bot_token(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let digits = text[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let end = run(text, at + 1, |byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    ((8..=10).contains(&digits) && (34..=36).contains(&(end - at - 1)))
        .then_some((at - digits, end))
}

/// Where the ruler before a private key ends.
pub(super) fn private_key_ruler(text: &[u8], at: usize) -> Option<usize> {
    let begin = at + "-----BEGIN ".len();
    let words =
        run(text, begin, |byte| byte.is_ascii_uppercase() || byte == b' ' || byte.is_ascii_digit());
    let private = memchr::memmem::find(&text[begin..words], b"PRIVATE KEY").is_some();
    (private && text[words..].starts_with(b"-----")).then_some(words + 5)
}

/// What stands between the rulers, however its lines are ended; to the end when it was cut.
pub(super) fn private_key(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let from = private_key_ruler(text, at)?;
    let key = &text[from..];
    let end = memchr::memmem::find(key, b"-----END").unwrap_or(key.len());
    let breaks = |byte: &u8| byte.is_ascii_whitespace() || b"\\nr".contains(byte);
    let lead = key[..end].iter().take_while(|byte| breaks(byte)).count();
    let tail = key[lead..end].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    // Line breaks that are written as escapes end the key too.
    let mut to = end - tail;
    while key[lead..to].ends_with(b"\\n") || key[lead..to].ends_with(b"\\r") {
        to -= 2;
    }
    let value = &key[lead..to];
    (!value.is_empty() && !harmless("", value)).then_some((from + lead, from + to))
}

/// What stands before the `@` of an address: a name, or a name and a password.
pub(super) fn user_info(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let from = at + "://".len();
    let end = run(text, from, |byte| !ends_word(byte) && !b"/<>,;|".contains(&byte));
    let at_sign = memchr::memrchr(b'@', &text[from..end])?;
    Some((from, from + at_sign))
}

/// The password in an address, or a name that is so long that it is a key.
pub(super) fn password_in(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let (from, to) = user_info(text, at)?;
    let schemed = text[..at].last().is_some_and(u8::is_ascii_alphanumeric);
    let value = match memchr::memchr(b':', &text[from..to]) {
        Some(colon) => from + colon + 1,
        None if to - from >= BEARER_BYTES_MIN && text[from..to].iter().any(u8::is_ascii_digit) => {
            from
        }
        None => return None,
    };
    (schemed && !harmless("", &text[value..to])).then_some((value, to))
}
