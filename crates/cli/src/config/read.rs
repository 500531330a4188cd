//! Text of `ostler.json` → checked values. The file is walked once beside its own schema: unknown
//! keys, wrong types and wrong words are all found, each with its path, line and column; aliases
//! are put under their one name on the way. What passes here fits `file.rs`. No IO, and no meaning:
//! whether a named adapter exists is asked in `check.rs`.

use super::expected::{accepts, choices, expected, found, words};
use super::file::File;
use super::mistaken;
use super::nearest::did_you_mean;
use super::words::AdapterType;
use contract::plan::Limit;
use contract::{Code, limits};
use jsonc_parser::ast::{self, ObjectProp};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
}

/// Something to be said about a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub code: Code,
    /// The key, such as `adapters.gemini.args[2]`; empty for the file as a whole.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
    /// Line and column, from 1.
    pub at: Option<(usize, usize)>,
}

/// Other names for a key: what is written, what it means, and what a number is divided by.
const ALIASES: &[(&str, &str, f64)] = &[
    ("bin", "binary", 1.0),
    ("cliPath", "binary", 1.0),
    ("commandTimeoutMs", "timeoutSec", 1000.0),
];

/// A file as far as it could be read: where each key stands, and what is wrong with it.
pub struct Reading {
    pub file: File,
    pub findings: Vec<Finding>,
    /// Whether the text holds nothing but blanks and comments.
    pub is_empty: bool,
    text: String,
    places: BTreeMap<String, usize>,
}

impl Reading {
    /// Where a key, or the nearest thing around it, stands in the text.
    pub fn place(&self, path: &str) -> Option<(usize, usize)> {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return Some(line_and_column(&self.text, *place));
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

/// Reads a text. Never fails: what is wrong is among the findings.
pub fn read(text: &str) -> Reading {
    let schema = contract::config::schema();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut walk = Walk {
        text,
        schema: &schema,
        findings: Vec::new(),
        is_empty: false,
        places: BTreeMap::new(),
    };
    let file = walk.file();
    let Walk { findings, is_empty, places, .. } = walk;
    Reading { file, findings, is_empty, text: text.to_owned(), places }
}

/// The hint for a text that is no duration.
const SECONDS_HINT: &str =
    "give a number of seconds, or a duration such as \"90s\", \"10m\" or \"2h\"";

/// More mistakes than this in one file help nobody.
const FINDINGS_MAX: usize = 50;

/// What a value without a schema is checked against.
static ANYTHING: Value = Value::Bool(true);

struct Walk<'a> {
    text: &'a str,
    schema: &'a Value,
    findings: Vec<Finding>,
    is_empty: bool,
    /// The byte at which each key begins.
    places: BTreeMap<String, usize>,
}

impl<'a> Walk<'a> {
    fn file(&mut self) -> File {
        if self.text.len() > limits::CONFIG_BYTES_MAX {
            let allowed = limits::CONFIG_BYTES_MAX;
            let given = self.text.len();
            self.wrong("", None, format!("{given} bytes, and {allowed} are allowed"), None);
            return File::default();
        }
        let parsed = jsonc_parser::parse_to_ast(self.text, &CollectOptions::default(), &strict());
        let root = match parsed {
            Ok(parsed) => parsed.value,
            Err(error) => {
                let at = Some(error.range().start);
                let said = error.kind().to_string().to_lowercase();
                let hint = "the file is JSON; comments and trailing commas are allowed";
                self.wrong("", at, format!("not JSON: {said}"), Some(hint.to_owned()));
                return File::default();
            }
        };
        let schema = self.schema;
        let Some(root) = root else {
            self.is_empty = true;
            return File::default();
        };
        let value = self.value(&root, schema, "");
        // Errors are already named; a file that has some is not used.
        if self.findings.is_empty() { self.typed(value) } else { File::default() }
    }

    fn typed(&mut self, value: Option<Value>) -> File {
        match serde_json::from_value(value.unwrap_or_else(|| json!({}))) {
            Ok(file) => file,
            Err(error) => {
                self.wrong("", None, error.to_string(), None);
                File::default()
            }
        }
    }

