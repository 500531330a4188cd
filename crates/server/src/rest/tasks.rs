//! Tasks over HTTP: which there are, and what they wait for. Nothing is changed here: a run that
//! waits is stopped like any other, by its own id.

use super::runs::bad_query;
use super::{Named, Problem};
use crate::App;
use axum::Json;
use axum::extract::{Query, State};
use contract::{TaskId, TaskState, limits};
use host::ops::task::{self, TaskView};
use serde::Deserialize;
use store::TasksPage;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<usize>,
    after: Option<TaskId>,
    state: Option<TaskState>,
}

pub async fn list(
    State(app): State<App>,
    query: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Vec<TaskView>>, Problem> {
    let Query(ListQuery { limit, after, state }) = query.map_err(bad_query)?;
    let limit = limit.unwrap_or(50).min(limits::PAGE_ROWS_MAX);
    Ok(Json(task::list(&app.host, TasksPage { after, limit, state }).await?))
}

pub async fn show(State(app): State<App>, Named(task): Named) -> Result<Json<TaskView>, Problem> {
    Ok(Json(task::get(&app.host, &task).await?))
}
