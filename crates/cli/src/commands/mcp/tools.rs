//! The tools of `ostler mcp` as data: the name of each, its description, its effect and its arguments. A
//! description says when to use the tool and what comes back, because a model chooses by it. Carrying
//! them out is `perform.rs`.

use contract::config::words::Workspace;
use contract::state::Review;
use contract::{Outcome, Policy, TaskState};
use rmcp::model::ToolAnnotations;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The effect of a call, which an assistant weighs before it asks its person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes nothing.
    Reads,
    /// Makes something new with every call.
    Adds,
    /// Changes something; the same call again changes nothing more.
    Changes,
    /// Ends work, changes files of the person or lets an agent do so; the same call again changes
    /// nothing more.
    Destroys,
    /// Starts an agent, which may change files and reach the network; every call starts another one.
    Delegates,
}

/// Lets every argument have one type. An argument that may be absent is one that is not required; that
/// it may be null besides tells a model nothing, and some clients read only types with one name.
fn without_null(schema: &mut Value) {
    let is_null = |schema: &Value| schema["type"] == "null";
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                let only = (types.len() == 1).then(|| types[0].clone());
                fields.extend(only.map(|only| ("type".to_owned(), only)));
            }
            if let Some(Value::Array(words)) = fields.get_mut("enum") {
                words.retain(|word| !word.is_null());
            }
            let choices = fields.get("anyOf").and_then(Value::as_array);
            let other: Vec<_> = choices.into_iter().flatten().filter(|one| !is_null(one)).collect();
            if let [Value::Object(only)] = other.as_slice() {
                let only = only.clone();
                fields.remove("anyOf");
                // What is said of the argument is more than what is said of its type.
                for (name, value) in only {
                    fields.entry(name).or_insert(value);
                }
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            fields.remove("format");
            fields.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// One line for each: its name, its arguments, its effect and its description.
macro_rules! tools {
    ($($tool:ident = $word:literal $args:ty, $effect:ident: $says:literal;)+) => {
        /// What can be called.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ToolName {
            $($tool,)+
        }

        impl ToolName {
            pub const ALL: &'static [Self] = &[$(Self::$tool,)+];

            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$tool => $word,)+
                }
            }

            pub const fn says(self) -> &'static str {
                match self {
                    $(Self::$tool => $says,)+
                }
            }

            /// Its effect in the words of MCP.
            pub fn annotations(self) -> ToolAnnotations {
                let effect = match self {
                    $(Self::$tool => Effect::$effect,)+
                };
                let annotations = ToolAnnotations::new().read_only(effect == Effect::Reads);
                match effect {
                    Effect::Reads => annotations,
                    Effect::Adds => annotations.destructive(false).idempotent(false),
                    Effect::Changes => annotations.destructive(false).idempotent(true),
                    Effect::Destroys => annotations.destructive(true).idempotent(true),
                    Effect::Delegates => {
                        annotations.destructive(true).idempotent(false).open_world(true)
                    }
                }
            }

            pub fn schema(self) -> Map<String, Value> {
                let settings = SchemaSettings::draft2020_12().with(|settings| {
                    settings.inline_subschemas = true;
                    settings.meta_schema = None;
                });
                let generator = settings.into_generator();
                let schema = match self {
                    $(Self::$tool => generator.into_root_schema_for::<$args>(),)+
                };
                let mut schema = schema.to_value();
                without_null(&mut schema);
                match schema {
                    Value::Object(mut schema) => {
                        schema.remove("title");
                        schema
                    }
                    _ => Map::new(),
                }
            }
        }
    };
}

