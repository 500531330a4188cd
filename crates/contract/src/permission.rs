//! The content of a permission question: what an agent wants to do, as far as it tells. It is part of
//! the `permission` event and is kept with the run while the question is open, so its size is bounded.

use crate::event::Diff;
use crate::limits::PERMISSION_REQUEST_BYTES_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The action that an agent asks permission for, in the agent's words and untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PermissionRequest {
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// `edit`, `execute`, `read`, `search`, `fetch`, `delete`, `move` or `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    /// The command line that would be executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The tool's input, where command and diffs do not say it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The changes it would make to files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<Diff>,
    /// The files it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The directory it would happen in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Why the agent wants it, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True when something was left out because the request is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
}

impl PermissionRequest {
    /// The same request within `PERMISSION_REQUEST_BYTES_MAX`. Long texts are cut and `cut` says so;
    /// a list of files that does not fit is left out whole, so that no file is missing from it.
    pub fn bounded(mut self) -> Self {
        let mut share = PERMISSION_REQUEST_BYTES_MAX / 2;
        while !self.fits() {
            self.cut = Some(true);
            self.cut_texts(share);
            // Escapes and long lists take room too, so the share shrinks until everything fits.
            if share < SHARE_BYTES_MIN {
                return Self {
                    tool: self.tool,
                    tool_kind: self.tool_kind,
                    cut: self.cut,
                    ..Self::default()
                };
            }
            share /= 2;
        }
        self
    }

    fn fits(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|json| json.len() <= PERMISSION_REQUEST_BYTES_MAX)
    }

    fn cut_texts(&mut self, bytes_max: usize) {
        let own = [&mut self.tool, &mut self.tool_kind, &mut self.command, &mut self.reason];
        own.into_iter().flatten().for_each(|text| cut(text, bytes_max));
        if self.paths.iter().map(String::len).sum::<usize>() > bytes_max {
            self.paths.clear();
        }
        for diff in &mut self.diffs {
            let texts = [&mut diff.patch, &mut diff.old_text, &mut diff.new_text];
            texts.into_iter().flatten().for_each(|text| cut(text, bytes_max));
        }
        match &mut self.input {
            Some(Value::Object(fields)) => {
                fields.values_mut().for_each(|value| cut_value(value, bytes_max));
            }
            Some(value) => cut_value(value, bytes_max),
            None => {}
        }
    }
}

/// A text of a request is not cut to less than this: then its texts are left out altogether.
const SHARE_BYTES_MIN: usize = 64;

fn cut(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
}

fn cut_value(value: &mut Value, bytes_max: usize) {
    match value {
        Value::String(text) => cut(text, bytes_max),
        Value::Array(_) | Value::Object(_) => {
            let mut text = value.to_string();
            if text.len() > bytes_max {
                cut(&mut text, bytes_max);
                *value = Value::String(text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diff(path: &str, new_text: String) -> Diff {
        let (patch, old_text, tool_call_id) = (None, None, None);
        Diff { path: path.to_owned(), patch, old_text, new_text: Some(new_text), tool_call_id }
    }

    #[test]
    fn short_request_stays_as_it_is() {
        let request = PermissionRequest {
            command: Some("ls".to_owned()),
            input: Some(json!({ "a": [1, 2] })),
            diffs: vec![diff("a.txt", "hello\n".to_owned())],
            ..PermissionRequest::default()
        };
        assert_eq!(request.clone().bounded(), request);
    }

    #[test]
    fn long_requests_fit_and_say_that_they_are_cut() {
        let long = "é\u{1}".repeat(100_000);
        let many: Vec<String> = (0..5_000).map(|n| format!("/some/where/{n}")).collect();
        let rows = [
            PermissionRequest { command: Some(long.clone()), ..PermissionRequest::default() },
            PermissionRequest {
                input: Some(json!({ "a": long, "b": [long] })),
                ..PermissionRequest::default()
            },
            PermissionRequest {
                input: Some(json!(vec![1; 100_000])),
                ..PermissionRequest::default()
            },
            PermissionRequest {
                diffs: vec![diff("a", long.clone())],
                ..PermissionRequest::default()
            },
            PermissionRequest {
                diffs: many.iter().map(|path| diff(path, "x".to_owned())).collect(),
                paths: many.clone(),
                ..PermissionRequest::default()
            },
            PermissionRequest { cwd: Some(long.clone()), ..PermissionRequest::default() },
        ];
        for request in rows {
            let bounded = request.bounded();
            assert!(bounded.fits());
            assert_eq!(bounded.cut, Some(true));
            assert!(bounded.paths.is_empty() || bounded.paths.len() == many.len());
        }
    }
}
