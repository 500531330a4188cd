//! Approvals over HTTP: list those that wait for a person, answer one.

use super::describe::With;
use super::page::{ById, page_of};
use super::views::{self, Approval};
use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::{AskId, Page};
use host::ops::ask;
use schemars::JsonSchema;
use serde::Deserialize;

pub async fn list(
    State(app): State<App>,
    Options(ById { limit, after }): Options<ById<AskId>>,
) -> Result<Json<Page<Approval>>, Problem> {
    let limit = page_of(limit);
    let asks = ask::list(&app.host, after, limit + 1).await?;
    let page = Page::of(asks, limit, |ask| ask.ask_id.to_string());
    Ok(Json(Page { items: views::all(page.items), next: page.next }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApprovalAnswer")]
pub struct Answer {
    /// `allow`, `always`, `deny`, or the id of an option of the approval.
    option: String,
    /// Why it is denied; the agent is told.
    #[serde(default)]
    reason: Option<String>,
}

pub async fn answer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(given): Named,
    _: Chosen,
    Given(Answer { option, reason }): Given<Answer>,
) -> Result<With<202, Approval>, Problem> {
    Ok(With(ask::answer(&app.host, &given, &option, reason, &caller.who()).await?.into()))
}
