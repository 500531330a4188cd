//! Starts the tasks of this crate. Each has a name; a panic is logged with that name and with the run
//! whose span the task was started in, and ends that task alone. The caller of `spawn` gets the panic as
//! an error of the handle, so that it can become a fault of the run or the call.

use futures::FutureExt as _;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Runs a future in a task of its own, in the span of the caller.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let watched = async move {
        match AssertUnwindSafe(future).catch_unwind().await {
            Ok(output) => output,
            Err(panic) => {
                tracing::error!(task_name = name, "an internal task panicked");
                std::panic::resume_unwind(panic)
            }
        }
    };
    #[expect(clippy::disallowed_methods, reason = "this is the function that others call")]
    tokio::spawn(watched.in_current_span())
}

/// Runs blocking work on the threads that are there for it, in the span of the caller.
pub fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let span = tracing::Span::current();
    #[expect(clippy::disallowed_methods, reason = "this is the function that others call")]
    tokio::task::spawn_blocking(move || {
        span.in_scope(|| match std::panic::catch_unwind(AssertUnwindSafe(work)) {
            Ok(output) => output,
            Err(panic) => {
                tracing::error!(task_name = name, "an internal task panicked");
                std::panic::resume_unwind(panic)
            }
        })
    })
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
