//! Worktrees over HTTP: what a run changed in its own and bringing that back, and those that are kept.

use super::page::{ById, page_of};
use super::runs::ForceQuery;
use super::{Named, Options, Perhaps, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::{Page, RunId};
use host::ops::apply::{self, Applied, ApplyRequest};
use host::ops::diff::{self, Diff, View};
use host::ops::worktrees::{self, Force, Pruned, WorktreeView};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// Whether the patch is wanted, too; it is when nothing is said.
    patch: Option<bool>,
}

pub async fn diff(
    State(app): State<App>,
    Named(run): Named,
    Options(query): Options<DiffQuery>,
) -> Result<Json<Diff>, Problem> {
    let view = match query.patch.unwrap_or(true) {
        true => View::Patch,
        false => View::Names,
    };
    Ok(Json(diff::diff(&app.host, &run, view).await?))
}

pub async fn apply(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    _: Chosen,
    Perhaps(request): Perhaps<ApplyRequest>,
) -> Result<Json<Applied>, Problem> {
    Ok(Json(apply::apply(&app.host, &run, request, &caller.who()).await?))
}

pub async fn list(
    State(app): State<App>,
    Options(ById { limit, after }): Options<ById<RunId>>,
) -> Result<Json<Page<WorktreeView>>, Problem> {
    Ok(Json(worktrees::list(&app.host, after, page_of(limit)).await?))
}

pub async fn discard(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    Options(ForceQuery { force }): Options<ForceQuery>,
) -> Result<Json<WorktreeView>, Problem> {
    let force = if force { Force::Yes } else { Force::No };
    Ok(Json(worktrees::discard(&app.host, &run, force, &caller.who()).await?))
}

pub async fn prune(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    _: Chosen,
) -> Result<Json<Pruned>, Problem> {
    Ok(Json(worktrees::prune(&app.host, &caller.who()).await?))
}
