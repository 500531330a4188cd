//! Runs over HTTP: start, list, show, follow, command. Events pass through as the bytes they were
//! committed as.

use super::describe::{self, Answer, Bytes, Described, Lines, Sent, Taken, Written};
use super::page::page_of;
use super::views;
use super::{Given, Named, Options, Perhaps, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::{Chosen, StillOpen};
use crate::patience::Hurry;
use crate::sse::{self, Shape, View};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use contract::event::{Outcome, Remaining};
use contract::speech::ToolAnswer;
use contract::transcript::{self, Transcript};
use contract::view::RunView;
use contract::{
    AskId, Code, CommandId, Event, Fault, LaunchPlan, Page, RunId, RunState, Scope, Wish, limits,
};
use failpoint::Point;
use host::ops::run::{self, Asked, RunFilter, RunRequest, Started, Waiting};
use host::ops::worktrees::Force;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        let message = "an adapter or environment in the request needs the scope admin";
        return Err(Fault::new(Code::Forbidden, message)
            .with_hint("name an agent of the configuration")
            .into());
    }
    // A relative path would be one of the directory that the server was started in.
    if !request.cwd.is_absolute() {
        let message = format!("`cwd` must be an absolute path, not '{}'", request.cwd.display());
        return Err(Fault::new(Code::BadWorkspace, message).into());
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
    /// Only those of this agent, by its name.
    agent: Option<String>,
    #[serde(default, deserialize_with = "contract::known::option")]
    #[schemars(with = "Option<contract::Known<RunState>>")]
    state: Option<RunState>,
    #[serde(default, deserialize_with = "contract::known::option")]
    #[schemars(with = "Option<contract::Known<Outcome>>")]
    outcome: Option<Outcome>,
    /// Only those that began then or later: a date such as 2026-11-01, an RFC 3339 time, or an age
    /// such as 2h or 7d.
    since: Option<String>,
    /// Only those that work in this directory.
    cwd: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    Options(query): Options<ListQuery>,
) -> Result<Json<Page<RunView>>, Problem> {
    let limit = page_of(query.limit);
    let since = query.since.as_deref().map(run::since).transpose()?;
    let ListQuery { agent, state, outcome, cwd, .. } = query;
    let filter = RunFilter { live: query.live, agent, state, outcome, since, cwd };
    let page = run::list(&app.host, &filter, query.before, limit).await?;
    Ok(Json(Page { items: views::all(page.items), next: page.next }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowQuery {
    #[serde(default)]
    view: ShowAs,
    /// With view=transcript: the `next` of the part before.
    #[serde(default)]
    after: u64,
}

/// What is shown of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShowAs {
    #[default]
    Run,
    Transcript,
}

/// A run, or a part of what it said.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "RunOrTranscript")]
pub enum Shown {
    Run(Box<RunView>),
    Transcript(Transcript),
}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    Options(ShowQuery { view, after }): Options<ShowQuery>,
) -> Result<Json<Shown>, Problem> {
    caller.may_see_run(&run)?;
    let run = run::find(&app.host, &run).await?;
    let row = run::get(&app.host, run).await?;
    match view {
        ShowAs::Run => Ok(Json(Shown::Run(Box::new(row.into())))),
        ShowAs::Transcript => {
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

/// A command to a live run.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum RunCommand {
    /// End the run.
    Stop(Stop),
    /// Send a message to the agent.
    Say(Message),
    /// End the present turn, not the run.
    Interrupt,
    /// Answer an approval. `/approvals/{approval}/answer` does the same without the run.
    Answer {
        #[serde(alias = "approval_id")]
        ask_id: AskId,
        /// `allow`, `always`, `deny`, or the id of an option of the approval.
        option: String,
        /// Why it is denied; the agent is told.
        reason: Option<String>,
    },
    /// The answer of a tool that the caller of this run carried out.
    ToolResult { tool_call_id: String, answer: ToolAnswer },
    /// What may be spent from now on; a unit that is absent stays as it is.
    Budget { remaining: Remaining },
}

/// How a run is stopped.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// The code that the run ends with.
    #[serde(deserialize_with = "contract::known::word")]
    #[schemars(with = "contract::Known<Code>")]
    reason: Code,
    /// Kill at once, without the grace period.
    at_once: bool,
}

impl Default for Stop {
    fn default() -> Self {
        Self { reason: Code::Cancelled, at_once: false }
    }
}

/// A message to the agent of a live run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    text: String,
}

impl From<RunCommand> for Wish {
    fn from(command: RunCommand) -> Self {
        match command {
            RunCommand::Stop(Stop { reason, at_once }) => Self::Stop { reason, at_once },
            RunCommand::Say(Message { text }) => Self::Say { text },
            RunCommand::Interrupt => Self::Interrupt,
            RunCommand::Answer { ask_id, option, reason } => {
                Self::Answer { ask_id, option, by: None, reason }
            }
            RunCommand::ToolResult { tool_call_id, answer } => {
                Self::ToolResult { tool_call_id, answer }
            }
            RunCommand::Budget { remaining } => Self::Budget { remaining },
        }
    }
}

/// A command, under an id when its sender may have to send it again.
#[derive(JsonSchema)]
pub struct SentCommand {
    #[schemars(default)]
    id: Option<CommandId>,
    #[schemars(flatten)]
    command: RunCommand,
}

impl<'de> Deserialize<'de> for SentCommand {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        #[derive(Deserialize)]
        struct Named {
            id: Option<CommandId>,
            #[serde(flatten)]
            fields: serde_json::Map<String, serde_json::Value>,
        }
        let Named { id, mut fields } = Named::deserialize(deserializer)?;
        // The name of the field in the release before.
        match (fields.contains_key("command"), fields.remove("wish")) {
            (false, Some(word)) => fields.insert("command".to_owned(), word),
            (true, Some(_)) => {
                return Err(D::Error::custom("`wish` is the older name of `command`"));
            }
            (_, None) => None,
        };
        let command = RunCommand::deserialize(serde_json::Value::Object(fields));
        Ok(Self { id, command: command.map_err(D::Error::custom)? })
    }
}

pub async fn command(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    chosen: Chosen,
    Given(SentCommand { id, command }): Given<SentCommand>,
) -> Result<Taken, Problem> {
    wish(&app, &caller, &run, id.or(chosen.0.map(CommandId::new)), command.into()).await
}

pub async fn stop(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    chosen: Chosen,
    Perhaps(stop): Perhaps<Stop>,
) -> Result<Taken, Problem> {
    let wished = RunCommand::Stop(stop).into();
    wish(&app, &caller, &run, chosen.0.map(CommandId::new), wished).await
}

pub async fn interrupt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    chosen: Chosen,
) -> Result<Taken, Problem> {
    wish(&app, &caller, &run, chosen.0.map(CommandId::new), Wish::Interrupt).await
}

pub async fn say(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    chosen: Chosen,
    Given(message): Given<Message>,
) -> Result<Taken, Problem> {
    let wished = RunCommand::Say(message).into();
    wish(&app, &caller, &run, chosen.0.map(CommandId::new), wished).await
}

async fn wish(
    app: &App,
    caller: &Caller,
    run: &str,
    id: Option<CommandId>,
    wish: Wish,
) -> Result<Taken, Problem> {
    let run = run::find(&app.host, run).await?;
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
