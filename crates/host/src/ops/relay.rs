//! Calls of relayed tools that do not come by the agent's own stream: MCP. Whoever shows the run's
//! token asks here; the run's driver takes the call like one that the agent wrote, so that call and
//! answer become events under the fence, exactly once, whichever way they came.
//!
//! A driver that is gone answers nothing more: the caller is told that the run is not held here.

use super::callback::CalledBack;
use super::catalog::{self, Tool};
use crate::Host;
use crate::upstream::Upstream;
use crate::workspace::Workspace;
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::speech::ToolAnswer;
use contract::{Code, Draft, Fault, RunId};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// Who shows the token of a live run: the run, and the fence the token was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bearer {
    pub run: RunId,
    pub fence: u64,
}

/// What comes to a driver beside the agent's own stream.
#[derive(Debug)]
pub(crate) enum Asked {
    Call(Called),
    /// The caller of an open call no longer waits for its answer.
    Left {
        tool_call_id: String,
    },
    /// Something the run is to be told.
    Note(Box<Draft>),
    /// Events of a service that calls back.
    CalledBack(CalledBack),
}

/// A tool as it is listed.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: String,
    pub description: String,
    pub writes: bool,
    /// The JSON Schema of its arguments.
    pub schema: Map<String, Value>,
}

/// One call on its way to a driver.
#[derive(Debug)]
pub(crate) struct Called {
    pub tool: String,
    pub args: Value,
    pub answer: oneshot::Sender<ToolAnswer>,
    /// Where the caller hears how the call proceeds, if it asked for that.
    pub progress: Option<mpsc::Sender<CallProgress>>,
}

/// How far a call is, as the server of its tool reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallProgress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// The caller of one call, as seen by the code that carries the call out.
#[derive(Debug, Default)]
pub(crate) struct CallerLine {
    pub progress: Option<mpsc::Sender<CallProgress>>,
    /// Resolves when the caller has left. None for a caller that cannot leave: the agent itself.
    left: Option<oneshot::Receiver<Infallible>>,
}

impl CallerLine {
    /// Waits until the caller has left.
    pub async fn has_left(&mut self) {
        match &mut self.left {
            // The other end is dropped, and sends nothing.
            Some(left) => drop(left.await),
            None => std::future::pending().await,
        }
    }
}

/// A caller that waits for its answer.
#[derive(Debug)]
struct Caller {
    answer: oneshot::Sender<ToolAnswer>,
    progress: Option<mpsc::Sender<CallProgress>>,
    /// Dropped with the caller, which ends what is done for it.
    present: Option<oneshot::Sender<Infallible>>,
}

/// What the host knows of a run that is driven here.
pub(crate) struct Live {
    pub fence: u64,
    /// The hash of the run's token: looked up without deriving anything. None once it has ended.
    pub token: Option<blake3::Hash>,
    pub tools: Vec<String>,
    pub upstream: Arc<Upstream>,
    pub workspace: Arc<Workspace>,
    pub asking: mpsc::Sender<Asked>,
    pub shown: crate::Shown,
    /// Where its agent was told to find its host.
    pub told: Option<String>,
    /// Knows what must be kept out of everything about this run.
    pub seal: store::Seal,
}

