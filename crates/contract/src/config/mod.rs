//! The shape of `ostler.json` as data: `file` has the objects, `words` the closed choices and numbers, and
//! `schema` the JSON Schema made from both. `ostler config schema`, `GET /api/v1/config/schema`, the
//! checker of the command line and the `config_schema` of every card come from it, so that a key is
//! described once. Nothing is read or resolved here.

pub mod file;
pub mod words;

use crate::limits;
use file::File;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use words::AdapterType;

/// The deepest reference that is replaced by its definition.
const INLINE_DEPTH_MAX: usize = 6;

/// The JSON Schema of the file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(File).to_value();
    schema["title"] = json!("The configuration of Ostler (ostler.json)");
    schema
}

/// Every key that an adapter of this type takes, with its schema and, where one is fixed, its default.
/// References are replaced by what they refer to, so that each schema stands alone.
pub fn adapter_keys(kind: AdapterType) -> BTreeMap<String, Value> {
    let schema = schema();
    let properties = schema["$defs"]["Adapter"]["properties"].as_object();
    let taken = properties.into_iter().flatten().filter(|(name, _)| !kind.refuses(name));
    let described = taken.map(|(name, property)| {
        let mut alone = standing_alone(name, property, &schema);
        if name == "type" {
            alone["const"] = kind.word().into();
        }
        if let (Value::Object(fields), Some(default)) = (&mut alone, default_of(name)) {
            fields.insert("default".to_owned(), default);
        }
        (name.clone(), alone)
    });
    described.collect()
}

/// The keys of an adapter that every type takes.
pub fn is_common_key(name: &str) -> bool {
    name != "type" && AdapterType::ALL.iter().all(|kind| !kind.own_keys().contains(&name))
}

fn standing_alone(name: &str, property: &Value, schema: &Value) -> Value {
    // A language of its own, which has a page of its own.
    if name == "mapping" {
        let says = property["description"].as_str().unwrap_or_default();
        return json!({ "type": "object", "description": format!("{says} See docs/protocols/mapped.md.") });
    }
    let mut alone = property.clone();
    inline(&mut alone, schema, INLINE_DEPTH_MAX);
    alone
}

/// Replaces every reference by its definition and drops the alternative `null`, because a key without a
/// value is left out of the file.
fn inline(node: &mut Value, schema: &Value, depth: usize) {
    if let Some(target) = node.get("$ref").and_then(Value::as_str) {
        let found = schema.pointer(target.trim_start_matches('#')).filter(|_| depth > 0);
        let mut found = found.and_then(Value::as_object).cloned().unwrap_or_default();
        let own = node.as_object().cloned().unwrap_or_default();
        // The words of the key are more than those of its type.
        found.extend(own.into_iter().filter(|(key, _)| key != "$ref"));
        *node = Value::Object(found);
        return inline(node, schema, depth.saturating_sub(1));
    }
    match node {
        Value::Object(fields) => {
            for words in ["enum", "type"] {
                if let Some(Value::Array(several)) = fields.get_mut(words) {
                    several.retain(|word| !word.is_null() && word != "null");
                    if let (true, [only]) = (words == "type", several.as_slice()) {
                        let only = only.clone();
                        fields.insert(words.to_owned(), only);
                    }
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [only] = choices.as_slice() {
                    let only = only.clone();
                    fields.remove("anyOf");
                    let own: Map<String, Value> = std::mem::take(fields);
                    fields.extend(only.as_object().cloned().unwrap_or_default());
                    fields.extend(own);
                    return inline(node, schema, depth);
                }
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            fields.values_mut().for_each(|field| inline(field, schema, depth));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, schema, depth)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The value that counts when a key is left out, for those keys that have one value whatever the runtime
/// is. The durations are those of `limits`.
fn default_of(name: &str) -> Option<Value> {
    let seconds = |ms: u64| json!(ms / 1000);
    Some(match name {
        "timeoutSec" => seconds(limits::WALL_MS),
        "graceSec" => seconds(limits::TERM_MS),
        "silenceSec" => seconds(limits::SILENCE_MS),
        "firstOutputSec" => seconds(limits::FIRST_OUTPUT_MS),
        "askTimeoutSec" => seconds(limits::ASK_MS),
        "patienceSec" => seconds(limits::PATIENCE_MS),
        "lingerSec" => seconds(limits::LINGER_MS),
        "maxOutputBytes" => json!(limits::OUTPUT_BYTES_MAX),
        "maxConcurrent" => json!(0),
        "maxConcurrentSessions" => json!(limits::REMOTE_RUNS_MAX),
        "mcp" => json!("auto"),
        "trace" => json!("on"),
        "lane" => json!("auto"),
        "turnEnd" => json!("reply"),
        "allowInsecure" => json!(false),
        "env" => json!({}),
        "envPassthrough" | "envCompat" | "extraArgs" | "fallbackModels" | "skills" => json!([]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapter_keys_stand_alone_and_are_described() {
        for kind in AdapterType::ALL {
            let keys = adapter_keys(kind);
            assert_eq!(keys["type"]["const"], kind.word());
            for own in kind.own_keys() {
                assert!(keys.contains_key(*own), "{}: {own}", kind.word());
            }
            for (name, schema) in &keys {
                assert!(!schema.to_string().contains("$ref"), "{name}: {schema}");
                let says = schema["description"].as_str().unwrap_or_default();
                assert!(!says.is_empty(), "{name} has no description");
                assert!(!kind.refuses(name), "{} does not take {name}", kind.word());
            }
        }
        let cli = adapter_keys(AdapterType::Cli);
        assert_eq!(cli["timeoutSec"]["default"], 7200);
        assert_eq!(cli["lane"]["enum"], json!(["auto", "native", "acp"]));
        assert!(cli.contains_key("model") && !cli.contains_key("baseUrl"), "{cli:?}");
        assert!(is_common_key("model") && !is_common_key("lane") && !is_common_key("type"));
    }
}
