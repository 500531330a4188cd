//! The paths of a mapping: `a.b[0].c`, `[]` for every member of a list or an object, `$` for the line
//! itself where paths begin in a member of it, and `@key` for the name of that member. A path that
//! finds nothing, or null, finds nothing: it never fails. Bounded in steps, not in what it finds,
//! which is part of a line that was bounded already.

use contract::limits::MAPPING_PATH_STEPS_MAX;
use serde_json::Value;

/// A path that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    start: Start,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Where the rule's paths begin: the line, or a member of it.
    Here,
    Line,
    /// The name of the member itself.
    Key,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
    All,
}

/// Where paths are followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'v> {
    pub line: &'v Value,
    pub here: &'v Value,
    /// The name of the member, where it has one.
    pub key: Option<&'v str>,
}

impl<'v> Place<'v> {
    pub(super) fn line(line: &'v Value) -> Self {
        Self { line, here: line, key: None }
    }

    /// Inside a value of its own, as the input of a call.
    pub(super) fn inside(self, here: &'v Value) -> Self {
        Self { here, ..self }
    }
}

impl Path {
    /// Reads a path; what is wrong with it is said in words.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text == "@key" {
            return Ok(Self { start: Start::Key, steps: Vec::new() });
        }
        let (start, mut rest) = match text.strip_prefix('$') {
            Some("") => return Ok(Self { start: Start::Line, steps: Vec::new() }),
            Some(rest) if rest.starts_with('[') => (Start::Line, rest),
            Some(rest) => match rest.strip_prefix('.') {
                Some(rest) => (Start::Line, rest),
                None => return Err("after $ comes a point, a bracket or nothing".to_owned()),
            },
            None => (Start::Here, text),
        };
        let mut steps = Vec::new();
        // A name must come here, unless a bracket does.
        let mut named = rest.starts_with('[');
        while !rest.is_empty() || !named {
            if steps.len() == MAPPING_PATH_STEPS_MAX {
                return Err(format!("it has more than {MAPPING_PATH_STEPS_MAX} steps"));
            }
            if let Some(inside) = rest.strip_prefix('[').filter(|_| named) {
                let Some((index, after)) = inside.split_once(']') else {
                    return Err("a bracket is not closed".to_owned());
                };
                steps.push(match index {
                    "" => Step::All,
                    index => Step::Index(index.parse().map_err(|_| {
                        format!("'{index}' in brackets is no number: write [0], or [] for all")
                    })?),
                });
                rest = after;
            } else {
                rest = if named { rest.strip_prefix('.').unwrap_or(rest) } else { rest };
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end == 0 {
                    return Err("a name is missing".to_owned());
                }
                steps.push(Step::Name(rest[..end].to_owned()));
                rest = &rest[end..];
                named = true;
            }
        }
        Ok(Self { start, steps })
    }

    /// Everything it finds, in order.
    fn all<'v>(&self, place: Place<'v>) -> Vec<&'v Value> {
        self.start.follow(&self.steps, place)
    }

    /// The one value it finds; of several the first.
    pub(super) fn one<'v>(&self, place: Place<'v>) -> Option<&'v Value> {
        if self.steps.contains(&Step::All) {
            return self.all(place).first().copied();
        }
        let start = match self.start {
            Start::Here => place.here,
            Start::Line => place.line,
            Start::Key => return None,
        };
        let step = |value: &'v Value, step: &Step| match step {
            Step::Name(name) => value.get(name),
            Step::Index(index) => value.get(index),
            Step::All => None,
        };
        self.steps.iter().try_fold(start, step).filter(|value| !value.is_null())
    }

    /// As a text: a text or a number; of a list all texts joined.
    pub(super) fn text(&self, place: Place<'_>) -> Option<String> {
        if self.start == Start::Key {
            return place.key.map(str::to_owned);
        }
        if self.steps.contains(&Step::All) {
            let texts: Vec<_> = self.all(place).into_iter().filter_map(Value::as_str).collect();
            return (!texts.is_empty()).then(|| texts.concat());
        }
        match self.one(place)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// As it is; of a list all texts joined, or all values.
    pub(super) fn value(&self, place: Place<'_>) -> Option<Value> {
        if self.start == Start::Key {
            return place.key.map(Value::from);
        }
        if !self.steps.contains(&Step::All) {
            return self.one(place).cloned();
        }
        let found = self.all(place);
        let texts: Option<Vec<_>> = found.iter().map(|value| value.as_str()).collect();
        match texts {
            Some(texts) if texts.is_empty() => None,
            Some(texts) => Some(Value::from(texts.concat())),
            None => Some(found.into_iter().cloned().collect()),
        }
    }

    /// The members of the list or object it finds, each with its name; a `[]` at its end is one
    /// that stands there anyway. `None` when there is no such thing.
    pub(super) fn members<'v>(
        &self,
        place: Place<'v>,
    ) -> Option<Vec<(Option<&'v str>, &'v Value)>> {
        let steps = match self.steps.split_last() {
            Some((Step::All, before)) => before,
            Some(_) | None => &self.steps,
        };
        let found = self.start.follow(steps, place);
        let lists: Vec<_> = found.into_iter().filter(|value| is_several(value)).collect();
        (!lists.is_empty()).then(|| lists.into_iter().flat_map(members).collect())
    }
}

