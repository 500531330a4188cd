//! What a question about a relayed tool says to people. A call's arguments are the agent's own words:
//! they are shown, cut to a length, and decide nothing. Whatever is not understood is said in the
//! tool's name alone.

use contract::event::PermissionOption;
use contract::limits::{APPROVAL_CHARS_MAX, APPROVAL_OPTION_CHARS_MAX, APPROVAL_OPTIONS_MAX};
use contract::speech::ToolCall;

/// The kind of an option that an agent names: whoever chooses it allows something.
const ALLOWING: &str = "allow_once";

/// The question whether a tool may be used.
pub(super) fn title(call: &ToolCall) -> String {
    let adapter = text(call, "adapter").or_else(|| text(call, "runtime"));
    match (call.tool.as_str(), text(call, "name"), adapter) {
        ("propose_agent", Some(name), Some(adapter)) => {
            let may = text(call, "permission").map(|policy| format!(" with permission {policy}"));
            let reason = text(call, "reason").map(|reason| format!(" {reason}"));
            let [may, reason] = [may, reason].map(Option::unwrap_or_default);
            format!("hire '{name}' on {adapter}{may}?{reason}")
        }
        _ => match text(call, "path") {
            Some(path) => format!("may it use {} on {path}?", call.tool),
            None => format!("may it use {}?", call.tool),
        },
    }
}

/// What a person is asked to approve; none when the agent did not say.
pub(super) fn request(call: &ToolCall) -> Option<String> {
    text(call, "text")
}

/// The answers that an agent offers besides no.
pub(super) fn options(call: &ToolCall) -> Vec<PermissionOption> {
    let given = call.args["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = given.iter().filter_map(|option| option.as_str()).map(str::trim);
    let texts = texts.filter(|text| !text.is_empty() && *text != "deny");
    texts
        .map(|text| text.chars().take(APPROVAL_OPTION_CHARS_MAX).collect::<String>())
        .map(|name| PermissionOption { id: name.clone(), kind: ALLOWING.to_owned(), name })
        .take(APPROVAL_OPTIONS_MAX)
        .collect()
}

fn text(call: &ToolCall, key: &str) -> Option<String> {
    let text = call.args.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.chars().take(APPROVAL_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn call(tool: &str, args: Value) -> ToolCall {
        ToolCall { tool_call_id: "1".to_owned(), tool: tool.to_owned(), args }
    }

    #[test]
    fn a_question_says_what_is_asked_as_far_as_it_was_said() {
        let hire = json!({ "name": "rev", "adapter": "demo", "reason": "two are quicker" });
        let rows = [
            (call("write_file", json!({ "name": "x" })), "may it use write_file?"),
            (call("write_file", json!({ "path": "a.txt" })), "may it use write_file on a.txt?"),
            (call("propose_agent", hire), "hire 'rev' on demo? two are quicker"),
            (
                call(
                    "propose_agent",
                    json!({ "name": "r", "runtime": "pi", "permission": "allow-all" }),
                ),
                "hire 'r' on pi with permission allow-all?",
            ),
            (call("propose_agent", json!({ "name": "rev" })), "may it use propose_agent?"),
            (call("propose_agent", json!([1])), "may it use propose_agent?"),
        ];
        for (call, expected) in rows {
            assert_eq!(title(&call), expected);
        }
        assert_eq!(request(&call("request_approval", json!({ "text": " \n" }))), None);
    }

    #[test]
    fn options_are_few_and_short_and_none_of_them_is_no() {
        let long = "x".repeat(10_000);
        let many: Vec<Value> = (0..100).map(|n| json!(format!("{n}{long}"))).collect();
        let options_of =
            |given: Value| options(&call("request_approval", json!({ "options": given })));
        let offered = options_of(Value::from(many));
        assert_eq!(offered.len(), APPROVAL_OPTIONS_MAX);
        assert!(offered.iter().all(|option| option.id.len() == APPROVAL_OPTION_CHARS_MAX));
        let odd = options_of(json!(["ship it", "", 7, "deny", null]));
        assert_eq!(odd.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(), ["ship it"]);
    }
}
