//! Tasks over HTTP: which there are and what they wait for, handing one over, and what is decided
//! about it. A run that waits for a slot is stopped like any other, by its own id.

use super::describe::With;
use super::views::{self, TaskAnswer, TaskDetails};
use super::{Given, Named, Options, Perhaps, Problem};
use crate::App;
use crate::auth::{Caller, not_its_own};
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::{CommandId, Page, TaskId, TaskState, limits};
use failpoint::Point;
use host::ops::task;
use host::ops::task::add::{self, NewErrand};
use host::ops::task::budget::{self, BudgetChange};
use host::ops::task::decide::{self, Verb, Words};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{Order, TasksPage};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// How many, at most 500.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<TaskId>,
    #[serde(default, deserialize_with = "contract::known::option")]
    #[schemars(with = "Option<contract::Known<TaskState>>")]
    state: Option<TaskState>,
    label: Option<String>,
    /// Only tasks that were handed over to the queue, not those of runs started directly.
    #[serde(default)]
    handed_over: bool,
    #[serde(default)]
    order: Order,
}

pub async fn list(
    State(app): State<App>,
    Options(ListQuery { limit, after, state, label, handed_over, order }): Options<ListQuery>,
) -> Result<Json<Page<TaskAnswer>>, Problem> {
    let limit = super::page::page_of(limit);
    let page = TasksPage { after, limit: limit + 1, state, label, handed_over, order };
    let rows = task::list(&app.host, page).await?;
    let page = Page::of(rows, limit.min(limits::PAGE_ROWS_MAX), |task| task.id.to_string());
    Ok(Json(Page { items: views::all(page.items), next: page.next }))
}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(task): Named,
) -> Result<Json<TaskDetails>, Problem> {
    if let Some(run) = caller.run() {
        let own = task::of_run(&app.host, run).await?;
        // A run names its task by its whole id, or by its own.
        if task.parse().ok() != Some(own) && task.parse().ok() != Some(run) {
            return Err(not_its_own("task").into());
        }
    }
    Ok(Json(task::show(&app.host, &task).await?.into()))
}

pub async fn add(
    State(app): State<App>,
    chosen: Chosen,
    Given(mut new): Given<NewErrand>,
) -> Result<With<201, TaskAnswer>, Problem> {
    new.id = new.id.or(chosen.0.map(TaskId::new));
    let added = add::add(&app.host, new).await?;
    failpoint::hit(Point::TaskUnanswered);
    Ok(With(added.into()))
}

pub async fn set_budget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(task): Named,
    _: Chosen,
    Given(change): Given<BudgetChange>,
) -> Result<Json<TaskAnswer>, Problem> {
    Ok(Json(budget::change(&app.host, &task, change, &caller.who()).await?.into()))
}

/// One handler for each thing that is decided.
macro_rules! decisions {
    ($($name:ident = $verb:ident by $body:ident)+) => {$(
        pub async fn $name(
            State(app): State<App>,
            Extension(caller): Extension<Caller>,
            Named(task): Named,
            chosen: Chosen,
            $body(mut words): $body<Words>,
        ) -> Result<Json<TaskAnswer>, Problem> {
            words.id = words.id.or(chosen.0.map(CommandId::new));
            let by = caller.who();
            let decided = decide::decide(&app.host, &task, Verb::$verb, words, &by).await?;
            failpoint::hit(Point::DecisionUnanswered);
            Ok(Json(decided.into()))
        }
    )+};
}

decisions! {
    cancel = Cancel by Perhaps
    retry = Retry by Perhaps
    reopen = Reopen by Perhaps
    approve = Approve by Perhaps
    reject = Reject by Given
    comment = Comment by Given
}
