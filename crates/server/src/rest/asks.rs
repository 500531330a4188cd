//! Questions over HTTP: list them, answer one.

use super::{Given, Named, Problem};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use host::ops::ask::{self, OpenAsk};
use serde::Deserialize;

pub async fn list(State(app): State<App>) -> Json<Vec<OpenAsk>> {
    Json(ask::list(&app.host))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    option: String,
}

pub async fn answer(
    State(app): State<App>,
    Named(given): Named,
    Given(Answer { option }): Given<Answer>,
) -> Result<(StatusCode, Json<OpenAsk>), Problem> {
    Ok((StatusCode::ACCEPTED, Json(ask::answer(&app.host, &given, &option).await?)))
}
