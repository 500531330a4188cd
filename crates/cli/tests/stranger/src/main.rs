//! An agent made with the official Rust SDK of ACP. It knows nothing of Ostler, and what it says and
//! understands is the SDK's own: if it can be driven, the protocol is spoken and not only our idea
//! of it. It begins in a mode that asks nobody, offers one that asks, and does as its prompt says:
//! `wait` waits to be cancelled, anything else edits a file when it is allowed to.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ContentChunk, Diff, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, Plan, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, PromptRequest, PromptResponse, RequestPermissionOutcome,
    RequestPermissionRequest, SessionId, SessionMode, SessionModeState, SessionNotification,
    SessionUpdate, SetSessionModeRequest, SetSessionModeResponse, StopReason, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use agent_client_protocol::{Agent, Client, Result, Stdio};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The mode it is in, for its answer.
type Mode = Arc<Mutex<String>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cancelled = Arc::new(Notify::new());
    let mode = Mode::new(Mutex::new("yolo".to_owned()));
    let (of_prompt, of_cancel) = (Arc::clone(&cancelled), cancelled);
    let (asked, set) = (Arc::clone(&mode), mode);
    Agent
        .v1()
        .name("stranger")
        .on_receive_request(
            async move |hello: InitializeRequest, responder, _| {
                responder.respond(InitializeResponse::new(hello.protocol_version))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                let modes = ["yolo", "default"].map(|id| SessionMode::new(id, id)).to_vec();
                let modes = SessionModeState::new("yolo", modes);
                responder.respond(NewSessionResponse::new("stranger-1").modes(modes))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |wanted: SetSessionModeRequest, responder, _| {
                *set.lock().expect("one thread") = wanted.mode_id.to_string();
                responder.respond(SetSessionModeResponse::new())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |prompt: PromptRequest, responder, connection| {
                let (cancelled, mode) = (Arc::clone(&of_prompt), Arc::clone(&asked));
                let talk: ConnectionTo<Client> = connection;
                talk.clone().spawn(async move {
                    let stop = turn(&talk, &prompt, &cancelled, &mode).await?;
                    responder.respond(PromptResponse::new(stop))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: CancelNotification, _| {
                of_cancel.notify_one();
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}

fn text(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text))
}

async fn turn(
    talk: &ConnectionTo<Client>,
    prompt: &PromptRequest,
    cancelled: &Notify,
    mode: &Mode,
) -> Result<StopReason> {
    let session: SessionId = prompt.session_id.clone();
    let say = |update| talk.send_notification(SessionNotification::new(session.clone(), update));
    let asked = prompt.prompt.iter().find_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.clone()),
        _ => None,
    });
    let asked = asked.unwrap_or_default();
    if asked.starts_with("wait") {
        say(SessionUpdate::AgentMessageChunk(text("waiting")))?;
        cancelled.notified().await;
        return Ok(StopReason::Cancelled);
    }
    say(SessionUpdate::AgentThoughtChunk(text("a stranger asks me")))?;
    let entry = PlanEntry::new("edit", PlanEntryPriority::High, PlanEntryStatus::Pending);
    say(SessionUpdate::Plan(Plan::new(vec![entry])))?;
    let call = ToolCall::new("call-1", "edit it").kind(ToolKind::Edit);
    say(SessionUpdate::ToolCall(call.status(ToolCallStatus::Pending)))?;
    let about = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new().title("edit it"));
    let options = vec![
        PermissionOption::new("yes", "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new("no", "Reject", PermissionOptionKind::RejectOnce),
    ];
    let question = RequestPermissionRequest::new(session.clone(), about, options);
    let answer = talk.send_request(question).block_task().await?;
    let allowed = match answer.outcome {
        RequestPermissionOutcome::Selected(option) => option.option_id.to_string() == "yes",
        _ => false,
    };
    let fields = match allowed {
        true => ToolCallUpdateFields::new()
            .status(ToolCallStatus::Completed)
            .content(vec![ToolCallContent::from(Diff::new("a", "new").old_text("old".to_owned()))]),
        false => ToolCallUpdateFields::new().status(ToolCallStatus::Failed),
    };
    say(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("call-1", fields)))?;
    let mode = mode.lock().expect("one thread").clone();
    let word = if allowed { "allowed" } else { "not allowed" };
    say(SessionUpdate::AgentMessageChunk(text(&format!("in mode {mode} I was {word}"))))?;
    Ok(StopReason::EndTurn)
}
