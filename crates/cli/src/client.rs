//! The way to the host of a data directory: plain HTTP on loopback with the directory's token. Every
//! command goes through it, also when the host is this very process, so there is one way. A host does
//! not wait for long for whoever does not read, such as a person at a pager: what it cut off there is
//! asked for again where it was cut.

mod events;

use contract::state::AgentState;
use contract::view::RunView;
use contract::{Code, CommandId, Event, Fault, Page, Problem, RunId, Wish, limits};
use events::{Frames, Going, Lines};
use futures::StreamExt as _;
use futures::stream::BoxStream;
pub use host::HostRole;
use host::ops::agents::{AgentView, Edit, Hire, Saved};
use host::ops::apply::{Applied, ApplyRequest};
use host::ops::ask::{self, OpenAsk};
use host::ops::money::ImportReport;
use host::ops::quota::QuotaView;
use host::ops::run::{Asked, RunRequest};
use host::ops::task::TaskView;
use host::ops::task::add::NewErrand;
use host::ops::worktrees::WorktreeView;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A connection to a host.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

/// One event as it came: its number and its canonical bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub seq: u64,
    pub bytes: Vec<u8>,
}

impl Received {
    pub fn event(&self) -> Result<Event, Fault> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            Fault::new(Code::ParseFailed, format!("event {} of the host: {error}", self.seq))
        })
    }
}

