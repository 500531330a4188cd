//! The feed of the whole board, server-sent: which run, task, question or agent changed, never what. A hint is small,
//! bounded and may be lost; whoever lost some is told so and reads again, so nothing waits for a slow
//! reader. Whoever comes, or comes back, is told the same first: what happened before is in the store.

use crate::App;
use crate::auth::Caller;
use crate::patience::Hurry;
use crate::rest::describe::{Hints as OfHints, Sent};
use crate::rest::{Options, Problem};
use crate::watchers::{Leash, WatcherPlace};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use bytes::Bytes;
use contract::{AgentId, RunId, TaskId, sse};
use futures::stream;
use host::Attached;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{Hint, Hints};

/// A comment is sent this often when there is nothing else, so that a dead peer is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "FeedHint")]
pub enum Hinted {
    /// Its events now go up to this one.
    Run {
        run_id: RunId,
        head_seq: u64,
        settled: bool,
    },
    Task {
        task_id: TaskId,
    },
    /// What this run asks of people is not what it was.
    Asks {
        run_id: RunId,
    },
    Agent {
        agent_id: AgentId,
    },
    /// Some hints are not here: read everything that is shown again.
    Missed,
}

impl From<Hint> for Hinted {
    fn from(hint: Hint) -> Self {
        match hint {
            Hint::Run { run, head_seq, settled } => Self::Run { run_id: run, head_seq, settled },
            Hint::Task { task, begun: _ } => Self::Task { task_id: task },
            Hint::Asks { run } => Self::Asks { run_id: run },
            Hint::Agent { agent } => Self::Agent { agent_id: agent },
            Hint::Missed => Self::Missed,
        }
    }
}

struct Watcher {
    hints: Hints,
    /// The number of the last hint that was sent.
    sent: u64,
    leash: Leash,
    _attached: Attached,
    _place: WatcherPlace,
}

/// There is nothing to choose.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoQuery {}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(hurry): Extension<Hurry>,
    Options(NoQuery {}): Options<NoQuery>,
) -> Result<Sent<OfHints>, Problem> {
    let place = app.watchers.take(&caller)?;
    let watcher = Watcher {
        hints: app.host.store().feed(),
        sent: 0,
        leash: Leash::of(&app.host, &caller, hurry),
        _attached: app.host.attach(),
        _place: place,
    };
    let body = Body::from_stream(stream::unfold(watcher, async |mut watcher| {
        let bytes = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), watcher))
    }));
    Ok(Sent::new(([(header::CONTENT_TYPE, "text/event-stream")], body)))
}

impl Watcher {
    /// The next bytes to send; `None` when the host leaves, or the token is good no more.
    async fn next(&mut self) -> Option<Bytes> {
        if self.sent == 0 {
            return Some(self.frame(Hinted::Missed));
        }
        tokio::select! {
            biased;
            () = self.leash.over() => None,
            hint = tokio::time::timeout(KEEP_ALIVE, self.hints.next()) => match hint {
                Ok(hint) => Some(self.frame(hint?.into())),
                // No hint came in time.
                Err(_) => Some(Bytes::from_static(sse::STILL_HERE)),
            },
        }
    }

    fn frame(&mut self, hint: Hinted) -> Bytes {
        self.sent += 1;
        let mut out = Vec::new();
        // These few fields can always be written.
        let bytes = serde_json::to_vec(&hint).unwrap_or_default();
        sse::write(self.sent, &bytes, |bytes| out.extend_from_slice(bytes));
        out.into()
    }
}
