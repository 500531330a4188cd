//! What of a new OpenAPI document would break a client of the one that is kept: an address, a method or
//! an answer that is gone, a field that an answer no longer has or has otherwise, a value that a request
//! may no longer have, something a request must have that it need not have had. What only adds is fine.
//! Every finding names its place; the table of tests shows each kind red.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Which way a schema is travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the server: nothing may be asked for that was not.
    Request,
    /// From it: nothing may be missing that was there.
    Answer,
}

/// References that are being looked at lead back to themselves; deeper than this none leads anywhere.
const DEPTH_MAX: usize = 32;

/// What breaks, in the order of the document; empty when nothing does.
pub fn between(kept: &Value, new: &Value) -> Vec<String> {
    let mut found = Findings { kept, new, seen: BTreeSet::new(), lines: Vec::new() };
    for (path, methods) in entries(&kept["paths"]) {
        match new["paths"].get(path) {
            None => found.add(path, "is gone"),
            Some(now) => found.methods(path, methods, now),
        }
    }
    found.lines
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

struct Findings<'a> {
    kept: &'a Value,
    new: &'a Value,
    /// Pairs of schemas that were compared, so that each is told once and circles end.
    seen: BTreeSet<(String, String, bool)>,
    lines: Vec<String>,
}

impl<'a> Findings<'a> {
    fn add(&mut self, at: &str, what: impl AsRef<str>) {
        self.lines.push(format!("{at} {}", what.as_ref()));
    }

    fn methods(&mut self, path: &str, kept: &'a Value, new: &'a Value) {
        for (verb, kept) in entries(kept) {
            let at = format!("{} {path}", verb.to_uppercase());
            match new.get(verb) {
                None => self.add(&at, "is gone"),
                Some(new) => {
                    self.parameters(&at, &kept["parameters"], &new["parameters"]);
                    self.body(&at, &kept["requestBody"], &new["requestBody"]);
                    self.answers(&at, &kept["responses"], &new["responses"]);
                    self.security(&at, &kept["security"], &new["security"]);
                }
            }
        }
    }

    fn parameters(&mut self, at: &str, kept: &'a Value, new: &'a Value) {
        let list = |value: &'a Value| value.as_array().into_iter().flatten();
        let same =
            |one: &Value, other: &Value| one["name"] == other["name"] && one["in"] == other["in"];
        for before in list(kept) {
            let at = format!("{at} ?{}", before["name"].as_str().unwrap_or_default());
            match list(new).find(|now| same(before, now)) {
                None => self.add(&at, "is gone"),
                Some(now) => {
                    if now["required"] == true && before["required"] != true {
                        self.add(&at, "must be there now");
                    }
                    self.schema(&at, &before["schema"], &now["schema"], Way::Request, 0);
                }
            }
        }
        for now in list(new).filter(|now| now["required"] == true) {
            if !list(kept).any(|before| same(before, now)) {
                let name = now["name"].as_str().unwrap_or_default();
                self.add(at, format!("asks for ?{name} now"));
            }
        }
    }

    fn body(&mut self, at: &str, kept: &'a Value, new: &'a Value) {
        if kept.is_null() {
            if new["required"] == true {
                self.add(at, "asks for a body now");
            }
            return;
        }
        for (media, kept) in entries(&kept["content"]) {
            let at = format!("{at} body");
            match new["content"].get(media) {
                None => self.add(&at, format!("is not taken as {media} any more")),
                Some(new) => self.schema(&at, &kept["schema"], &new["schema"], Way::Request, 0),
            }
        }
    }

    fn answers(&mut self, at: &str, kept: &'a Value, new: &'a Value) {
        for (status, kept) in entries(kept) {
            let at = format!("{at} {status}");
            let Some(new) = new.get(status) else {
                // A way to fail that is gone breaks nobody.
                if status.starts_with(['2', '3']) {
                    self.add(&at, "is not answered any more");
                }
                continue;
            };
            for (media, kept) in entries(&kept["content"]) {
                match new["content"].get(media) {
                    None => self.add(&at, format!("is not given as {media} any more")),
                    Some(new) => self.schema(&at, &kept["schema"], &new["schema"], Way::Answer, 0),
                }
            }
        }
    }