tools! {
    ListRuntimes = "list_runtimes" ListRuntimes, Reads: "List the coding agents (runtimes) that start_run can start, with when to use each and what each can do. Call it before the first start_run. `ready` means that its program is installed. The others are only named; `all: true` describes them too. `adapters` are further names for start_run, configured by the person; `acp` are names of agents that speak ACP. `detail: full` with `name` gives the whole card of one: its models, permissions and every key of its adapter.";
    ListAgents = "list_agents" Nothing, Reads: "List the configured agents, which are runtimes with settings of the person (model, directory, budget). Prefer one of these to a bare runtime where one fits.";
    HireAgent = "hire_agent" HireAgent, Changes: "Hire an agent: save a name for a runtime or adapter with a model, instructions, directory, permission and budgets, so that start_run and add_task can use it. The same again changes nothing. Read list_runtimes first, and ask the person before you hire. Warnings in the answer say what should be mended.";
    StartRun = "start_run" StartRun, Delegates: "Start a coding agent on a prompt now and return its run_id at once; then call wait_run. Use a run for work you wait for. With `worktree: true` the agent works on a copy and show_diff and apply bring its changes back. Give `budget_usd` and `timeout_minutes` to limit it. The agent sees only the prompt, so put everything it needs into it.";
    WaitRun = "wait_run" WaitRun, Reads: "Wait until a run ends, asks for an approval, or the time is up, and return a short summary: state, outcome, final answer, tokens, dollars, open approvals. When `done` is false, call it again.";
    ListRuns = "list_runs" ListRuns, Reads: "List runs, newest first, with state, outcome and cost. For older ones call again with `after` set to `next`.";
    ShowRun = "show_run" ShowRun, Reads: "Read one run and its transcript, a part at a time: call again with `after` set to `next`. Use wait_run instead if you only need the result.";
    Say = "say" Say, Adds: "Send a message to the agent of a live run, for example a correction. Not every runtime takes messages.";
    StopRun = "stop_run" OneRun, Destroys: "Stop a live run. Its work so far is kept, but the agent does not continue.";
    ShowDiff = "show_diff" ShowDiff, Reads: "Show what a run changed in its worktree: files, and the patch unless `patch: false`.";
    Apply = "apply" Apply, Destroys: "Merge the changes of a run from its worktree into the person's checkout, all or nothing, and remove the worktree. Show the diff and ask the person first.";
    ListApprovals = "list_approvals" Nothing, Reads: "List approvals: requests of live runs that wait for a person.";
    Answer = "answer" Answer, Destroys: "Answer an approval of a live run with `allow`, `deny` or an option of it; with `reason` the agent hears why. Ask the person first. Then call wait_run again.";
    Costs = "costs" Costs, Reads: "Show what runs spent in tokens and US dollars, grouped by day, agent, adapter or model. For one run, wait_run tells it.";
    AddTask = "add_task" AddTask, Adds: "Add a task to the queue and return at once; a server (`ostler serve`) starts it when an agent is free. Use a task for work that may happen later, is reviewed by the person, or depends on other tasks. With the same `key` it is the same task.";
    ListTasks = "list_tasks" ListTasks, Reads: "List tasks of the queue, newest first, with their state and what they wait for. Runs of start_run are in list_runs.";
    ShowTask = "show_task" OneTask, Reads: "Read one task: its state, its runs, its comments and the answer of its newest run.";
    CommentTask = "comment_task" CommentTask, Adds: "Add a comment to a task. Its agent reads it in its next run; an agent named with an @ is woken.";
    ApproveTask = "approve_task" OneTask, Changes: "Accept the result of a task in review; it is then done. Ask the person first.";
    RejectTask = "reject_task" RejectTask, Changes: "Send a task in review back to its agent with a reason, which is its next prompt. Ask the person first.";
    CancelTask = "cancel_task" OneTask, Destroys: "Cancel a task for good; a run of it is stopped.";
    RetryTask = "retry_task" OneTask, Changes: "Start a task in state `waiting` now instead of at the time it waits for.";
    ReopenTask = "reopen_task" OneTask, Changes: "Put a task in state `failed` back into the queue.";
}

