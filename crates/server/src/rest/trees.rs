//! The worktree of a run over HTTP: what was changed in it, and bringing that back.

use super::runs::bad_query;
use super::{Given, Named, Problem};
use crate::App;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use host::ops::apply::{self, Applied, ApplyRequest};
use host::ops::diff::{self, Diff, View};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// Whether the patch is wanted, too; it is when nothing is said.
    patch: Option<bool>,
}

pub async fn diff(
    State(app): State<App>,
    Named(run): Named,
    query: Result<Query<DiffQuery>, QueryRejection>,
) -> Result<Json<Diff>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let view = match query.patch.unwrap_or(true) {
        true => View::Patch,
        false => View::Names,
    };
    Ok(Json(diff::diff(&app.host, &run, view).await?))
}

pub async fn apply(
    State(app): State<App>,
    Named(run): Named,
    Given(request): Given<ApplyRequest>,
) -> Result<Json<Applied>, Problem> {
    Ok(Json(apply::apply(&app.host, &run, request).await?))
}
