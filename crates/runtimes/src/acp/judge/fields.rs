//! The fields that updates and questions must have by version 1 of the protocol. What is missing or
//! has the wrong form is told in words; fields that are not known here are passed over.

use serde_json::Value;

/// The kinds of updates that the protocol has.
pub(super) const UPDATES: [&str; 11] = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
];

/// Why a turn may end.
pub(super) const STOPS: [&str; 5] =
    ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];

const TOOL_KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];
const TOOL_STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "failed"];
const PLAN_STATUSES: [&str; 3] = ["pending", "in_progress", "completed"];
const PRIORITIES: [&str; 3] = ["high", "medium", "low"];
const OPTION_KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];

/// What is wrong with an update; nothing of a kind that is not known.
pub(super) fn of_update(kind: &str, update: &Value) -> Vec<String> {
    let mut form = Form { value: update, at: "", wrong: Vec::new() };
    match kind {
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
            match update["content"]["type"].as_str() {
                None => form.say("content must be one block with a type"),
                Some("text") if !update["content"]["text"].is_string() => {
                    form.say("content.text must be a text");
                }
                Some(_) => {}
            }
        }
        "tool_call" => {
            form.text("toolCallId");
            form.text("title");
            call(&mut form);
        }
        "tool_call_update" => {
            form.text("toolCallId");
            call(&mut form);
        }
        "plan" => match update["entries"].as_array() {
            None => form.say("entries must be a list"),
            Some(entries) => {
                for entry in entries {
                    let mut one = Form { value: entry, at: "entries[].", wrong: Vec::new() };
                    one.text("content");
                    one.one_of("status", &PLAN_STATUSES, true);
                    one.one_of("priority", &PRIORITIES, true);
                    form.wrong.append(&mut one.wrong);
                }
            }
        },
        "available_commands_update" => form.list("availableCommands", true),
        "current_mode_update" => form.text("currentModeId"),
        "config_option_update" => form.list("configOptions", true),
        "usage_update" => {
            form.number("used");
            form.number("size");
        }
        _ => {}
    }
    form.wrong
}

fn call(form: &mut Form<'_>) {
    form.one_of("status", &TOOL_STATUSES, false);
    form.one_of("kind", &TOOL_KINDS, false);
    form.list("content", false);
    form.list("locations", false);
}

/// What is wrong with a question for permission.
pub(super) fn of_question(params: &Value) -> Vec<String> {
    let mut form = Form { value: params, at: "", wrong: Vec::new() };
    form.text("sessionId");
    let mut call = Form { value: &params["toolCall"], at: "toolCall.", wrong: Vec::new() };
    call.text("toolCallId");
    form.wrong.append(&mut call.wrong);
    let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    if options.is_empty() {
        form.say("options must be a list with something to choose from");
    }
    for option in options {
        let mut one = Form { value: option, at: "options[].", wrong: Vec::new() };
        one.text("optionId");
        one.text("name");
        one.one_of("kind", &OPTION_KINDS, true);
        form.wrong.append(&mut one.wrong);
    }
    form.wrong
}

/// The fields of one object, checked one by one.
struct Form<'a> {
    value: &'a Value,
    /// Where the object is.
    at: &'static str,
    wrong: Vec<String>,
}

impl Form<'_> {
    fn say(&mut self, what: &str) {
        self.wrong.push(format!("{}{what}", self.at));
    }

    fn text(&mut self, name: &str) {
        if !self.value[name].is_string() {
            self.say(&format!("{name} must be a text"));
        }
    }

    fn number(&mut self, name: &str) {
        if !self.value[name].is_u64() {
            self.say(&format!("{name} must be a number"));
        }
    }

    /// Null is the same as missing where the field may be left out.
    fn list(&mut self, name: &str, required: bool) {
        let value = &self.value[name];
        if !value.is_array() && (required || !value.is_null()) {
            self.say(&format!("{name} must be a list"));
        }
    }

    fn one_of(&mut self, name: &str, words: &[&str], required: bool) {
        let fits = match &self.value[name] {
            Value::Null => !required,
            value => value.as_str().is_some_and(|word| words.contains(&word)),
        };
        if !fits {
            self.say(&format!("{name} must be one of {}", words.join(", ")));
        }
    }
}
