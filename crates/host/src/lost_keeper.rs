//! A keeper that is gone or hangs: what it left is ended, so that its run can end. Which pings a keeper
//! must answer, and by when, is `engine::rules::keeper_ping`; the pings are sent by `perform.rs`.

use crate::adopt::{self, LOOK_PAUSE};
use crate::blocking::{self, Bulkhead};
use crate::cleanup;
use crate::clock;
use crate::drive::{Drive, Ending, Leave, next_report};
use crate::keeping::Keeping;
use crate::supervise;
use crate::trace::warning;
use contract::RunId;
use contract::limits::KEEPER_KILLED_MS;
use keeper::door;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// How long an answer that is overdue is looked for in the socket.
const LAST_LOOK_MS: u64 = 500;

impl Drive {
    pub(crate) async fn notice_keeper_gone(&mut self) -> Result<(), Leave> {
        self.keeping = None;
        let gone = self.end_leftovers().await;
        if self.ending == Ending::Running {
            if !gone {
                return Err(Leave::CutOff);
            }
            self.ending = Ending::KeeperGone;
        }
        Ok(())
    }

    /// Ends a keeper that did not answer a ping in time, with everything it holds, so that its run can
    /// end.
    pub(crate) async fn end_hung_keeper(&mut self) -> Result<(), Leave> {
        let is_overdue = |keeping: &Option<Keeping>| {
            keeping.as_ref().is_some_and(|keeping| keeping.is_overdue(clock::now().mono_ms))
        };
        // The answer may have come while this host was busy or stopped, and wait in the socket.
        let last_look = clock::now().mono_ms + LAST_LOOK_MS;
        while is_overdue(&self.keeping) && clock::now().mono_ms < last_look {
            let report = next_report(&mut self.keeping);
            match tokio::time::timeout(Duration::from_millis(LAST_LOOK_MS), report).await {
                Ok(Some(report)) => self.report(clock::now(), report),
                Ok(None) => return self.notice_keeper_gone().await,
                // No report has come: the keeper hangs.
                Err(_) => break,
            }
        }
        if !is_overdue(&self.keeping) {
            return Ok(());
        }
        let keeping = self.keeping.take();
        let keeper_pid = keeping.as_ref().and_then(Keeping::keeper_pid);
        let (spool, run, child) = (self.spool.clone(), self.run, self.child.take());
        let end = move || end_hung(&spool, run, keeper_pid, child);
        let ended = blocking::spawn(Bulkhead::Wait, "end keeper", end).await;
        // Not before: an open connection is why the pid is still the keeper's.
        drop(keeping);
        let told = match ended {
            Ok(true) => "the keeper of this run hung and was ended",
            // `supervise` has logged the panic; whether the keeper lives is unknown then.
            Ok(false) | Err(_) => "the keeper of this run hangs and could not be ended",
        };
        tracing::warn!("{told}");
        self.pending.drafts.push(warning(told.to_owned()));
        if self.ending == Ending::Running {
            self.ending = Ending::KeeperGone;
        }
        Ok(())
    }

    /// A keeper that left without a word was killed, and could not sweep: what it left is ended
    /// before the run is. One that only let go of us lives on, and is left alone: false.
    async fn end_leftovers(&mut self) -> bool {
        let (spool, run) = (self.spool.clone(), self.run);
        let end = move || {
            adopt::await_end(&spool);
            let gone = !keeper::door::is_alive(&spool);
            if gone {
                adopt::end_leftovers(&spool, run);
            }
            gone
        };
        blocking::spawn(Bulkhead::Wait, "end keeper", end).await.unwrap_or(true)
    }
}

/// Kills a keeper that hangs and what it left. Blocking. Gives whether the keeper is gone: one that is
/// in an uninterruptible wait for a disk ends when that wait does.
fn end_hung(spool: &Path, run: RunId, keeper_pid: Option<i32>, child: Option<Child>) -> bool {
    if let Some(pid) = keeper_pid {
        keeper::mark::end_hung(pid);
    }
    if let Some(mut child) = child {
        // One that has ended already needs no signal.
        let _ = child.kill();
        if let Err(error) = supervise::thread("wait for keeper", move || cleanup::wait(&mut child))
        {
            tracing::warn!(%error, "a keeper that was ended stays a zombie: no thread can be started");
        }
    }
    let until_ms = clock::now().mono_ms + KEEPER_KILLED_MS;
    while door::is_alive(spool) && clock::now().mono_ms < until_ms {
        std::thread::sleep(LOOK_PAUSE);
    }
    adopt::end_leftovers(spool, run);
    !door::is_alive(spool)
}