/// The driver's end: calls that come, and callers that wait.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    asked: Option<mpsc::Receiver<Asked>>,
    /// A caller that waited for an earlier host is gone; its call is still not the agent's.
    waiting: BTreeMap<String, Option<Caller>>,
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

    /// The next call, or the next caller that has gone; waits for ever when neither can come.
    pub async fn next(&mut self) -> Asked {
        std::future::poll_fn(|cx| {
            if let Some(left) = self.poll_left(cx) {
                return Poll::Ready(left);
            }
            match self.asked.as_mut().map(|asked| asked.poll_recv(cx)) {
                Some(Poll::Ready(Some(next))) => Poll::Ready(next),
                // The way for calls was closed, and is not asked again.
                Some(Poll::Ready(None)) => {
                    self.asked = None;
                    Poll::Pending
                }
                Some(Poll::Pending) | None => Poll::Pending,
            }
        })
        .await
    }

    /// A caller that no longer waits; told once. Its call stays known, so that its answer is not taken
    /// for one of the agent's own.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Option<Asked> {
        for (id, caller) in &mut self.waiting {
            let has_left =
                caller.as_mut().is_some_and(|caller| caller.answer.poll_closed(cx).is_ready());
            if has_left {
                *caller = None;
                return Some(Asked::Left { tool_call_id: id.clone() });
            }
        }
        None
    }

    pub fn wait(
        &mut self,
        id: String,
        answer: oneshot::Sender<ToolAnswer>,
        progress: Option<mpsc::Sender<CallProgress>>,
    ) {
        self.waiting.insert(id, Some(Caller { answer, progress, present: None }));
    }

    /// The line to the caller of a call that is about to be carried out.
    pub fn line(&mut self, id: &str) -> CallerLine {
        match self.waiting.get_mut(id) {
            // The agent called by its own stream.
            None => CallerLine::default(),
            Some(caller) => {
                let (present, left) = oneshot::channel();
                // A caller that has left already drops its end here.
                let progress = caller.as_mut().and_then(|caller| {
                    caller.present = Some(present);
                    caller.progress.take()
                });
                CallerLine { progress, left: Some(left) }
            }
        }
    }

    pub fn knows(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    pub fn answer(&mut self, id: &str, answer: ToolAnswer) {
        if let Some(Some(caller)) = self.waiting.remove(id) {
            // Who has gone away meanwhile needs no answer; the event tells it.
            let _ = caller.answer.send(answer);
        }
    }

    pub fn ids(&self) -> Vec<String> {
        self.waiting.keys().cloned().collect()
    }
}

/// The tools that are offered to this run.
pub async fn tools(host: &Host, bearer: Bearer) -> Result<Vec<Listed>, Fault> {
    let (offered, upstream) = {
        let live = host.inner.live();
        let live = live.get(&bearer.run).filter(|live| live.fence == bearer.fence);
        let live = live.ok_or_else(gone)?;
        (live.tools.clone(), Arc::clone(&live.upstream))
    };
    let own = offered.iter().filter_map(|name| catalog::find(name)).map(listed);
    let foreign = upstream.tools().await.into_iter();
    let foreign = foreign.filter(|tool| engine::run::offers(&offered, &tool.name));
    Ok(own.chain(foreign).collect())
}

fn listed(tool: &Tool) -> Listed {
    let schema = match tool.schema() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let (name, description) = (tool.name.to_owned(), tool.description.to_owned());
    Listed { name, description, writes: tool.writes, schema }
}

/// Calls a tool for this run and waits for the answer, which is durable when it comes.
pub async fn call(
    host: &Host,
    bearer: Bearer,
    tool: String,
    args: Value,
    progress: Option<mpsc::Sender<CallProgress>>,
) -> Result<ToolAnswer, Fault> {
    let asking = {
        let live = host.inner.live();
        let live = live.get(&bearer.run).filter(|live| live.fence == bearer.fence);
        live.ok_or_else(gone)?.asking.clone()
    };
    let (answer, answered) = oneshot::channel();
    asking.try_send(Asked::Call(Called { tool, args, answer, progress })).map_err(|error| {
        match error {
            mpsc::error::TrySendError::Closed(_) => gone(),
            mpsc::error::TrySendError::Full(_) => {
                let message = format!("{TOOL_CALLS_OPEN_MAX} calls already wait for an answer");
                Fault::new(Code::Conflict, message)
            }
        }
    })?;
    answered.await.map_err(|_| gone())
}

