//! Calls of relayed tools that do not come by the agent's own stream: MCP. Whoever shows the run's
//! token asks here; the run's driver takes the call like one that the agent wrote, so that call and
//! answer become events under the fence, exactly once, whichever way they came.
//!
//! A driver that is gone answers nothing more: the caller is told that the run is not held here.

use super::catalog::{self, Tool};
use crate::Host;
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::speech::ToolAnswer;
use contract::{Code, Fault, RunId};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::sync::{mpsc, oneshot};

/// Who shows the token of a live run: the run, and the fence the token was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bearer {
    pub run: RunId,
    pub fence: u64,
}

/// One call on its way to a driver.
#[derive(Debug)]
pub(crate) struct Asked {
    pub tool: String,
    pub args: Value,
    pub answer: oneshot::Sender<ToolAnswer>,
}

/// What the host knows of a run that is driven here.
pub(crate) struct Live {
    pub fence: u64,
    /// The hash of the run's token: looked up without deriving anything.
    pub token: blake3::Hash,
    pub tools: Vec<String>,
    pub asking: mpsc::Sender<Asked>,
}

/// The driver's end: calls that come, and callers that wait.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    asked: Option<mpsc::Receiver<Asked>>,
    /// A caller that waited for an earlier host is gone; its call is still not the agent's.
    waiting: BTreeMap<String, Option<oneshot::Sender<ToolAnswer>>>,
}

impl Callers {
    /// Takes over the calls that an earlier host did not answer.
    pub fn of(ids: Vec<String>) -> Self {
        Self { asked: None, waiting: ids.into_iter().map(|id| (id, None)).collect() }
    }

    /// Opens the way for calls.
    pub fn open(&mut self) -> mpsc::Sender<Asked> {
        let (asking, asked) = mpsc::channel(TOOL_CALLS_OPEN_MAX);
        self.asked = Some(asked);
        asking
    }

    /// The next call; waits for ever when no more can come.
    pub async fn next(&mut self) -> Asked {
        if let Some(asked) = &mut self.asked
            && let Some(next) = asked.recv().await
        {
            return next;
        }
        std::future::pending().await
    }

    pub fn wait(&mut self, id: String, answer: oneshot::Sender<ToolAnswer>) {
        self.waiting.insert(id, Some(answer));
    }

    pub fn knows(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    pub fn answer(&mut self, id: &str, answer: ToolAnswer) {
        if let Some(Some(caller)) = self.waiting.remove(id) {
            // Who has gone away meanwhile needs no answer; the event tells it.
            let _ = caller.send(answer);
        }
    }

    pub fn ids(&self) -> Vec<String> {
        self.waiting.keys().cloned().collect()
    }
}

/// The tools that are offered to this run.
pub fn tools(host: &Host, bearer: Bearer) -> Result<Vec<&'static Tool>, Fault> {
    let live = host.inner.live();
    let live = live.get(&bearer.run).filter(|live| live.fence == bearer.fence).ok_or_else(gone)?;
    Ok(live.tools.iter().filter_map(|name| catalog::find(name)).collect())
}

/// Calls a tool for this run and waits for the answer, which is durable when it comes.
pub async fn call(
    host: &Host,
    bearer: Bearer,
    tool: String,
    args: Value,
) -> Result<ToolAnswer, Fault> {
    let asking = {
        let live = host.inner.live();
        let live = live.get(&bearer.run).filter(|live| live.fence == bearer.fence);
        live.ok_or_else(gone)?.asking.clone()
    };
    let (answer, answered) = oneshot::channel();
    asking.try_send(Asked { tool, args, answer }).map_err(|error| match error {
        mpsc::error::TrySendError::Closed(_) => gone(),
        mpsc::error::TrySendError::Full(_) => {
            let message = format!("{TOOL_CALLS_OPEN_MAX} calls already wait for an answer");
            Fault::new(Code::Conflict, message)
        }
    })?;
    answered.await.map_err(|_| gone())
}

fn gone() -> Fault {
    Fault::new(Code::FenceStale, "the run has ended, or is held by someone else")
}
