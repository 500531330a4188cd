//! The effective configuration for people: every key under its one name, and no secret. Values
//! under names that look secret are shown as `[redacted]`; a bare `${NAME}` says only where a value
//! would come from, so it stays.

use super::Config;
use serde_json::Value;

const REDACTED: &str = "[redacted]";

/// The configuration as JSON that would load again, but for its secrets.
pub fn show(config: &Config) -> Value {
    let mut value = serde_json::to_value(&config.file).unwrap_or_default();
    conceal(&mut value, "");
    value
}

/// A command line for people, without its secrets.
pub fn command_shown(binary: &str, args: &[String]) -> String {
    let mut args = Value::from(args.to_vec());
    conceal(&mut args, "");
    let args = args.as_array().into_iter().flatten().filter_map(Value::as_str);
    std::iter::once(binary).chain(args).collect::<Vec<_>>().join(" ")
}

/// Whether a name is one under which people keep secrets.
fn looks_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let words = ["key", "token", "secret", "password", "passwd", "authorization", "cookie"];
    words.iter().any(|word| name.contains(word))
}

/// Our own keys hold no secrets (`tokenEnv` and `keyPath` say where one is kept); what people may
/// have written into variables, headers, arguments and addresses does.
fn conceal(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            let named_by_people = matches!(name, "env" | "headers");
            for (key, value) in fields.iter_mut() {
                match value {
                    Value::String(text) if named_by_people && looks_secret(key) => {
                        if !is_reference(text) {
                            *text = REDACTED.to_owned();
                        }
                    }
                    _ => conceal(value, key),
                }
            }
        }
        Value::Array(items) => {
            let mut after_flag = false;
            for item in items {
                conceal(item, "");
                if let Value::String(text) = item {
                    after_flag = conceal_argument(text, after_flag);
                }
            }
        }
        Value::String(text) => conceal_address(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Hides `--api-key VALUE` and `--api-key=VALUE`; gives back whether the next argument is a value.
fn conceal_argument(text: &mut String, after_flag: bool) -> bool {
    if let Some((flag, value)) = text.split_once('=')
        && looks_secret(flag.trim_start_matches('-'))
        && !is_reference(value)
    {
        *text = format!("{flag}={REDACTED}");
        return false;
    }
    let is_flag = text.starts_with('-');
    if after_flag && !is_flag && !is_reference(text) {
        *text = REDACTED.to_owned();
    }
    is_flag && !text.contains('=') && looks_secret(text.trim_start_matches('-'))
}

/// Hides the user and password inside an address.
fn conceal_address(text: &mut String) {
    let Some((scheme, rest)) = text.split_once("://") else { return };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if let Some(sign) = rest[..end].rfind('@') {
        *text = format!("{scheme}://{REDACTED}{}", &rest[sign..]);
    }
}

/// Whether the text is nothing but a `${NAME}` or a `{{placeholder}}`, perhaps after a scheme word.
fn is_reference(text: &str) -> bool {
    let value = text.strip_prefix("Bearer ").unwrap_or(text);
    let inside = |open, close| {
        value
            .strip_prefix(open)
            .and_then(|rest: &str| rest.strip_suffix(close))
            .is_some_and(|name: &str| !name.contains(['{', '}', '$']))
    };
    inside("${", "}") || inside("{{", "}}")
}
