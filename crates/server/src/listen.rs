//! The address, and the connections that come to it. Each connection is bounded before anyone reads
//! what it says: its headers in number, size and time, and how many others there are. What is asked
//! over it is the business of `auth.rs` and the routes.

use crate::places::{Place, Places};
use crate::{App, auth, mcp, router};
use axum::body::Body;
use axum::extract::ConnectInfo;
use contract::{Code, Fault, limits};
use host::Host;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

/// How long to wait when the system gives no connection: it has no more descriptors, or no memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A listening server that does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// The address that is meant.
pub(crate) fn parsed(address: &str) -> Result<SocketAddr, Fault> {
    address.parse().map_err(|error| {
        Fault::new(Code::Usage, format!("--listen {address}: {error}"))
            .with_hint("give an address such as 127.0.0.1:7717")
    })
}

/// Takes the address. Only loopback: the API of the owner is spoken without encryption.
pub async fn listen(address: &str) -> Result<Listening, Fault> {
    let parsed = parsed(address)?;
    if !parsed.ip().is_loopback() {
        let message = format!("--listen {address}: only loopback addresses can be listened on");
        return Err(Fault::new(Code::NotSupported, message).with_hint("use 127.0.0.1 and a tunnel"));
    }
    let (listener, address) = bind(parsed).await?;
    Ok(Listening { listener, address })
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
        let router = router(App {
            mcp: mcp::service(&host, &guard),
            host,
            guard,
            watchers: Arc::new(Semaphore::new(limits::WATCHERS_MAX)),
            sign_ins: Arc::default(),
            keyed: Arc::default(),
        });
        let places = Places::new(limits::CONNECTIONS_MAX);
        let (leaving, _) = watch::channel(());
        let mut stop = pin!(stop);
        loop {
            let (stream, peer, place) = tokio::select! {
                next = next(&self.listener, &places) => next,
                () = &mut stop => break,
            };
            tokio::spawn(converse(stream, peer, router.clone(), leaving.subscribe(), place));
        }
        drop(self.listener);
        let _ = leaving.send(());
        // The last connection takes its end of the channel with it.
        leaving.closed().await;
        Ok(())
    }
}

/// The next connection, with its place. While there is none the system keeps the others waiting, so
/// that a crowd at the door takes no descriptors from the runs inside.
pub(crate) async fn next(
    listener: &TcpListener,
    places: &Places,
) -> (TcpStream, SocketAddr, Place) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Events are small and awaited: they are not held back for more to come.
                let _ = stream.set_nodelay(true);
                return (stream, peer, places.take().await);
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
}

/// One connection, to its end.
pub(crate) async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: axum::Router,
    mut leaving: watch::Receiver<()>,
    place: Place,
) {
    let standing = place.standing();
    let service =
        TowerToHyperService::new(router.map_request(move |mut request: hyper::Request<_>| {
            request.extensions_mut().insert(ConnectInfo(peer));
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
        let _ = connection.await;
    }
}
