//! The host itself: whether it lives, who it is, and the door for MCP that is not built yet.

use super::Problem;
use crate::App;
use axum::Json;
use axum::extract::State;
use contract::{Code, Fault};
use host::Trouble;
use serde_json::{Value, json};

pub async fn healthz() -> Json<Value> {
    Json(json!({ "ok": true }))
}

pub async fn show(State(app): State<App>) -> Json<Value> {
    let store = match app.host.trouble() {
        None => json!({ "state": "ok" }),
        Some(Trouble { code, since, .. }) => {
            json!({ "state": "trouble", "code": code, "since": since })
        }
    };
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "live_runs": app.host.live_runs(),
        "store": store,
    }))
}

pub async fn mcp() -> Problem {
    Problem(
        Fault::new(Code::NotSupported, "tools are not offered by MCP yet")
            .with_hint("call them by tool_call lines of the process protocol"),
    )
}
