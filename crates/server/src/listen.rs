//! The address, and the connections that come to it. Each connection is bounded before anyone reads
//! what it says: its headers in number, size and time, how many others there are, and how long a write
//! waits for whoever does not read (`patience.rs`). What is asked
//! over it is the business of `auth.rs` and the routes.

use crate::names::Names;
use crate::patience::{Hurry, Patient};
use crate::places::{Place, Places};
use crate::remote::{Files, tls};
use crate::watchers::Watchers;
use crate::{App, auth, mcp, router};
use axum::body::Body;
use axum::extract::ConnectInfo;
use contract::{Code, Fault, limits};
use host::Host;
use host::supervise;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

/// How long to wait when the system gives no connection: it has no more descriptors, or no memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How the API is come to.
#[derive(Debug, Clone, Default)]
pub struct Door {
    pub address: String,
    /// A certificate with its chain, and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The owner says that the network may be trusted.
    pub allow_insecure: bool,
    /// The name by which others come here.
    pub public_url: Option<String>,
    /// How long a write waits for whoever does not read; as the house has it when absent.
    pub stalled_ms: Option<u64>,
}

/// A listening server that does not serve yet. Commands and agents of this machine come by loopback,
/// without encryption; whoever comes from elsewhere, or by TLS, has a door of its own.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    outer: Option<Outer>,
    patience: Duration,
}

/// The door for those who come from elsewhere.
struct Outer {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    public_url: Option<String>,
}

/// The address that is meant.
pub(crate) fn parsed(address: &str) -> Result<SocketAddr, Fault> {
    address.parse().map_err(|error| {
        Fault::new(Code::Usage, format!("--listen {address}: {error}"))
            .with_hint("give an address such as 127.0.0.1:7717")
    })
}

/// Takes an address of loopback: there the API of the owner is spoken without encryption.
pub async fn listen(address: &str) -> Result<Listening, Fault> {
    open(Door { address: address.to_owned(), ..Door::default() }).await
}

/// Takes the address. Beyond loopback it is encrypted, unless the owner says in so many words that it
/// need not be: a token that crosses a network in the open is no secret.
pub async fn open(door: Door) -> Result<Listening, Fault> {
    let Door { address, tls, allow_insecure, public_url, stalled_ms } = door;
    let patience = Duration::from_millis(stalled_ms.unwrap_or(limits::STALLED_MS));
    let parsed = parsed(&address)?;
    if tls.is_none() && !allow_insecure && !parsed.ip().is_loopback() {
        let message = format!("--listen {address}: connections beyond loopback must be encrypted");
        return Err(Fault::new(Code::NotSupported, message).with_hint(
            "set server.tls, or use 127.0.0.1 and a tunnel; \
             server.allowInsecure is for a network you trust",
        ));
    }
    if tls.is_none() && parsed.ip().is_loopback() {
        let (listener, address) = bind(parsed).await?;
        return Ok(Listening { listener, address, outer: None, patience });
    }
    let files = |(cert, key)| Files { cert, key, client_ca: None, client_name: None };
    let acceptor = tls.map(|pair| tls::acceptor(&files(pair))).transpose()?;
    let (listener, address) = bind(parsed).await?;
    let outer = Some(Outer { listener, address, acceptor, public_url });
    let (listener, address) = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    Ok(Listening { listener, address, outer, patience })
}

/// Takes the port.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Fault> {
    let failed = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::AddrInUse => Code::PortInUse,
            _ => Code::Usage,
        };
        Fault::new(code, format!("listening on {address}: {error}"))
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

impl Outer {
    fn scheme(&self) -> &'static str {
        if self.acceptor.is_some() { "https" } else { "http" }
    }

    fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }
}

impl Listening {
    /// Where commands and agents of this machine come to.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where others come to, as the owner said it.
    pub fn front(&self) -> String {
        self.outer.as_ref().map_or_else(|| self.url(), Outer::url)
    }