    /// Whoever was let in is let in.
    fn security(&mut self, at: &str, kept: &Value, new: &Value) {
        let ways = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (kept, new) = (ways(kept), ways(new));
        let shut = match (kept.is_empty(), new.is_empty()) {
            (_, true) => false,
            (true, false) => true,
            (false, false) => kept.iter().any(|way| !new.contains(way) && !lesser(way, &new)),
        };
        if shut {
            self.add(at, "does not let in all whom it let in");
        }
    }

    fn resolved(document: &'a Value, schema: &'a Value) -> (&'a Value, String) {
        let mut schema = schema;
        let mut name = String::new();
        for _ in 0..DEPTH_MAX {
            let Some(reference) = schema["$ref"].as_str() else { break };
            let place = reference.strip_prefix('#').unwrap_or(reference);
            name = reference.to_owned();
            schema = document.pointer(place).unwrap_or(&Value::Null);
        }
        (schema, name)
    }

    fn schema(&mut self, at: &str, kept: &'a Value, new: &'a Value, way: Way, depth: usize) {
        let (kept, one) = Self::resolved(self.kept, kept);
        let (new, other) = Self::resolved(self.new, new);
        let named = !one.is_empty() && !other.is_empty();
        if depth > DEPTH_MAX || (named && !self.seen.insert((one, other, way == Way::Request))) {
            return;
        }
        self.types(at, kept, new, way);
        self.values(at, kept, new, way);
        self.fields(at, kept, new, way, depth);
        if kept.get("items").is_some() && new.get("items").is_some() {
            self.schema(&format!("{at}[]"), &kept["items"], &new["items"], way, depth + 1);
        }
        if kept.get("x-items").is_some() {
            self.schema(&format!("{at}[]"), &kept["x-items"], &new["x-items"], way, depth + 1);
        }
        for many in ["oneOf", "anyOf", "allOf"] {
            self.alternatives(at, many, kept, new, way, depth);
        }
    }

    /// A request may be of every type that it might be, an answer of none that it was not.
    fn types(&mut self, at: &str, kept: &Value, new: &Value, way: Way) {
        let (before, now) = (types(kept), types(new));
        let broken = match way {
            Way::Request => !now.is_empty() && (before.is_empty() || !before.is_subset(&now)),
            Way::Answer => !before.is_empty() && (now.is_empty() || !now.is_subset(&before)),
        };
        if broken {
            let said = |types: &BTreeSet<&str>| match types.is_empty() {
                true => "anything".to_owned(),
                false => types.iter().copied().collect::<Vec<_>>().join(" or "),
            };
            self.add(at, format!("was {} and is {}", said(&before), said(&now)));
        }
    }

    /// A request may have every value that it might have.
    fn values(&mut self, at: &str, kept: &Value, new: &Value, way: Way) {
        if way == Way::Answer {
            return;
        }
        let now = values(new);
        if now.is_empty() {
            return;
        }
        let before = values(kept);
        if before.is_empty() {
            self.add(at, "may not have every value any more");
        }
        for gone in before.iter().filter(|value| !now.contains(value)) {
            self.add(at, format!("may not be {gone} any more"));
        }
    }

    fn fields(&mut self, at: &str, kept: &'a Value, new: &'a Value, way: Way, depth: usize) {
        let (must, must_now) = (words(&kept["required"]), words(&new["required"]));
        for (name, before) in entries(&kept["properties"]) {
            let at = format!("{at}.{name}");
            match new["properties"].get(name) {
                // One that may have any fields may have this one.
                None if way == Way::Request && new["additionalProperties"] != false => {}
                None => self.add(&at, "is gone"),
                Some(now) => self.schema(&at, before, now, way, depth + 1),
            }
            if way == Way::Answer
                && must.contains(&name.as_str())
                && !must_now.contains(&name.as_str())
            {
                self.add(&at, "may be absent now");
            }
        }
        for name in must_now.iter().filter(|name| way == Way::Request && !must.contains(name)) {
            self.add(&format!("{at}.{name}"), "must be there now");
        }
    }

