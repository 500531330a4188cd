//! How deep the JSON of an agent may nest inside an event. `serde_json` refuses to read what nests
//! deeper than 128 levels, so an event that came close could not be read back, nor any answer of the
//! API that holds it. A value beyond the bound is kept as its JSON text.

use crate::event::Body;
use crate::limits::JSON_DEPTH_MAX;
use serde_json::Value;

impl Body {
    /// The same event with every value that nests too deep as text; `None` when there is none.
    pub fn with_bounded_depth(&self) -> Option<Self> {
        let mut bounded = None;
        // Looked at first, because nearly no event needs the copy.
        if values(self).any(|value| is_deeper(value, JSON_DEPTH_MAX)) {
            let body = bounded.insert(self.clone());
            for value in values_mut(body) {
                if is_deeper(value, JSON_DEPTH_MAX) {
                    *value = Value::String(value.to_string());
                }
            }
        }
        bounded
    }
}

fn values(body: &Body) -> impl Iterator<Item = &Value> {
    let (one, many): (Option<&Value>, [&[Value]; 2]) = match body {
        Body::ToolUse(tool) => (Some(&tool.input), [&[], &[]]),
        Body::ToolUpdate(update) => (update.content.as_ref(), [&[], &[]]),
        Body::ToolResult(result) => (Some(&result.output), [&[], &[]]),
        Body::Permission(permission) => {
            (permission.request.as_ref().and_then(|asked| asked.input.as_ref()), [&[], &[]])
        }
        Body::Progress(progress) => (None, [&progress.beliefs, &progress.attempted]),
        Body::Result(result) => (result.output.as_ref(), [&[], &[]]),
        _ => (None, [&[], &[]]),
    };
    one.into_iter().chain(many.into_iter().flatten())
}

fn values_mut(body: &mut Body) -> Vec<&mut Value> {
    match body {
        Body::ToolUse(tool) => vec![&mut tool.input],
        Body::ToolUpdate(update) => update.content.iter_mut().collect(),
        Body::ToolResult(result) => vec![&mut result.output],
        Body::Permission(permission) => {
            permission.request.iter_mut().filter_map(|asked| asked.input.as_mut()).collect()
        }
        Body::Progress(progress) => {
            progress.beliefs.iter_mut().chain(&mut progress.attempted).collect()
        }
        Body::Result(result) => result.output.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// Whether a value has more than this many levels of arrays and objects.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return false,
    };
    match levels.checked_sub(1) {
        None => true,
        Some(levels) => inner.any(|value| is_deeper(value, levels)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ToolResult, ToolStatus};

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::from(7), |inner, n| match n % 2 {
            0 => Value::Array(vec![inner]),
            _ => serde_json::json!({ "a": inner }),
        })
    }

    fn result(output: Value) -> Body {
        let tool_call_id = "1".to_owned();
        let status = ToolStatus::Ok;
        Body::ToolResult(ToolResult {
            tool_call_id,
            status,
            denied: None,
            output,
            duration_ms: None,
        })
    }

    #[test]
    fn a_value_that_nests_too_deep_becomes_text() {
        assert_eq!(result(nested(JSON_DEPTH_MAX)).with_bounded_depth(), None);
        let deep = nested(JSON_DEPTH_MAX + 1);
        let text = Value::String(deep.to_string());
        assert_eq!(result(deep).with_bounded_depth(), Some(result(text)));
    }

    #[test]
    fn an_event_at_the_bound_can_be_read_inside_an_answer() {
        let body = serde_json::to_value(result(nested(JSON_DEPTH_MAX))).unwrap();
        let answer =
            serde_json::json!({ "items": [{ "events": [{ "more": [body] }] }] }).to_string();
        serde_json::from_str::<Value>(&answer).unwrap();
    }
}
