//! The relayed tools: what an agent can ask of us, whichever lane it asks by.
//!
//! Every tool takes untrusted arguments and answers exactly once, with a value or a fault. What a
//! tool changes in the run is not done here: it returns drafts and signals, which the run's driver
//! commits in the same Batch as the answer. What it changes in the workspace is done here, after the
//! Batch that holds the call is durable, and only if the run's policy lets it. The list of tools is
//! `catalog.rs`.

use super::agents::{self, Hire, Saved};
use super::subtask;
use super::who::Who;
use crate::Host;
use crate::patch::{self, What};
use crate::upstream::Upstream;
use crate::workspace::{Change, Part, Was, Workspace};
use base64::Engine as _;
use contract::event::{Body, Comment, Diff, Log, Progress, Remaining, RunResult, Stream};
use contract::speech::{Ending, ToolAnswer, ToolCall};
use contract::{Code, Draft, Fault, Policy, Signal, limits, misread};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use store::Store;
use store::seal::Seal;

/// Whether a call that a dead host left unanswered may be carried out again: a tool that only reads,
/// or changes nothing but what its answer's own Batch holds.
pub fn may_repeat(tool: &str) -> bool {
    const REPEATED: &[&str] = &[
        "read_task",
        "report_progress",
        "comment",
        "get_budget",
        "create_subtask",
        "mark_complete",
        "mark_failed",
        "handoff",
        "read_file",
        "list_files",
        "list_runtimes",
        // Hired once, however often it is asked for.
        "propose_agent",
    ];
    REPEATED.contains(&tool)
}

/// The end that an agent marks by a tool which someone else has carried out.
pub fn mark(call: &ToolCall) -> Vec<Signal> {
    let marked = match call.tool.as_str() {
        "mark_complete" => mark_complete(&call.args),
        "mark_failed" => mark_failed(&call.args),
        "handoff" => handoff(&call.args),
        _ => return Vec::new(),
    };
    marked.map(|outcome| outcome.signals).unwrap_or_default()
}

/// What the tools of one run see.
#[derive(Clone)]
pub struct Bench {
    pub run: contract::RunId,
    pub task: Arc<TaskSheet>,
    pub workspace: Arc<Workspace>,
    pub policy: Policy,
    /// Where assets are kept, and what they pass before.
    pub store: Store,
    pub seal: Seal,
    /// The MCP servers of the configuration.
    pub(crate) upstream: Arc<Upstream>,
}

/// The task as an agent reads it.
#[derive(Debug, Clone)]
pub struct TaskSheet {
    pub id: contract::TaskId,
    /// The run that has it on its bench, and whose it is.
    pub run: contract::RunId,
    pub agent: String,
    pub title: String,
    pub body: String,
    pub prompt: String,
    pub system_prompt: Option<String>,
    /// The agent's own name for the conversation that it is to resume.
    pub session: Option<String>,
    pub context: Map<String, Value>,
}

/// What was said in the run so far that a tool may be asked about.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    pub remaining: Remaining,
    /// What the run's own budget limits; its clocks, and budgets that it shares, are not among it.
    pub own: super::limits::SharedAmounts,
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
    pub(super) fn value(value: Value) -> Self {
        Self { answer: ToolAnswer::Value(value), drafts: Vec::new(), signals: Vec::new() }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        let answer = ToolAnswer::Error { code: fault.code, message: fault.message };
        Self { answer, drafts: Vec::new(), signals: Vec::new() }
    }
}

/// Carries out a call that the run machine has let through: the policy was asked there. Blocking:
/// files are read and written here.
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
        "write_file" => write_file(bench, call),
        "apply_patch" => apply_patch(bench, call),
        "upload_asset" => upload_asset(bench, args),
        "create_subtask" => subtask::create(bench, standing, call),
        "handoff" => handoff(args),
        // The first is answered by a person, the others carried out with the host: see `hired` and
        // `runtimes_listed`.
        "request_approval" | "propose_agent" | "list_runtimes" => {
            let message = format!("{} cannot be called here", call.tool);
            Err(Fault::new(Code::NotSupported, message))
        }
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
        "context": task.context,
        "session": task.session,
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

