//! A part of a foreign line whose shape may change with any version: one that is not known does not
//! cost the line it stands in, and it is read in the same pass. Which parts are so is said in each
//! agent's `wire.rs`. A line itself is an object or nothing.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A line as the object it must be. A list is none: a reader of structures would take it for their
/// fields, in the order in which they happen to be declared.
pub(crate) fn object<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    line.trim_start().starts_with('{').then(|| serde_json::from_str(line).ok())?
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Lenient<T> {
    Known(T),
    Other(IgnoredAny),
}

impl<T> Lenient<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(part) => Some(part),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_object_or_nothing() {
        #[derive(Debug, PartialEq, Default, Deserialize)]
        #[serde(default)]
        struct Line {
            kind: Option<String>,
        }
        let read = object::<Line>;
        assert_eq!(read(" {\"kind\":\"end\"}"), Some(Line { kind: Some("end".to_owned()) }));
        for no_object in ["[\"end\"]", "[]", "7", "null", "", "{", "{} {}"] {
            assert_eq!(read(no_object), None, "{no_object}");
        }
    }
}
