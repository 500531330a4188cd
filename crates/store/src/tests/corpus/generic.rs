//! Secrets of nobody's form, as people make them up or have them made, and the places where they are
//! written down: files of settings, flags, addresses, YAML, JSON, code.

use super::Chance;

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const SIGNS: &str = "!#%*+-.:=?@^_~ABCDEFGHabcdefgh0123456789";
const HEX: &str = "0123456789abcdef";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const WORDS: [&str; 6] = ["Summer", "dragon", "Welcome", "monday", "Falcon", "river"];

pub const WAYS: &[&str] = &[
    "password={}",
    "password = {}",
    "password: {}",
    "passwd={}",
    "db.password={}",
    "  password: \"{}\"",
    "\"password\": \"{}\",",
    "'secret': '{}'",
    "client_secret={}",
    "secret_key = '{}'",
    "api_key={}&page=2",
    "apiKey: \"{}\",",
    "auth_token: {}",
    "accessToken=\"{}\"",
    "tool --password {} --verbose",
    "tool --token={} run",
    "PASSWORD={}",
    "export DB_PASSWORD='{}'",
    "Server=db;User=me;Password={};Encrypt=yes",
    "postgres://app:{}@db/main",
];

/// One of each kind.
pub fn values(chance: &mut Chance) -> Vec<(&'static str, String)> {
    let word = *chance.pick(&WORDS);
    let number = chance.below(9_000) + 1_000;
    vec![
        ("letters and digits", chance.text(ALNUM, 12)),
        ("long", chance.text(ALNUM, 32)),
        ("signs", chance.text(SIGNS, 16)),
        ("hexadecimal", chance.text(HEX, 32)),
        ("base64", chance.text(BASE64, 40)),
        ("word and year", format!("{word}{number}!")),
        ("words", format!("{word}-{number}-{}", chance.pick(&WORDS))),
    ]
}
