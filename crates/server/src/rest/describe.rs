//! How the types of a handler tell what it takes and gives, so that a route is described by being
//! written: every extractor is a `Part`, everything a handler returns an `Answer`, and `of` asks both.
//! Requests are described as they are read and answers as they are written. Nothing here is looked at
//! while a request is answered; `openapi.rs` makes the document of it.

use super::{BodyUse, Given, Named, Options, Perhaps, Problem, Told};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use crate::patience::Hurry;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is known of one method of one route.
pub struct Described<'a> {
    /// Schemas of what is read, and of what is written.
    pub read: &'a mut SchemaGenerator,
    pub written: &'a mut SchemaGenerator,
    pub parameters: Vec<Value>,
    pub body: Option<Value>,
    pub body_use: BodyUse,
    /// Media types and their schemas, by status.
    pub answers: BTreeMap<u16, Value>,
    pub headers: BTreeMap<u16, Value>,
    /// What it may be refused with besides what any route of its kind may.
    pub refusals: Vec<u16>,
}

/// What a handler is given.
pub trait Part {
    fn describe(_: &mut Described<'_>) {}
}

/// What a handler gives.
pub trait Answer {
    fn describe(into: &mut Described<'_>);
}

/// A function that answers requests.
pub trait Handler<Parts> {
    fn describe(into: &mut Described<'_>);
}

/// Describes a handler by its types.
pub fn of<Parts, H: Handler<Parts>>(_: H, into: &mut Described<'_>) {
    H::describe(into);
}

macro_rules! handlers {
    ($(($($part:ident),*))+) => {$(
        impl<F, Future, Given, $($part),*> Handler<($($part,)*)> for F
        where
            F: Fn($($part),*) -> Future,
            Future: std::future::Future<Output = Given>,
            Given: Answer,
            $($part: Part,)*
        {
            fn describe(into: &mut Described<'_>) {
                $($part::describe(into);)*
                Given::describe(into);
            }
        }
    )+};
}

handlers! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, G) }

impl Part for State<App> {}
impl Part for Extension<Caller> {}
impl Part for Extension<Hurry> {}
impl Part for HeaderMap {}
impl Part for Chosen {
    fn describe(into: &mut Described<'_>) {
        into.parameters.push(json!({
            "name": crate::keyed::KEY,
            "in": "header",
            "required": false,
            "description": "the same key and the same request again are answered as the first time",
            "schema": {
                "type": "string",
                "pattern": "^[!-~]+$",
                "minLength": 1,
                "maxLength": contract::limits::ANSWER_KEY_BYTES_MAX
            }
        }));
    }
}
/// The address has the name of its parameter.
impl Part for Named {}

impl Part for Request {
    fn describe(into: &mut Described<'_>) {
        into.body = Some(json!({ "type": "object" }));
        into.body_use = BodyUse::Required;
    }
}

impl<T: JsonSchema> Part for Given<T> {
    fn describe(into: &mut Described<'_>) {
        into.body = Some(into.read.subschema_for::<T>().to_value());
        into.body_use = BodyUse::Required;
    }
}

impl<T: JsonSchema> Part for Perhaps<T> {
    fn describe(into: &mut Described<'_>) {
        into.body = Some(into.read.subschema_for::<T>().to_value());
        into.body_use = BodyUse::Optional;
    }
}

impl<T: JsonSchema> Part for Told<T> {
    fn describe(into: &mut Described<'_>) {
        into.body = Some(into.read.subschema_for::<T>().to_value());
        into.body_use = BodyUse::Required;
    }
}

impl<T: JsonSchema> Part for Options<T> {
    fn describe(into: &mut Described<'_>) {
        let schema = T::json_schema(into.read).to_value();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let mut schema = present(schema);
            let description =
                schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let mut parameter = json!({
                "name": name,
                "in": "query",
                "required": required.contains(&json!(name)),
                "schema": schema,
            });
            if let (Some(parameter), Some(description)) = (parameter.as_object_mut(), description) {
                parameter.insert("description".to_owned(), description);
            }
            into.parameters.push(parameter);
        }
    }
}

