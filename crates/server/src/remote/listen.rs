//! Where the remote listens. Beyond loopback it is encrypted, unless the owner says in so many words
//! that it need not be: a token that crosses a network in the open is no secret. Connections are
//! bounded as those of the API are, and a handshake that dawdles is not waited for.

use super::guard::Guard;
use super::{Auth, Files, Remote, router, tls};
use crate::listen::{attend, bind, parsed};
use crate::names::Names;
use axum::http::Uri;
use axum::http::uri::Authority;
use contract::{Code, Fault, limits};
use host::ops::session::Sessions;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
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
    /// The name by which callers come here, where it is not its address.
    pub public_url: Option<String>,
}

/// A remote that listens and does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    auth: Auth,
    acceptor: Option<TlsAcceptor>,
    public_url: Option<String>,
}

pub async fn listen(door: Door) -> Result<Listening, Fault> {
    let Door { address, auth, tls, allow_insecure, public_url } = door;
    let parsed = parsed(&address)?;
    if tls.is_none() && !allow_insecure && !parsed.ip().is_loopback() {
        let message = format!("--listen {address}: connections beyond loopback must be encrypted");
        return Err(Fault::new(Code::NotSupported, message)
            .with_hint("give --cert and --key, or --allow-insecure on a network you trust"));
    }
    if let Some(url) = public_url.as_deref().filter(|url| !is_whole(url)) {
        return Err(Fault::new(
            Code::Usage,
            format!("--public-url {url}: not the URL of a server"),
        )
        .with_hint("write the URL that callers use, such as https://agents.example.net"));
    }
    let acceptor = tls.as_ref().map(tls::acceptor).transpose()?;
    let (listener, address) = bind(parsed).await?;
    Ok(Listening { listener, address, auth, acceptor, public_url })
}

fn is_whole(url: &str) -> bool {
    let parts = url.parse::<Uri>().map(Uri::into_parts);
    let is_name = |authority: &Authority| !authority.as_str().contains('@');
    parts.is_ok_and(|parts| parts.scheme.is_some() && parts.authority.as_ref().is_some_and(is_name))
}

impl Listening {
    fn scheme(&self) -> &'static str {
        if self.acceptor.is_some() { "https" } else { "http" }
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }

    /// Serves until `stop` resolves, then lets open requests finish.
    pub async fn serve(self, sessions: Arc<Sessions>, stop: impl Future<Output = ()>) {
        let names = Names::beyond(self.scheme(), self.address, self.public_url.as_deref());
        let router = router(Remote {
            sessions,
            guard: Arc::new(Guard::new(self.auth, names)),
            readers: Arc::new(Semaphore::new(limits::WATCHERS_MAX)),
        });
        let patience = Duration::from_millis(limits::STALLED_MS);
        attend(self.listener, self.acceptor, patience, router, stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_door_in_the_clear_beyond_loopback_or_by_half_a_name_is_not_opened() {
        let refused = async |address: &str, allow_insecure: bool, public_url: Option<&str>| {
            let (address, public_url) = (address.to_owned(), public_url.map(str::to_owned));
            let door =
                Door { address, auth: Auth::Connected, tls: None, allow_insecure, public_url };
            listen(door).await.err().map(|fault| fault.code)
        };
        let (here, everywhere) = ("127.0.0.1:0", "0.0.0.0:0");
        assert_eq!(refused(here, false, None).await, None);
        assert_eq!(refused(everywhere, false, None).await, Some(Code::NotSupported));
        assert_eq!(refused(everywhere, true, None).await, None);
        assert_eq!(refused(here, false, Some("https://agents.example.net")).await, None);
        for half in ["agents.example.net", "/agents", "https://me@agents.example.net", ""] {
            assert_eq!(refused(here, false, Some(half)).await, Some(Code::Usage), "{half:?}");
        }
    }
}
