//! Relayed tools by MCP: streamable HTTP, without sessions, in the current and the older revisions.
//!
//! The bearer token of each request says which run calls; nothing is remembered between two requests
//! but the calls that are open. Each call goes to the run's driver and comes back as its answer. What a
//! tool refuses is a tool's result with its code; an unknown tool, or a run that is not this token's, is
//! an error of the protocol. A call that lasts, because a person is asked first, is answered as a stream
//! that shows signs of life (`mcp/lasting.rs`), and ends when its caller leaves or cancels it.

mod lasting;

use crate::App;
use crate::auth::{Caller, Guard};
use crate::rest::Problem;
use crate::rest::describe::{Mcp, Sent};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use contract::speech::ToolAnswer;
use contract::{Code, Fault, Surface, limits};
use host::Host;
use host::ops::relay::{self, Bearer, Listed};
use lasting::OpenCalls;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ErrorCode, ErrorData, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ResultType, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Speaks MCP for all runs of a host.
#[derive(Clone)]
pub struct Service {
    inner: StreamableHttpService<Relay, NeverSessionManager>,
    open: Arc<OpenCalls>,
}

/// Makes it, with the limits of every other route.
pub fn service(host: &Host, guard: &Guard) -> Service {
    let mut config = StreamableHttpServerConfig::default();
    config = match guard.names.are_known() {
        true => config.with_allowed_hosts(guard.names.hosts()),
        // Any address of this machine is good, and the guard before every route has looked.
        false => config.disable_allowed_hosts(),
    };
    config.legacy_session_mode = false;
    config.json_response = true;
    config.max_request_body_bytes = limits::BODY_BYTES_MAX;
    let open = Arc::new(OpenCalls::default());
    let relay = Relay { host: host.clone(), open: Arc::clone(&open) };
    let inner = StreamableHttpService::new(
        move || Ok(relay.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Service { inner, open }
}

/// One message of a client.
pub async fn take(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Sent<Mcp>, Problem> {
    match caller {
        Caller::Run(bearer) => Ok(Sent::new(lasting::answer(&app.mcp, bearer, request).await?)),
        // The owner has the whole API; tools act for a run, and only its token names one.
        Caller::Person(_) => {
            Err(Fault::new(Code::Forbidden, "tools are called with the token of a live run")
                .with_hint("an agent finds it in OSTLER_LEASE_TOKEN")
                .into())
        }
    }
}

/// The tools of the run whose token came with the request.
#[derive(Clone)]
pub struct Relay {
    host: Host,
    open: Arc<OpenCalls>,
}

impl ServerHandler for Relay {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let bearer = bearer(&context)?;
        let tools = relay::tools(&self.host, bearer).await.map_err(refusal)?;
        Ok(ListToolsResult::with_all_items(tools.into_iter().map(listed).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let bearer = bearer(&context)?;
        let args = Value::Object(request.arguments.unwrap_or_default());
        let (progress, reports) = mpsc::channel(limits::MCP_PROGRESS_QUEUE_MAX);
        // A caller without a token did not ask to be told.
        let progress = context.meta.get_progress_token().is_some().then_some(progress);
        let name = request.name.into_owned();
        let call = relay::call(&self.host, bearer, name, args, progress);
        let answer = self.open.lasting(bearer, &context, call, reports).await.map_err(refusal)?;
        match answer {
            // What another server answered is passed on as it is.
            ToolAnswer::Value(value) if value["content"].is_array() => {
                serde_json::from_value::<CallToolResult>(value)
                    .map(whole)
                    .map_err(|error| refusal(Fault::new(Code::ParseFailed, error.to_string())))
            }
            ToolAnswer::Value(value) => Ok(CallToolResult::structured(value).into()),
            ToolAnswer::Error { code: Code::UnknownTool, message } => {
                Err(refusal(Fault::new(Code::UnknownTool, message)))
            }
            ToolAnswer::Error { code, message } => {
                Ok(CallToolResult::structured_error(json!({ "code": code, "message": message }))
                    .into())
            }
        }
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

/// A foreign result for this caller. The revision 2026-07-28 wants `resultType`, which older servers do
/// not send; the library leaves it out for callers of older revisions.
fn whole(mut result: CallToolResult) -> CallToolResponse {
    result.result_type.get_or_insert(ResultType::COMPLETE);
    result.into()
}

/// Who asks: the guard before every route has put it there.
fn bearer(context: &RequestContext<RoleServer>) -> Result<Bearer, ErrorData> {
    let caller = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get());
    match caller {
        Some(Caller::Run(bearer)) => Ok(*bearer),
        Some(Caller::Person(_)) | None => {
            Err(refusal(Fault::new(Code::Unauthorized, "the request names no run")))
        }
    }
}

fn listed(tool: Listed) -> Tool {
    let annotations = ToolAnnotations::new().read_only(!tool.writes);
    Tool::new(tool.name, tool.description, Arc::new(tool.schema)).with_annotations(annotations)
}

/// A fault as an error of the protocol.
fn refusal(fault: Fault) -> ErrorData {
    let code = match fault.code {
        Code::UnknownTool | Code::Usage => ErrorCode::INVALID_PARAMS,
        Code::Unauthorized | Code::FenceStale | Code::Conflict => ErrorCode::INVALID_REQUEST,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let data = json!({ "code": fault.code, "hint": fault.hint_on(Surface::Tool) });
    ErrorData::new(code, fault.message, Some(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relayed_results_say_that_they_are_complete() {
        let older = json!({ "content": [{ "type": "text", "text": "7" }], "isError": true });
        let result: CallToolResult = serde_json::from_value(older).unwrap();
        let CallToolResponse::Complete(result) = whole(result) else { panic!("it is complete") };
        let told = serde_json::to_value(result).unwrap();
        assert_eq!((&told["resultType"], &told["isError"]), (&json!("complete"), &json!(true)));
    }
}
