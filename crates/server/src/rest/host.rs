//! The host itself: whether it lives, who it is, and the door for MCP that is not built yet.

use super::Problem;
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use contract::{Code, Fault};
use serde_json::{Value, json};

pub async fn healthz() -> Json<Value> {
    Json(json!({ "ok": true }))
}

pub async fn show(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "live_runs": app.host.live_runs(),
        "serves": app.host.serves(),
    }))
}

/// Asks the host to make room for the caller, which becomes the host as soon as the lock is free.
pub async fn hand_over(State(app): State<App>) -> Result<StatusCode, Problem> {
    app.host.hand_over()?;
    Ok(StatusCode::ACCEPTED)
}

pub async fn mcp() -> Problem {
    Problem(
        Fault::new(Code::NotSupported, "tools are not offered by MCP yet")
            .with_hint("call them by tool_call lines of the process protocol"),
    )
}
