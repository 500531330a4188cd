//! JSON Schema in words, for tables: which fields a shape has, of which type, and what they mean.
//! Small closed lists are written out where they are used; larger shapes are linked.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A field of a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Whether a reader always finds it.
    pub always: bool,
    pub words: String,
    pub meaning: String,
}

impl Field {
    /// `` `name?` words ``, for a list of fields in one line.
    pub fn inline(&self) -> String {
        let mark = if self.always { "" } else { "?" };
        format!("`{}{mark}` {}", self.name, self.words)
    }
}

/// The contract's schema, and which of its shapes were linked to.
pub struct Schema {
    document: Value,
    linked: BTreeSet<String>,
}

impl Schema {
    pub fn new(document: Value) -> Self {
        Self { document, linked: BTreeSet::new() }
    }

    /// A shape that is stored or crosses a wire, by its name in the document.
    pub fn shape(&self, name: &str) -> Value {
        self.document["properties"][name].clone()
    }

    /// A definition that others refer to.
    pub fn definition(&self, name: &str) -> Value {
        self.document["$defs"][name].clone()
    }

    /// The names of the shapes linked to since the last call.
    pub fn take_linked(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.linked)
    }

    /// The fields of an object: those it must have in their own order, then the others by name.
    pub fn fields(&mut self, object: &Value) -> Vec<Field> {
        let none = Map::new();
        let properties = object["properties"].as_object().unwrap_or(&none).clone();
        let required: Vec<String> = object["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let optional = properties.keys().filter(|name| !required.contains(name)).cloned();
        let names: Vec<String> = required.iter().cloned().chain(optional).collect();
        names
            .into_iter()
            .filter_map(|name| {
                let schema = properties.get(&name)?;
                // A field with a default may be left out by who writes it, but a reader always finds it.
                let always = required.contains(&name) || schema.get("default").is_some();
                Some(Field { always, words: self.words(schema), meaning: meaning(schema), name })
            })
            .collect()
    }

    /// The type of a value, in words.
    pub fn words(&mut self, schema: &Value) -> String {
        if let Some(name) = reference(schema) {
            return self.reference_words(&name);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            // Null beside a type only says that a field may be absent, which `?` says already.
            let mut found = choices.iter().filter(|choice| choice["type"] != "null");
            return found.next().cloned().map_or("null".into(), |choice| self.words(&choice));
        }
        if let Some(word) = schema["const"].as_str() {
            return format!("`{word}`");
        }
        if let Some(words) = enumeration(schema) {
            return words;
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => {
                kinds.iter().find(|kind| *kind != "null").and_then(Value::as_str)
            }
            other => other.as_str(),
        };
        match kind {
            Some("string") => "text".into(),
            Some("integer") => "integer".into(),
            Some("number") => "number".into(),
            Some("boolean") => "true \\| false".into(),
            Some("array") => format!("list of {}", self.words(&schema["items"].clone())),
            Some("object") if schema["additionalProperties"].is_object() => {
                format!("map of {}", self.words(&schema["additionalProperties"].clone()))
            }
            Some("object") => "object".into(),
            Some(_) | None => "any JSON".into(),
        }
    }

    fn reference_words(&mut self, name: &str) -> String {
        match name {
            "Code" => return "[fault](#faults)".into(),
            "Timestamp" => return "time".into(),
            "NanoUsd" => return "nano-dollars".into(),
            _ => {}
        }
        let definition = self.definition(name);
        if let Some(pattern) = definition["pattern"].as_str() {
            let prefix = pattern.trim_start_matches('^').split('[').next().unwrap_or_default();
            return format!("`{prefix}…`");
        }
        if let Some(words) = enumeration(&definition) {
            return words;
        }
        self.linked.insert(name.to_owned());
        format!("[{name}](#{})", name.to_lowercase())
    }
}

/// What the source says about a shape or a field, in one line.
pub fn meaning(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

/// The definition a schema refers to.
pub fn reference(schema: &Value) -> Option<String> {
    let reference = schema["$ref"].as_str()?;
    Some(reference.rsplit('/').next().unwrap_or(reference).to_owned())
}

/// A closed list of words, written out.
fn enumeration(schema: &Value) -> Option<String> {
    let words = schema["enum"].as_array()?;
    let words: Vec<String> =
        words.iter().filter_map(|word| Some(format!("`{}`", word.as_str()?))).collect();
    Some(words.join(" \\| "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_said_in_words() {
        let mut schema = Schema::new(json!({ "$defs": {
            "RunId": { "type": "string", "pattern": "^run_[0-9a-f]{32}$" },
            "Via": { "enum": ["native", "relayed"] },
            "Raw": { "type": "object" },
        } }));
        for (given, words) in [
            (json!({ "type": ["string", "null"] }), "text"),
            (json!({ "$ref": "#/$defs/RunId" }), "`run_…`"),
            (json!({ "$ref": "#/$defs/Via" }), "`native` \\| `relayed`"),
            (json!({ "anyOf": [{ "$ref": "#/$defs/Raw" }, { "type": "null" }] }), "[Raw](#raw)"),
            (json!({ "type": "array", "items": { "type": "integer" } }), "list of integer"),
            (json!(true), "any JSON"),
        ] {
            assert_eq!(schema.words(&given), words);
        }
        assert_eq!(schema.take_linked(), BTreeSet::from(["Raw".to_owned()]));
    }

    #[test]
    fn required_fields_come_first_in_their_own_order() {
        let mut schema = Schema::new(json!({}));
        let object = json!({
            "properties": { "a": { "type": "string" }, "b": { "type": "string" }, "c": { "type": "string", "default": "" } },
            "required": ["c", "b"],
        });
        let fields: Vec<String> = schema.fields(&object).iter().map(Field::inline).collect();
        assert_eq!(fields, ["`c` text", "`b` text", "`a?` text"]);
    }
}