impl Client {
    pub fn new(base: &str, token: &str) -> Result<Self, Fault> {
        let http = reqwest::Client::builder()
            // It speaks plain HTTP: no certificates are loaded.
            .tls_certs_only([])
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| {
                Fault::new(Code::InternalError, format!("making a client: {error}"))
            })?;
        Ok(Self { http, base: base.trim_end().to_owned(), token: token.to_owned() })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(&self.token)
            .header("ostler-surface", "cli")
    }

    /// Whether a host answers here and knows our token.
    pub async fn greets(&self) -> bool {
        self.get::<serde_json::Value>("/api/v1/host").await.is_ok()
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        let response = answered(self.request(Method::GET, path)).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    pub async fn bytes(&self, path: &str) -> Result<Vec<u8>, Fault> {
        let response = answered(self.request(Method::GET, path)).await?;
        Ok(response.bytes().await.map_err(|error| unreachable_host(&error))?.to_vec())
    }

    /// What is kept of a run's raw output, handed on piece by piece.
    pub async fn trace(
        &self,
        run: RunId,
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<std::io::Result<()>, Fault> {
        let path = format!("/api/v1/runs/{run}/trace");
        let mut given = 0;
        loop {
            // It has no places by which to go on, so what was handed on is passed over.
            let before = given;
            let mut known = given;
            let mut pieces = answered(self.request(Method::GET, &path)).await?.bytes_stream();
            let lost = loop {
                let piece = match pieces.next().await {
                    None => return Ok(Ok(())),
                    Some(Ok(piece)) => piece,
                    Some(Err(error)) => break unreachable_host(&error),
                };
                let passed = piece.len().min(known);
                known -= passed;
                given += piece.len() - passed;
                if let Err(error) = take(&piece[passed..]) {
                    return Ok(Err(error));
                }
            };
            if given == before {
                return Err(lost);
            }
        }
    }

    /// The newest runs.
    pub async fn runs(&self, limit: usize, live: bool) -> Result<Vec<RunView>, Fault> {
        let path = format!("/api/v1/runs?limit={limit}&live={live}");
        Ok(self.get::<Page<RunView>>(&path).await?.items)
    }

    /// A page of runs, newest first.
    pub async fn runs_page(
        &self,
        before: Option<&str>,
        live: bool,
    ) -> Result<Page<RunView>, Fault> {
        let before = before.map(|id| format!("&before={}", escaped(id))).unwrap_or_default();
        self.get(&format!("/api/v1/runs?limit={}&live={live}{before}", limits::PAGE_ROWS_MAX)).await
    }

    /// Sends something and reads what comes of it.
    pub async fn send<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        let response = self.post(path, body).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<Response, Fault> {
        answered(self.request(Method::POST, path).json(body)).await
    }

    /// Brings the work of a run back from its worktree.
    pub async fn apply(&self, run: &str, request: &ApplyRequest) -> Result<Applied, Fault> {
        let response = self.post(&format!("/api/v1/runs/{}/apply", escaped(run)), request).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    /// Whether the host is a server, and so does not make room.
    pub async fn serves(&self) -> bool {
        let host = self.get::<serde_json::Value>("/api/v1/host").await;
        host.is_ok_and(|host| host["serves"] == true)
    }

    /// The kind of process that answers here; absent if none does.
    pub async fn role(&self) -> Option<HostRole> {
        let host = self.get::<serde_json::Value>("/api/v1/host").await.ok()?;
        serde_json::from_value(host["role"].clone()).ok()
    }

    /// Asks the host to make room for us. `conflict` when it does not.
    pub async fn ask_handover(&self) -> Result<(), Fault> {
        answered(self.request(Method::POST, "/api/v1/host/handover")).await.map(drop)
    }

    /// Asks for a run. One that waits for a slot is to be asked for again.
    pub async fn start(&self, request: &RunRequest) -> Result<Asked, Fault> {
        let response = self.post("/api/v1/runs", request).await?;
        let asked = match response.status() == StatusCode::ACCEPTED {
            true => response.json().await.map(Asked::Waiting),
            false => response.json().await.map(Asked::Started),
        };
        asked.map_err(|error| unreachable_host(&error))
    }

    /// A task, by its own id or by what a person says of a run of it.
    pub async fn task(&self, given: &str) -> Result<TaskView, Fault> {
        self.get(&format!("/api/v1/tasks/{}", escaped(given))).await
    }

    /// The task of what a person calls a run. What is neither is told to be no run.
    pub async fn task_of_run(&self, given: &str) -> Result<TaskView, Fault> {
        match self.task(given).await {
            Err(fault) if fault.code == Code::NotFound => {
                Err(self.run(given).await.err().unwrap_or(fault))
            }
            other => other,
        }
    }

    pub async fn add_task(&self, new: &NewErrand) -> Result<TaskView, Fault> {
        let response = self.post("/api/v1/tasks", new).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    /// Decides about a task.
    pub async fn decide(
        &self,
        task: &str,
        verb: &str,
        words: &impl Serialize,
    ) -> Result<TaskView, Fault> {
        let response = self.post(&format!("/api/v1/tasks/{}/{verb}", escaped(task)), words).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    /// The tasks that wait, in the order in which they came.
    pub async fn waiting(&self, limit: usize) -> Result<Vec<TaskView>, Fault> {
        let path = format!("/api/v1/tasks?state=waiting&limit={limit}");
        Ok(self.get::<Page<TaskView>>(&path).await?.items)
    }

    pub async fn run(&self, run: &str) -> Result<RunView, Fault> {
        self.get(&format!("/api/v1/runs/{}", escaped(run))).await
    }

    pub async fn import_prices(&self, file: &serde_json::Value) -> Result<ImportReport, Fault> {
        let response = self.post("/api/v1/prices", file).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    /// Lets runs start again in a scope.
    pub async fn clear_quota(&self, scope: &str) -> Result<QuotaView, Fault> {
        let body = serde_json::json!({ "scope": scope });
        let response = self.post("/api/v1/quotas/clear", &body).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    /// Wishes something of a run. Under the same id it may be said again, to whoever hosts by then.
    pub async fn wish(&self, run: RunId, id: CommandId, wish: &Wish) -> Result<(), Fault> {
        #[derive(Serialize)]
        struct Wished<'a> {
            id: CommandId,
            #[serde(flatten)]
            wish: &'a Wish,
        }
        self.post(&format!("/api/v1/runs/{run}/commands"), &Wished { id, wish }).await.map(drop)
    }

    /// A whole list, page after page.
    pub async fn all<T: DeserializeOwned>(&self, list: &str) -> Result<Vec<T>, Fault> {
        let more = if list.contains('?') { '&' } else { '?' };
        let path = format!("{list}{more}limit={}", limits::PAGE_ROWS_MAX);
        let mut page: Page<T> = self.get(&path).await?;
        let mut all = page.items;
        while let Some(next) = page.next {
            page = self.get(&format!("{path}&after={}", escaped(&next))).await?;
            all.append(&mut page.items);
        }
        Ok(all)
    }

    /// Everyone who works here or did.
    pub async fn agents(&self) -> Result<Vec<AgentView>, Fault> {
        self.all("/api/v1/agents").await
    }

    /// An agent that was hired, or one of the host's own configuration.
    pub async fn agent(&self, name: &str) -> Result<AgentView, Fault> {
        self.get(&format!("/api/v1/agents/{}", escaped(name))).await
    }

    /// The same without its figures.
    pub async fn glance(&self, name: &str) -> Result<AgentView, Fault> {
        self.get(&format!("/api/v1/agents/{}?glance=true", escaped(name))).await
    }

    pub async fn hire(&self, hire: &Hire) -> Result<Saved, Fault> {
        self.put(Method::POST, "/api/v1/agents", hire).await
    }

    pub async fn edit_agent(&self, name: &str, edit: &Edit) -> Result<Saved, Fault> {
        self.put(Method::PATCH, &format!("/api/v1/agents/{}", escaped(name)), edit).await
    }

    pub async fn stand(&self, name: &str, state: AgentState) -> Result<AgentView, Fault> {
        let path = format!("/api/v1/agents/{}/state", escaped(name));
        self.put(Method::POST, &path, &serde_json::json!({ "state": state })).await
    }

    /// Deletes a run that has ended. One that is gone was deleted by an earlier try.
    pub async fn delete_run(&self, run: RunId, force: bool) -> Result<serde_json::Value, Fault> {
        self.delete(&format!("/api/v1/runs/{run}?force={force}")).await
    }

    /// Removes the worktree of a run.
    pub async fn discard(&self, run: &str, force: bool) -> Result<WorktreeView, Fault> {
        self.delete(&format!("/api/v1/worktrees/{}?force={force}", escaped(run))).await
    }

    async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        let response = answered(self.request(Method::DELETE, path)).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    async fn put<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        let response = answered(self.request(method, path).json(body)).await?;
        response.json().await.map_err(|error| unreachable_host(&error))
    }

    /// The questions that wait for a person, the most urgent first.
    pub async fn asks(&self) -> Result<Vec<OpenAsk>, Fault> {
        Ok(ask::by_urgency(self.all("/api/v1/approvals").await?))
    }

    /// The events behind `after`, followed until the run has ended or the connection breaks.
    pub async fn follow(
        &self,
        run: RunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<Received, Fault>>, Fault> {
        Ok(Going::<Frames>::open(self.clone(), run, after).await?.events())
    }

    /// The events behind `after` that there are now, page by page as the host sends them.
    pub async fn events(
        &self,
        run: RunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<Received, Fault>>, Fault> {
        Ok(Going::<Lines>::open(self.clone(), run, after).await?.events())
    }
}

async fn answered(request: RequestBuilder) -> Result<Response, Fault> {
    let response = request.send().await.map_err(|error| unreachable_host(&error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    match response.json::<Problem>().await {
        Ok(problem) => Err(problem.into()),
        // A body that is no problem of ours says less than the status.
        Err(_) => Err(Fault::new(Code::RemoteUnavailable, format!("the host answered {status}"))),
    }
}

/// The host went away, or never was there.
fn unreachable_host(error: &reqwest::Error) -> Fault {
    Fault::new(
        Code::RemoteUnavailable,
        format!("talking to the host of this data directory: {error}"),
    )
}

/// What a person typed, as one segment of a path or one value of a query.
pub fn escaped(text: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    text.bytes().fold(String::new(), |mut path, byte| {
        match kept(byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_typed_stays_one_segment_of_the_path() {
        assert_eq!(escaped("run_1/../x y"), "run_1%2F%2E%2E%2Fx%20y");
    }
}
