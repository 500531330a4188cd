//! The disguises in which a value may be said: base64, percent signs, JSON escapes. Written out
//! here rather than taken from a library, so that a test of the seal does not use the seal's own.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    Standard,
    UrlSafe,
}

pub fn base64(bytes: &[u8], alphabet: Alphabet) -> String {
    let letters = match alphabet {
        Alphabet::Standard => STANDARD,
        Alphabet::UrlSafe => URL_SAFE,
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let letter = letters[(word >> (18 - 6 * n) & 63) as usize];
            text.push(if n <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Upper,
    Lower,
}

pub fn percent(bytes: &[u8], case: Case) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(*byte).to_string()
            }
            _ => match case {
                Case::Upper => format!("%{byte:02X}"),
                Case::Lower => format!("%{byte:02x}"),
            },
        })
        .collect()
}

pub fn hex(bytes: &[u8], case: Case) -> String {
    bytes
        .iter()
        .map(|byte| match case {
            Case::Upper => format!("{byte:02X}"),
            Case::Lower => format!("{byte:02x}"),
        })
        .collect()
}

/// The value in HTML.
pub fn html(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\'' => "&#39;".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

/// The value with a colour before each of its characters.
pub fn painted(text: &str) -> String {
    text.chars().map(|c| format!("\u{1b}[3{}m{c}", u32::from(c) % 8)).collect()
}

/// The value as the inside of a JSON string.
pub fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_encoded_as_the_standards_say() {
        for (plain, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes(), Alphabet::Standard), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff], Alphabet::Standard), "+/8=");
        assert_eq!(base64(&[0xfb, 0xff], Alphabet::UrlSafe), "-_8=");
        assert_eq!(percent(b"a/b+c", Case::Upper), "a%2Fb%2Bc");
        assert_eq!(percent(b"a/b+c", Case::Lower), "a%2fb%2bc");
        assert_eq!(json_escaped("a\"b\\c"), "a\\\"b\\\\c");
        assert_eq!((hex(b"a/", Case::Lower), hex(b"o", Case::Upper)), ("612f".into(), "6F".into()));
        assert_eq!(html("a\"<'&"), "a&quot;&lt;&#39;&amp;");
    }
}