/// What an agent hands over to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    pub question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl Handoff {
    /// The handoff that a run ended with: its task waits for a person's answer.
    pub fn of(result: &RunResult) -> Option<Self> {
        let output = result.output.as_ref().filter(|_| result.code.is_none())?;
        Self::deserialize(output.get(HANDOFF)?).ok()
    }
}

/// The one key of the output of such a run.
const HANDOFF: &str = "handoff";

fn handoff(args: &Value) -> Result<Outcome, Fault> {
    let handoff: Handoff = understood("handoff", args)?;
    let mut outcome = Outcome::value(json!({ "noted": true }));
    let text = match &handoff.summary {
        Some(summary) => format!("{}\n\n{summary}", handoff.question),
        None => handoff.question.clone(),
    };
    let output = Some(json!({ HANDOFF: handoff }));
    let ending = Ending { code: None, text: Some(text), output, detail: None };
    outcome.signals.push(Signal::Ended(ending));
    Ok(outcome)
}

/// What could be hired, and what each is good for.
/// The runtimes, adapters and agents of this host.
pub(crate) async fn runtimes_listed(host: &Host, call: &ToolCall) -> Outcome {
    match super::runtimes::for_agents(host, &call.args).await {
        Ok(listed) => Outcome::value(listed),
        Err(fault) => Outcome::from(fault),
    }
}

/// What an agent may say of a colleague it wants; the rest is for people to decide.
#[derive(Deserialize)]
struct Proposal {
    name: String,
    #[serde(alias = "runtime")]
    adapter: String,
    #[serde(default)]
    model: Option<Value>,
    #[serde(default, alias = "instructions")]
    system_prompt: Option<Value>,
    #[serde(default)]
    permission: Option<Value>,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    skills: Option<Value>,
    #[serde(default)]
    budgets: Option<Value>,
}

/// Who said yes to a call, as the run's events tell it: the answer is durable before it is heeded.
async fn agreed(host: &Host, run: contract::RunId, tool_call_id: &str) -> Option<String> {
    let head = host.store().run(run).await.ok()??.head_seq;
    let after = head.saturating_sub(contract::limits::PAGE_EVENTS_MAX as u64);
    let events = super::run::events(host, run, after, contract::limits::PAGE_EVENTS_MAX).await;
    events.ok()?.into_iter().rev().find_map(|event| match event.body {
        Body::Permission(asked) if asked.tool_call_id.as_deref() == Some(tool_call_id) => asked.by,
        _ => None,
    })
}

/// Hires whom an agent proposed, after a person said yes; what the run keeps out is kept out of that too.
pub(crate) async fn hired(
    host: &Host,
    run: contract::RunId,
    seal: &Seal,
    call: &ToolCall,
) -> Outcome {
    let hired = async {
        let it: Proposal = understood("propose_agent", &subtask::handed(seal, &call.args))?;
        let (name, mut spec) = (it.name, json!({ "adapter": it.adapter }));
        for (key, given) in [
            ("model", it.model),
            ("systemPrompt", it.system_prompt),
            ("permission", it.permission),
            ("tools", it.tools),
            ("skills", it.skills),
            ("budgets", it.budgets),
        ] {
            if let Some(given) = given {
                spec[key] = given;
            }
        }
        let person = agreed(host, run, &call.tool_call_id).await;
        let person = person.unwrap_or_else(|| "a person".to_owned());
        agents::hire(host, Hire { name, spec }, &Who::Agreed { person, run }).await
    };
    match hired.await {
        Ok(Saved { agent, warnings }) => Outcome::value(
            json!({ "hired": agent.name, "agent_id": agent.id, "warnings": warnings }),
        ),
        Err(fault) => Outcome::from(fault),
    }
}

#[derive(Deserialize)]
struct ReadFile {
    path: String,
    /// Where to begin, in bytes.
    #[serde(default)]
    offset: u64,
}

