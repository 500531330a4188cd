//! Schemas as generators of clients read them: JSON Schema allows `true` for "anything" and a choice of
//! constants for an enum, and some generators refuse the one and misread the other. Both have a plainer
//! form of the same meaning, which is what the document has.

use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value};

/// Puts every schema of an OpenAPI document into its plain form.
pub(super) fn simplify(document: &mut Value) {
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    schemas.into_iter().flat_map(Map::values_mut).for_each(plain);
    if let Some(paths) = document.get_mut("paths") {
        inside(paths);
    }
}

/// Every schema of parameters, bodies and answers: whatever stands under the key `schema`.
fn inside(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| match name.as_str() {
            "schema" | "x-items" => plain(field),
            _ => inside(field),
        }),
        Value::Array(items) => items.iter_mut().for_each(inside),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn plain(value: &mut Value) {
    // A value that is no schema is left as it is.
    let Ok(mut schema) = Schema::try_from(value.clone()) else { return };
    Plain.transform(&mut schema);
    *value = schema.to_value();
}

struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.as_bool() == Some(true) {
            *schema = Schema::default();
        }
        if let Some(fields) = schema.as_object_mut() {
            if let Some(items) = fields.get_mut("x-items") {
                plain(items);
            }
            choice(fields);
            open(fields);
        }
    }
}

/// `additionalProperties` stays a word: every generator reads it.
fn open(fields: &mut Map<String, Value>) {
    if let Some(more) = fields.get_mut("additionalProperties")
        && more.as_object().is_some_and(Map::is_empty)
    {
        *more = Value::Bool(true);
    }
}

/// A choice of constants as an enum. What was said of each is kept in the description.
fn choice(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("oneOf") else { return };
    let (mut words, mut lines) = (Vec::new(), Vec::new());
    for choice in choices {
        let constant = choice.get("const").filter(|word| word.is_string()).cloned();
        let listed = choice.get("enum").and_then(Value::as_array).cloned();
        let Some(found) = constant.map(|word| vec![word]).or(listed) else { return };
        if let (Some(said), [Value::String(word)]) =
            (choice.get("description").and_then(Value::as_str), &found[..])
        {
            lines.push(format!("`{word}`: {said}"));
        }
        words.extend(found);
    }
    if words.is_empty() || !words.iter().all(Value::is_string) {
        return;
    }
    let before = fields.get("description").and_then(Value::as_str).map(str::to_owned);
    let said: Vec<_> = before.into_iter().chain(lines).collect();
    fields.remove("oneOf");
    fields.insert("type".to_owned(), "string".into());
    fields.insert("enum".to_owned(), Value::Array(words));
    if !said.is_empty() {
        fields.insert("description".to_owned(), said.join("\n\n").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn anything_and_enums_have_their_plain_form() {
        let mut document = json!({
            "paths": { "/x": { "get": { "parameters": [{ "schema": true }] } } },
            "components": { "schemas": {
                "Any": { "properties": { "value": true, "list": { "items": true } } },
                "Word": { "description": "A word.", "oneOf": [
                    { "type": "string", "enum": ["a", "b"] },
                    { "type": "string", "const": "c", "description": "The third." },
                ] },
                "Either": { "oneOf": [{ "const": "a" }, { "type": "object" }] },
                "Closed": { "type": "object", "additionalProperties": false },
                "Open": { "type": "object", "additionalProperties": true },
            } },
        });
        simplify(&mut document);
        assert_eq!(document["paths"]["/x"]["get"]["parameters"][0]["schema"], json!({}));
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            schemas["Any"],
            json!({ "properties": { "value": {}, "list": { "items": {} } } })
        );
        assert_eq!(
            schemas["Word"],
            json!({
                "type": "string",
                "enum": ["a", "b", "c"],
                "description": "A word.\n\n`c`: The third.",
            })
        );
        assert!(schemas["Either"]["oneOf"].is_array());
        assert_eq!(schemas["Closed"]["additionalProperties"], false);
        assert_eq!(schemas["Open"]["additionalProperties"], true);
    }
}
