//! Questions over HTTP: list them, answer one.

use super::describe::With;
use super::page::{ById, page_of};
use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::{AskId, Page};
use host::ops::ask::{self, OpenAsk};
use schemars::JsonSchema;
use serde::Deserialize;

pub async fn list(
    State(app): State<App>,
    Options(ById { limit, after }): Options<ById<AskId>>,
) -> Json<Page<OpenAsk>> {
    let limit = page_of(limit);
    let rows = ask::list(&app.host, after, limit + 1);
    Json(Page::of(rows, limit, |ask| ask.ask_id.to_string()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// `allow`, `always`, `deny`, or an option of the question.
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
) -> Result<With<202, OpenAsk>, Problem> {
    Ok(With(ask::answer(&app.host, &given, &option, reason, &caller.who()).await?))
}