    /// What a link for a browser begins with.
    fn link_base(&self) -> String {
        match &self.outer {
            Some(Outer { public_url: Some(url), .. }) => url.trim_end_matches('/').to_owned(),
            Some(outer) if !outer.address.ip().is_unspecified() => outer.url(),
            // Nobody can go to the address that stands for all of them.
            Some(_) | None => self.url(),
        }
    }

    /// Serves until `stop` resolves, then lets open requests finish.
    pub async fn serve(
        self,
        host: Host,
        token: String,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let link_base = self.link_base().into();
        let patience = self.patience;
        let guard = Arc::new(auth::Guard::new(token.clone(), Names::local(self.address)));
        let app = App {
            mcp: mcp::service(&host, &guard),
            host,
            guard,
            watchers: Watchers::default(),
            sign_ins: Arc::default(),
            keyed: Arc::default(),
            link_base,
        };
        let (over, mut is_over) = watch::channel(());
        let outside = self.outer.map(|outer| {
            let public = outer.public_url.as_deref();
            let names = Names::beyond(outer.scheme(), outer.address, public);
            let guard = Arc::new(auth::Guard::new(token, names));
            let app = App { mcp: mcp::service(&app.host, &guard), guard, ..app.clone() };
            let stop = async move {
                // The sender is dropped when the first listener has stopped.
                let _ = is_over.changed().await;
            };
            let serving = attend(outer.listener, outer.acceptor, patience, router(app), stop);
            supervise::spawn("outer listener", serving)
        });
        attend(self.listener, None, patience, router(app), stop).await;
        drop(over);
        if let Some(outside) = outside {
            // Only a panic is left to be dropped here, and `supervise` has logged it.
            let _ = outside.await;
        }
        Ok(())
    }
}

/// Who came: from where, and how what is written to them is hurried.
struct Peer {
    address: SocketAddr,
    hurry: Hurry,
}

/// Answers whoever comes until `stop` resolves, then lets open requests finish.
pub(crate) async fn attend(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    patience: Duration,
    router: axum::Router,
    stop: impl Future<Output = ()>,
) {
    let places = Places::new(limits::CONNECTIONS_MAX);
    let (leaving, _) = watch::channel(());
    let mut stop = pin!(stop);
    loop {
        let (stream, address, place) = tokio::select! {
            next = next(&listener, &places) => next,
            () = &mut stop => break,
        };
        let stream = Patient::new(stream, patience);
        let peer = Peer { address, hurry: stream.hurry() };
        let (router, leaving) = (router.clone(), leaving.subscribe());
        match acceptor.clone() {
            None => {
                supervise::spawn("connection", converse(stream, peer, router, leaving, place));
            }
            Some(acceptor) => {
                let greeted = greet(acceptor, (stream, peer), router, leaving, place);
                supervise::spawn("connection", greeted);
            }
        }
    }
    drop(listener);
    // Without a receiver no connection is open.
    let _ = leaving.send(());
    // The last connection takes its end of the channel with it.
    leaving.closed().await;
}

/// Agrees on the encryption, then talks. Who is refused there is told by the protocol itself.
async fn greet(
    acceptor: TlsAcceptor,
    (stream, peer): (Patient, Peer),
    router: axum::Router,
    leaving: watch::Receiver<()>,
    place: Place,
) {
    let agreed =
        tokio::time::timeout(Duration::from_millis(limits::HANDSHAKE_MS), acceptor.accept(stream));
    match agreed.await {
        Ok(Ok(stream)) => converse(stream, peer, router, leaving, place).await,
        Ok(Err(error)) => tracing::debug!(peer = %peer.address, %error, "a TLS handshake failed"),
        Err(error) => tracing::debug!(peer = %peer.address, %error, "a TLS handshake timed out"),
    }
}

