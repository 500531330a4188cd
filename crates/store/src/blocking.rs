//! Runs file work on the threads of the runtime that may block. The caller waits for it, so that a panic
//! becomes an error of the caller.

use crate::error::Error;

/// Runs `work` and gives its answer; `doing` is for the error of a panic.
pub(crate) async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let span = tracing::info_span!("task", task_name = doing);
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is awaited, and a panic becomes an error of the caller"
    )]
    let done = tokio::task::spawn_blocking(move || span.in_scope(work)).await;
    done.map_err(|cause| Error::unreadable(doing, cause))
}