/// A part of a file as text where it is text, else in base64. A part that ends inside a character
/// ends before it, so that the parts of a text are texts.
fn read_file(bench: &Bench, args: &Value) -> Result<Outcome, Fault> {
    let ReadFile { path, offset } = understood("read_file", args)?;
    let part = bench.workspace.read_from(&path, offset, limits::READ_FILE_BYTES_MAX)?;
    let Part { mut bytes, more, bytes_in_all } = part;
    if more && let Err(error) = std::str::from_utf8(&bytes) {
        let whole = error.valid_up_to();
        if error.error_len().is_none() && whole > 0 {
            bytes.truncate(whole);
        }
    }
    let next_offset = offset + bytes.len() as u64;
    let (content, encoding) = match String::from_utf8(bytes) {
        Ok(text) => (text, "utf-8"),
        Err(error) => {
            let engine = base64::engine::general_purpose::STANDARD;
            (engine.encode(error.as_bytes()), "base64")
        }
    };
    let mut answer = json!({
        "path": path,
        "content": content,
        "encoding": encoding,
        "bytes_in_all": bytes_in_all,
        "truncated": more,
    });
    if more {
        answer["next_offset"] = next_offset.into();
    }
    Ok(Outcome::value(answer))
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

#[derive(Deserialize)]
struct WriteFile {
    path: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    content_base64: Option<String>,
}

fn write_file(bench: &Bench, call: &ToolCall) -> Result<Outcome, Fault> {
    let WriteFile { path, content, content_base64 } = understood("write_file", &call.args)?;
    let (bytes, _) = given("write_file", content, content_base64)?;
    small_enough(&path, bytes.len(), limits::WRITE_FILE_BYTES_MAX)?;
    // Only for the event: a file that cannot be read may still be written.
    let old = bench.workspace.read(&path, limits::WRITE_FILE_BYTES_MAX).ok();
    let old_text = old.filter(|(_, cut)| !cut).and_then(|(bytes, _)| String::from_utf8(bytes).ok());
    let (length, new_text) = (bytes.len(), String::from_utf8(bytes.clone()).ok());
    let change = Change { path, was: Was::Anything, becomes: Some(bytes), executable: false };
    bench.workspace.change(std::slice::from_ref(&change))?;
    let path = change.path;
    let mut outcome = Outcome::value(json!({ "path": path, "bytes": length }));
    outcome.drafts.push(Draft::ostler(Body::Diff(Diff {
        path,
        patch: None,
        old_text,
        new_text,
        tool_call_id: Some(call.tool_call_id.clone()),
    })));
    Ok(outcome)
}

#[derive(Deserialize)]
struct ApplyPatch {
    patch: String,
}

fn apply_patch(bench: &Bench, call: &ToolCall) -> Result<Outcome, Fault> {
    let ApplyPatch { patch } = understood("apply_patch", &call.args)?;
    let mut changes = Vec::new();
    let mut outcome = Outcome::value(Value::Null);
    let mut files = Vec::new();
    for file in patch::read(&patch)? {
        let path = file.path.clone();
        let was = match &file.what {
            What::Create { .. } => Vec::new(),
            What::Modify | What::Delete => whole(bench, &path)?,
            What::Rename { from } => whole(bench, from)?,
        };
        let after = file.apply(&was)?;
        small_enough(&path, after.len(), limits::WRITE_FILE_BYTES_MAX)?;
        let change = |path: &str, was: Was, becomes: Option<Vec<u8>>, executable: bool| Change {
            path: path.to_owned(),
            was,
            becomes,
            executable,
        };
        let word = match &file.what {
            What::Create { executable } => {
                changes.push(change(&path, Was::Absent, Some(after), *executable));
                "created"
            }
            What::Modify => {
                changes.push(change(&path, Was::Exactly(was), Some(after), false));
                "modified"
            }
            What::Delete => {
                changes.push(change(&path, Was::Exactly(was), None, false));
                "deleted"
            }
            What::Rename { from } => {
                let executable = bench.workspace.is_executable(from)?;
                changes.push(change(from, Was::Exactly(was), None, false));
                changes.push(change(&path, Was::Absent, Some(after), executable));
                "renamed"
            }
        };
        let mut told = json!({ "path": path, "change": word });
        if let What::Rename { from } = &file.what {
            told["from"] = json!(from);
        }
        files.push(told);
        outcome.drafts.push(Draft::ostler(Body::Diff(Diff {
            path,
            patch: Some(file.text),
            old_text: None,
            new_text: None,
            tool_call_id: Some(call.tool_call_id.clone()),
        })));
    }
    bench.workspace.change(&changes)?;
    outcome.answer = ToolAnswer::Value(json!({ "files": files }));
    Ok(outcome)
}

/// A file that will be changed, whole.
fn whole(bench: &Bench, path: &str) -> Result<Vec<u8>, Fault> {
    let (bytes, cut) = bench.workspace.read(path, limits::WRITE_FILE_BYTES_MAX)?;
    small_enough(path, bytes.len() + usize::from(cut), limits::WRITE_FILE_BYTES_MAX)?;
    Ok(bytes)
}

fn small_enough(what: &str, bytes: usize, bytes_max: usize) -> Result<(), Fault> {
    match bytes <= bytes_max {
        true => Ok(()),
        false => {
            let message = format!("'{}' has more than {bytes_max} bytes", shown(what));
            Err(Fault::new(Code::TooLarge, message))
        }
    }
}

#[derive(Deserialize)]
struct UploadAsset {
    name: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    content_base64: Option<String>,
    #[serde(default)]
    media_type: Option<String>,
}

/// What was given as a text or as any bytes, and which of both it was.
fn given(
    tool: &str,
    content: Option<String>,
    content_base64: Option<String>,
) -> Result<(Vec<u8>, &'static str), Fault> {
    let wrong = |why: &str| Fault::new(Code::Usage, format!("the arguments of {tool}: {why}"));
    match (content, content_base64) {
        (Some(text), None) => Ok((text.into_bytes(), "text/plain")),
        (None, Some(encoded)) => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(encoded.trim())
                .map_err(|error| wrong(&format!("content_base64: {error}")))?;
            Ok((bytes, "application/octet-stream"))
        }
        (None, None) | (Some(_), Some(_)) => Err(wrong("give either content or content_base64")),
    }
}

