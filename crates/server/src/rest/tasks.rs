//! Tasks over HTTP: which there are and what they wait for, handing one over, and what is decided
//! about it. A run that waits for a slot is stopped like any other, by its own id.

use super::runs::bad_query;
use super::{Given, Named, Problem};
use crate::App;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use contract::{Code, Fault, TaskId, TaskState, limits};
use host::ops::task::add::{self, NewErrand};
use host::ops::task::decide::{self, Verb, Words};
use host::ops::task::{self, TaskSheet, TaskView};
use serde::Deserialize;
use store::{Order, TasksPage};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<usize>,
    after: Option<TaskId>,
    state: Option<TaskState>,
    label: Option<String>,
    #[serde(default)]
    order: Order,
}

pub async fn list(
    State(app): State<App>,
    query: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Vec<TaskView>>, Problem> {
    let Query(ListQuery { limit, after, state, label, order }) = query.map_err(bad_query)?;
    let limit = limit.unwrap_or(50).min(limits::PAGE_ROWS_MAX);
    Ok(Json(task::list(&app.host, TasksPage { after, limit, state, label, order }).await?))
}

pub async fn show(State(app): State<App>, Named(task): Named) -> Result<Json<TaskSheet>, Problem> {
    Ok(Json(task::show(&app.host, &task).await?))
}

pub async fn add(
    State(app): State<App>,
    Given(new): Given<NewErrand>,
) -> Result<(StatusCode, Json<TaskView>), Problem> {
    Ok((StatusCode::CREATED, Json(add::add(&app.host, new).await?)))
}

pub async fn decide(
    State(app): State<App>,
    named: Result<Path<(String, String)>, PathRejection>,
    Given(words): Given<Words>,
) -> Result<Json<TaskView>, Problem> {
    let Path((task, verb)) = named.map_err(|error| Fault::new(Code::Usage, error.body_text()))?;
    let verb = Verb::from_word(&verb).ok_or_else(|| {
        let known: Vec<&str> = Verb::ALL.iter().map(|(word, _)| *word).collect();
        Fault::new(Code::NotFound, "nothing of that name can be decided about a task")
            .with_hint(format!("one of {}", known.join(", ")))
    })?;
    Ok(Json(decide::decide(&app.host, &task, verb, words).await?))
}
