//! Where the remote listens. Beyond loopback it is encrypted, unless the owner says in so many words
//! that it need not be: a token that crosses a network in the open is no secret. Connections are
//! bounded as those of the API are, and a handshake that dawdles is not waited for.

use super::{Auth, Files, Remote, router, tls};
use crate::listen::{attend, bind, parsed};
use contract::{Code, Fault, limits};
use host::ops::session::Sessions;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// How the remote is come to.
#[derive(Debug, Clone)]
pub struct Door {
    pub address: String,
    pub auth: Auth,
    pub tls: Option<Files>,
    /// The owner says that the network may be trusted.
    pub allow_insecure: bool,
}

/// A remote that listens and does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    auth: Auth,
    acceptor: Option<TlsAcceptor>,
}

pub async fn listen(door: Door) -> Result<Listening, Fault> {
    let Door { address, auth, tls, allow_insecure } = door;
    let parsed = parsed(&address)?;
    if tls.is_none() && !allow_insecure && !parsed.ip().is_loopback() {
        let message = format!("--listen {address}: beyond loopback it must be encrypted");
        return Err(Fault::new(Code::NotSupported, message)
            .with_hint("give --cert and --key, or --allow-insecure on a network you trust"));
    }
    let acceptor = tls.as_ref().map(tls::acceptor).transpose()?;
    let (listener, address) = bind(parsed).await?;
    Ok(Listening { listener, address, auth, acceptor })
}

impl Listening {
    pub fn url(&self) -> String {
        let scheme = if self.acceptor.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `stop` resolves, then lets open requests finish.
    pub async fn serve(self, sessions: Arc<Sessions>, stop: impl Future<Output = ()>) {
        let router = router(Remote {
            sessions,
            auth: Arc::new(self.auth),
            readers: Arc::new(Semaphore::new(limits::WATCHERS_MAX)),
        });
        attend(self.listener, self.acceptor, router, stop).await;
    }
}
