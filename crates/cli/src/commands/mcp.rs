//! `ostler mcp`: an MCP server on standard input and output, for people's own assistants. Its tools
//! list, show, start, stop and speak to runs, and answer their questions. It is a client of the host's
//! API like any other command: what is asked goes the same way, one after the other, and nothing is
//! decided here.

use super::follow::handover_asked;
use super::{Context, Stopped};
use crate::client::{Client, escaped};
use crate::hosting::Purpose;
use crate::way::Way;
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::{Code, Fault, Page, Policy, TaskState, Wish};
use host::ops::ask;
use host::ops::run::{Asked, RunRequest};
use host::ops::task::TaskView;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Rows of a list whose length nobody says.
const LISTED: u32 = 20;
/// How often a run that waits for a slot is asked for before it is given up.
const TURNS_MAX: u32 = 5;
/// Between two of those, where the host answered at once.
const TURN_PAUSE: Duration = Duration::from_secs(1);

/// A call, and where its answer goes.
struct Call {
    tool: ToolName,
    args: Value,
    answer: oneshot::Sender<Result<Value, Fault>>,
}

/// What can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolName {
    ListRuns,
    ShowRun,
    StartRun,
    Say,
    StopRun,
    ListApprovals,
    Answer,
    ListTasks,
}

impl ToolName {
    const ALL: [Self; 8] = [
        Self::ListRuns,
        Self::ShowRun,
        Self::StartRun,
        Self::Say,
        Self::StopRun,
        Self::ListApprovals,
        Self::Answer,
        Self::ListTasks,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::ListRuns => "list_runs",
            Self::ShowRun => "show_run",
            Self::StartRun => "start_run",
            Self::Say => "say",
            Self::StopRun => "stop_run",
            Self::ListApprovals => "list_approvals",
            Self::Answer => "answer",
            Self::ListTasks => "list_tasks",
        }
    }

    const fn says(self) -> &'static str {
        match self {
            Self::ListRuns => {
                "Runs of agents, newest first, with how they ended and what they cost."
            }
            Self::ShowRun => "One run and its transcript; call again with `after` set to `next`.",
            Self::StartRun => {
                "Start an agent on a prompt. Answers at once; show_run tells how it goes."
            }
            Self::Say => "Say something to a live run.",
            Self::StopRun => "Stop a live run.",
            Self::ListApprovals => "Questions of live runs that wait for an answer.",
            Self::Answer => "Answer a question of a live run. Ask the person first.",
            Self::ListTasks => "Tasks, oldest first, and what they wait for.",
        }
    }

    const fn only_looks(self) -> bool {
        match self {
            Self::ListRuns | Self::ShowRun | Self::ListApprovals | Self::ListTasks => true,
            Self::StartRun | Self::Say | Self::StopRun | Self::Answer => false,
        }
    }

    fn schema(self) -> Map<String, Value> {
        let schema = match self {
            Self::ListRuns => schemars::schema_for!(ListRuns),
            Self::ShowRun => schemars::schema_for!(ShowRun),
            Self::StartRun => schemars::schema_for!(StartRun),
            Self::Say => schemars::schema_for!(Say),
            Self::StopRun => schemars::schema_for!(OneRun),
            Self::ListApprovals => schemars::schema_for!(Nothing),
            Self::Answer => schemars::schema_for!(Answer),
            Self::ListTasks => schemars::schema_for!(ListTasks),
        };
        match schema.to_value() {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListRuns {
    /// How many.
    limit: Option<u32>,
    /// Only those that have not ended.
    #[serde(default)]
    live: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowRun {
    /// Its id, or an end of it that fits no other.
    run: String,
    /// Go on behind this event.
    #[serde(default)]
    after: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneRun {
    /// Its id, or an end of it that fits no other.
    run: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartRun {
    /// An agent of the configuration, or a runtime such as `demo`.
    agent: String,
    prompt: String,
    /// Where it works; the directory of this server when absent.
    cwd: Option<PathBuf>,
    model: Option<String>,
    /// What it may do without asking.
    permission: Option<Policy>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Say {
    /// Its id, or an end of it that fits no other.
    run: String,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// The question: its id, or an end of it that fits no other.
    ask: String,
    /// `allow`, `deny`, or an option of the question.
    choice: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTasks {
    state: Option<TaskState>,
    /// How many.
    limit: Option<u32>,
}

pub async fn mcp(context: &Context) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let (calls, mut asked) = mpsc::channel(TOOL_CALLS_OPEN_MAX);
    let mut serving = tokio::spawn(async move {
        // Whoever speaks no MCP is told so by the library, and then it is over.
        if let Ok(service) = (Desk { calls }).serve(rmcp::transport::stdio()).await {
            let _ = service.waiting().await;
        }
    });
    let cwd = &context.surroundings.cwd;
    loop {
        tokio::select! {
            Some(Call { tool, args, answer }) = asked.recv() => {
                // One who has gone away meanwhile needs no answer.
                let _ = answer.send(perform(&mut way, tool, args, cwd).await);
            }
            () = handover_asked(&way.hosting) => {
                let lost = Fault::new(Code::RemoteUnavailable, "another process hosts now");
                way.next_host(lost).await?;
            }
            _ = &mut serving => break,
        }
    }
    way.finish().await;
    Ok(ExitCode::SUCCESS)
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Fault> {
    serde_json::from_value(args).map_err(|error| Fault::new(Code::Usage, error.to_string()))
}

async fn perform(
    way: &mut Way<'_>,
    tool: ToolName,
    args: Value,
    cwd: &Path,
) -> Result<Value, Fault> {
    match tool {
        ToolName::ListRuns => {
            let ListRuns { limit, live } = read(args)?;
            let limit = limit.unwrap_or(LISTED) as usize;
            let runs = way.ask(async |client| client.runs(limit, live).await).await?;
            Ok(json!({ "runs": runs }))
        }
        ToolName::ShowRun => {
            let ShowRun { run, after } = read(args)?;
            way.ask(async |client| show(client, &run, after).await).await
        }
        ToolName::StartRun => start(way, read(args)?, cwd).await,
        ToolName::Say => {
            let Say { run, text } = read(args)?;
            wish(way, &run, Wish::Say { text }).await
        }
        ToolName::StopRun => {
            let OneRun { run } = read(args)?;
            wish(way, &run, Wish::Stop { reason: Code::Cancelled, at_once: false }).await
        }
        ToolName::ListApprovals => {
            let Nothing {} = read(args)?;
            let asks = way.ask(async |client| client.asks().await).await?;
            Ok(json!({ "approvals": asks }))
        }
        ToolName::Answer => {
            let Answer { ask, choice } = read(args)?;
            let open = way.ask(async |client| ask::find(client.asks().await?, &ask)).await?;
            ask::check(&open, &choice)?;
            let (run, id) = (open.run_id, host::chance::command_id());
            let wish = Wish::Answer { ask_id: open.ask_id, option: choice, by: None };
            way.ask(async |client| client.wish(run, id, &wish).await).await?;
            Ok(json!({ "answered": open }))
        }
        ToolName::ListTasks => {
            let ListTasks { state, limit } = read(args)?;
            let state = state.map(|state| format!("&state={}", state.word())).unwrap_or_default();
            let path = format!("/api/v1/tasks?limit={}{state}", limit.unwrap_or(LISTED));
            let page: Page<TaskView> = way.ask(async |client| client.get(&path).await).await?;
            Ok(json!({ "tasks": page.items }))
        }
    }
}

async fn show(client: &Client, run: &str, after: u64) -> Result<Value, Fault> {
    let row = client.run(run).await?;
    let path = format!("/api/v1/runs/{}?view=transcript&after={after}", escaped(run));
    let transcript: Value = client.get(&path).await?;
    Ok(json!({ "run": row, "entries": transcript["entries"], "next": transcript["next"] }))
}

async fn wish(way: &mut Way<'_>, run: &str, wish: Wish) -> Result<Value, Fault> {
    let id = host::chance::command_id();
    let put = async |client: &Client| {
        let row = client.run(run).await?;
        client.wish(row.id, id, &wish).await?;
        Ok(row.id)
    };
    Ok(json!({ "run_id": way.ask(put).await? }))
}

async fn start(way: &mut Way<'_>, given: StartRun, cwd: &Path) -> Result<Value, Fault> {
    let request = RunRequest {
        // Asked for again, of this host or the next, it is the same run.
        run_id: Some(host::chance::run_id()),
        agent: given.agent,
        prompt: given.prompt,
        cwd: cwd.join(given.cwd.unwrap_or_default()),
        model: given.model,
        permission: given.permission,
        adapter: None,
        title: None,
        system_prompt: None,
        prompt_template: None,
        tools: None,
        tools_by: Default::default(),
        clocks: Default::default(),
        budget: Default::default(),
        task_budget: Default::default(),
        fallback: None,
        workspace: None,
        keep: false,
        attended: false,
        resume: None,
        environment: None,
    };
    for turn in 1.. {
        let waiting = match way.ask(async |client| client.start(&request).await).await? {
            Asked::Started(started) => return Ok(json!(started)),
            Asked::Waiting(waiting) => waiting,
        };
        if turn == TURNS_MAX {
            let id = host::chance::command_id();
            let leave = Wish::Stop { reason: Code::Cancelled, at_once: false };
            way.ask(async |client| client.wish(waiting.run_id, id, &leave).await).await?;
            let message = format!("all {} slots of '{}' are taken", waiting.places, waiting.pool);
            return Err(Fault::new(Code::Conflict, message).with_hint("start it again later"));
        }
        tokio::time::sleep(TURN_PAUSE).await;
    }
    Err(Fault::new(Code::InternalError, "there are no more turns than numbers"))
}

/// What the assistant speaks to.
#[derive(Clone)]
struct Desk {
    calls: mpsc::Sender<Call>,
}

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ToolName::ALL.map(|tool| {
            let annotations = ToolAnnotations::new().read_only(tool.only_looks());
            Tool::new(tool.word(), tool.says(), Arc::new(tool.schema()))
                .with_annotations(annotations)
        });
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::ALL.into_iter().find(|tool| tool.word() == request.name) else {
            let message = format!("there is no tool '{}'", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let args = Value::Object(request.arguments.unwrap_or_default());
        let (answer, answered) = oneshot::channel();
        let gone = || ErrorData::internal_error("ostler is leaving", None);
        self.calls.send(Call { tool, args, answer }).await.map_err(|_| gone())?;
        Ok(match answered.await.map_err(|_| gone())? {
            Ok(value) => CallToolResult::structured(value).into(),
            Err(fault) => {
                let hint = fault.hint().to_owned();
                let told = json!({ "code": fault.code, "message": fault.message, "hint": hint });
                CallToolResult::structured_error(told).into()
            }
        })
    }
}
