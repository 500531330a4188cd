//! Bounds of requests that the types of handlers do not say: a schema without them promises that a
//! request is accepted which is refused. Every route that checks more than its types has its rows here;
//! the stage `api` of the gate sends what the document allows and finds each refusal.

use serde_json::{Map, Value, json};

/// Schema, property, and the keywords that it has besides its own.
const PROPERTIES: &[(&str, &str, &str)] = &[
    ("Hire", "name", r#"{ "pattern": "^[A-Za-z0-9_-]{1,64}$" }"#),
    ("Hire", "spec", r#"{ "type": "object", "required": ["adapter"] }"#),
    (
        "TokenRequest",
        "name",
        r#"{ "minLength": 1, "maxLength": 64, "pattern": "^[^\\s\\u0000-\\u001f\\u007f-\\u009f]([^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f])?$" }"#,
    ),
    ("TokenRequest", "expires_ms", r#"{ "minimum": 1 }"#),
    (
        "NewTask",
        "title",
        r#"{ "minLength": 1, "maxLength": 256, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$" }"#,
    ),
    ("NewTask", "agent", r#"{ "minLength": 1, "pattern": "\\S" }"#),
    ("NewTask", "key", r#"{ "minLength": 1, "maxLength": 64 }"#),
    (
        "NewTask",
        "labels",
        r#"{ "maxItems": 16, "items": { "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$" } }"#,
    ),
    ("RunRequest", "cwd", r#"{ "pattern": "^/" }"#),
];

/// Path, parameter of its `get`, and its schema.
const PARAMETERS: &[(&str, &str, &str)] = &[
    (
        "/api/v1/runs",
        "since",
        r#"{ "anyOf": [{ "type": "string", "format": "date" }, { "type": "string", "format": "date-time" }, { "type": "string", "pattern": "^[0-9]{1,6}[smhd]$" }] }"#,
    ),
    (
        "/api/v1/costs",
        "since",
        r#"{ "anyOf": [{ "type": "string", "format": "date" }, { "type": "string", "pattern": "^[1-9][0-9]{0,3}d$" }] }"#,
    ),
    (
        "/api/v1/costs",
        "by",
        r#"{ "type": "string", "pattern": "^(day|agent|adapter|model)(,(day|agent|adapter|model))*$" }"#,
    ),
];

/// Operations with a `post` whose body is a `TaskDecision` that must have a text.
const WITH_TEXT: [&str; 2] = ["/api/v1/tasks/{task}/comment", "/api/v1/tasks/{task}/reject"];
/// The schema of their bodies.
const TASK_TEXT: &str = "TaskText";

/// Adds the bounds to the document.
pub(super) fn declare(document: &mut Value) {
    ranges(document);
    for (schema, property, keywords) in PROPERTIES {
        let place = format!("/components/schemas/{schema}/properties/{property}");
        add(document.pointer_mut(&place), keywords);
    }
    for (path, name, schema) in PARAMETERS {
        let parameters = document["paths"][path]["get"]["parameters"].as_array_mut();
        let found = parameters.into_iter().flatten().find(|parameter| parameter["name"] == *name);
        if let (Some(parameter), Ok(schema)) = (found, serde_json::from_str::<Value>(schema)) {
            parameter["schema"] = schema;
        }
    }
    document["components"]["schemas"]["BudgetChange"]["minProperties"] = json!(1);
    let prices = "/paths/~1api~1v1~1prices/post/requestBody/content/application~1json/schema";
    add(document.pointer_mut(prices), r#"{ "type": "object" }"#);
    task_text(document);
    close_commands(document);
}

/// Adds keywords to a schema.
fn add(schema: Option<&mut Value>, keywords: &str) {
    let keywords: Result<Map<String, Value>, _> = serde_json::from_str(keywords);
    if let (Some(schema), Ok(keywords)) = (schema.and_then(Value::as_object_mut), keywords) {
        schema.extend(keywords);
    }
}

/// The range of each integer format: a number beyond it is no value of its type.
fn ranges(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let format = fields.get("format").and_then(Value::as_str);
            let range = match format {
                Some("uint8") => Some((json!(0), json!(u8::MAX))),
                Some("uint16") => Some((json!(0), json!(u16::MAX))),
                Some("uint32") => Some((json!(0), json!(u32::MAX))),
                Some("uint64" | "uint") => Some((json!(0), json!(u64::MAX))),
                Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
                Some("int64") => Some((json!(i64::MIN), json!(i64::MAX))),
                _ => None,
            };
            if let Some((minimum, maximum)) = range {
                fields.entry("minimum").or_insert(minimum);
                fields.entry("maximum").or_insert(maximum);
            }
            fields.values_mut().for_each(ranges);
        }
        Value::Array(items) => items.iter_mut().for_each(ranges),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A comment and the reason of a rejection must say something; other decisions need not.
fn task_text(document: &mut Value) {
    let mut schema = document["components"]["schemas"]["TaskDecision"].clone();
    if schema.is_null() {
        return;
    }
    schema["description"] = json!("A comment, or the reason of a rejection.");
    schema["required"] = json!(["text"]);
    schema["properties"]["text"] = json!({ "type": "string", "pattern": "\\S" });
    document["components"]["schemas"][TASK_TEXT] = schema;
    for path in WITH_TEXT {
        let body = json!({ "$ref": format!("#/components/schemas/{TASK_TEXT}") });
        let content = json!({ "application/json": { "schema": body } });
        document["paths"][path]["post"]["requestBody"] =
            json!({ "required": true, "content": content });
    }
}

/// The fields of each command are all that it may have. They stand beside the common ones, which a
/// closed schema must name too.
fn close_commands(document: &mut Value) {
    let Some(sent) = document["components"]["schemas"]["SentCommand"].as_object_mut() else {
        return;
    };
    let common = sent.remove("properties");
    let common = common.as_ref().and_then(Value::as_object).into_iter().flatten();
    let common: Vec<_> = common.map(|(name, schema)| (name.clone(), schema.clone())).collect();
    for command in sent.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        command["additionalProperties"] = json!(false);
        if let Some(fields) = command["properties"].as_object_mut() {
            fields.extend(common.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_in_the_document() {
        let document = super::super::openapi::document();
        for (schema, property, keywords) in PROPERTIES {
            let there = &document["components"]["schemas"][schema]["properties"][property];
            let keywords: Map<String, Value> = serde_json::from_str(keywords).unwrap();
            for (keyword, value) in &keywords {
                assert_eq!(&there[keyword], value, "{schema}.{property}");
            }
        }
        for (path, name, schema) in PARAMETERS {
            let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
            let found = parameters.iter().find(|parameter| parameter["name"] == *name).unwrap();
            assert_eq!(found["schema"], serde_json::from_str::<Value>(schema).unwrap(), "{path}");
        }
        for path in WITH_TEXT {
            assert_eq!(document["paths"][path]["post"]["requestBody"]["required"], true, "{path}");
        }
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["BudgetChange"]["minProperties"], 1);
        let commands = schemas["SentCommand"]["oneOf"].as_array().unwrap();
        assert!(commands.iter().all(|command| command["additionalProperties"] == false));
        assert!(commands.iter().all(|command| command["properties"]["id"].is_object()));
    }
}
