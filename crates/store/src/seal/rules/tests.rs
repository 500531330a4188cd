//! Each rule with texts it changes and texts it leaves alone.

use super::*;

fn redacted(text: &str) -> String {
    redact(text.as_bytes()).map_or_else(|| text.to_owned(), |out| String::from_utf8(out).unwrap())
}

#[test]
fn values_are_redacted_by_where_they_stand() {
    let rows = [
        "export OPENAI_API_KEY=abcdef123",
        "PGPASSWORD=\"two words\" psql",
        "DB_PASSWORD=12345678 OTP_TOKEN=123456 MY_SECRET=$ecret-word",
        "GH_TOKENS='a b c d'",
        "A_KEY=first1 B_TOKEN=second2",
        r#"{"api_key": "x", "name": "y"}"#,
        r#"{\"password\":\"hu\\\"nter\",\"a\":1}"#,
        "{'accessToken': 'zzz'}",
        r#"{"client_secret": "cut of"#,
        "Authorization: Bearer abc.def-123",
        "authorization: Basic dXNlcjpwYXNz",
        "-H 'Authorization: token 0123456789'",
        "AUTHORIZATION=Bearer abcdefgh",
        "send Bearer abcdefghijklmnopqrstuvwxyz please",
        "use sk-proj-abcdefghijklmnop1234 now",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2ln",
    ];
    let out: Vec<String> = rows.iter().map(|row| redacted(row)).collect();
    insta::assert_snapshot!(out.join("\n"), @r##"
export OPENAI_API_KEY=[redacted]
PGPASSWORD="[redacted]" psql
DB_PASSWORD=[redacted] OTP_TOKEN=[redacted] MY_SECRET=[redacted]
GH_TOKENS='[redacted]'
A_KEY=[redacted] B_TOKEN=[redacted]
{"api_key": "[redacted]", "name": "y"}
{\"password\":\"[redacted]\",\"a\":1}
{'accessToken': '[redacted]'}
{"client_secret": "[redacted]
Authorization: Bearer [redacted]
authorization: Basic [redacted]
-H 'Authorization: token [redacted]'
AUTHORIZATION=Bearer [redacted]
send Bearer [redacted] please
use [redacted] now
[redacted]
[redacted]
"##);
}

#[test]
fn ordinary_text_stays() {
    for text in [
        "token count: 5",
        "monkey=banana",
        "MONKEY=banana-split",
        "MAX_TOKENS=4096",
        "TOKEN_LIMIT=1000000",
        "API_KEY=$OTHER_KEY",
        "API_KEY=${other.key}",
        "API_KEY=short",
        "the key is under the mat",
        "a bearer of good news",
        "Bearer tokens are explained below",
        "authorization: required for this page",
        "authorization is handled elsewhere",
        "task-implementation-of-something-long",
        "{\"keyboard\": \"qwerty\"}",
        "{\"max_tokens\": \"4096\"}",
        "cookie cutter",
        "",
    ] {
        assert_eq!(redacted(text), text);
    }
}

/// What is redacted of each row, with a `|` in it so that no key stands in the source.
fn rows(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let (text, expected) = (text.replace('|', ""), expected.replace('|', ""));
        assert_eq!(redacted(&text), expected);
        assert!(text == expected || may_apply(text.as_bytes()), "{text}");
    }
}

#[test]
fn tokens_in_three_parts_are_redacted() {
    rows(&[
        ("t eyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl x", "t [redacted] x"),
        ("(eyJ|hbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTYifQ.)", "([redacted].)"),
        ("It was eyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl.", "It was [redacted]."),
        ("eyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0", "eyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0"),
        (
            "abceyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "abceyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        ),
        ("eyJ.a.b", "eyJ.a.b"),
    ]);
}

#[test]
fn tokens_of_bots_are_redacted() {
    let key = "0123456789abcdefghijklmnopqrstuvw";
    rows(&[
        (&format!("bot 123456789:AA|{key} x"), "bot [redacted] x"),
        (&format!("/bot12345678:AA|{key}/getMe"), "/bot[redacted]/getMe"),
        (&format!("1234:AA|{key}"), &format!("1234:AA{key}")),
        ("ratio 123456789:AAA", "ratio 123456789:AAA"),
    ]);
}

#[test]
fn private_keys_are_redacted_however_their_lines_end() {
    rows(&[
        (
            "-----BEGIN RSA PRIVATE| KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----\nmore",
            "-----BEGIN RSA PRIVATE KEY-----\n[redacted]\n-----END RSA PRIVATE KEY-----\nmore",
        ),
        (
            r"-----BEGIN PRIVATE| KEY-----\nMIIEow\nIBAAKC\n-----END PRIVATE KEY-----\n",
            r"-----BEGIN PRIVATE KEY-----\n[redacted]\n-----END PRIVATE KEY-----\n",
        ),
        (
            "  -----BEGIN OPENSSH PRIVATE| KEY-----\r\n  b3BlbnNz\r\n  aC1rZXk=\r\n  -----END OPENSSH PRIVATE KEY-----",
            "  -----BEGIN OPENSSH PRIVATE KEY-----\r\n  [redacted]\r\n  -----END OPENSSH PRIVATE KEY-----",
        ),
        (
            "-----BEGIN EC PRIVATE| KEY-----\nMHcCAQEE cut of",
            "-----BEGIN EC PRIVATE KEY-----\n[redacted]",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
        ),
        (
            "-----BEGIN PUBLIC KEY-----\nMIID\n-----END PUBLIC KEY-----",
            "-----BEGIN PUBLIC KEY-----\nMIID\n-----END PUBLIC KEY-----",
        ),
    ]);
}

#[test]
fn passwords_in_addresses_are_redacted_and_nothing_else_of_them() {
    rows(&[
        ("postgres://app:hush@db:5432/x", "postgres://app:[redacted]@db:5432/x"),
        ("'redis://:p@ss:word@cache/0'", "'redis://:[redacted]@cache/0'"),
        (
            "https://bot:abc@example.com/a?b=c, then",
            "https://bot:[redacted]@example.com/a?b=c, then",
        ),
        (
            "mongodb+srv://u:p1@h/x amqp://a:b@c",
            "mongodb+srv://u:[redacted]@h/x amqp://a:[redacted]@c",
        ),
        (
            "git clone https://0123456789abcdef0123@example.com/r",
            "git clone https://[redacted]@example.com/r",
        ),
        ("ssh://git@example.com/r.git", "ssh://git@example.com/r.git"),
        ("https://example.com:8080/@scope/pkg", "https://example.com:8080/@scope/pkg"),
        ("postgres://app:${PGPASSWORD}@db", "postgres://app:${PGPASSWORD}@db"),
        ("http://localhost:3000/a@2x.png", "http://localhost:3000/a@2x.png"),
        ("// a comment: see me@example.com", "// a comment: see me@example.com"),
    ]);
}

#[test]
fn every_literal_is_noticed_wherever_it_stands() {
    for rules in &RULES.by_first {
        for Listed { rule, .. } in rules {
            for before in 0..4 {
                // The shortest text that goes on as the rule allows.
                let goes_on = (1..=255u8).find(|byte| rule.goes_on_with(*byte)).unwrap();
                let mut text = vec![b' '; before];
                text.extend_from_slice(rule.begin().as_bytes());
                text.extend([goes_on; 2]);
                let found = each(&text, |found, at| {
                    (found.begin() == rule.begin() && at == before).then_some(())
                });
                assert!(found.is_some(), "{:?} at {before}", rule.begin());
            }
        }
    }
    for name in NAMES {
        for text in [
            name.to_owned(),
            name.to_uppercase(),
            format!("x{name}"),
            format!("y{}", name.to_uppercase()),
        ] {
            assert!(may_apply(text.as_bytes()), "{text}");
        }
    }
}

#[test]
fn what_was_redacted_stays_as_it_is() {
    for text in [
        "API_KEY=[redacted:K]",
        "API_KEY=[redacted]",
        "AUTHORIZATION=Bearer [redacted:K]",
        r#"{"api_key": "[redacted]"}"#,
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn names_tell_by_their_parts() {
    for name in ["key", "apiKey", "X-Auth-Token", "clientsecret", "PASSWORD", "Set-Cookie"] {
        assert!(telling(name), "{name}");
    }
    for name in ["monkey", "keyboard_layout", "keywords", "tokenizer", "text", "author"] {
        assert!(!telling(name), "{name}");
    }
}

#[test]
fn a_user_who_is_called_like_a_secret_does_not_make_a_second_look_differ() {
    let once = redacted("-----END://password:@@-----BEGIN PRIVATE KEY-----");
    assert_eq!(once, "-----END://password:[redacted]@-----BEGIN PRIVATE KEY-----");
    assert_eq!(redacted(&once), once);
}

#[test]
fn a_key_that_stands_where_an_address_has_its_user_is_redacted_too() {
    let key = format!("ghp{}{}", "_", "16C7e42F292c6912E7710c838347Ae178B4a");
    let text = format!("git clone https://{key}:x-oauth-basic@github.com/a/b");
    assert_eq!(redacted(&text), "git clone https://[redacted]:[redacted]@github.com/a/b");
}

#[test]
fn a_name_that_only_a_redacted_neighbour_lets_stand_alone_is_seen_at_the_first_look() {
    let once = redacted("-----BEGIN PRIVATE KEY-----A-----ENDpassword 000000a");
    assert_eq!(once, "-----BEGIN PRIVATE KEY-----[redacted]-----ENDpassword [redacted]");
    assert_eq!(redacted(&once), once);
}

/// Pieces of everything that a rule looks at, in any order: rules overlap where they meet.
const OVERLAPS: &str = concat!(
    "(?s)([a-zA-Z\"'\\\\ =:&,;/.\n]|KEY|TOKEN|_KEY=|key|password|--password |secret: |bearer |Bearer ",
    "|authorization|Authorization: Basic |sk-|ghp_|eyJ|:AA|://|@|\\[redacted\\]|\\[redacted:K\\]",
    "|-----BEGIN PRIVATE KEY-----|-----END|[0-9]{6}|[a-z0-9]{20}){0,30}"
);

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1_000))]
    #[test]
    fn any_bytes_are_looked_at_without_harm_and_one_look_is_enough(text in OVERLAPS) {
        let once = redacted(&text);
        proptest::prop_assert_eq!(&redacted(&once), &once, "of {:?}", text);
    }
}