    /// Alternatives are told apart by the constant of their tag, else by their place.
    fn alternatives(
        &mut self,
        at: &str,
        many: &str,
        kept: &'a Value,
        new: &'a Value,
        way: Way,
        depth: usize,
    ) {
        let list = |value: &'a Value| value[many].as_array().map_or(&[][..], Vec::as_slice);
        let (before, now) = (list(kept), list(new));
        for (place, one) in before.iter().enumerate() {
            let tag = tag(self.kept, one);
            let other = match &tag {
                Some(tag) => {
                    now.iter().find(|other| self::tag(self.new, other).as_ref() == Some(tag))
                }
                None => now.get(place),
            };
            let at = match &tag {
                Some(tag) => format!("{at}<{tag}>"),
                None => at.to_owned(),
            };
            match other {
                Some(other) => self.schema(&at, one, other, way, depth + 1),
                // What is never answered any more breaks nobody.
                None if way == Way::Answer && tag.is_some() => {}
                None => self.add(&at, "is gone"),
            }
        }
    }
}

/// Whether another way in asks for less of the same kind of token.
fn lesser(way: &Value, new: &[Value]) -> bool {
    const SCOPES: [&str; 3] = ["viewer", "operator", "admin"];
    let rank = |role: &Value| SCOPES.iter().position(|scope| role[0] == **scope);
    entries(way).all(|(scheme, role)| {
        let held = rank(role);
        new.iter().any(|now| {
            let asked = now.get(scheme).and_then(rank);
            matches!((held, asked), (Some(held), Some(asked)) if asked <= held)
        })
    })
}

fn types(schema: &Value) -> BTreeSet<&str> {
    match &schema["type"] {
        Value::String(one) => BTreeSet::from([one.as_str()]),
        many => words(many).into_iter().collect(),
    }
}

fn values(schema: &Value) -> Vec<&Value> {
    let many = schema["enum"].as_array().into_iter().flatten();
    many.chain(schema.get("const")).filter(|value| !value.is_null()).collect()
}