    /// Checks one value against a schema and gives it back under the right names.
    fn value(&mut self, node: &ast::Value<'_>, schema: &'a Value, path: &str) -> Option<Value> {
        let at = node.start();
        self.places.entry(path.to_owned()).or_insert(at);
        let choices = choices(self.schema, schema);
        let fitting: Vec<&Value> =
            choices.iter().copied().filter(|choice| accepts(choice, node)).collect();
        if fitting.is_empty() {
            if let (ast::Value::StringLit(given), false) = (node, words(&choices).is_empty()) {
                self.wrong_word(&given.value, &choices, path, at);
            } else {
                let message = format!("expected {}, found {}", expected(&choices), found(node));
                self.wrong(path, Some(at), message, None);
            }
            return None;
        }
        match node {
            ast::Value::Object(object) => self.object(object, fitting[0], path),
            ast::Value::Array(array) => {
                let items = fitting[0].get("items").unwrap_or(&ANYTHING);
                let elements = array.elements.iter().enumerate();
                Some(
                    elements
                        .filter_map(|(i, e)| self.value(e, items, &format!("{path}[{i}]")))
                        .collect(),
                )
            }
            ast::Value::StringLit(given) => {
                let free = fitting.iter().any(|choice| words(&[choice]).is_empty());
                if !free && !words(&fitting).contains(&&*given.value) {
                    self.wrong_word(&given.value, &choices, path, at);
                    return None;
                }
                Some(Value::String(given.value.to_string()))
            }
            ast::Value::NumberLit(number) => self.number(number.value, fitting[0], path, at),
            ast::Value::BooleanLit(given) => Some(Value::Bool(given.value)),
            ast::Value::NullKeyword(_) => Some(Value::Null),
        }
    }

    fn object(&mut self, object: &ast::Object<'_>, schema: &'a Value, path: &str) -> Option<Value> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut kept = Map::new();
        for property in &object.properties {
            let given = property.name.as_str();
            let (name, divisor) =
                properties.map_or((given.to_owned(), 1.0), |p| canonical(given, p));
            let inner = join(path, &name);
            let at = property.start();
            self.places.insert(inner.clone(), at);
            if let Some(earlier) = seen.insert(name.clone(), given.to_owned()) {
                let message = format!("given twice, before as '{earlier}'");
                self.wrong(&join(path, given), Some(at), message, None);
                continue;
            }
            let schema = match (properties.and_then(|p| p.get(&name)), others) {
                (Some(schema), _) => schema,
                (None, Some(Value::Bool(false))) => {
                    self.unknown_key(property, object, properties, path);
                    continue;
                }
                (None, Some(schema)) => schema,
                (None, None) => &ANYTHING,
            };
            let value = match text_of(&property.value) {
                Some(text) if self.is_duration(text, schema, &name) => {
                    self.seconds(text, schema, (&inner, property.value.start()), divisor)
                }
                Some(_) | None => {
                    self.value(&property.value, schema, &inner).map(|it| scaled(it, divisor))
                }
            };
            if let Some(value) = value {
                // A key that is null is a key that is not there.
                let absent = value.is_null() && properties.is_some();
                if !absent {
                    kept.insert(name, value);
                }
            }
        }
        self.missing_keys(object, schema, &seen, path);
        Some(Value::Object(kept))
    }

    /// Whether a text stands where seconds are wanted, and is no word that is taken there.
    fn is_duration(&self, text: &str, schema: &Value, key: &str) -> bool {
        let choices = choices(self.schema, schema);
        key.ends_with("Sec")
            && choices.iter().any(|choice| choice["type"] == "number")
            && !words(&choices).contains(&text)
    }

    /// The seconds of a duration such as `10m`, as the command line takes it.
    fn seconds(
        &mut self,
        text: &str,
        schema: &Value,
        (path, at): (&str, usize),
        divisor: f64,
    ) -> Option<Value> {
        // A key in another unit, such as `timeout_ms`, takes a number alone.
        let given = if divisor == 1.0 { Limit::parse(text) } else { None };
        if let Some(Limit::Ms(ms)) = given {
            return Some(json!(ms as f64 / 1000.0));
        }
        let mut wanted = choices(self.schema, schema);
        wanted.retain(|choice| choice.get("pattern").is_none());
        let message = format!("expected {}, found {text:?}", expected(&wanted));
        self.wrong(path, Some(at), message, (divisor == 1.0).then(|| SECONDS_HINT.to_owned()));
        None
    }

