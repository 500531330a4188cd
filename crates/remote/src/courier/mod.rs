//! The courier: holds one session of one remote, between a keeper that speaks lines and a remote that
//! speaks HTTP. It opens the session, passes events up and words down, and takes the session away
//! again when the run is over, however that comes about. It decides nothing about the run: it says
//! what happened, and whoever drives the run makes an end of it.
//!
//! `address` says where a remote may be, `link` how it is reached, `tongue` what it speaks, `session`
//! asks for one and takes it away, `held` is one from its beginning to its end. `ear` hears it (`hook`
//! hears one that only answers) and makes a `passage` of what it heard, `mouth` speaks to it, `words`
//! are the lines. What stands between stdin, stdout and this is in the program itself.

mod address;
mod ear;
mod held;
mod hermes;
mod hook;
mod link;
mod mouth;
mod passage;
mod session;
mod tongue;
mod words;

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests await the tasks that they start")]
mod tests;

use contract::limits::{
    REMOTE_IDLE_MS, REMOTE_LOST_MS, REMOTE_PAUSE_MS, REMOTE_PAUSE_MS_MAX, REMOTE_START_MS,
};
use contract::plan::{RemoteAuth, RemoteProtocol};
use contract::{Code, Fault};
use held::Held;
use link::{Link, Trouble};
use passage::Passage;
use reqwest::Method;
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
pub use words::Said as Line;
use words::Word;

/// What a courier is told when it is started.
#[derive(Clone)]
pub struct Config {
    pub base_url: String,
    pub protocol: RemoteProtocol,
    pub auth: RemoteAuth,
    /// The value of the variable that `auth` names.
    pub token: Option<String>,
    pub ca_path: Option<String>,
    pub allow_insecure: bool,
    pub limits: Limits,
}

/// How patient a courier is.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub start: Duration,
    pub lost: Duration,
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: Duration::from_millis(REMOTE_START_MS),
            lost: Duration::from_millis(REMOTE_LOST_MS),
            idle: Duration::from_millis(REMOTE_IDLE_MS),
        }
    }
}

impl Limits {
    /// The pause before the next try.
    fn pause(&self, tries: u32) -> Duration {
        let ms = REMOTE_PAUSE_MS.saturating_mul(1 << tries.min(16));
        Duration::from_millis(ms.min(REMOTE_PAUSE_MS_MAX))
    }
}

/// What ear and mouth tell.
#[derive(Debug)]
enum News {
    /// What came of the remote in one piece.
    Lines(Passage),
    /// A service took the task, under this name.
    Opened(String),
    /// A service says that it still works.
    Alive,
    Note(String),
    Over(Fault),
}

/// The reader's side of standard input, the writer's side of standard output, and what ends us early.
pub struct Ends<Term> {
    pub lines: mpsc::Receiver<Vec<u8>>,
    pub out: mpsc::Sender<Line>,
    /// Comes when we are to leave.
    pub term: Term,
}

/// Holds one session to its end. Gives the fault that ended it, which was said already.
pub async fn carry<Term: Future<Output = ()> + Unpin>(
    config: &Config,
    mut ends: Ends<Term>,
) -> Result<(), Fault> {
    let held = match Held::begin(config, &mut ends).await {
        Ok(Some(held)) => held.run(&mut ends).await,
        Ok(None) => Ok(()),
        Err(fault) => Err(fault),
    };
    if let Err(fault) = &held {
        // If the output is closed, the keeper is gone. The exit code says the same.
        let _ = ends.out.send(told(fault).into()).await;
    }
    held
}

/// Asks a remote whether it is there, for doctor. The line says what came of it.
pub async fn greet(config: &Config) -> Result<Vec<u8>, Fault> {
    let link = Link::new(config).await?;
    let request = link.request(Method::GET, link.below(["healthz"]));
    let message = match link.answer(request).await {
        Ok(_) => "it is there and well",
        // It need not have such a place.
        Err(Trouble::Gone | Trouble::Refused(_) | Trouble::Stale) => "it is there",
        Err(Trouble::Lasting(fault)) => return Err(fault),
        Err(Trouble::Passing(why)) => return Err(Fault::new(Code::RemoteUnavailable, why)),
    };
    Ok(Word::Well { message }.line())
}

fn told(fault: &Fault) -> Vec<u8> {
    Word::Fault { code: fault.code, message: &fault.message }.line()
}
