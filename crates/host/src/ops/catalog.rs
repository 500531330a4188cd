//! The relayed tools as data: what each is called, what it is for, what it takes, and whether it
//! changes anything. One list for every lane; `tool.rs` carries the calls out.

use serde_json::{Value, json};

/// One relayed tool.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// Whether it changes something outside the run, so that the policy is asked.
    pub writes: bool,
    schema: fn() -> Value,
}

impl Tool {
    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> Value {
        let mut schema = (self.schema)();
        schema["type"] = "object".into();
        schema
    }
}

pub fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

/// The tools that exist, in the order they are listed.
pub const ALL: &[Tool] = &[
    Tool {
        name: "read_task",
        description: "The task of this run: title, body, prompt, what is left of its budget, comments and the last progress.",
        writes: false,
        schema: nothing,
    },
    Tool {
        name: "report_progress",
        description: "Tell people where the work stands.",
        writes: false,
        schema: || {
            let things = json!({ "type": "array", "description": "texts or objects" });
            json!({
                "properties": {
                    "summary": { "type": "string", "description": "one or two sentences" },
                    "beliefs": things,
                    "attempted": things,
                },
                "required": ["summary"],
            })
        },
    },
    Tool {
        name: "comment",
        description: "Leave a comment on the task.",
        writes: false,
        schema: || {
            json!({
                "properties": {
                    "text": { "type": "string" },
                    "mentions": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["text"],
            })
        },
    },
    Tool {
        name: "get_budget",
        description: "What is left of the run's dollars, tokens, turns and time; a limit that is not set is absent.",
        writes: false,
        schema: nothing,
    },
    Tool {
        name: "mark_complete",
        description: "Say that the task is done. This ends the run.",
        writes: false,
        schema: || {
            json!({
                "properties": {
                    "text": { "type": "string", "description": "the final answer, for people" },
                    "output": { "description": "the final answer, for programs" },
                },
            })
        },
    },
    Tool {
        name: "mark_failed",
        description: "Say that the task cannot be done. This ends the run.",
        writes: false,
        schema: || {
            json!({
                "properties": {
                    "reason": { "type": "string" },
                    "details": { "type": "string" },
                },
                "required": ["reason"],
            })
        },
    },
    Tool {
        name: "read_file",
        description: "The content of a file in the workspace, a megabyte at a time: go on at next_offset. What is no text comes in base64.",
        writes: false,
        schema: || {
            let offset = json!({ "type": "integer", "minimum": 0, "default": 0 });
            json!({ "properties": { "path": path(), "offset": offset }, "required": ["path"] })
        },
    },
    Tool {
        name: "list_files",
        description: "The files and directories below a directory of the workspace.",
        writes: false,
        schema: || {
            let depth = json!({ "type": "integer", "minimum": 1, "default": 1 });
            json!({ "properties": { "path": path(), "depth": depth } })
        },
    },
    Tool {
        name: "write_file",
        description: "Write a file in the workspace, whole. Missing directories are made.",
        writes: true,
        schema: || {
            json!({
                "properties": {
                    "path": path(),
                    "content": { "type": "string", "description": "a text, or" },
                    "content_base64": { "type": "string", "description": "any bytes" },
                },
                "required": ["path"],
            })
        },
    },
    Tool {
        name: "apply_patch",
        description: "Apply a unified diff to files in the workspace: all of it or nothing.",
        writes: true,
        schema: || {
            let patch = json!({ "type": "string", "description": "as `git diff` writes it" });
            json!({ "properties": { "patch": patch }, "required": ["patch"] })
        },
    },
    Tool {
        name: "create_subtask",
        description: "Delegate a part of the task: it is queued as a subtask, and another run does it. Its budget is taken from what is left of this one.",
        writes: false,
        schema: || {
            let number = |least: u32| json!({ "type": "number", "minimum": least });
            json!({
                "properties": {
                    "title": { "type": "string", "description": "one line" },
                    "body": { "type": "string", "description": "what is to be done, when the title does not say it all" },
                    "agent": { "type": "string", "description": "who is to do it; the same agent when absent" },
                    "after": { "type": "array", "items": { "type": "string" }, "description": "ids of tasks that must be done before" },
                    "budget": { "type": "object", "properties": {
                        "usd": number(0), "tokens": number(0), "minutes": number(0) } },
                },
                "required": ["title"],
            })
        },
    },
    Tool {
        name: "upload_asset",
        description: "Keep a file with the run, so that people find it there: a report, a picture, a log.",
        writes: false,
        schema: || {
            json!({
                "properties": {
                    "name": { "type": "string", "description": "a file name" },
                    "content": { "type": "string", "description": "a text, or" },
                    "content_base64": { "type": "string", "description": "any bytes" },
                    "media_type": { "type": "string" },
                },
                "required": ["name"],
            })
        },
    },
    Tool {
        name: "request_approval",
        description: "Ask a person before you continue, and wait for the answer: allow or deny, or one of your options. No answer in time means deny.",
        writes: false,
        schema: || {
            let options = json!({
                "type": "array",
                "items": { "type": "string" },
                "description": "answers to choose from, besides no",
            });
            let text = json!({ "type": "string", "description": "what is to be decided" });
            json!({ "properties": { "text": text, "options": options }, "required": ["text"] })
        },
    },
    Tool {
        name: "handoff",
        description: "Hand the task over to a person, with what they need to know. This ends the run.",
        writes: false,
        schema: || {
            json!({
                "properties": {
                    "question": { "type": "string", "description": "what you need from them" },
                    "summary": { "type": "string", "description": "where the work stands" },
                },
                "required": ["question"],
            })
        },
    },
    Tool {
        name: "list_runtimes",
        description: "The runtimes that an agent can be hired onto, with when to use each and when not and whether it is installed; the configured adapters, the agents that are here, and the names of agents that speak ACP. With `name` and detail=full it gives the whole card of one: its models, permissions and every key of its adapter.",
        writes: false,
        schema: || {
            let detail = json!({ "enum": ["short", "full"], "default": "short" });
            let name = json!({ "type": "string", "description": "one of them alone" });
            json!({ "properties": { "detail": detail, "name": name } })
        },
    },
    Tool {
        name: "propose_agent",
        description: "Propose to hire a colleague onto an adapter or runtime. A person decides.",
        writes: false,
        schema: || {
            json!({
                "properties": {
                    "name": { "type": "string", "description": "letters, digits, - and _" },
                    "adapter": { "type": "string", "description": "see list_runtimes" },
                    "model": { "type": "string" },
                    "system_prompt": { "type": "string", "description": "its instructions" },
                    "permission": { "enum": ["deny", "ask", "allow-reads", "allow-all"] },
                    "tools": { "type": "array", "items": { "type": "string" } },
                    "skills": { "type": "array", "items": { "type": "string" } },
                    "budgets": {
                        "type": "array",
                        "description": "such as {\"window\": \"run\", \"usd\": 2}",
                        "items": { "type": "object" },
                    },
                    "reason": { "type": "string", "description": "the reason, for the person who decides" },
                },
                "required": ["name", "adapter"],
            })
        },
    },
];

/// The tools about which a person is asked whatever the policy says.
pub const ASKED: [&str; 2] = ["request_approval", "propose_agent"];
/// Those of them whose answer is the person's own.
pub const ANSWERED: [&str; 1] = ["request_approval"];

fn nothing() -> Value {
    json!({ "properties": {} })
}

fn path() -> Value {
    json!({ "type": "string", "description": "relative to the workspace" })
}