pub(super) fn gone() -> Fault {
    Fault::new(Code::FenceStale, "the run has ended, or belongs to another host")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{callback, snapshot};
    use crate::{chance, plain};
    use futures::FutureExt as _;

    #[tokio::test]
    async fn only_the_token_of_the_present_fence_of_a_live_run_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let token = |run, fence| host.inner.lease_token(run, fence);
        let (run, other) = (chance::run_id(), chance::run_id());
        let mut callers = Callers::default();
        let live = Live {
            shown: Default::default(),
            told: None,
            seal: Default::default(),
            fence: 2,
            token: Some(blake3::hash(token(run, 2).as_bytes())),
            tools: vec!["get_budget".to_owned()],
            upstream: Arc::default(),
            workspace: Arc::new(Workspace::again(dir.path())),
            asking: callers.open(),
        };
        host.inner.live().insert(run, live);
        let bearer = Bearer { run, fence: 2 };
        assert_eq!(host.run_of_token(&token(run, 2)), Some(bearer));
        for wrong in [token(run, 1), token(run, 3), token(other, 2), String::new()] {
            assert_eq!(host.run_of_token(&wrong), None);
        }
        let named: Vec<_> =
            tools(&host, bearer).await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(named, ["get_budget"]);

        // Who was let in under an earlier fence is refused by the time of the call, at once.
        for stale in [Bearer { run, fence: 1 }, Bearer { run: other, fence: 2 }] {
            let calling = call(&host, stale, "get_budget".to_owned(), Value::Null, None);
            let calling_back = callback::take(&host, stale, Value::Null);
            let answers = [
                tools(&host, stale).now_or_never().map(|answer| answer.err()),
                calling.now_or_never().map(|answer| answer.err()),
                calling_back.now_or_never().map(|answer| answer.err()),
                snapshot::take(&host, stale).now_or_never().map(|answer| answer.err()),
            ];
            let codes = answers.map(|answer| answer.flatten().map(|fault| fault.code));
            assert_eq!(codes, [Some(Code::FenceStale); 4], "{stale:?}");
        }
        // A token ends before the end of its run is seen.
        host.inner.end_token(run);
        assert_eq!(host.run_of_token(&token(run, 2)), None);
        // And who waits for a driver that lets go hears of it.
        let waiting = call(&host, bearer, "get_budget".to_owned(), Value::Null, None);
        let letting_go = async {
            assert!(matches!(callers.next().await, Asked::Call(_)));
            drop(callers);
        };
        let (answer, ()) = tokio::join!(waiting, letting_go);
        assert_eq!(answer.unwrap_err().code, Code::FenceStale);
    }

    #[tokio::test]
    async fn an_answer_goes_to_who_asked_and_to_nobody_twice() {
        let mut callers = Callers::of(vec!["mcp_old".to_owned()]);
        let (answer, answered) = oneshot::channel();
        callers.wait("mcp_new".to_owned(), answer, None);
        assert!(callers.knows("mcp_old") && callers.knows("mcp_new") && !callers.knows("1"));
        assert_eq!(callers.ids(), ["mcp_new", "mcp_old"]);
        for id in ["mcp_new", "mcp_new", "mcp_old", "1"] {
            callers.answer(id, ToolAnswer::Value(Value::Null));
        }
        assert_eq!(answered.await, Ok(ToolAnswer::Value(Value::Null)));
        assert!(callers.ids().is_empty());
    }

    #[tokio::test]
    async fn caller_that_left_is_told_once() {
        let mut callers = Callers::default();
        let _asking = callers.open();
        let (answer, answered) = oneshot::channel();
        callers.wait("mcp_1".to_owned(), answer, None);
        assert!(callers.next().now_or_never().is_none(), "it waits");
        let mut line = callers.line("mcp_1");
        assert!(line.has_left().now_or_never().is_none(), "it is still there");
        drop(answered);
        let told = callers.next().now_or_never();
        assert!(matches!(told, Some(Asked::Left { tool_call_id }) if tool_call_id == "mcp_1"));
        assert!(callers.next().now_or_never().is_none() && callers.knows("mcp_1"));
        // What is done for it ends, and nothing is begun for it; the agent's own calls go on.
        assert!(line.has_left().now_or_never().is_some());
        assert!(callers.line("mcp_1").has_left().now_or_never().is_some());
        assert!(callers.line("own").has_left().now_or_never().is_none());
    }
}
