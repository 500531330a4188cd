//! The OpenAPI document, made from the table of routes and the contract's own schema, so that no
//! route can be undocumented.

use super::ROUTES;
use axum::Json;
use serde_json::{Map, Value, json};

pub async fn show() -> Json<Value> {
    Json(document())
}

pub fn document() -> Value {
    let contract = contract::schema::document();
    // References inside the schemas are written for the contract's own document.
    let text = contract["$defs"].to_string().replace("#/$defs/", "#/components/schemas/");
    let schemas: Value = serde_json::from_str(&text).unwrap_or_default();
    let paths: Map<String, Value> = ROUTES
        .iter()
        .map(|route| {
            let parameters: Vec<_> = route
                .path
                .split(['{', '}'])
                .skip(1)
                .step_by(2)
                .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
                .collect();
            let methods: Map<String, Value> = route
                .methods
                .iter()
                .map(|(method, summary)| {
                    let operation = json!({
                        "summary": summary,
                        "parameters": parameters,
                        "responses": {
                            "default": { "description": "a fault", "content": { "application/json": {
                                "schema": { "$ref": "#/components/schemas/Fault" } } } }
                        }
                    });
                    ((*method).to_owned(), operation)
                })
                .collect();
            (route.path.to_owned(), Value::Object(methods))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Ostler", "version": env!("CARGO_PKG_VERSION") },
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } }
        }
    })
}