/// The longest name of an asset.
const ASSET_NAME_BYTES_MAX: usize = 255;

fn upload_asset(bench: &Bench, args: &Value) -> Result<Outcome, Fault> {
    let UploadAsset { name, content, content_base64, media_type } =
        understood("upload_asset", args)?;
    let wrong =
        |why: &str| Fault::new(Code::Usage, format!("the arguments of upload_asset: {why}"));
    let plain = |text: &str| {
        !text.is_empty() && !text.contains(['/', '\\']) && !text.contains(char::is_control)
    };
    if !plain(&name) || matches!(name.as_str(), "." | "..") || name.len() > ASSET_NAME_BYTES_MAX {
        return Err(wrong("name is not a plain file name"));
    }
    let (bytes, form) = given("upload_asset", content, content_base64)?;
    small_enough(&name, bytes.len(), limits::ASSET_BYTES_MAX)?;
    let media_type = media_type.unwrap_or_else(|| form.to_owned());
    if media_type.len() > ASSET_NAME_BYTES_MAX || media_type.contains(char::is_control) {
        return Err(wrong("media_type is not a media type"));
    }
    let blob = bench.seal.asset(&bytes);
    bench.store.keep_for(bench.run, &blob).map_err(super::run::stored)?;
    let kept = blob.bytes.bytes().len();
    let text = format!("asset {name} ({media_type}, {kept} bytes) is kept as blob {}", blob.hash);
    let mut outcome = Outcome::value(json!({
        "name": name,
        "media_type": media_type,
        "bytes": kept,
        "hash": blob.hash,
    }));
    outcome.drafts.push(Draft::ostler(Body::Log(Log {
        stream: Stream::Ostler,
        text,
        level: None,
    })));
    Ok(outcome)
}

pub(super) fn understood<T: DeserializeOwned>(tool: &str, args: &Value) -> Result<T, Fault> {
    let args = match args {
        Value::Null => &json!({}),
        args => args,
    };
    serde_path_to_error::deserialize(args).map_err(|error| {
        let at = error.path().to_string();
        let wrong = misread::in_words(&error.into_inner().to_string(), &at);
        Fault::new(Code::Usage, format!("the arguments of {tool}: {wrong}"))
    })
}

fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
