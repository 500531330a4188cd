//! The host itself: whether it lives and who it is.

use super::Problem;
use super::describe::Taken;
use crate::App;
use axum::Json;
use axum::extract::State;
use contract::{Code, Timestamp};
use host::{HostRole, Trouble};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct Health {
    ok: bool,
}

pub async fn healthz() -> Json<Health> {
    Json(Health { ok: true })
}

/// Who hosts this data directory.
#[derive(Serialize, JsonSchema)]
pub struct HostView {
    version: &'static str,
    pid: u32,
    live_runs: usize,
    store: StoreView,
    /// Whether it stays until it is stopped.
    serves: bool,
    role: HostRole,
}

/// How its store is.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum StoreView {
    Ok,
    Trouble { code: Code, since: Timestamp },
}

pub async fn show(State(app): State<App>) -> Json<HostView> {
    let store = match app.host.trouble() {
        None => StoreView::Ok,
        Some(Trouble { code, since, .. }) => StoreView::Trouble { code, since },
    };
    Json(HostView {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        live_runs: app.host.live_runs(),
        store,
        serves: app.host.serves(),
        role: app.host.role(),
    })
}

/// Asks the host to make room for the caller, which becomes the host as soon as the lock is free.
pub async fn hand_over(State(app): State<App>) -> Result<Taken, Problem> {
    app.host.hand_over()?;
    Ok(Taken)
}