/// A value of a query is absent or there; it is never null.
fn present(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(fields) = schema.as_object_mut() else { return schema };
    if let Some(kinds) = fields.get("type").and_then(Value::as_array) {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        if let [kind] = &kinds[..] {
            let kind = kind.clone();
            fields.insert("type".to_owned(), kind);
        }
    }
    let either = fields.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let kept: Vec<_> = either.iter().filter(|one| one["type"] != "null").collect();
    if let [Value::Object(only)] = kept[..] {
        fields.remove("anyOf");
        fields.extend(only.clone());
    }
    schema
}

impl Described<'_> {
    /// An answer of one media type.
    pub fn answer(&mut self, status: u16, media: &str, schema: Value) {
        let content = self.answers.entry(status).or_insert_with(|| json!({}));
        if let Some(content) = content.as_object_mut() {
            content.insert(media.to_owned(), json!({ "schema": schema }));
        }
    }
}

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(into: &mut Described<'_>) {
        let schema = into.written.subschema_for::<T>().to_value();
        into.answer(200, "application/json", schema);
    }
}

/// What is answered with another status than 200.
pub struct With<const STATUS: u16, T>(pub T);

impl<const STATUS: u16, T: Serialize> IntoResponse for With<STATUS, T> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}

impl<const STATUS: u16, T: JsonSchema> Answer for With<STATUS, T> {
    fn describe(into: &mut Described<'_>) {
        let schema = into.written.subschema_for::<T>().to_value();
        into.answer(STATUS, "application/json", schema);
    }
}

/// It was taken, and there is nothing more to say.
pub struct Taken;

impl IntoResponse for Taken {
    fn into_response(self) -> Response {
        StatusCode::ACCEPTED.into_response()
    }
}

impl Answer for Taken {
    fn describe(into: &mut Described<'_>) {
        into.answers.insert(202, Value::Object(Map::new()));
    }
}

impl<T: Answer> Answer for Result<T, Problem> {
    fn describe(into: &mut Described<'_>) {
        T::describe(into);
    }
}

/// What is not one JSON value.
pub trait Media {
    fn describe(into: &mut Described<'_>);
}

/// A response that is made as it is sent, of a kind that is known beforehand.
pub struct Sent<M>(Response, std::marker::PhantomData<M>);

impl<M> Sent<M> {
    pub fn new(response: impl IntoResponse) -> Self {
        Self(response.into_response(), std::marker::PhantomData)
    }
}

impl<M> IntoResponse for Sent<M> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<M: Media> Answer for Sent<M> {
    fn describe(into: &mut Described<'_>) {
        M::describe(into);
    }
}

/// JSON lines, or the same server-sent: one of these in each.
pub struct Lines<T, const FOLLOWED: bool>(std::marker::PhantomData<T>);

impl<T: JsonSchema, const FOLLOWED: bool> Media for Lines<T, FOLLOWED> {
    fn describe(into: &mut Described<'_>) {
        let item = into.written.subschema_for::<T>().to_value();
        let schema = json!({ "type": "string", "x-items": item });
        into.answer(200, "application/x-ndjson", schema.clone());
        if FOLLOWED {
            into.answer(200, "text/event-stream", schema);
        }
    }
}

/// Bytes of a kind that says nothing of their shape.
pub struct Bytes;

impl Media for Bytes {
    fn describe(into: &mut Described<'_>) {
        into.answer(200, "application/octet-stream", json!({}));
    }
}

/// Hints, server-sent without an end.
pub struct Hints;

impl Media for Hints {
    fn describe(into: &mut Described<'_>) {
        let item = into.written.subschema_for::<crate::feed::Hinted>().to_value();
        into.answer(200, "text/event-stream", json!({ "type": "string", "x-items": item }));
    }
}

/// A tar file.
pub struct Tar;

impl Media for Tar {
    fn describe(into: &mut Described<'_>) {
        into.answer(200, "application/x-tar", json!({}));
    }
}

/// Whatever the revision of MCP says.
pub struct Mcp;

impl Media for Mcp {
    fn describe(into: &mut Described<'_>) {
        into.answer(200, "application/json", json!({ "type": "object" }));
        into.answer(200, "text/event-stream", json!({ "type": "string" }));
        into.answers.insert(202, json!({}));
    }
}

/// JSON that was written earlier.
pub struct Written<T>(std::marker::PhantomData<T>);

impl<T: JsonSchema> Media for Written<T> {
    fn describe(into: &mut Described<'_>) {
        let schema = into.written.subschema_for::<T>().to_value();
        into.answer(200, "application/json", schema);
    }
}
