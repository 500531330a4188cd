//! The only room that acts. It holds the store, starts keepers, drives runs, and offers everything
//! the product can do as `ops`; the server, the CLI and relayed tools are skins over those.
//!
//! One `Host` per data directory at a time: whoever holds the lock (`data.rs`). Each live run is one
//! task (`drive.rs`) that owns its machine, its dialect and its keeper's socket. What time it is and
//! what is random comes from `clock.rs` and `chance.rs` alone.

pub mod adopt;
mod batch;
pub mod chance;
pub mod clock;
pub mod data;
mod drive;
pub mod environment;
pub mod frame;
mod intake;
mod keeping;
pub mod ops;
mod perform;
mod trace;
pub mod workspace;

use batch::Deeds;
use contract::plan::Adapter;
use contract::{Fault, RunId};
use data::DataDir;
use drive::Drive;
use engine::rules::price::PriceTable;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use store::Store;
use store::seal::Seal;
use tokio::sync::watch;

/// How long drivers may take to let go of their runs.
const LET_GO_MAX: Duration = Duration::from_secs(5);

/// Finds the adapter that an agent's name stands for, in the host's own configuration.
pub type Resolve = Box<dyn Fn(&str) -> Result<Adapter, Fault> + Send + Sync>;

/// What a host is made of.
pub struct Setup {
    pub data: DataDir,
    pub store: Store,
    /// The product's own binary: keepers and the demo agent are started from it.
    pub program: PathBuf,
    /// The token of the data directory; every secret of a run is derived from it.
    pub token: String,
    pub prices: PriceTable,
    pub organization: String,
    /// The environment of the host's own process, for runs asked for by name alone.
    pub environment: BTreeMap<String, String>,
    pub resolve: Resolve,
}

/// A cheap handle to the host of a data directory.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub data: DataDir,
    pub store: Store,
    pub program: PathBuf,
    pub token: String,
    pub prices: PriceTable,
    pub organization: String,
    pub environment: BTreeMap<String, String>,
    pub resolve: Resolve,
    /// Where this host listens; agents are told.
    address: OnceLock<String>,
    /// The runs that are driven here, each with the seal that knows its secrets.
    live: Mutex<HashMap<RunId, Seal>>,
    /// How many reasons there are to stay: live runs, watchers, clients at work.
    reasons: watch::Sender<usize>,
    /// Tells every driver that this host is about to stop.
    leaving: watch::Sender<()>,
}

impl Host {
    pub fn new(setup: Setup) -> Self {
        let Setup { data, store, program, token, prices, organization, environment, resolve } =
            setup;
        // Leftovers of a keeper that was killed become our children instead of init's. Where the
        // system refuses, the parent-death signal and the mark still hold.
        let _ = keeper::door::become_subreaper();
        let inner = Inner {
            data,
            store,
            program,
            token,
            prices,
            organization,
            environment,
            resolve,
            address: OnceLock::new(),
            live: Mutex::default(),
            reasons: watch::Sender::new(0),
            leaving: watch::Sender::new(()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Says where this host listens. Before that no run can start.
    pub fn listens_at(&self, address: String) {
        let _ = self.inner.address.set(address);
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn live_runs(&self) -> usize {
        self.inner.live().len()
    }

    /// The live run whose own token this is. Compared in constant time, run by run.
    pub fn run_of_token(&self, token: &str) -> Option<RunId> {
        let given = blake3::hash(token.as_bytes());
        let live: Vec<RunId> = self.inner.live().keys().copied().collect();
        // Comparing two blake3 hashes takes the same time whatever they are.
        live.into_iter()
            .find(|run| blake3::hash(self.inner.lease_token(*run, 1).as_bytes()) == given)
    }

    /// A reason for the host to stay, for as long as the guard lives.
    pub fn attach(&self) -> Attached {
        self.inner.attach()
    }

    /// Renews every lease to the full window, lets go of the runs and closes the store. The runs go
    /// on with their keepers until the next host takes over.
    pub async fn close(&self) {
        self.inner.leaving.send_replace(());
        let mut reasons = self.inner.reasons.subscribe();
        let let_go = reasons.wait_for(|_| self.inner.live().is_empty());
        // A driver that is stuck in a store's trouble is left behind like any other.
        let _ = tokio::time::timeout(LET_GO_MAX, let_go).await;
        self.inner.store.close().await;
    }

    /// Waits until nothing keeps the host any longer.
    pub async fn idle(&self) {
        let mut reasons = self.inner.reasons.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = reasons.wait_for(|reasons| *reasons == 0).await;
    }
}

impl Inner {
    pub(crate) fn attach(&self) -> Attached {
        self.reasons.send_modify(|reasons| *reasons += 1);
        Attached { reasons: self.reasons.clone() }
    }

    pub(crate) fn address(&self) -> &str {
        self.address.get().map_or("http://127.0.0.1:0", String::as_str)
    }

    fn live(&self) -> MutexGuard<'_, HashMap<RunId, Seal>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_here(&self, run: RunId) -> bool {
        self.live().contains_key(&run)
    }

    /// What seals words that are said to a run from outside.
    pub(crate) fn seal_of(&self, run: RunId) -> Seal {
        self.live().get(&run).cloned().unwrap_or_default()
    }

    pub(crate) fn leaving(&self) -> watch::Receiver<()> {
        self.leaving.subscribe()
    }

    /// Drives a run in a task of its own. If its driver panics the run is ended as lost: nothing
    /// inside Ostler may leave a run without an end.
    pub(crate) fn drive(self: &Arc<Self>, drive: Drive, deeds: Option<Deeds>) {
        let host = Host { inner: Arc::clone(self) };
        let run = drive.run;
        self.live().insert(run, drive.words.seal.clone());
        self.reasons.send_modify(|reasons| *reasons += 1);
        tokio::spawn(async move {
            if tokio::spawn(drive.run(deeds)).await.is_err() {
                // The store keeps what it has; the next host tries again.
                let _ = adopt::give_up(&host, run).await;
            }
            host.inner.live().remove(&run);
            host.inner.reasons.send_modify(|reasons| *reasons -= 1);
        });
    }

    /// The run-scoped token: derived, so that a successor knows it and nothing stores it.
    pub(crate) fn lease_token(&self, run: RunId, fence: u64) -> String {
        self.derived("lease", run, fence)
    }

    /// What a successor shows to the run's keeper.
    pub(crate) fn hello_secret(&self, run: RunId, attempt: u32) -> String {
        self.derived("hello", run, attempt.into())
    }

    fn derived(&self, purpose: &str, run: RunId, number: u64) -> String {
        let key = blake3::derive_key("ostler 2026-11 secrets of one run", self.token.as_bytes());
        let text = format!("{purpose} {run} {number}");
        blake3::keyed_hash(&key, text.as_bytes()).to_hex().to_string()
    }
}

/// See [`Host::attach`].
pub struct Attached {
    reasons: watch::Sender<usize>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.reasons.send_modify(|reasons| *reasons -= 1);
    }
}
