//! Events that a service sends by itself, with its run's own token, instead of by a stream that someone
//! here reads. The run's driver hears them like lines of the agent, in the order in which they came,
//! and commits them before they are answered for: there is no process that could lose them, so they
//! need no spool, and whoever is told that they were taken finds them in the store.
//!
//! The shapes are those of `crates/runtimes/src/remote/callback.rs`, the way in is
//! `crates/server/src/rest/callback.rs`.

use super::relay::{Asked, Bearer, gone};
use crate::Host;
use crate::drive::{Drive, Leave};
use contract::{Fault, RunId};
use engine::{Input, Now};
use runtimes::{Frame, Out, Stream, registry};
use serde_json::Value;
use tokio::sync::oneshot;

/// Where a service finds the host of its run.
pub(crate) fn url(address: &str, run: RunId) -> String {
    format!("{address}/api/v1/runs/{run}/callback")
}

/// Events on their way to a driver.
#[derive(Debug)]
pub(crate) struct CalledBack {
    pub given: Value,
    pub taken: oneshot::Sender<Result<(), Fault>>,
}

/// Takes the events of a service. They are durable when this is answered.
pub async fn take(host: &Host, bearer: Bearer, given: Value) -> Result<(), Fault> {
    let asking = {
        let live = host.inner.live();
        let live = live.get(&bearer.run).filter(|live| live.fence == bearer.fence);
        live.ok_or_else(gone)?.asking.clone()
    };
    let (taken, answered) = oneshot::channel();
    let called = Asked::CalledBack(CalledBack { given, taken });
    // Whoever calls faster than the run is written waits here, with its connection.
    asking.send(called).await.map_err(|_| gone())?;
    answered.await.map_err(|_| gone())?
}

impl Drive {
    /// Hears what a service called back with. All of it, or nothing.
    pub(crate) async fn take_called_back(
        &mut self,
        now: Now,
        called: CalledBack,
    ) -> Result<(), Leave> {
        let CalledBack { given, taken } = called;
        let lines = match registry::called_back(&self.dialect.save(), &given) {
            Ok(lines) => lines,
            Err(fault) => {
                // The caller may have disconnected; then it needs no answer.
                let _ = taken.send(Err(fault));
                return Ok(());
            }
        };
        self.step(now, Input::Heard);
        let mut out = Out::default();
        for line in &lines {
            let bytes = line.trim_ascii_end();
            let frame = Frame { stream: Stream::Stdout, line: 0, bytes, cut: false };
            self.dialect.hear(&frame, &mut out);
            // No line of the trace has it.
            out.drafts.iter_mut().for_each(|draft| draft.raw = None);
            self.await_prices(&out).await;
            self.spread(now, &mut out);
        }
        self.joiner.flush(&mut self.pending.drafts);
        self.settle_what_is_pending().await?;
        // The same: the caller may have disconnected.
        let _ = taken.send(Ok(()));
        Ok(())
    }
}