/// What an assistant is told of this server before its first call.
pub const INSTRUCTIONS: &str = "Ostler runs coding agents of any vendor \
under supervision: it limits what they may do and spend, and records everything. \
To delegate work you wait for: list_runtimes, then start_run, then wait_run until `done` is true; \
with `worktree: true` also show_diff, then apply after the person agreed. \
For work that can happen later or needs review: add_task, then show_task. \
When wait_run returns approvals, show them to the person and send the decision with answer. \
Amounts are US dollars; `usd: null` means that no price is known, not that it was free.";

impl ToolName {
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tool| tool.word() == word)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTasks {
    /// Only tasks in this state.
    #[serde(default, deserialize_with = "contract::known::option")]
    #[schemars(with = "Option<contract::Known<TaskState>>")]
    pub state: Option<TaskState>,
    /// Only tasks with this label.
    pub label: Option<String>,
    /// How many to list; 20 when absent, 100 at most.
    pub limit: Option<u32>,
    /// List what follows: the `next` of the answer before.
    pub after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneTask {
    /// The task_id, or a unique end of it.
    pub task: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddTask {
    /// The work in one line.
    pub title: String,
    /// The work in full, when one line does not say it all.
    pub body: Option<String>,
    /// The agent that does it: a name of list_agents or list_runtimes.
    pub agent: Option<String>,
    /// The directory to work in. When absent, the directory of the agent, else that of this server.
    pub cwd: Option<PathBuf>,
    /// `person` (the default): a person approves the result. `none`: it is done when its run succeeds.
    #[serde(default, deserialize_with = "contract::known::option")]
    #[schemars(with = "Option<contract::Known<Review>>")]
    pub review: Option<Review>,
    /// Tasks with a higher number start first; 0 when absent.
    pub priority: Option<i32>,
    /// Words by which list_tasks finds it.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The task_ids of tasks that must be done before it.
    #[serde(default)]
    pub after: Vec<String>,
    /// A name of your own for it. A second add_task with the same key returns the first task.
    pub key: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentTask {
    /// The task_id, or a unique end of it.
    pub task: String,
    /// The comment.
    pub text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectTask {
    /// The task_id, or a unique end of it.
    pub task: String,
    /// What is wrong, in words for its agent.
    pub reason: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    /// How many to list; 20 when absent, 100 at most.
    pub limit: Option<u32>,
    /// Only runs that have not ended.
    #[serde(default)]
    pub live: bool,
    /// Only runs of this agent.
    pub agent: Option<String>,
    /// Only runs that ended like this.
    #[serde(default, deserialize_with = "contract::known::option")]
    #[schemars(with = "Option<contract::Known<Outcome>>")]
    pub outcome: Option<Outcome>,
    /// Only runs that began then or later: a date, or an age such as 2h or 7d.
    pub since: Option<String>,
    /// List what follows: the `next` of the answer before.
    pub after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowRun {
    /// The run_id, or a unique end of it.
    pub run: String,
    /// Read what follows this event: the `next` of the answer before.
    #[serde(default)]
    pub after: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneRun {
    /// The run_id, or a unique end of it.
    pub run: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuntimes {
    /// Describe runtimes that are not installed, too.
    #[serde(default)]
    pub all: bool,
    /// `full` gives the whole card; give `name` with it.
    #[serde(default)]
    pub detail: Detail,
    /// Only this one.
    pub name: Option<String>,
}

/// How much is told of a runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    #[default]
    Short,
    Full,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HireAgent {
    /// The name of the agent: letters, digits, - and _.
    pub name: String,
    /// A name of list_runtimes: a runtime or an adapter.
    pub adapter: String,
    /// The model, in the words of the runtime; its own default when absent.
    pub model: Option<String>,
    /// Its instructions.
    pub system_prompt: Option<String>,
    /// The directory that it works in, as an absolute path.
    pub cwd: Option<String>,
    /// What it may do without asking.
    pub permission: Option<Policy>,
    /// Where it works: `here`, `worktree` or `temporary`.
    pub workspace: Option<Workspace>,
    /// The tools of Ostler that it is offered; all of them when absent.
    pub tools: Option<Vec<String>>,
    /// Skills that are mounted for it.
    #[serde(default)]
    pub skills: Vec<String>,
    /// What it may spend in each of its runs, in US dollars.
    pub budget_usd_per_run: Option<f64>,
    /// What it may spend in a day, in US dollars.
    pub budget_usd_per_day: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// A name of list_runtimes or list_agents.
    pub agent: String,
    /// The work, with everything that the agent needs to know.
    pub prompt: String,
    /// The directory that it works in; the directory of this server when absent.
    pub cwd: Option<PathBuf>,
    /// The model, in the words of the runtime; its own default when absent.
    pub model: Option<String>,
    /// `deny`: it changes nothing; `allow-reads`: it only reads; `ask`: each change waits for an approval,
    /// which wait_run returns; `allow-all`: it may do everything. When absent: `allow-all` in a worktree;
    /// elsewhere `ask` if `ostler serve` runs, else `allow-reads`.
    pub permission: Option<Policy>,
    /// Work in a git worktree of its own instead of in `cwd` itself.
    #[serde(default)]
    pub worktree: bool,
    /// Stop it when it has spent this many US dollars.
    pub budget_usd: Option<f64>,
    /// Stop it when it has used this many tokens.
    pub budget_tokens: Option<u64>,
    /// Stop it after this many minutes; 120 when absent.
    pub timeout_minutes: Option<f64>,
    /// Instructions for the agent beside the prompt.
    pub system_prompt: Option<String>,
    /// The run_id of an earlier run whose conversation this one continues.
    pub resume: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitRun {
    /// The run_id, or a unique end of it.
    pub run: String,
    /// How long to wait, 45 when absent and 600 at most. Many clients give up after 60.
    pub seconds: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowDiff {
    /// The run_id, or a unique end of it.
    pub run: String,
    /// Whether the patch is shown beside the names of the files.
    pub patch: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The run_id, or a unique end of it.
    pub run: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Any of day, agent, adapter, model, with commas between; day when absent.
    pub by: Option<String>,
    /// A date such as 2026-11-01, or the last days such as 7d.
    pub since: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// The run_id, or a unique end of it.
    pub run: String,
    /// The message.
    pub text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The approval_id, or a unique end of it.
    #[serde(alias = "ask")]
    pub approval: String,
    /// `allow`, `deny`, or the id of an option of the approval.
    pub choice: String,
    /// Why it is denied; the agent is told.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_and_takes_an_object_that_it_knows_whole() {
        for tool in ToolName::ALL {
            assert_eq!(ToolName::from_word(tool.word()), Some(*tool));
            let schema = tool.schema();
            assert_eq!(schema["type"], "object", "{}", tool.word());
            assert_eq!(schema["additionalProperties"], false, "{}", tool.word());
            // Clients and models read one name of a type per argument, beside it, and what it is for.
            for (name, argument) in
                schema.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                assert!(argument["type"].is_string(), "{} {name}: {argument}", tool.word());
                assert!(argument["description"].is_string(), "{} {name}", tool.word());
            }
        }
    }

    #[test]
    fn annotations_say_which_tools_destroy() {
        let destroy: Vec<_> = ToolName::ALL
            .iter()
            .filter(|tool| tool.annotations().destructive_hint == Some(true))
            .map(|tool| tool.word())
            .collect();
        assert_eq!(destroy, ["start_run", "stop_run", "apply", "answer", "cancel_task"]);
        assert_eq!(ToolName::StartRun.annotations().open_world_hint, Some(true));
        for tool in ToolName::ALL.iter().filter(|tool| tool.word().starts_with("list_")) {
            assert_eq!(tool.annotations().read_only_hint, Some(true), "{}", tool.word());
        }
    }
}
