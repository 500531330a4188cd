//! Runs over HTTP: start, list, show, follow, wish. Events pass through as the bytes they were
//! committed as.

use super::describe::{self, Answer, Bytes, Described, Lines, Sent, Taken, Written};
use super::page::page_of;
use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::{Chosen, StillOpen};
use crate::patience::Hurry;
use crate::sse::{self, Shape, View};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use contract::transcript::{self, Transcript};
use contract::{Code, CommandId, Event, Fault, LaunchPlan, Page, RunId, Scope, Wish, limits};
use failpoint::Point;
use host::ops::run::{self, Asked, RunRequest, Started, Waiting};
use host::ops::worktrees::Force;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{RunRow, RunsPage};

/// What becomes of a request for a run.
pub enum Begun {
    Started(Started),
    Waiting(Waiting),
}

impl IntoResponse for Begun {
    fn into_response(self) -> Response {
        match self {
            Self::Started(started) => (StatusCode::CREATED, Json(started)).into_response(),
            // It is to be asked for again, and then answered otherwise.
            Self::Waiting(waiting) => {
                (StatusCode::ACCEPTED, axum::Extension(StillOpen), Json(waiting)).into_response()
            }
        }
    }
}

impl Answer for Begun {
    fn describe(into: &mut Described<'_>) {
        describe::With::<201, Started>::describe(into);
        describe::With::<202, Waiting>::describe(into);
    }
}

pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    chosen: Chosen,
    Given(mut request): Given<RunRequest>,
) -> Result<Begun, Problem> {
    // A command of one's own is a shell, and so is its environment.
    if !caller.has(Scope::Admin) && (request.adapter.is_some() || request.environment.is_some()) {
        let message = "an adapter or an environment of one's own needs the scope admin";
        return Err(Fault::new(Code::Forbidden, message)
            .with_hint("name an agent of the configuration")
            .into());
    }
    request.run_id = request.run_id.or(chosen.0.map(RunId::new));
    let asked = run::start(&app.host, request).await?;
    failpoint::hit(Point::StartUnanswered);
    Ok(match asked {
        Asked::Started(started) => Begun::Started(started),
        Asked::Waiting(waiting) => Begun::Waiting(waiting),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// How many, at most 500.
    limit: Option<u32>,
    /// The `next` of the page before.
    before: Option<RunId>,
    /// Only those that have not ended.
    #[serde(default)]
    live: bool,
}

pub async fn list(
    State(app): State<App>,
    Options(query): Options<ListQuery>,
) -> Result<Json<Page<RunRow>>, Problem> {
    let limit = page_of(query.limit);
    let page = RunsPage { before: query.before, limit: limit + 1, unsettled_only: query.live };
    Ok(Json(Page::of(run::list(&app.host, page).await?, limit, |run| run.id.to_string())))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowQuery {
    #[serde(default)]
    view: RunView,
    /// With view=transcript: the `next` of the part before.
    #[serde(default)]
    after: u64,
}

/// What is shown of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunView {
    #[default]
    Run,
    Transcript,
}

/// A run, or a part of what it said.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    Run(Box<RunRow>),
    Transcript(Transcript),
}

pub async fn show(
    State(app): State<App>,
    Named(run): Named,
    Options(ShowQuery { view, after }): Options<ShowQuery>,
) -> Result<Json<Shown>, Problem> {
    let run = run::find(&app.host, &run).await?;
    let row = run::get(&app.host, run).await?;
    match view {
        RunView::Run => Ok(Json(Shown::Run(Box::new(row)))),
        RunView::Transcript => {
            let events = run::events(&app.host, run, after, limits::PAGE_EVENTS_MAX).await?;
            Ok(Json(Shown::Transcript(transcript::joined(run, after, &events, row.head_seq))))
        }
    }
}

pub async fn plan(
    State(app): State<App>,
    Named(run): Named,
) -> Result<Sent<Written<LaunchPlan>>, Problem> {
    let run = run::find(&app.host, &run).await?;
    let plan = run::plan(&app.host, run).await?;
    Ok(Sent::new(([(header::CONTENT_TYPE, "application/json")], plan)))
}

pub async fn trace(
    State(app): State<App>,
    Named(run): Named,
) -> Result<Sent<Lines<serde_json::Value, false>>, Problem> {
    let run = run::find(&app.host, &run).await?;
    let reader = run::trace(&app.host, run).await?;
    Ok(Sent::new(sse::lines(&app, reader)))
}

/// A wish, under an id when whoever wishes may have to say it again.
#[derive(Deserialize, JsonSchema)]
pub struct Wished {
    id: Option<CommandId>,
    #[serde(flatten)]
    wish: Wish,
}

pub async fn wish(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    chosen: Chosen,
    Given(Wished { id, wish }): Given<Wished>,
) -> Result<Taken, Problem> {
    let run = run::find(&app.host, &run).await?;
    let id = id.or(chosen.0.map(CommandId::new));
    run::wish(&app.host, run, id, wish, &caller.who()).await?;
    failpoint::hit(Point::WishUnanswered);
    Ok(Taken)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only those behind this one; the header `last-event-id` says the same.
    after: Option<u64>,
    #[serde(default)]
    view: View,
}

pub async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(hurry): Extension<Hurry>,
    Named(run): Named,
    Options(query): Options<EventsQuery>,
    headers: HeaderMap,
) -> Result<Sent<Lines<Event, true>>, Problem> {
    let run = run::find(&app.host, &run).await?;
    run::not_deleted(&app.host, run).await?;
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
    Ok(Sent::new(sse::stream(&app, (&caller, hurry), (run, after), shape, query.view)?))
}

pub async fn blob(State(app): State<App>, Named(hash): Named) -> Result<Sent<Bytes>, Problem> {
    let bytes = run::blob(&app.host, &hash).await?;
    Ok(Sent::new(([(header::CONTENT_TYPE, "application/octet-stream")], bytes)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceQuery {
    /// Also delete work in its worktree that was not applied.
    #[serde(default)]
    pub force: bool,
}

/// What is not there any more.
#[derive(Serialize, JsonSchema)]
pub struct Deleted {
    deleted: RunId,
}

pub async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(given): Named,
    Options(ForceQuery { force }): Options<ForceQuery>,
) -> Result<Json<Deleted>, Problem> {
    let force = if force { Force::Yes } else { Force::No };
    let deleted = host::ops::remove::delete(&app.host, &given, force, &caller.who()).await?;
    failpoint::hit(Point::DeletionUnanswered);
    Ok(Json(Deleted { deleted }))
}
