//! Questions over HTTP: list them, answer one.

use super::describe::With;
use super::{Given, Named, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use host::ops::ask::{self, OpenAsk};
use schemars::JsonSchema;
use serde::Deserialize;

pub async fn list(State(app): State<App>) -> Json<Vec<OpenAsk>> {
    Json(ask::list(&app.host))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// `allow`, `deny`, or an option of the question.
    option: String,
}

pub async fn answer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(given): Named,
    _: Chosen,
    Given(Answer { option }): Given<Answer>,
) -> Result<With<202, OpenAsk>, Problem> {
    Ok(With(ask::answer(&app.host, &given, &option, &caller.who()).await?))
}
