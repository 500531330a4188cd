//! Starts the tasks of this process. Each has a name, in a span of its own below the span of the caller,
//! so that the record of a panic says which task of which run it was. A panic ends that task alone; the
//! caller of `spawn` gets it as an error of the handle, so that it can become a fault of the run or call.

use std::future::Future;
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

/// Runs blocking work on the threads that are there for it.
pub fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let span = span(name);
    #[expect(clippy::disallowed_methods, reason = "this is the function that others call")]
    tokio::task::spawn_blocking(move || span.in_scope(work))
}

fn span(name: &'static str) -> tracing::Span {
    tracing::info_span!("task", task_name = name)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn a_panic_reaches_the_handle_alone() {
        let panicking = super::spawn("test", async { panic!("on purpose") });
        let panicked: Result<(), _> = panicking.await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        let panicked = super::spawn_blocking::<()>("test", || panic!("on purpose")).await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        assert_eq!(super::spawn("test", async { 1 }).await.ok(), Some(1));
    }
}
