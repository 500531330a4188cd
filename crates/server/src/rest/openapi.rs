//! The OpenAPI document, made from the table of routes and the types of their handlers, so that no
//! route can be undocumented and no answer described as it is not. `docs/openapi.json` keeps it, and
//! `cargo xtask docs` refuses one that breaks it (`docs/decisions/0018-openapi-by-the-types-of-handlers.md`).

use super::describe::{Described, Sent, Written};
use super::{Access, BodyUse, Method, ROUTES, Route};
use super::{bounds, plain};
use crate::App;
use axum::Json;
use axum::extract::State;
use contract::{Code, Problem, access::PROBLEM_TYPE};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Where the document keeps its schemas.
const SCHEMAS: &str = "#/components/schemas/";
/// What any request may be answered with, whatever it asks: a store that is in trouble included.
const ALWAYS: &[u16] = &[400, 403, 500, 503];
/// Besides those, where a token is needed.
const GUARDED: &[u16] = &[401, 413, 429, 502];
/// Besides those, where the address names something.
const NAMED: &[u16] = &[404, 409, 422];
/// Besides those, where something is sent: everything that can keep it from being done.
const SENT: &[u16] = &[402, 404, 409, 413, 415, 422, 424];

/// Where a server listens unless its owner says otherwise.
const USUAL_SERVER: &str = "http://127.0.0.1:7717";

/// The document with the address of the server that was asked. It is made once: anyone may ask for it.
pub async fn show(State(app): State<App>) -> Sent<Written<Value>> {
    static KEPT: LazyLock<Value> = LazyLock::new(document);
    let mut document = KEPT.clone();
    document["servers"] = json!([{ "url": &*app.link_base }]);
    Sent::new(Json(document))
}

/// The document as it is kept.
pub fn document() -> Value {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut read = SchemaGenerator::new(settings().for_deserialize());
    let mut written = SchemaGenerator::new(settings().for_serialize());
    let problem = written.subschema_for::<Problem>().to_value();
    let mut paths: BTreeMap<&str, Value> = ROUTES
        .iter()
        .map(|route| {
            let methods = route.methods.iter().map(|method| {
                let told = operation(route, method, &problem, &mut read, &mut written);
                (method.verb.to_owned(), told)
            });
            (route.path, Value::Object(methods.collect()))
        })
        .collect();
    let (schemas, renamed) = together(read.take_definitions(true), written.take_definitions(true));
    // What is read was described before it was known which names would be taken.
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        for part in ["parameters", "requestBody"] {
            if let Some(part) = operation.get_mut(part) {
                point(part, &renamed);
            }
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": { "title": "Ostler", "version": env!("CARGO_PKG_VERSION") },
        "servers": [{ "url": USUAL_SERVER }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "browser": { "type": "apiKey", "in": "cookie", "name": crate::sign_in::COOKIE }
            }
        }
    });
    plain::simplify(&mut document);
    bounds::declare(&mut document);
    document
}

/// Whether a method is described as one that takes keys.
pub(super) fn takes_keys(method: &Method) -> bool {
    let takes = |told: &Described<'_>| {
        told.parameters.iter().any(|parameter| parameter["name"] == crate::keyed::KEY)
    };
    asked_of(method, takes)
}

/// How a method is described to take a body.
pub(super) fn body_use(method: &Method) -> BodyUse {
    asked_of(method, |told| told.body_use)
}

