//! What a schema wants of a value, in code and in words. Knows the part of JSON Schema that our own
//! schema uses: references, alternatives, types, words, and no more.

use jsonc_parser::ast;
use serde_json::Value;

/// The plain alternatives of a schema, its references followed.
pub fn choices<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(name) => root.pointer(name.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    };
    match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        Some(several) => several.iter().flat_map(|one| choices(root, one)).collect(),
        None => vec![schema],
    }
}

/// The JSON types a plain schema takes; none named means all.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

pub fn accepts(schema: &Value, node: &ast::Value<'_>) -> bool {
    let types = types(schema);
    let has = |name| types.contains(&name);
    types.is_empty()
        || match node {
            ast::Value::StringLit(_) => has("string"),
            ast::Value::NumberLit(number) => {
                has("number") || has("integer") && !number.value.contains(['.', 'e', 'E'])
            }
            ast::Value::BooleanLit(_) => has("boolean"),
            ast::Value::Object(_) => has("object"),
            ast::Value::Array(_) => has("array"),
            ast::Value::NullKeyword(_) => has("null"),
        }
}

/// The words a string may be; none means any.
pub fn words<'s>(choices: &[&'s Value]) -> Vec<&'s str> {
    let of = |choice: &&'s Value| {
        let several = choice.get("enum").and_then(Value::as_array).into_iter().flatten();
        several.chain(choice.get("const")).filter_map(Value::as_str)
    };
    choices.iter().flat_map(of).collect()
}

/// More words than this are no help in a sentence.
const WORDS_SHOWN_MAX: usize = 16;

/// What was wanted, for people.
pub fn expected(choices: &[&Value]) -> String {
    let mut wanted: Vec<String> = Vec::new();
    for choice in choices {
        let known = words(&[choice]);
        if known.len() > WORDS_SHOWN_MAX {
            let some: Vec<_> = known.iter().take(3).map(|word| format!("\"{word}\"")).collect();
            wanted.push(format!("one of {} words such as {}", known.len(), some.join(", ")));
            continue;
        }
        if !known.is_empty() {
            wanted.extend(known.iter().map(|word| format!("\"{word}\"")));
            continue;
        }
        for name in types(choice) {
            match name {
                "string" => wanted.push("a string".to_owned()),
                "integer" => wanted.push("a whole number".to_owned()),
                "number" => wanted.push("a number".to_owned()),
                "boolean" => wanted.push("true or false".to_owned()),
                "array" => wanted.push("a list".to_owned()),
                "object" => wanted.push("an object".to_owned()),
                // That a key may be null goes without saying.
                _ => {}
            }
        }
    }
    match wanted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => "something else".to_owned(),
    }
}

pub fn found(node: &ast::Value<'_>) -> String {
    match node {
        ast::Value::StringLit(_) => "a string".to_owned(),
        ast::Value::NumberLit(number) => number.value.chars().take(40).collect(),
        ast::Value::BooleanLit(given) => given.value.to_string(),
        ast::Value::Object(_) => "an object".to_owned(),
        ast::Value::Array(_) => "a list".to_owned(),
        ast::Value::NullKeyword(_) => "null".to_owned(),
    }
}
