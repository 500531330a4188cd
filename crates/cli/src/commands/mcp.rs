//! `ostler mcp`: an MCP server on standard input and output, for people's own assistants. It is a
//! client of the host's API like any other command: requests go the same way, one after the other, and
//! nothing is decided here. Its tools are listed in `mcp/tools.rs` and carried out in `mcp/perform.rs`.
//! A call that waits asks again and again, so that other calls are answered meanwhile.

mod perform;
mod tools;
mod views;

use super::follow::handover_asked;
use super::{Context, Stopped};
use crate::config::Surroundings;
use crate::hosting::Purpose;
use crate::way::Way;
use contract::limits::{MCP_PROGRESS_MS, TOOL_CALLS_OPEN_MAX, WAIT_RUN_MS, WAIT_RUN_MS_MAX};
use contract::{Code, Fault, Surface};
use host::supervise;
use perform::{Here, perform};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ErrorData, Implementation, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
    ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tools::{INSTRUCTIONS, ToolName, WaitRun};

/// Between two looks at a run that is waited for.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// A call, and where its answer goes.
struct Call {
    tool: ToolName,
    args: Value,
    answer: oneshot::Sender<Result<Value, Fault>>,
}

pub async fn mcp(context: &Context) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let (calls, mut asked) = mpsc::channel(TOOL_CALLS_OPEN_MAX);
    let mut serving = supervise::spawn("mcp", async move {
        // Whoever speaks no MCP is told so by the library, and then it is over.
        if let Ok(service) = (Desk { calls }).serve(rmcp::transport::stdio()).await {
            // However it ended, the assistant is gone.
            let _ = service.waiting().await;
        }
    });
    let Surroundings { cwd, vars, .. } = &context.surroundings;
    let here = Here { cwd, vars, config: &place.config };
    loop {
        tokio::select! {
            Some(Call { tool, args, answer }) = asked.recv() => {
                // An assistant may end this process at any moment: what it starts must outlive it.
                if tool == ToolName::StartRun && let Err(fault) = way.move_to_background().await {
                    // An assistant that has gone meanwhile needs no answer.
                    let _ = answer.send(Err(fault));
                    continue;
                }
                // One who has gone away meanwhile needs no answer.
                let _ = answer.send(perform(&mut way, tool, args, &here).await);
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

/// What the assistant speaks to.
#[derive(Clone)]
struct Desk {
    calls: mpsc::Sender<Call>,
}

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ToolName::ALL.iter().map(|tool| {
            Tool::new(tool.word(), tool.says(), Arc::new(tool.schema()))
                .with_annotations(tool.annotations())
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::from_word(&request.name) else {
            let message = format!("there is no tool '{}'", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let args = Value::Object(request.arguments.unwrap_or_default());
        let answer = match tool {
            ToolName::WaitRun => self.wait_run(args, &context).await?,
            _ => self.ask(tool, args).await?,
        };
        Ok(match answer {
            Ok(value) => CallToolResult::structured(value).into(),
            Err(fault) => {
                let hint = fault.hint_on(Surface::Tool).to_owned();
                let told = json!({ "code": fault.code, "message": fault.message, "hint": hint });
                CallToolResult::structured_error(told).into()
            }
        })
    }

    // The library answers these with empty lists; a capability that is not declared has no methods.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}

impl Desk {
    /// Sends one call on and waits for its answer.
    async fn ask(&self, tool: ToolName, args: Value) -> Result<Result<Value, Fault>, ErrorData> {
        let (answer, answered) = oneshot::channel();
        let gone = || ErrorData::internal_error("ostler is shutting down", None);
        self.calls.send(Call { tool, args, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    /// Looks at a run until it has ended, asks for an approval, or the time is up.
    async fn wait_run(
        &self,
        args: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<Value, Fault>, ErrorData> {
        let begun = Instant::now();
        // Arguments that are wrong are told by the first look.
        let given = WaitRun::deserialize(&args).ok().and_then(|given| given.seconds);
        let wanted = given.map(|seconds| (seconds.max(0.0) * 1_000.0) as u64);
        let wait = Duration::from_millis(wanted.unwrap_or(WAIT_RUN_MS).min(WAIT_RUN_MS_MAX));
        let mut reported = begun;
        loop {
            let told = match self.ask(ToolName::WaitRun, args.clone()).await? {
                Ok(told) => told,
                Err(fault) => return Ok(Err(fault)),
            };
            let asks = told["approvals"].as_array().is_some_and(|asks| !asks.is_empty());
            if told["done"] == true || asks || begun.elapsed() >= wait {
                return Ok(Ok(told));
            }
            if reported.elapsed() >= Duration::from_millis(MCP_PROGRESS_MS) {
                reported = Instant::now();
                report(context, begun.elapsed()).await;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_PAUSE.min(wait.saturating_sub(begun.elapsed()))) => {}
                // Its caller cancelled the call, and reads no answer.
                () = context.ct.cancelled() => return Ok(Ok(told)),
            }
        }
    }
}

/// Tells an assistant that asked for progress how long its call has waited.
async fn report(context: &RequestContext<RoleServer>, waited: Duration) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let mut told = ProgressNotificationParam::new(token, waited.as_secs_f64());
    told.message = Some(format!("the run goes on; waited {} s", waited.as_secs()));
    // An assistant that has gone is noticed by its closed input.
    let _ = context.peer.notify_progress(told).await;
}
