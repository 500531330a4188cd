//! The worktree of a run over HTTP: what was changed in it, and bringing that back.

use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use host::ops::apply::{self, Applied, ApplyRequest};
use host::ops::diff::{self, Diff, View};
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
    Given(request): Given<ApplyRequest>,
) -> Result<Json<Applied>, Problem> {
    Ok(Json(apply::apply(&app.host, &run, request, &caller.who()).await?))
}
