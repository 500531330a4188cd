//! The tools of `ostler mcp` as data: the name of each, its description, its effect and its arguments. A
//! description says when to use the tool and what comes back, because a model chooses by it. Carrying
//! them out is `perform.rs`.

use contract::state::Review;
use contract::{Policy, TaskState};
use rmcp::model::ToolAnnotations;
use schemars::JsonSchema;
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
    /// Ends work or changes files of the person; the same call again changes nothing more.
    Destroys,
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
                }
            }

            pub fn schema(self) -> Map<String, Value> {
                let schema = match self {
                    $(Self::$tool => schemars::schema_for!($args),)+
                };
                match schema.to_value() {
                    Value::Object(schema) => schema,
                    _ => Map::new(),
                }
            }
        }
    };
}

tools! {
    ListRuntimes = "list_runtimes" ListRuntimes, Reads: "List the coding agents (runtimes) that start_run can start, with when to use each and what each can do. Call it before the first start_run. Those that are not installed are named only; `all: true` describes them too.";
    ListAgents = "list_agents" Nothing, Reads: "List the configured agents, which are runtimes with settings of the person (model, directory, budget). Prefer one of these to a bare runtime where one fits.";
    StartRun = "start_run" StartRun, Adds: "Start a coding agent on a prompt now and return its run_id at once; then call wait_run. Use a run for work you wait for. With `worktree: true` the agent works on a copy and show_diff and apply bring its changes back. Give `budget_usd` and `timeout_minutes` to limit it. The agent sees only the prompt, so put everything it needs into it.";
    WaitRun = "wait_run" WaitRun, Reads: "Wait until a run ends, asks for an approval, or the time is up, and return a short summary: state, outcome, final answer, tokens, dollars, open approvals. When `done` is false, call it again.";
    ListRuns = "list_runs" ListRuns, Reads: "List runs, newest first, with state, outcome and cost.";
    ShowRun = "show_run" ShowRun, Reads: "Read one run and its transcript, a part at a time: call again with `after` set to `next`. Use wait_run instead if you only need the result.";
    Say = "say" Say, Adds: "Send a message to the agent of a live run, for example a correction. Not every runtime takes messages.";
    StopRun = "stop_run" OneRun, Destroys: "Stop a live run. Its work so far is kept, but the agent does not continue.";
    ShowDiff = "show_diff" ShowDiff, Reads: "Show what a run changed in its worktree: files, and the patch unless `patch: false`.";
    Apply = "apply" Apply, Destroys: "Merge the changes of a run from its worktree into the person's checkout, all or nothing, and remove the worktree. Show the diff and ask the person first.";
    ListApprovals = "list_approvals" Nothing, Reads: "List approvals: requests of live runs that wait for a person.";
    Answer = "answer" Answer, Changes: "Answer an approval of a live run with `allow`, `deny` or an option of it; with `reason` the agent hears why. Ask the person first.";
    Costs = "costs" Costs, Reads: "Show what runs spent, by day, agent, adapter or model.";
    AddTask = "add_task" AddTask, Adds: "Add a task to the queue and return at once; a server (`ostler serve`) starts it when an agent is free. Use a task for work that may happen later, is reviewed by the person, or depends on other tasks. With the same `key` it is the same task.";
    ListTasks = "list_tasks" ListTasks, Reads: "List tasks of the queue, newest first, with their state and what they wait for.";
    ShowTask = "show_task" OneTask, Reads: "Read one task: its state, its runs, its comments and the answer of its newest run.";
    CommentTask = "comment_task" CommentTask, Adds: "Add a comment to a task. Its agent reads it in its next run; an agent named with an @ is woken.";
    ApproveTask = "approve_task" OneTask, Changes: "Accept the result of a task in review; it is then done. Ask the person first.";
    RejectTask = "reject_task" RejectTask, Changes: "Send a task in review back to its agent with a reason, which is its next prompt. Ask the person first.";
    CancelTask = "cancel_task" OneTask, Destroys: "Cancel a task for good; a run of it is stopped.";
    RetryTask = "retry_task" OneTask, Changes: "Start a waiting task now instead of at its time.";
    ReopenTask = "reopen_task" OneTask, Changes: "Queue a failed task again.";
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
    pub state: Option<TaskState>,
    /// Only those with this label.
    pub label: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// Go on behind this task: the `next` of the answer before.
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
    /// What is to be done, in a line.
    pub title: String,
    /// The same at length, when the title does not say it all.
    pub body: Option<String>,
    /// Who does it: a name of list_agents.
    pub agent: Option<String>,
    /// Where; where the agent works when absent, else the directory of this server.
    pub cwd: Option<PathBuf>,
    /// `person` when someone is to look at the result, which is the rule, or `none`.
    pub review: Option<Review>,
    /// What is higher goes first.
    pub priority: Option<i32>,
    #[serde(default)]
    pub labels: Vec<String>,
    /// Tasks that must be done before it.
    #[serde(default)]
    pub after: Vec<String>,
    /// A name of your own: added again under it, it is the same task.
    pub key: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentTask {
    /// The task_id, or a unique end of it.
    pub task: String,
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
    /// How many, at most 100.
    pub limit: Option<u32>,
    /// Only those that have not ended.
    #[serde(default)]
    pub live: bool,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those that ended so: succeeded, failed, cancelled, timed_out, lost.
    pub outcome: Option<String>,
    /// Only those that began then or later: a date, or an age such as 2h or 7d.
    pub since: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowRun {
    /// The run_id, or a unique end of it.
    pub run: String,
    /// Go on behind this event.
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
    /// Describe those that are not installed, too.
    #[serde(default)]
    pub all: bool,
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
    pub model: Option<String>,
    /// What it may do without asking a person. In a worktree it may do everything when absent.
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
        }
    }

    #[test]
    fn annotations_say_which_tools_destroy() {
        let destroy: Vec<_> = ToolName::ALL
            .iter()
            .filter(|tool| tool.annotations().destructive_hint == Some(true))
            .map(|tool| tool.word())
            .collect();
        assert_eq!(destroy, ["stop_run", "apply", "cancel_task"]);
        for tool in ToolName::ALL.iter().filter(|tool| tool.word().starts_with("list_")) {
            assert_eq!(tool.annotations().read_only_hint, Some(true), "{}", tool.word());
        }
    }
}