/// The next connection, with its place. While there is none the system keeps the others waiting, so
/// that a crowd at the door takes no descriptors from the runs inside.
async fn next(listener: &TcpListener, places: &Places) -> (TcpStream, SocketAddr, Place) {
    let mut is_logged = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Events are small and awaited: they are not held back for more to come. Where this
                // fails they are only later.
                let _ = stream.set_nodelay(true);
                return (stream, peer, places.take().await);
            }
            // A peer that has given up already.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Once for all of its retries: there may be no descriptors for a while.
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(%error, "no connection can be accepted; trying again");
                }
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// One connection, to its end.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: axum::Router,
    mut leaving: watch::Receiver<()>,
    place: Place,
) {
    let standing = place.standing();
    let service =
        TowerToHyperService::new(router.map_request(move |mut request: hyper::Request<_>| {
            request.extensions_mut().insert(ConnectInfo(peer.address));
            // Whoever asks now is not whose stream lost its worth, as it is behind a proxy.
            peer.hurry.relax();
            request.extensions_mut().insert(peer.hurry.clone());
            request.extensions_mut().insert(standing.clone());
            request.map(Body::new)
        }));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEADER_MS))
        .max_headers(limits::HEADERS_MAX)
        .max_buf_size(limits::UNSENT_BYTES_MAX)
        .max_header_size(limits::HEADER_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // How a connection ends is the peer's affair; there is nobody to tell.
    let over = tokio::select! {
        _ = connection.as_mut() => true,
        _ = leaving.changed() => false,
        // Someone who may have a token needs the place of one who has shown none.
        () = place.asked_to_go() => true,
    };
    if !over {
        connection.as_mut().graceful_shutdown();
        // How it ends is the peer's affair.
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    /// What is answered to these words, after which nothing more is said, and after how long.
    async fn answered(words: &str) -> (String, Duration) {
        let (mut ours, theirs) = tokio::io::duplex(1 << 20);
        let router = axum::Router::new().route("/", get(async || "it was read"));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let peer = Peer { address, hurry: Hurry::default() };
        let (_staying, leaving) = watch::channel(());
        let place = Places::new(1).take().await;
        let (begun, mut answer) = (Instant::now(), String::new());
        let asking = async {
            ours.write_all(words.as_bytes()).await.unwrap();
            ours.read_to_string(&mut answer).await.unwrap();
        };
        tokio::join!(converse(theirs, peer, router, leaving, place), asking);
        (answer, begun.elapsed())
    }

    #[tokio::test]
    async fn beyond_loopback_nothing_is_opened_in_the_clear_unless_the_owner_says_so() {
        for (address, allow_insecure, opens) in [
            ("127.0.0.1:0", false, true),
            ("0.0.0.0:0", false, false),
            ("[::]:0", false, false),
            ("0.0.0.0:0", true, true),
        ] {
            let opened = open(Door { address: address.into(), allow_insecure, ..Door::default() });
            let code = opened.await.err().map(|fault| fault.code);
            assert_eq!(code, (!opens).then_some(Code::NotSupported), "{address} {allow_insecure}");
        }
    }

    #[tokio::test]
    async fn a_request_has_so_many_headers_of_such_a_size_and_no_more() {
        let many = |count: usize| "x-many: 1\r\n".repeat(count);
        let long = |bytes: usize| format!("x-long: {}\r\n", "x".repeat(bytes));
        for (headers, status) in [
            (many(limits::HEADERS_MAX - 2), "200"),
            (many(limits::HEADERS_MAX - 1), "431"),
            (long(limits::HEADER_BYTES_MAX - 200), "200"),
            (long(limits::HEADER_BYTES_MAX), "431"),
        ] {
            let head = "GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n";
            let (answer, _) = answered(&format!("{head}{headers}\r\n")).await;
            assert_eq!(answer.split(' ').nth(1), Some(status), "{} bytes", headers.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_whole_request_by_its_time_is_waited_for_no_longer() {
        let bound = Duration::from_millis(limits::HEADER_MS);
        for half in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: here\r\nx-slow: "] {
            let (answer, took) = answered(half).await;
            assert!(!answer.contains("it was read"), "{half:?}: {answer}");
            assert!((bound..bound * 2).contains(&took), "{half:?}: {took:?}");
        }
    }
}
