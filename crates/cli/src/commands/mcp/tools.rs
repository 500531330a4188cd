//! The tools of `ostler mcp` as data: what each is called, what it says of itself, whether it only
//! looks, and what it takes. A tool that changes something says what it changes, so that an assistant
//! asks its person first. Carrying them out is `perform.rs`.

use contract::state::Review;
use contract::{Policy, TaskState};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Looks,
    Changes,
}

/// One line for each: its name, what it takes, what it does, and what it says of itself.
macro_rules! tools {
    ($($tool:ident = $word:literal $args:ty, $does:ident: $says:literal;)+) => {
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

            pub fn only_looks(self) -> bool {
                let does = match self {
                    $(Self::$tool => Does::$does,)+
                };
                does == Does::Looks
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
    ListTasks = "list_tasks" ListTasks, Looks: "Tasks, newest first, and what they wait for.";
    ShowTask = "show_task" OneTask, Looks: "One task: its runs, what was said of it, what it waits for.";
    AddTask = "add_task" AddTask, Changes: "Hand work over to the queue. Answers at once; show_task tells how it goes.";
    CommentTask = "comment_task" CommentTask, Changes: "Say something of a task. Its agent reads it; agents named with an @ are woken.";
    ApproveTask = "approve_task" OneTask, Changes: "Take the result of a task in review. Ask the person first.";
    RejectTask = "reject_task" RejectTask, Changes: "Send a task in review back: the reason is what its agent is asked next. Ask the person first.";
    CancelTask = "cancel_task" OneTask, Changes: "Cancel a task wherever it stands; its run is stopped.";
    RetryTask = "retry_task" OneTask, Changes: "Try a task that waits now.";
    ReopenTask = "reopen_task" OneTask, Changes: "Open a failed task again.";
    ListAgents = "list_agents" Nothing, Looks: "The agents that tasks and runs can be given to, and how they stand.";
    ListRuns = "list_runs" ListRuns, Looks: "Runs of agents, newest first, with how they ended and what they cost.";
    ShowRun = "show_run" ShowRun, Looks: "One run and its transcript; call again with `after` set to `next`.";
    StartRun = "start_run" StartRun, Changes: "Start an agent on a prompt. Answers at once; show_run tells how it goes.";
    Say = "say" Say, Changes: "Say something to a live run.";
    StopRun = "stop_run" OneRun, Changes: "Stop a live run.";
    ListApprovals = "list_approvals" Nothing, Looks: "Questions of live runs that wait for an answer.";
    Answer = "answer" Answer, Changes: "Answer a question of a live run. Ask the person first.";
}

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
    /// Its id, or an end of it that fits no other.
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
    /// Its id, or an end of it that fits no other.
    pub task: String,
    pub text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectTask {
    /// Its id, or an end of it that fits no other.
    pub task: String,
    /// What is wrong, in words for its agent.
    pub reason: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    /// How many.
    pub limit: Option<u32>,
    /// Only those that have not ended.
    #[serde(default)]
    pub live: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowRun {
    /// Its id, or an end of it that fits no other.
    pub run: String,
    /// Go on behind this event.
    #[serde(default)]
    pub after: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneRun {
    /// Its id, or an end of it that fits no other.
    pub run: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// An agent of the configuration, or a runtime such as `demo`.
    pub agent: String,
    pub prompt: String,
    /// Where it works; the directory of this server when absent.
    pub cwd: Option<PathBuf>,
    pub model: Option<String>,
    /// What it may do without asking.
    pub permission: Option<Policy>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// Its id, or an end of it that fits no other.
    pub run: String,
    pub text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The question: its id, or an end of it that fits no other.
    pub ask: String,
    /// `allow`, `deny`, or an option of the question.
    pub choice: String,
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
}
