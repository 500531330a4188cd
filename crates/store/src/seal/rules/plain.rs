//! `password=…` as people write it in files of settings, flags, addresses and YAML: a telling name in
//! any case, a sign between, and a value. Running text and code have the same shape with words and
//! expressions in the place of the value, so here the value itself must look made up: the rules for
//! names of the environment and for quoted fields ask for less.

use super::{closing, ends_word, harmless, quote_at, run};

/// A value after a name that may be anything's.
const VALUE_BYTES_MIN: usize = 8;
/// After one that can only be a password's.
const PASSWORD_BYTES_MIN: usize = 6;

const PASSWORDS: [&str; 3] = ["password", "passwd", "passphrase"];
/// How the last part of a name ends that has a secret behind it.
const OTHERS: [&str; 12] = [
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "access-key",
    "secret_key",
    "secret-key",
    "secretkey",
    "private_key",
    "auth_key",
];

/// What makes a key one that opens something.
const KEYS: [&str; 13] = [
    "api", "access", "private", "auth", "encrypt", "sign", "master", "license", "ssh", "service",
    "account", "storage", "shared",
];

/// The value that is given to the name between these places, when it looks like a secret.
pub(super) fn given(text: &[u8], from: usize, to: usize) -> Option<(usize, usize)> {
    let name = std::str::from_utf8(&text[from..to]).ok()?;
    let lower = name.to_ascii_lowercase();
    let password = PASSWORDS.iter().any(|word| lower.ends_with(word));
    if !password && !OTHERS.iter().any(|word| lower.ends_with(word)) {
        return None;
    }
    let after = to + quote_at(text, to).map_or(0, <[u8]>::len);
    let sign = run(text, after, |byte| byte == b' ');
    let value = match text.get(sign)? {
        b'=' | b':' if !matches!(text.get(sign + 1), Some(b'=' | b':' | b'/')) => {
            run(text, sign + 1, |byte| byte == b' ')
        }
        // `--password VALUE`.
        _ if lower.starts_with("--") && sign > after => sign,
        _ => return None,
    };
    let tight = value == to + 1;
    let quote = quote_at(text, value);
    let (value, end) = match quote {
        Some(quote) => (value + quote.len(), closing(text, value + quote.len(), quote)),
        None => (value, run(text, value, |byte| !ends_word(byte) && !b"&,;".contains(&byte))),
    };
    let given = &text[value..end];
    let long = given.len() >= if password { PASSWORD_BYTES_MIN } else { VALUE_BYTES_MIN };
    let written = quote.is_some() || !is_expression(given, password && tight);
    (long && written && looks_made_up(given, password) && !harmless(name, given))
        .then_some((value, end))
}

/// Whether a field of this name may hold anything, and its value is a word and nothing made up:
/// `"key": "ctrl+shift+p"`, `"primaryKey": "id"`, `"token_type": "Bearer"`.
pub(in super::super) fn is_word_under(name: &str, value: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["secret", "authorization", "cookie"]) || has(&PASSWORDS) {
        return false;
    }
    let vague = match name.contains("token") {
        true => ["type", "url", "uri", "endpoint"].iter().any(|word| name.ends_with(word)),
        false => !has(&KEYS),
    };
    vague && (value.len() < VALUE_BYTES_MIN || !looks_made_up(value, false))
}

/// Letters and digits, or both cases and signs: no word looks so.
fn looks_made_up(value: &[u8], password: bool) -> bool {
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    let letters = has(u8::is_ascii_alphabetic);
    let digits = has(u8::is_ascii_digit);
    let cases = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let signs = value.iter().any(|byte| b"!@#%^*+~?=/".contains(byte));
    let blank = has(u8::is_ascii_whitespace);
    !blank && (digits && (letters || password) || letters && cases && signs)
}

/// A call, a path, an address, or names with numbers at their ends (`config.token2`).
fn is_expression(value: &[u8], password: bool) -> bool {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.".contains(byte);
    let name = value.iter().take_while(|byte| part(byte)).count();
    let called = name > 0 && matches!(value.get(name), Some(b'(' | b'[' | b'{' | b'<' | b':'));
    let elsewhere = matches!(value.first(), Some(b'/' | b'$' | b'<' | b'{'))
        || (value.starts_with(b"%") && value.ends_with(b"%"))
        || value.starts_with(b"./")
        || memchr::memmem::find(value, b"://").is_some();
    let numbered = !password
        && name == value.len()
        && value.split(|byte| b"_.".contains(byte)).all(|word| {
            let letters = word.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let lower = word[..letters].iter().skip(1).all(u8::is_ascii_lowercase);
            letters > 0 && lower && word[letters..].iter().all(u8::is_ascii_digit)
        });
    called || elsewhere || numbered
}

#[cfg(test)]
mod tests {
    use super::super::redact;

    fn redacted(text: &str) -> String {
        redact(text.as_bytes())
            .map_or_else(|| text.to_owned(), |out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_are_redacted_behind_names_in_any_case() {
        for (before, after) in [
            ("password=", ""),
            ("db.password = \"", "\""),
            ("  password: ", "\n  user: me"),
            ("GET /?user=me&api_key=", "&page=2"),
            ("tool --db-password ", " --verbose"),
            ("tool --token=", " x"),
            ("clientSecret: '", "',"),
            ("[redis]\npasswd=", "\nport=1"),
            ("Server=db;Password=", ";Encrypt=1"),
        ] {
            let text = format!("{before}Xk29fLq8wZ{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted]{after}"));
        }
        assert_eq!(redacted("password=hunter2"), "password=[redacted]");
        assert_eq!(redacted("password: 73310042"), "password: [redacted]");
    }

    #[test]
    fn a_word_under_a_name_that_may_be_anything_stays() {
        for text in [
            r#"{"key": "ctrl+shift+p", "primaryKey": "id", "token_type": "Bearer"}"#,
            r#"{"sort_key": "created", "keyPath": "a.b", "token_url": "https://example.com/x"}"#,
        ] {
            assert_eq!(redacted(text), text);
        }
        for name in ["key", "primaryKey", "token_type"] {
            let text = format!(r#"{{"{name}": "Xk29fLq8wZ"}}"#);
            assert_eq!(redacted(&text), format!(r#"{{"{name}": "[redacted]"}}"#));
        }
        for name in ["api_key", "token", "accessKey", "secretName", "password_hint"] {
            let text = format!(r#"{{"{name}": "word"}}"#);
            assert_eq!(redacted(&text), format!(r#"{{"{name}": "[redacted]"}}"#));
        }
    }

    #[test]
    fn words_and_expressions_stay() {
        for text in [
            "password: string; token?: string",
            "password = getpass.getpass(prompt='2: ')",
            "token = next_token2",
            "token = parser2.token(1)",
            "if password == 'abc12345' {",
            "const token = tokens[i2];",
            "Token::Number12345 => {}",
            "secret: /run/secrets/db2",
            "secret: ${SECRET_2}",
            "token: https://example.com/oauth2/token",
            "the password is required, see section 12",
            "next_token=<token-2>",
            "--password --port 8080",
            "secret=***********",
            "tokens: 123456789",
            "cache_key=user12345678",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