impl Start {
    /// Everything that these steps find.
    fn follow<'v>(self, steps: &[Step], place: Place<'v>) -> Vec<&'v Value> {
        let mut found = match self {
            Self::Here => vec![place.here],
            Self::Line => vec![place.line],
            Self::Key => return Vec::new(),
        };
        for step in steps {
            found = match step {
                Step::Name(name) => found.iter().filter_map(|value| value.get(name)).collect(),
                Step::Index(index) => found.iter().filter_map(|value| value.get(index)).collect(),
                Step::All => found.into_iter().flat_map(members).map(|(_, value)| value).collect(),
            };
        }
        found.retain(|value| !value.is_null());
        found
    }
}

fn is_several(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

fn members(value: &Value) -> Vec<(Option<&str>, &Value)> {
    match value {
        Value::Array(items) => items.iter().map(|item| (None, item)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (Some(name.as_str()), value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn every_path_finds_what_it_says() {
        let line = json!({
            "a": { "b": [{ "c": "one" }, { "c": "two", "n": 7 }, { "d": null }] },
            "m": { "x": { "in": 1 }, "y": { "in": 2 } },
            "text": "t", "none": null,
        });
        let rows = [
            ("a.b[1].c", json!("two")),
            ("a.b[].c", json!("onetwo")),
            ("a.b[].n", json!([7])),
            ("a.b[9].c", Value::Null),
            ("a.b[].d", Value::Null),
            ("m[].in", json!([1, 2])),
            ("$.text", json!("t")),
            ("text", json!("t")),
            ("none", Value::Null),
            ("text.deeper", Value::Null),
            ("@key", Value::Null),
        ];
        for (text, expected) in rows {
            let path = Path::read(text).unwrap();
            let found = path.value(Place::line(&line)).unwrap_or_default();
            assert_eq!(found, expected, "{text}");
        }
        let members = Path::read("m[]").unwrap().members(Place::line(&line)).unwrap();
        assert_eq!(members.iter().map(|(key, _)| key.unwrap()).collect::<Vec<_>>(), ["x", "y"]);
        let (key, here) = members[1];
        let place = Place { line: &line, here, key };
        assert_eq!(Path::read("@key").unwrap().text(place).as_deref(), Some("y"));
        assert_eq!(Path::read("in").unwrap().one(place), Some(&json!(2)));
        assert_eq!(Path::read("$.text").unwrap().one(place), Some(&json!("t")));
        let text = Value::from("a plain line");
        assert_eq!(Path::read("$").unwrap().one(Place::line(&text)), Some(&text));
    }

    #[test]
    fn what_is_no_path_is_refused_in_words() {
        for text in ["", ".a", "a.", "a..b", "a[", "a[x]", "a[-1]", "$a", "$.", &"a.".repeat(40)] {
            assert!(Path::read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_none_without_a_panic(text in "[ab.$@\\[\\]0-9]{0,12}") {
            let line = json!({"a": {"b": [1, "x", {"a": null}]}, "b": [[["y"]]]});
            if let Ok(path) = Path::read(&text) {
                let place = Place::line(&line);
                let _ = (path.one(place), path.text(place), path.value(place), path.members(place));
            }
        }
    }
}
