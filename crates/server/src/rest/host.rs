//! The host itself: whether it lives, who it is, and its metrics.

use super::Problem;
use super::describe::{Answer, Described, Taken};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use contract::{Code, Timestamp};
use host::configuration::ConfigurationState;
use host::metrics::FromServer;
use host::{HostRole, Trouble};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

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
    configuration: ConfigurationState,
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
        configuration: app.host.configuration(),
    })
}

/// The metrics in the text format of Prometheus.
pub struct MetricsText(String);

impl IntoResponse for MetricsText {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], self.0)
            .into_response()
    }
}

impl Answer for MetricsText {
    fn describe(into: &mut Described<'_>) {
        into.answer(200, "text/plain", json!({ "type": "string" }));
    }
}

pub async fn metrics(State(app): State<App>) -> Result<MetricsText, Problem> {
    let server = FromServer { version: env!("CARGO_PKG_VERSION"), watchers: app.watchers.count() };
    Ok(MetricsText(host::metrics::text(&app.host, server).await?))
}

/// Asks the host to make room for the caller, which becomes the host as soon as the lock is free.
pub async fn hand_over(State(app): State<App>) -> Result<Taken, Problem> {
    app.host.hand_over()?;
    Ok(Taken)
}
