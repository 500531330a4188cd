//! Skins over `host::ops`: REST, server-sent events and MCP. No rules live here.
//!
//! `auth.rs` stands before every route: Host, Origin, token, content type and size are checked in
//! that order, on loopback too. `rest/` has one file per noun; the table of routes in `rest/mod.rs`
//! is the whole surface and the OpenAPI document is made from it.

pub mod auth;
mod mcp;
pub mod rest;
pub mod sse;

use axum::Router;
use contract::{Code, Fault};
use host::Host;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// What every handler can reach.
#[derive(Clone)]
pub struct App {
    pub host: Host,
    pub guard: Arc<auth::Guard>,
    pub mcp: mcp::Service,
    /// Places for watchers; a watcher is a cursor and costs little, but not nothing.
    pub watchers: Arc<Semaphore>,
}

/// A listening server that does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// Takes the address. Only loopback for now: anything else needs TLS, which comes with remotes.
pub async fn listen(address: &str) -> Result<Listening, Fault> {
    let parsed: SocketAddr = address.parse().map_err(|error| {
        Fault::new(Code::Usage, format!("--listen {address}: {error}"))
            .with_hint("give an address such as 127.0.0.1:7717")
    })?;
    if !parsed.ip().is_loopback() {
        let message = format!("--listen {address}: only loopback addresses can be listened on");
        return Err(Fault::new(Code::NotSupported, message).with_hint("use 127.0.0.1 and a tunnel"));
    }
    let failed = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::AddrInUse => Code::PortInUse,
            _ => Code::Usage,
        };
        Fault::new(code, format!("listening on {address}: {error}"))
    };
    let listener = TcpListener::bind(parsed).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listening { listener, address })
}

impl Listening {
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `stop` resolves, then lets open requests finish.
    pub async fn serve(
        self,
        host: Host,
        token: String,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let guard = Arc::new(auth::Guard::new(token, self.address));
        let app = App {
            mcp: mcp::service(&host, &guard),
            host,
            guard,
            watchers: Arc::new(Semaphore::new(contract::limits::WATCHERS_MAX)),
        };
        axum::serve(self.listener, router(app)).with_graceful_shutdown(stop).await
    }
}

/// Every route behind its guard.
pub fn router(app: App) -> Router {
    rest::routes()
        .layer(axum::extract::DefaultBodyLimit::max(contract::limits::BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(app.clone(), auth::check))
        .with_state(app)
}
