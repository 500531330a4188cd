//! Starts the tasks of this process. Each has a name, in a span of its own below the span of the caller,
//! so that the record of a panic says which task of which run it was. A panic ends that task alone; the
//! caller of `spawn` gets it as an error of the handle, so that it can become a fault of the run or call.
//! Blocking work is started by `blocking.rs`.

use std::future::Future;
use std::io;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Runs a future in a task of its own.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "this is the function that others call")]
    tokio::spawn(future.instrument(span(name)))
}

/// Starts a thread for work that blocks and that no runtime waits for: a read that cannot be given up,
/// a child that must be waited for. Its panic is logged with the span of the caller.
pub fn thread(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let span = span(name);
    let thread = std::thread::Builder::new().name(name.to_owned());
    #[expect(clippy::disallowed_methods, reason = "this is the function that others call")]
    thread.spawn(move || span.in_scope(work)).map(drop)
}

pub(crate) fn span(name: &'static str) -> tracing::Span {
    tracing::info_span!("task", task_name = name)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn a_panic_reaches_the_handle_alone() {
        let panicking = super::spawn("test", async { panic!("on purpose") });
        let panicked: Result<(), _> = panicking.await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        assert_eq!(super::spawn("test", async { 1 }).await.ok(), Some(1));
    }
}
