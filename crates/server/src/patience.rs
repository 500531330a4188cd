//! How long a write waits for whoever does not read. A peer whose window stays shut makes no progress,
//! and nothing of ours is asked meanwhile: neither a stream for its next piece, nor the stream whether
//! its token is still good. So the wait is bounded here, below everything that is said, and whoever
//! gives streams out can hurry it from elsewhere. What was sent is the peer's; a watcher comes again
//! with its last number.

use futures::task::AtomicWaker;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A connection whose writes do not wait for ever.
pub struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Since the last progress, while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    hurry: Hurry,
}

/// Says to a connection that what it writes has lost its worth. Cheap to clone; requests carry it.
#[derive(Clone, Default)]
pub struct Hurry(Arc<Hurried>);

#[derive(Default)]
struct Hurried {
    on: AtomicBool,
    waiting: AtomicWaker,
}

impl Hurry {
    /// From now on a write that would wait ends the connection; one that need not is left alone, so
    /// that whoever reads is told of the end as usual.
    pub fn press(&self) {
        self.0.on.store(true, Ordering::SeqCst);
        self.0.waiting.wake();
    }

    /// What comes next over this connection is written with patience again.
    pub fn relax(&self) {
        self.0.on.store(false, Ordering::SeqCst);
    }
}

impl Patient {
    pub fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, hurry: Hurry::default() }
    }

    pub fn hurry(&self) -> Hurry {
        self.hurry.clone()
    }

    /// Passes on what came of a write, unless it waits and has waited long enough.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        // Registered before it is looked at, so that none is missed.
        self.hurry.0.waiting.register(cx.waker());
        let is_over =
            waiting.as_mut().poll(cx).is_ready() || self.hurry.0.on.load(Ordering::SeqCst);
        if !is_over {
            return Poll::Pending;
        }
        // What nobody read is not kept by the system either.
        let _ = self.stream.set_zero_linger();
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.bounded(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        this.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, into)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests await the tasks that they start")]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Long enough that nothing here lasts so long.
    const NEVER: Duration = Duration::from_secs(3600);
    /// Long enough for whatever is to happen here.
    const SOON: Duration = Duration::from_secs(20);
    /// More than the system takes by itself.
    const MUCH: usize = 64 << 20;

    async fn pair(patience: Duration) -> (Patient, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Patient::new(listener.accept().await.unwrap().0, patience), peer)
    }

    #[tokio::test]
    async fn a_write_that_nobody_reads_ends_and_one_that_is_read_slowly_does_not() {
        let (mut stream, _peer) = pair(Duration::from_millis(50)).await;
        let much = vec![0; MUCH];
        let ended = tokio::time::timeout(SOON, stream.write_all(&much)).await.expect("it ends");
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);

        let (mut stream, mut peer) = pair(NEVER).await;
        let reading = tokio::spawn(async move {
            let (mut count, mut piece) = (0, vec![0; 1 << 20]);
            while count < MUCH {
                count += peer.read(&mut piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        stream.write_all(&vec![0; MUCH]).await.unwrap();
        reading.await.unwrap();
    }

    #[tokio::test]
    async fn a_write_that_is_hurried_ends_only_if_it_would_wait() {
        let (mut stream, mut peer) = pair(NEVER).await;
        let hurry = stream.hurry();
        hurry.press();
        stream.write_all(b"the last words").await.unwrap();
        let mut heard = [0; 14];
        peer.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"the last words");
        hurry.relax();
        let writing = tokio::spawn(async move { stream.write_all(&vec![0; MUCH]).await });
        // Something has come, so the write is under way; nobody reads the rest.
        peer.readable().await.unwrap();
        assert!(!writing.is_finished(), "it waits");
        hurry.press();
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
