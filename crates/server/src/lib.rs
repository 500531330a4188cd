//! Skins over `host::ops`: REST, server-sent events and MCP. No rules live here.
//!
//! `listen.rs` bounds every connection, and `auth.rs` stands before every route: Host, Origin, token,
//! content type and size are checked in that order, on loopback too. `rest/` has one file per noun; the table of routes in `rest/mod.rs`
//! is the whole surface and the OpenAPI document is made from it.

pub mod auth;
pub mod feed;
pub mod keyed;
mod listen;
mod mcp;
mod names;
mod pass;
mod patience;
mod places;
mod refused;
pub mod remote;
pub mod rest;
pub mod sign_in;
pub mod sse;
mod watchers;

pub use listen::{Door, Listening, listen, open};

use axum::Router;
use host::Host;
use std::sync::Arc;

/// What every handler can reach.
#[derive(Clone)]
pub struct App {
    pub host: Host,
    pub guard: Arc<auth::Guard>,
    pub mcp: mcp::Service,
    pub watchers: watchers::Watchers,
    pub sign_ins: Arc<sign_in::SignIns>,
    pub keyed: Arc<keyed::Underway>,
    /// What a link for a browser begins with.
    pub link_base: Arc<str>,
}

/// Every route behind its guard.
pub fn router(app: App) -> Router {
    rest::routes()
        .layer(axum::extract::DefaultBodyLimit::max(contract::limits::BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(app.clone(), auth::check))
        .with_state(app)
}
