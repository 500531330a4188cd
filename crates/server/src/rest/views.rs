//! Rows as the API shows them. An id has the same name wherever it appears: `run_id`, `task_id`,
//! `agent_id`, `token_id`, `approval_id`. The older name `id` stays beside it for one release. Runs are
//! `contract::view::RunView`.

use contract::{AgentId, AskId, TaskId, TokenId};
use host::ops::agents::{AgentView, Saved};
use host::ops::ask::OpenAsk;
use host::ops::task::{TaskSheet, TaskView};
use schemars::JsonSchema;
use serde::Serialize;
use store::TokenRow;

/// One line for each: its name, its name in the document, the row, and where its ids come from.
macro_rules! views {
    ($($(#[doc = $doc:literal])+ $view:ident $schema:literal of $row:ty { $($name:ident: $id:ty = $($from:ident).+,)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Serialize, JsonSchema)]
        #[schemars(rename = $schema)]
        pub struct $view {
            $($name: $id,)+
            #[serde(flatten)]
            row: $row,
        }

        impl From<$row> for $view {
            fn from(row: $row) -> Self {
                Self { $($name: row.$($from).+,)+ row }
            }
        }
    )+};
}

views! {
    /// A task as listings show it.
    TaskAnswer "Task" of TaskView { task_id: TaskId = id, }
    /// A task with its runs, its comments and its budget.
    TaskDetails "TaskDetails" of TaskSheet { task_id: TaskId = task.id, }
    /// A request of an agent that waits for a person.
    Approval "Approval" of OpenAsk { approval_id: AskId = ask_id, }
    /// An agent that tasks and runs can be given to.
    AgentAnswer "Agent" of AgentView { agent_id: AgentId = id, }
    /// An agent that was saved, and what should be known of it.
    SavedAgent "SavedAgent" of Saved { agent_id: AgentId = agent.id, }
    /// A token of the API, without its secret.
    Token "Token" of TokenRow { token_id: TokenId = id, }
}

/// Rows as views.
pub(super) fn all<Row, View: From<Row>>(rows: Vec<Row>) -> Vec<View> {
    rows.into_iter().map(View::from).collect()
}