/// The constant by which an alternative is known.
fn tag(document: &Value, schema: &Value) -> Option<String> {
    let (schema, _) = Findings::resolved(document, schema);
    let empty = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&empty);
    let constants = fields.iter().filter_map(|(name, field)| {
        field.get("const").map(|value| format!("{name}={}", value.as_str().unwrap_or_default()))
    });
    constants.chain(schema.get("const").map(Value::to_string)).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "paths": {
                "/things": {
                    "get": {
                        "parameters": [{ "name": "limit", "in": "query", "required": false, "schema": { "type": "integer" } }],
                        "responses": {
                            "200": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Thing" } } } },
                            "404": { "content": {} }
                        },
                        "security": [{ "bearer": ["operator"] }]
                    },
                    "post": {
                        "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/New" } } } },
                        "responses": { "201": {} },
                        "security": [{ "bearer": ["operator"] }]
                    }
                }
            },
            "components": { "schemas": {
                "Thing": {
                    "type": "object",
                    "required": ["id"],
                    "properties": {
                        "id": { "type": "string" },
                        "state": { "enum": ["a", "b"] },
                        "parts": { "type": "array", "items": { "$ref": "#/components/schemas/Thing" } }
                    }
                },
                "New": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["name"],
                    "properties": {
                        "name": { "type": "string" },
                        "state": { "enum": ["a", "b"] },
                        "wish": { "oneOf": [
                            { "type": "object", "properties": { "kind": { "const": "stop" } } },
                            { "type": "object", "properties": { "kind": { "const": "say" }, "text": { "type": "string" } } }
                        ] }
                    }
                }
            } }
        })
    }

    /// What breaks when this place is changed so.
    fn broken(place: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = document();
        change(new.pointer_mut(place).unwrap_or_else(|| panic!("{place}")));
        between(&document(), &new)
    }

    fn without(name: &'static str) -> impl FnOnce(&mut Value) {
        move |value| {
            value.as_object_mut().unwrap().remove(name).expect(name);
        }
    }

    fn to(new: Value) -> impl FnOnce(&mut Value) {
        move |value| *value = new
    }

    const GET: &str = "/paths/~1things/get";
    const THING: &str = "/components/schemas/Thing";
    const NEW: &str = "/components/schemas/New";

    #[test]
    fn every_change_that_breaks_a_client_is_named() {
        let rows = [
            (broken("/paths", without("/things")), "/things is gone"),
            (broken("/paths/~1things", without("post")), "POST /things is gone"),
            (broken(&format!("{GET}/parameters"), to(json!([]))), "GET /things ?limit is gone"),
            (
                broken(&format!("{GET}/parameters/0/required"), to(json!(true))),
                "GET /things ?limit must be there now",
            ),
            (
                broken(&format!("{GET}/parameters/0/schema/type"), to(json!("string"))),
                "GET /things ?limit was integer and is string",
            ),
            (
                broken(&format!("{GET}/responses"), without("200")),
                "GET /things 200 is not answered any more",
            ),
            (
                broken(&format!("{GET}/security/0/bearer"), to(json!(["admin"]))),
                "GET /things does not let in all whom it let in",
            ),
            (broken(&format!("{THING}/properties"), without("id")), "GET /things 200.id is gone"),
            (
                broken(&format!("{THING}/properties/id/type"), to(json!("integer"))),
                "GET /things 200.id was string and is integer",
            ),
            (
                broken(&format!("{THING}/properties/id/type"), to(json!(["string", "null"]))),
                "GET /things 200.id was string and is null or string",
            ),
            (
                broken(&format!("{THING}/required"), to(json!([]))),
                "GET /things 200.id may be absent now",
            ),
            (
                broken(&format!("{NEW}/required"), to(json!(["name", "state"]))),
                "POST /things body.state must be there now",
            ),
            (
                broken(&format!("{NEW}/properties"), without("state")),
                "POST /things body.state is gone",
            ),
            (
                broken(&format!("{NEW}/properties/state/enum"), to(json!(["a"]))),
                "POST /things body.state may not be \"b\" any more",
            ),
            (
                broken(
                    &format!("{NEW}/properties/name"),
                    to(json!({ "enum": ["x"], "type": "string" })),
                ),
                "POST /things body.name may not have every value any more",
            ),
            (
                broken(&format!("{NEW}/properties/wish/oneOf"), |many| {
                    many.as_array_mut().unwrap().remove(0);
                }),
                "POST /things body.wish<kind=stop> is gone",
            ),
            (
                broken(
                    &format!("{NEW}/properties/wish/oneOf/1/properties/text/type"),
                    to(json!("null")),
                ),
                "POST /things body.wish<kind=say>.text was string and is null",
            ),
            (
                broken("/paths/~1things/post/requestBody/content", |content| {
                    *content = json!({ "text/plain": content["application/json"] });
                }),
                "POST /things body is not taken as application/json any more",
            ),
        ];
        for (found, expected) in rows {
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn what_only_adds_breaks_nobody() {
        let field = || json!({ "type": "string" });
        let rows = [
            broken("/paths", |paths| paths["/others"] = json!({ "get": {} })),
            broken("/paths/~1things", |methods| methods["put"] = json!({})),
            broken(GET, |get| {
                let more = json!({ "name": "after", "in": "query", "required": false });
                get["parameters"].as_array_mut().unwrap().push(more);
            }),
            broken(&format!("{GET}/responses"), without("404")),
            broken(&format!("{GET}/responses"), |answers| answers["429"] = json!({})),
            broken(&format!("{GET}/security/0/bearer"), to(json!(["viewer"]))),
            broken(&format!("{GET}/security"), to(json!([]))),
            broken(&format!("{THING}/properties"), |fields| fields["more"] = field()),
            broken(&format!("{THING}/properties/state/enum"), to(json!(["a"]))),
            broken(&format!("{NEW}/properties"), |fields| fields["more"] = field()),
            broken(&format!("{NEW}/required"), to(json!([]))),
            broken(&format!("{NEW}/properties/state/enum"), to(json!(["a", "b", "c"]))),
            broken(&format!("{NEW}/properties/name/type"), to(json!(["string", "null"]))),
            broken(&format!("{NEW}/properties/wish/oneOf"), |many| {
                let more = json!({ "properties": { "kind": { "const": "wait" } } });
                many.as_array_mut().unwrap().insert(0, more);
            }),
        ];
        for (n, found) in rows.into_iter().enumerate() {
            assert_eq!(found, Vec::<String>::new(), "row {n}");
        }
    }
}
