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
pub mod workspace;

use batch::Deeds;
use contract::plan::Adapter;
use contract::{Code, Fault, RunId};
use data::DataDir;
use drive::{Drive, Left};
use engine::rules::price::PriceTable;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use store::{Seal, Store};
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
    /// How long a lease is good for without renewal.
    pub lease_ms: u64,
    /// How strongly agents are to be held.
    pub isolation: keeper::plan::Level,
    /// Whether this host is here to stay: it does not make room for another.
    pub serves: bool,
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
    pub lease_ms: u64,
    pub isolation: keeper::plan::Level,
    serves: bool,
    /// Where this host listens; agents are told.
    address: OnceLock<String>,
    live: Mutex<HashSet<RunId>>,
    /// What must be kept out of the events of runs that this host drove and has to take over from
    /// itself, because their lease ran out.
    seals: Mutex<HashMap<RunId, Seal>>,
    /// How many reasons there are to stay: live runs, watchers, clients at work.
    reasons: watch::Sender<usize>,
    /// Tells every driver and watcher that this host is about to stop.
    leaving: watch::Sender<bool>,
    /// Tells this process that another wants to be the host.
    handover: watch::Sender<bool>,
}

impl Host {
    pub fn new(setup: Setup) -> Self {
        let Setup {
            data,
            store,
            program,
            token,
            prices,
            organization,
            environment,
            resolve,
            lease_ms,
            isolation,
            serves,
        } = setup;
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
            lease_ms,
            isolation,
            serves,
            address: OnceLock::new(),
            live: Mutex::default(),
            seals: Mutex::default(),
            reasons: watch::Sender::new(0),
            leaving: watch::Sender::new(false),
            handover: watch::Sender::new(false),
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
        let live: Vec<RunId> = self.inner.live().iter().copied().collect();
        // Comparing two blake3 hashes takes the same time whatever they are.
        live.into_iter()
            .find(|run| blake3::hash(self.inner.lease_token(*run, 1).as_bytes()) == given)
    }

    /// A reason for the host to stay, for as long as the guard lives.
    pub fn attach(&self) -> Attached {
        self.inner.attach()
    }

    /// From now on looks every half lease for runs whose lease ran out and that nobody here drives:
    /// those that could not be taken over at first, or whose driver had to let go.
    pub fn tend(&self) {
        let (house, pause) = (Arc::downgrade(&self.inner), self.inner.lease_ms / 2);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let Some(inner) = house.upgrade() else { return };
                // A store in trouble is asked again in time.
                let _ = adopt::reap(&Host { inner }).await;
            }
        });
    }

    /// Whether this host is here to stay.
    pub fn serves(&self) -> bool {
        self.inner.serves
    }

    /// Another process wants to be the host. One that serves does not make room.
    pub fn hand_over(&self) -> Result<(), Fault> {
        if self.inner.serves {
            let message = format!("a server hosts this data directory at {}", self.inner.address());
            return Err(Fault::new(Code::Conflict, message));
        }
        self.inner.handover.send_replace(true);
        Ok(())
    }

    /// Waits until another process asks to be the host.
    pub async fn handover_asked(&self) {
        let mut handover = self.inner.handover.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = handover.wait_for(|asked| *asked).await;
    }

    /// Whether another process has asked to be the host.
    pub fn is_asked_for(&self) -> bool {
        *self.inner.handover.borrow()
    }

    /// Changes when this host is about to stop.
    pub fn leaving(&self) -> watch::Receiver<bool> {
        self.inner.leaving()
    }

    /// Tells drivers and watchers that this host stops.
    pub fn let_go(&self) {
        self.inner.leaving.send_replace(true);
    }

    /// Renews every lease to the full window, lets go of the runs and closes the store. The runs go
    /// on with their keepers until the next host takes over.
    pub async fn close(&self) {
        self.let_go();
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

    fn live(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_here(&self, run: RunId) -> bool {
        self.live().contains(&run)
    }

    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        let mut leaving = self.leaving.subscribe();
        if *leaving.borrow() {
            leaving.mark_changed();
        }
        leaving
    }

    /// The runs that are driven here.
    pub(crate) fn held(&self) -> Vec<RunId> {
        self.live().iter().copied().collect()
    }

    pub(crate) fn seals(&self) -> MutexGuard<'_, HashMap<RunId, Seal>> {
        self.seals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives a run in a task of its own. If its driver panics the run is ended as lost: nothing
    /// inside Ostler may leave a run without an end.
    pub(crate) fn drive(self: &Arc<Self>, drive: Drive, deeds: Option<Deeds>) {
        let host = Host { inner: Arc::clone(self) };
        let run = drive.run;
        self.live().insert(run);
        self.reasons.send_modify(|reasons| *reasons += 1);
        tokio::spawn(async move {
            let left = tokio::spawn(drive.run(deeds)).await;
            host.inner.live().remove(&run);
            // In either case the store keeps what it has, and the next look tries again.
            match left {
                Ok(Left::Done) => {}
                Ok(Left::Expired(seal)) => {
                    host.inner.seals().extend(seal.map(|seal| (run, seal)));
                    let _ = adopt::reap(&host).await;
                }
                Err(_) => {
                    let _ = adopt::give_up(&host, run).await;
                }
            }
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
