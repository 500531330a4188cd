//! The client side of one MCP connection: what it says of itself, how it is opened at each revision,
//! and one call of a tool with its progress and its cancellation.
//!
//! A connection is opened by `server/discover` of revision 2026-07-28. A server that does not know it is
//! opened by `initialize` of revision 2025-11-25. No capability is declared, so a server may ask nothing
//! of this client; a question to a person is declined all the same, and any other is an error.

use super::progress::{Listeners, Ordered, ProgressTo};
use crate::ops::relay::CallProgress;
use crate::supervise;
use contract::limits::MCP_TOOLS_MAX;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientConfig, ClientRequest, Implementation, InputRequest,
    InputRequests, InputResponses, PaginatedRequestParams, ProgressToken, ProtocolVersion,
    RequestId, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions,
    RoleClient, RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use tokio::sync::mpsc;

/// Rounds in which a server may ask again before it answers.
const ROUNDS_MAX: usize = 8;

/// A connection that was opened.
pub(super) type Connection = RunningService<RoleClient, Client>;

/// What a connection says of itself, and who hears the progress of its calls.
#[derive(Clone, Default)]
pub(super) struct Client {
    listeners: Listeners,
}

impl rmcp::ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.client_info = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }
}

/// The way a connection is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// `server/discover`, and `initialize` if the server refuses that.
    DiscoverFirst,
    /// `initialize` at once: for a server that does not survive a question it does not know.
    Initialize,
}

/// Opens a connection.
pub(super) async fn open<T, E, A>(
    transport: T,
    opening: Opening,
) -> Result<Connection, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let lifecycle = match opening {
        Opening::DiscoverFirst => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        Opening::Initialize => ClientLifecycleMode::Initialize,
    };
    let client = Client::default();
    let listeners = client.listeners.clone();
    let transport = Ordered { inner: transport.into_transport(), listeners };
    client.serve_with_lifecycle(transport, lifecycle).await
}

/// How a server that failed so may be tried once more: it answered nothing that can be understood, and
/// did not refuse this client.
pub(super) fn another_opening(error: &ClientInitializeError) -> Option<Opening> {
    match error {
        // The answer to the first question came after the second was asked: the server was slow to start.
        ClientInitializeError::ConflictInitResponseId(..) => Some(Opening::DiscoverFirst),
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => Some(Opening::Initialize),
        ClientInitializeError::TransportError { .. } if error.auth_challenge().is_none() => {
            Some(Opening::Initialize)
        }
        _ => None,
    }
}

/// The tools of a server, as many as are listed.
pub(super) async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(page)).await?;
        // A page without tools is the last one, whatever it says: pages without end are not followed.
        let is_empty = page.tools.is_empty();
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || is_empty || tools.len() >= MCP_TOOLS_MAX {
            tools.truncate(MCP_TOOLS_MAX);
            return Ok(tools);
        }
    }
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum CallError {
    Service(ServiceError),
    /// The server wants an answer of its user or its caller first.
    WantsInput,
}

/// Calls a tool. Progress goes to `progress`; if the call is dropped, the server is told that it is
/// cancelled.
pub(super) async fn call(
    connection: &Connection,
    mut params: CallToolRequestParams,
    progress: Option<mpsc::Sender<CallProgress>>,
) -> Result<CallToolResult, CallError> {
    for _ in 0..ROUNDS_MAX {
        match call_once(connection, params.clone(), progress.clone()).await {
            Ok(ServerResult::CallToolResult(result)) => return Ok(result),
            Ok(ServerResult::InputRequiredResult(result)) => {
                let responses = declined(result.input_requests.unwrap_or_default())?;
                if responses.is_empty() && result.request_state.is_none() {
                    return Err(CallError::WantsInput);
                }
                params.input_responses = (!responses.is_empty()).then_some(responses);
                params.request_state = result.request_state;
            }
            Ok(_) => return Err(CallError::Service(ServiceError::UnexpectedResponse)),
            Err(error) => return Err(CallError::Service(error)),
        }
    }
    Err(CallError::WantsInput)
}

/// The answers to what a server asks of the person who called: there is none to ask, so each question
/// is declined, as over the older revisions. What a model or a file system is asked for is an error.
fn declined(requests: InputRequests) -> Result<InputResponses, CallError> {
    let declined = requests.into_iter().map(|(key, request)| match request {
        InputRequest::Elicitation(_) => Ok((key, serde_json::json!({ "action": "decline" }))),
        _ => Err(CallError::WantsInput),
    });
    declined.collect()
}

async fn call_once(
    connection: &Connection,
    params: CallToolRequestParams,
    progress: Option<mpsc::Sender<CallProgress>>,
) -> Result<ServerResult, ServiceError> {
    let mut request = CallToolRequest::new(params);
    if let Some(progress) = progress {
        request.extensions.insert(ProgressTo(progress));
    }
    let request = ClientRequest::CallToolRequest(request);
    let options = PeerRequestOptions::no_options();
    let handle = connection.send_cancellable_request(request, options).await?;
    let mut open = OpenCall {
        peer: connection.peer().clone(),
        listeners: connection.service().listeners.clone(),
        token: handle.progress_token.clone(),
        request: Some(handle.id.clone()),
    };
    let result = handle.await_response().await;
    open.request = None;
    result
}

/// A call that was sent. Dropped before its answer, it tells the server that nobody waits for it.
struct OpenCall {
    peer: Peer<RoleClient>,
    listeners: Listeners,
    token: ProgressToken,
    /// None once the call was answered.
    request: Option<RequestId>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.listeners.forget(&self.token);
        let Some(request) = self.request.take() else { return };
        // Without a runtime the process ends, and its connections with it.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let peer = self.peer.clone();
        supervise::spawn("cancel MCP call", async move {
            let cancelled = CancelledNotification::new(CancelledNotificationParam::new(
                Some(request),
                Some("the caller no longer waits".to_owned()),
            ));
            // A connection that is closed has no open calls.
            let _ = peer.send_notification(cancelled.into()).await;
        });
    }
}