/// One thing that the description of a method says.
fn asked_of<T>(method: &Method, ask: impl Fn(&Described<'_>) -> T) -> T {
    let mut told = Described {
        read: &mut SchemaGenerator::default(),
        written: &mut SchemaGenerator::default(),
        parameters: Vec::new(),
        body: None,
        body_use: BodyUse::None,
        answers: BTreeMap::new(),
        headers: BTreeMap::new(),
        refusals: Vec::new(),
    };
    (method.describe)(&mut told);
    ask(&told)
}

fn operation(
    route: &Route,
    method: &Method,
    problem: &Value,
    read: &mut SchemaGenerator,
    written: &mut SchemaGenerator,
) -> Value {
    let names = route.path.split(['{', '}']).skip(1).step_by(2);
    let parameters: Vec<_> = names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let named = !parameters.is_empty();
    let mut told = Described {
        read,
        written,
        parameters,
        body: None,
        body_use: BodyUse::None,
        answers: BTreeMap::new(),
        headers: BTreeMap::new(),
        refusals: Vec::new(),
    };
    (method.describe)(&mut told);
    let mut statuses = ALWAYS.to_vec();
    statuses.append(&mut told.refusals);
    statuses.extend(GUARDED.iter().filter(|_| method.access != Access::Open));
    statuses.extend(NAMED.iter().filter(|_| named));
    statuses.extend(SENT.iter().filter(|_| method.verb != "get"));
    let mut answers: Map<String, Value> = Map::new();
    for (status, content) in told.answers {
        let mut answer = json!({ "description": said(status) });
        if content.as_object().is_some_and(|content| !content.is_empty()) {
            answer["content"] = content;
        }
        if let Some(headers) = told.headers.get(&status) {
            answer["headers"] = headers.clone();
        }
        answers.insert(status.to_string(), answer);
    }
    for status in statuses {
        let codes: Vec<_> = Code::ALL
            .iter()
            .filter(|code| code.row().http == status)
            .map(|code| code.word())
            .collect();
        let media = BTreeMap::from([(PROBLEM_TYPE, json!({ "schema": problem }))]);
        let answer = json!({ "description": codes.join(", "), "content": media });
        answers.entry(status.to_string()).or_insert(answer);
    }
    let mut operation = json!({
        "summary": method.says,
        "operationId": name(route, method),
        "parameters": told.parameters,
        "responses": answers,
        "security": security(method.access),
    });
    if let Some(schema) = told.body {
        let required = told.body_use == BodyUse::Required;
        let content = json!({ "application/json": { "schema": schema } });
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    if method.deprecated {
        operation["deprecated"] = json!(true);
    }
    operation
}

/// A name that no other method of another route has, and that stays when others come.
fn name(route: &Route, method: &Method) -> String {
    let words = route.path.split(['/', '{', '}', '.', '-']);
    let words: Vec<_> = words.filter(|word| !matches!(*word, "" | "api" | "v1")).collect();
    format!("{}_{}", method.verb, words.join("_"))
}

fn said(status: u16) -> &'static str {
    match status {
        201 => "it was made",
        202 => "it was taken",
        303 => "it is elsewhere",
        _ => "as asked",
    }
}

/// Roles, as OpenAPI lets any kind of scheme name them.
fn security(access: Access) -> Value {
    match access {
        Access::Open => json!([]),
        Access::Run => json!([{ "bearer": ["run"] }]),
        Access::Own => {
            json!([{ "bearer": ["viewer"] }, { "bearer": ["run"] }, { "browser": ["viewer"] }])
        }
        Access::Viewer | Access::Operator | Access::Admin => {
            let role = access.word();
            json!([{ "bearer": [role] }, { "browser": [role] }])
        }
    }
}

/// One set of schemas out of two. What is read and what is written under one name may differ in what
/// must be there; then what is read has a name of its own, and so has whatever speaks of it.
fn together(
    read: Map<String, Value>,
    written: Map<String, Value>,
) -> (Map<String, Value>, BTreeMap<String, String>) {
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let differs = |name: &str, schema: &Value| {
            let mut schema = schema.clone();
            point(&mut schema, &renamed);
            written.get(name).is_some_and(|other| *other != schema)
        };
        let new = read.iter().find(|(name, schema)| {
            !renamed.contains_key(&format!("{SCHEMAS}{name}")) && differs(name, schema)
        });
        let Some((name, _)) = new else { break };
        renamed.insert(format!("{SCHEMAS}{name}"), format!("{SCHEMAS}{name}Given"));
    }
    let mut schemas = written;
    for (name, mut schema) in read {
        point(&mut schema, &renamed);
        let name = renamed
            .get(&format!("{SCHEMAS}{name}"))
            .and_then(|name| name.strip_prefix(SCHEMAS))
            .map_or(name.clone(), str::to_owned);
        schemas.insert(name, schema);
    }
    (schemas, renamed)
}

/// Lets every reference point where its schema is now.
fn point(schema: &mut Value, renamed: &BTreeMap<String, String>) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::String(target) if name == "$ref" => {
                        if let Some(new) = renamed.get(target) {
                            target.clone_from(new);
                        }
                    }
                    field => point(field, renamed),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point(item, renamed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every reference inside a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_method_of_every_route_is_told_with_what_it_takes_and_gives() {
        let document = document();
        let mut names = BTreeSet::new();
        for route in ROUTES {
            for method in route.methods {
                let told = &document["paths"][route.path][method.verb];
                let at = format!("{} {}", method.verb, route.path);
                let answers = told["responses"].as_object().expect(&at);
                assert!(answers.keys().any(|status| status.starts_with(['2', '3'])), "{at}");
                assert!(answers.contains_key("400"), "{at}");
                assert_eq!(answers.contains_key("401"), method.access != Access::Open, "{at}");
                assert!(names.insert(told["operationId"].to_string()), "{at}");
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let place = reference.strip_prefix('#').expect("a reference inside the document");
            assert!(document.pointer(place).is_some(), "{reference}");
        }
    }

    #[test]
    fn what_is_read_otherwise_than_it_is_written_has_a_name_of_its_own() {
        let schema = |to: &str| json!({ "$ref": format!("{SCHEMAS}{to}") });
        let map = |rows: &[(&str, Value)]| {
            rows.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect()
        };
        let read = map(&[("A", schema("B")), ("B", json!({})), ("C", json!(1))]);
        let written = map(&[("A", schema("B")), ("B", json!({ "required": [] })), ("C", json!(1))]);
        let (schemas, renamed) = together(read, written);
        assert_eq!(schemas["AGiven"], schema("BGiven"));
        assert_eq!((&schemas["A"], &schemas["B"]), (&schema("B"), &json!({ "required": [] })));
        assert_eq!((schemas.len(), renamed.len()), (5, 2));
    }
}
