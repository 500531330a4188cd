//! Relayed tools by MCP: streamable HTTP, without sessions, in the current and the older revisions.
//!
//! Who asks is told by the bearer token alone, on every request; nothing is remembered between two.
//! Each call goes to the run's driver and comes back as its answer. What a tool refuses is a tool's
//! result with its code; what is no tool, or no longer this run's, is an error of the protocol.

use crate::App;
use crate::auth::{Caller, Guard};
use crate::rest::Problem;
use crate::rest::describe::{Mcp, Sent};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use contract::speech::ToolAnswer;
use contract::{Code, Fault, limits};
use host::Host;
use host::ops::relay::{self, Bearer, Listed};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::sync::Arc;

/// What speaks MCP for all runs of a host.
pub type Service = StreamableHttpService<Relay, NeverSessionManager>;

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
    let relay = Relay { host: host.clone() };
    StreamableHttpService::new(
        move || Ok(relay.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// One message of a client.
pub async fn take(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Sent<Mcp>, Problem> {
    match caller {
        Caller::Run(_) => Ok(Sent::new(app.mcp.handle(request).await.map(Body::new))),
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
        let answer = relay::call(&self.host, bearer, request.name.into_owned(), args)
            .await
            .map_err(refusal)?;
        match answer {
            // What another server answered is passed on as it is.
            ToolAnswer::Value(value) if value["content"].is_array() => {
                serde_json::from_value::<CallToolResult>(value)
                    .map(Into::into)
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
    let data = json!({ "code": fault.code, "hint": fault.hint() });
    ErrorData::new(code, fault.message, Some(data))
}
