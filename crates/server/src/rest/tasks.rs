//! Tasks over HTTP: which there are, and what they wait for. Nothing is changed here: a run that
//! waits is stopped like any other, by its own id.

use super::{Named, Options, Problem};
use crate::App;
use axum::Json;
use axum::extract::State;
use contract::{Page, TaskId, TaskState, limits};
use host::ops::task::{self, TaskView};
use schemars::JsonSchema;
use serde::Deserialize;
use store::TasksPage;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// How many, at most 500.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<TaskId>,
    state: Option<TaskState>,
}

pub async fn list(
    State(app): State<App>,
    Options(ListQuery { limit, after, state }): Options<ListQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let limit = super::runs::page_of(limit);
    let rows = task::list(&app.host, TasksPage { after, limit: limit + 1, state }).await?;
    Ok(Json(Page::of(rows, limit.min(limits::PAGE_ROWS_MAX), |task| task.id.to_string())))
}

pub async fn show(State(app): State<App>, Named(task): Named) -> Result<Json<TaskView>, Problem> {
    Ok(Json(task::get(&app.host, &task).await?))
}
