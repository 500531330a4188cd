//! How long a stream may go on. A request is let in by a token that is good at that moment; a stream
//! outlasts it, so it keeps asking: when the token is taken away or its time is up, the stream ends.
//! The owner's token is a file and cannot be taken away while its host lives.

use crate::auth::Caller;
use contract::{Timestamp, TokenId};
use host::Host;
use host::ops::token;
use std::time::Duration;
use tokio::sync::watch;

/// What whoever watches came in with.
pub struct Pass {
    host: Host,
    token: Option<TokenId>,
    until: Option<Timestamp>,
    changes: watch::Receiver<u64>,
    /// Whether it is to be looked at: at first, because it may have been taken away on the way here.
    due: bool,
}

impl Pass {
    pub fn of(host: &Host, caller: &Caller) -> Self {
        let (token, until) = match caller {
            Caller::Person(person) => (person.token(), person.until),
            // Its token ends with the run, and so does what it is for.
            Caller::Run(_) => (None, None),
        };
        Self { changes: host.tokens_changed(), host: host.clone(), token, until, due: true }
    }

    /// Returns when it is good no more. Dropping the future loses nothing.
    pub async fn ended(&mut self) {
        let Some(token) = self.token else { return std::future::pending().await };
        loop {
            if self.due {
                // What cannot be looked up is not good: whoever watches comes again.
                if !token::is_good(&self.host, token).await.unwrap_or(false) {
                    return;
                }
                self.due = false;
            }
            let left = self.until.map(|until| until.since(host::clock::now().wall));
            let over = async {
                match left {
                    None => std::future::pending().await,
                    Some(left) => tokio::time::sleep(Duration::from_millis(left)).await,
                }
            };
            tokio::select! {
                changed = self.changes.changed() => {
                    self.due = true;
                    if changed.is_err() {
                        return;
                    }
                }
                () = over => self.due = true,
            }
        }
    }
}
