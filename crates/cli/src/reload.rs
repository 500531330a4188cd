//! Budgets of a configuration that changes while a server works. The file is looked at every moment,
//! which costs nothing to speak of, and read again when it is another one. A file that cannot be read,
//! or has a fault, leaves everything as it was and is named once. Of everything else in it a server
//! knows what was there when it was started.

use crate::{config, terminal};
use host::Host;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(1);

/// What tells one state of a file from another; `None` when it is not there.
type Mark = Option<(u64, i64, i64, u64)>;

/// Follows the file for as long as this is waited for.
pub async fn follow(host: Host, path: Option<PathBuf>) {
    let Some(path) = path else { return std::future::pending().await };
    let mut seen = mark(&path).await;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = mark(&path).await;
        if now == seen {
            continue;
        }
        seen = now;
        let read = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || config::load(Some(&path))).await
        };
        let Ok(read) = read else { continue };
        let taken = match read {
            Ok(config) => host.set_budgets(config.budgets()).await.map(drop),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = taken {
            terminal::complain(&fault);
        }
    }
}

async fn mark(path: &Path) -> Mark {
    let found = tokio::fs::metadata(path).await.ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}
