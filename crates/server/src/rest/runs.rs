//! Runs over HTTP: start, list, show, follow, wish. Events pass through as the bytes they were
//! committed as.

use super::{Given, Named, Problem};
use crate::App;
use crate::sse::{self, Shape, View};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::{Code, CommandId, Fault, RunId, Wish, limits};
use failpoint::Point;
use host::ops::run::{self, Asked, RunRequest};
use serde::Deserialize;
use store::{RunRow, RunsPage};

pub async fn start(
    State(app): State<App>,
    Given(request): Given<RunRequest>,
) -> Result<Response, Problem> {
    let asked = run::start(&app.host, request).await?;
    failpoint::hit(Point::StartUnanswered);
    Ok(match asked {
        Asked::Started(started) => (StatusCode::CREATED, Json(started)).into_response(),
        Asked::Waiting(waiting) => (StatusCode::ACCEPTED, Json(waiting)).into_response(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<usize>,
    before: Option<RunId>,
    #[serde(default)]
    live: bool,
}

pub async fn list(
    State(app): State<App>,
    query: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Vec<RunRow>>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = query.limit.unwrap_or(50).min(limits::PAGE_ROWS_MAX);
    let page = RunsPage { before: query.before, limit, unsettled_only: query.live };
    Ok(Json(run::list(&app.host, page).await?))
}

pub(super) fn bad_query(error: axum::extract::rejection::QueryRejection) -> Problem {
    Problem(Fault::new(Code::Usage, error.body_text()))
}

pub async fn show(State(app): State<App>, Named(run): Named) -> Result<Json<RunRow>, Problem> {
    let run = run::find(&app.host, &run).await?;
    Ok(Json(run::get(&app.host, run).await?))
}

pub async fn plan(State(app): State<App>, Named(run): Named) -> Result<Response, Problem> {
    let run = run::find(&app.host, &run).await?;
    let plan = run::plan(&app.host, run).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], plan).into_response())
}

pub async fn trace(State(app): State<App>, Named(run): Named) -> Result<Response, Problem> {
    let run = run::find(&app.host, &run).await?;
    let reader = run::trace(&app.host, run).await?;
    Ok(sse::lines(&app, reader))
}

/// A wish, under an id when whoever wishes may have to say it again.
#[derive(Deserialize)]
pub struct Wished {
    id: Option<CommandId>,
    #[serde(flatten)]
    wish: Wish,
}

pub async fn wish(
    State(app): State<App>,
    Named(run): Named,
    Given(Wished { id, wish }): Given<Wished>,
) -> Result<StatusCode, Problem> {
    let run = run::find(&app.host, &run).await?;
    run::wish(&app.host, run, id, wish).await?;
    failpoint::hit(Point::WishUnanswered);
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    after: Option<u64>,
    #[serde(default)]
    view: View,
}

pub async fn events(
    State(app): State<App>,
    Named(run): Named,
    query: Result<Query<EventsQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let run = run::find(&app.host, &run).await?;
    let followed = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    let shape = if followed { Shape::Followed } else { Shape::UpToNow };
    let after = match headers.get("last-event-id") {
        None => query.after.unwrap_or(0),
        Some(id) => id.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(|| {
            Fault::new(Code::Usage, "last-event-id is not the number of an event")
        })?,
    };
    sse::stream(&app, run, after, shape, query.view)
}

pub async fn blob(State(app): State<App>, Named(hash): Named) -> Result<Response, Problem> {
    let bytes = run::blob(&app.host, &hash).await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

pub async fn delete(
    State(app): State<App>,
    Named(given): Named,
) -> Result<Json<serde_json::Value>, Problem> {
    let run = host::ops::remove::delete(&app.host, &given, super::agents::OPERATOR).await?;
    Ok(Json(serde_json::json!({ "deleted": run })))
}
