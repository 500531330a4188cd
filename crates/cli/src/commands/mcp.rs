//! `ostler mcp`: an MCP server on standard input and output, for people's own assistants. It is a
//! client of the host's API like any other command: what is asked goes the same way, one after the
//! other, and nothing is decided here. Its tools are listed in `mcp/tools.rs` and carried out in
//! `mcp/perform.rs`.

mod perform;
mod tools;

use super::follow::handover_asked;
use super::{Context, Stopped};
use crate::hosting::Purpose;
use crate::way::Way;
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::{Code, Fault};
use perform::perform;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tools::ToolName;

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
                // An assistant may end this process at any moment: what it starts must outlive it.
                if tool == ToolName::StartRun && let Err(fault) = way.move_to_background().await {
                    let _ = answer.send(Err(fault));
                    continue;
                }
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
        let tools = ToolName::ALL.iter().map(|tool| {
            let annotations = ToolAnnotations::new().read_only(tool.only_looks());
            Tool::new(tool.word(), tool.says(), Arc::new(tool.schema()))
                .with_annotations(annotations)
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::from_word(&request.name) else {
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
