//! The relayed tools: what an agent can ask of us, whichever lane it asks by.
//!
//! Every tool takes untrusted arguments and answers exactly once, with a value or a fault. What a
//! tool changes is not done here: it returns drafts and signals, which the run's driver commits in
//! the same Batch as the answer.

use crate::workspace::Workspace;
use contract::event::{Body, Comment, Progress, Remaining};
use contract::speech::{Ending, ToolAnswer, ToolCall};
use contract::{Code, Draft, Fault, Signal, limits};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// The tools that exist, in the order they are listed.
pub const ALL: &[&str] = &[
    "read_task",
    "report_progress",
    "comment",
    "get_budget",
    "mark_complete",
    "mark_failed",
    "read_file",
    "list_files",
];

/// Whether a call that a dead host left unanswered may be carried out again: a tool that only reads,
/// or changes nothing but what its answer's own Batch holds.
pub fn may_repeat(tool: &str) -> bool {
    const REPEATED: &[&str] = &[
        "read_task",
        "report_progress",
        "comment",
        "get_budget",
        "mark_complete",
        "mark_failed",
        "read_file",
        "list_files",
    ];
    REPEATED.contains(&tool)
}

/// What the tools of one run see.
#[derive(Debug, Clone)]
pub struct Bench {
    pub task: Arc<TaskSheet>,
    pub workspace: Arc<Workspace>,
}

/// The task as an agent reads it.
#[derive(Debug, Clone)]
pub struct TaskSheet {
    pub id: contract::TaskId,
    pub title: String,
    pub body: String,
    pub prompt: String,
    pub system_prompt: Option<String>,
}

/// What was said in the run so far that a tool may be asked about.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    pub remaining: Remaining,
    pub comments: Vec<Comment>,
    pub last_progress: Option<Progress>,
}

/// Comments that `read_task` shows: the newest.
const COMMENTS_MAX: usize = 20;

impl Standing {
    /// Remembers what an event tells that a tool may be asked about.
    pub fn note(&mut self, body: &Body) {
        match body {
            Body::Comment(comment) => {
                if self.comments.len() == COMMENTS_MAX {
                    self.comments.remove(0);
                }
                self.comments.push(comment.clone());
            }
            Body::Progress(progress) => self.last_progress = Some(progress.clone()),
            _ => {}
        }
    }
}

/// An answer, and what it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub answer: ToolAnswer,
    pub drafts: Vec<Draft>,
    pub signals: Vec<Signal>,
}

impl Outcome {
    fn value(value: Value) -> Self {
        Self { answer: ToolAnswer::Value(value), drafts: Vec::new(), signals: Vec::new() }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        let answer = ToolAnswer::Error { code: fault.code, message: fault.message };
        Self { answer, drafts: Vec::new(), signals: Vec::new() }
    }
}

/// Carries out a call. Blocking: files are read here.
pub fn call(bench: &Bench, standing: &Standing, call: &ToolCall) -> Outcome {
    let args = &call.args;
    let outcome = match call.tool.as_str() {
        "read_task" => Ok(read_task(bench, standing)),
        "report_progress" => report_progress(args),
        "comment" => comment(args),
        "get_budget" => Ok(Outcome::value(budget(standing))),
        "mark_complete" => mark_complete(args),
        "mark_failed" => mark_failed(args),
        "read_file" => read_file(bench, args),
        "list_files" => list_files(bench, args),
        _ => {
            Err(Fault::new(Code::UnknownTool, format!("no tool is called '{}'", shown(&call.tool))))
        }
    };
    outcome.unwrap_or_else(Outcome::from)
}

fn read_task(bench: &Bench, standing: &Standing) -> Outcome {
    let task = &bench.task;
    let mut sheet = json!({
        "id": task.id,
        "title": task.title,
        "body": task.body,
        "prompt": task.prompt,
        "system_prompt": task.system_prompt,
        "inputs": [],
        "budget": budget(standing),
        "comments": standing.comments,
    });
    if let Some(progress) = &standing.last_progress {
        sheet["last_progress"] = json!(progress);
    }
    Outcome::value(sheet)
}

fn budget(standing: &Standing) -> Value {
    json!({ "remaining": standing.remaining })
}

fn report_progress(args: &Value) -> Result<Outcome, Fault> {
    let progress: Progress = understood("report_progress", args)?;
    let mut outcome = Outcome::value(json!({ "noted": true }));
    outcome.drafts.push(Draft::agent(Body::Progress(progress)));
    Ok(outcome)
}

fn comment(args: &Value) -> Result<Outcome, Fault> {
    let comment: Comment = understood("comment", args)?;
    let mut outcome = Outcome::value(json!({ "noted": true }));
    outcome.drafts.push(Draft::agent(Body::Comment(comment)));
    Ok(outcome)
}

#[derive(Deserialize)]
struct Complete {
    #[serde(default)]
    output: Option<Value>,
    #[serde(default, alias = "summary", alias = "answer")]
    text: Option<String>,
}

fn mark_complete(args: &Value) -> Result<Outcome, Fault> {
    let Complete { output, text } = understood("mark_complete", args)?;
    let mut outcome = Outcome::value(json!({ "noted": true }));
    outcome.signals.push(Signal::Ended(Ending { code: None, text, output, detail: None }));
    Ok(outcome)
}

