//! The host itself: whether it lives and who it is.

use super::Problem;
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
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
        "serves": app.host.serves(),
    }))
}

/// Asks the host to make room for the caller, which becomes the host as soon as the lock is free.
pub async fn hand_over(State(app): State<App>) -> Result<StatusCode, Problem> {
    app.host.hand_over()?;
    Ok(StatusCode::ACCEPTED)
}