    fn missing_keys(
        &mut self,
        object: &ast::Object<'_>,
        schema: &Value,
        seen: &BTreeMap<String, String>,
        path: &str,
    ) {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !seen.contains_key(name) {
                self.wrong(&join(path, name), Some(object.start()), "missing".to_owned(), None);
            }
        }
    }

    fn unknown_key(
        &mut self,
        property: &ObjectProp<'_>,
        object: &ast::Object<'_>,
        properties: Option<&Map<String, Value>>,
        path: &str,
    ) {
        let given = property.name.as_str();
        let kind = adapter_type(object, path);
        let taken = |key: &&str| kind.is_none_or(|kind| !kind.refuses(key));
        let known = properties.iter().flat_map(|p| p.keys()).map(|k| &**k);
        let known: Vec<&str> = known.filter(taken).collect();
        let takes_command = is_adapter(path) && known.contains(&"binary");
        let command = takes_command
            .then(|| mistaken::command_hint(given, text_of(&property.value)))
            .flatten();
        let hint = command.or_else(|| did_you_mean(given, known.iter().copied()));
        let hint = hint.unwrap_or_else(|| match kind {
            Some(kind) => format!("the keys of type {} are {}", kind.word(), known.join(", ")),
            None => format!("the keys here are {}", known.join(", ")),
        });
        self.wrong(
            &join(path, given),
            Some(property.start()),
            "unknown key".to_owned(),
            Some(hint),
        );
    }

    fn wrong_word(&mut self, given: &str, choices: &[&Value], path: &str, at: usize) {
        let message = format!("expected {}, found {given:?}", expected(choices));
        let hint = did_you_mean(given, words(choices))
            .or_else(|| is_adapter_type(path).then(|| mistaken::type_hint(given)).flatten());
        self.wrong(path, Some(at), message, hint);
    }

    fn number(&mut self, given: &str, schema: &Value, path: &str, at: usize) -> Option<Value> {
        let Ok(value) = serde_json::from_str::<Value>(given) else {
            self.wrong(path, Some(at), format!("expected a number, found {given}"), None);
            return None;
        };
        let number = value.as_f64().unwrap_or(f64::NAN);
        let edge = |name| schema.get(name).and_then(Value::as_f64);
        if edge("minimum").is_some_and(|least| number < least) {
            let least = schema["minimum"].as_f64().unwrap_or_default();
            self.wrong(path, Some(at), format!("expected {least} or more, found {given}"), None);
            return None;
        }
        if edge("maximum").is_some_and(|most| number > most) || !number.is_finite() {
            let most = edge("maximum").unwrap_or(f64::MAX);
            self.wrong(path, Some(at), format!("expected at most {most}, found {given}"), None);
            return None;
        }
        Some(value)
    }

    fn wrong(&mut self, path: &str, byte: Option<usize>, message: String, hint: Option<String>) {
        if self.findings.len() == FINDINGS_MAX {
            return;
        }
        let (level, code) = (Level::Error, Code::InvalidConfig);
        let at = byte.map(|byte| line_and_column(self.text, byte));
        self.findings.push(Finding { level, code, path: path.to_owned(), message, hint, at });
    }
}

/// Whether a path is that of one adapter.
fn is_adapter(path: &str) -> bool {
    path.strip_prefix("adapters.").is_some_and(|name| !name.is_empty() && !name.contains('.'))
}

fn is_adapter_type(path: &str) -> bool {
    path.strip_suffix(".type").is_some_and(is_adapter)
}

/// The type that an adapter says it has, as far as it is one.
fn adapter_type(object: &ast::Object<'_>, path: &str) -> Option<AdapterType> {
    if !is_adapter(path) {
        return None;
    }
    let given = object.properties.iter().find(|property| property.name.as_str() == "type")?;
    let word = text_of(&given.value)?;
    AdapterType::ALL.into_iter().find(|kind| kind.word() == word)
}

/// The text of a string.
fn text_of<'n>(node: &'n ast::Value<'_>) -> Option<&'n str> {
    match node {
        ast::Value::StringLit(given) => Some(&given.value),
        _ => None,
    }
}

/// Line and column of a byte, both from 1, columns in characters.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
    (line, column)
}

/// JSON with comments and trailing commas, and nothing looser.
fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The name a key is known by, and what its number is divided by.
fn canonical(given: &str, properties: &Map<String, Value>) -> (String, f64) {
    if properties.contains_key(given) {
        return (given.to_owned(), 1.0);
    }
    let camel = camel_case(given);
    for (alias, name, divisor) in ALIASES {
        if camel == *alias && properties.contains_key(*name) {
            return ((*name).to_owned(), *divisor);
        }
    }
    let name = if properties.contains_key(&camel) { camel } else { given.to_owned() };
    (name, 1.0)
}

fn camel_case(snake: &str) -> String {
    let mut parts = snake.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut name, part| {
        let mut letters = part.chars();
        name.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        name.extend(letters);
        name
    })
}

fn scaled(value: Value, divisor: f64) -> Value {
    match value.as_f64() {
        Some(number) if divisor != 1.0 => json!(number / divisor),
        _ => value,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