#[derive(Deserialize)]
struct Failed {
    reason: String,
    #[serde(default)]
    details: Option<String>,
}

fn mark_failed(args: &Value) -> Result<Outcome, Fault> {
    let Failed { reason, details } = understood("mark_failed", args)?;
    let code = match reason.as_str() {
        "budget_exceeded" => Code::BudgetExceeded,
        _ => Code::AgentFailed,
    };
    let detail = match details {
        Some(details) => format!("{reason}: {details}"),
        None => reason,
    };
    let mut outcome = Outcome::value(json!({ "noted": true }));
    outcome.signals.push(Signal::Ended(Ending {
        code: Some(code),
        text: None,
        output: None,
        detail: Some(detail),
    }));
    Ok(outcome)
}

#[derive(Deserialize)]
struct ReadFile {
    path: String,
}

fn read_file(bench: &Bench, args: &Value) -> Result<Outcome, Fault> {
    let ReadFile { path } = understood("read_file", args)?;
    let (bytes, truncated) = bench.workspace.read(&path, limits::READ_FILE_BYTES_MAX)?;
    let content = String::from_utf8_lossy(&bytes);
    Ok(Outcome::value(json!({ "path": path, "content": content, "truncated": truncated })))
}

#[derive(Deserialize)]
struct ListFiles {
    #[serde(default)]
    path: String,
    #[serde(default = "one")]
    depth: usize,
}

fn one() -> usize {
    1
}

/// How deep a listing may go.
const DEPTH_MAX: usize = 32;

fn list_files(bench: &Bench, args: &Value) -> Result<Outcome, Fault> {
    let ListFiles { path, depth } = understood("list_files", args)?;
    let depth = depth.clamp(1, DEPTH_MAX);
    let (files, truncated) = bench.workspace.list(&path, depth, limits::LIST_FILES_MAX)?;
    Ok(Outcome::value(json!({ "files": files, "truncated": truncated })))
}

fn understood<T: DeserializeOwned>(tool: &str, args: &Value) -> Result<T, Fault> {
    let args = match args {
        Value::Null => &json!({}),
        args => args,
    };
    T::deserialize(args)
        .map_err(|error| Fault::new(Code::Usage, format!("the arguments of {tool}: {error}")))
}

fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tool: &str, args: Value) -> String {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "hello").unwrap();
        let bench = Bench {
            task: Arc::new(TaskSheet {
                id: "task_00000000000000000000000000000001".parse().unwrap(),
                title: "t".to_owned(),
                body: "b".to_owned(),
                prompt: "p".to_owned(),
                system_prompt: None,
            }),
            workspace: Arc::new(Workspace::open(dir.path()).unwrap()),
        };
        let call = ToolCall { tool_call_id: "1".to_owned(), tool: tool.to_owned(), args };
        let Outcome { answer, drafts, signals } = super::call(&bench, &Standing::default(), &call);
        let answer = match answer {
            ToolAnswer::Value(value) => value.to_string(),
            ToolAnswer::Error { code, message } => format!("{code}: {message}"),
        };
        let kinds: Vec<_> = drafts.iter().map(|draft| draft.body.kind()).collect();
        format!("{answer} {kinds:?} {}", signals.len())
    }

    #[test]
    fn each_tool_answers_what_its_row_says() {
        let rows = [
            ("get_budget", Value::Null, r#"{"remaining":{}} [] 0"#),
            ("report_progress", json!({"summary": "s"}), r#"{"noted":true} ["progress"] 0"#),
            (
                "report_progress",
                json!({}),
                "usage: the arguments of report_progress: missing field `summary` [] 0",
            ),
            (
                "comment",
                json!({"text": "t", "mentions": ["@x"]}),
                r#"{"noted":true} ["comment"] 0"#,
            ),
            ("mark_complete", json!({"output": {"a": 1}}), r#"{"noted":true} [] 1"#),
            ("mark_failed", json!({"reason": "no"}), r#"{"noted":true} [] 1"#),
            (
                "read_file",
                json!({"path": "a.txt"}),
                r#"{"content":"hello","path":"a.txt","truncated":false} [] 0"#,
            ),
            (
                "read_file",
                json!({"path": "../a"}),
                "forbidden: '../a': it leads out of the workspace [] 0",
            ),
            ("read_file", json!({"path": "b"}), "not_found: 'b' is not in the workspace [] 0"),
            (
                "read_file",
                json!(7),
                "usage: the arguments of read_file: invalid type: integer `7`, expected struct ReadFile [] 0",
            ),
            (
                "list_files",
                Value::Null,
                r#"{"files":[{"kind":"file","path":"a.txt"}],"truncated":false} [] 0"#,
            ),
            ("rm", Value::Null, "unknown_tool: no tool is called 'rm' [] 0"),
        ];
        for (tool, args, expected) in rows {
            assert_eq!(answer(tool, args.clone()), expected, "{tool} {args}");
        }
    }

    #[test]
    fn every_listed_tool_is_known() {
        for tool in ALL {
            assert!(!answer(tool, Value::Null).starts_with("unknown_tool"), "{tool}");
        }
    }
}
