//! Reloads the configuration while a server works: when the file has changed, and on SIGHUP. A file that
//! cannot be read, or has a fault, leaves everything as it was and is reported once. Only budgets are
//! taken over; everything else in the file counts from the next start on.

use crate::config;
use contract::Fault;
use host::Host;
use host::blocking::{self, Bulkhead};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::Signal;

const LOOK: Duration = Duration::from_secs(1);

/// The metadata that tells one state of a file from another; `None` when the file is not there.
type Mark = Option<(u64, i64, i64, u64)>;

/// Follows the file and the signal for as long as this is polled.
pub async fn follow(host: Host, path: Option<PathBuf>, mut hangup: Signal) {
    let Some(path) = path else {
        while hangup.recv().await.is_some() {
            tracing::warn!("SIGHUP: there is no configuration file to reload");
        }
        return std::future::pending().await;
    };
    let mut seen = mark(&path).await;
    loop {
        let is_asked = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            _ = hangup.recv() => true,
        };
        let now = mark(&path).await;
        if now == seen && !is_asked {
            continue;
        }
        seen = now;
        match reload(&host, &path).await {
            Err(fault) => {
                tracing::error!(
                    code = fault.code.word(),
                    error = fault.message,
                    detail = fault.detail,
                    path = %path.display(),
                    "the configuration was not reloaded; the previous one stays in force"
                );
            }
            Ok(()) if is_asked => tracing::info!(
                path = %path.display(),
                "SIGHUP: reloaded the budgets; other settings count after a restart"
            ),
            Ok(()) => tracing::info!(
                path = %path.display(),
                "the file changed: reloaded the budgets; other settings count after a restart"
            ),
        }
    }
}

async fn reload(host: &Host, path: &Path) -> Result<(), Fault> {
    let file = path.to_owned();
    let read =
        blocking::spawn(Bulkhead::Data, "read configuration", move || config::load(Some(&file)))
            .await;
    let read = read.map_err(|error| {
        Fault::new(contract::Code::InternalError, format!("reading the configuration: {error}"))
    })?;
    host.set_budgets(read?.budgets()).await.map(drop)
}

async fn mark(path: &Path) -> Mark {
    let file = path.to_owned();
    let found = blocking::probe(path, "look at the configuration", move || std::fs::metadata(file));
    let found = found.await.ok()?.ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}
