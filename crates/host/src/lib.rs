//! The only room that acts. It holds the store, starts keepers, drives runs, and offers everything
//! the product can do as `ops`; the server, the CLI and relayed tools are skins over those.
//!
//! One `Host` per data directory at a time: whoever holds the lock (`data.rs`). Each live run is one
//! task (`drive.rs`) that owns its machine, its dialect and its keeper's socket. What time it is and
//! what is random comes from `clock.rs` and `chance.rs` alone.

mod abroad;
mod activity;
pub mod adopt;
pub mod adoption;
mod aead;
pub mod aside;
pub mod audit;
mod batch;
mod billing;
pub mod blocking;
pub mod chance;
mod cleanup;
pub mod clock;
pub mod configuration;
pub mod data;
pub mod diagnose;
mod dispatch;
mod drive;
mod elsewhere;
pub mod environment;
pub mod frame;
mod git;
mod intake;
mod keeping;
mod keepsake;
pub mod log_secrets;
mod lost_keeper;
mod lost_secrets;
pub mod metrics;
mod missing;
pub mod notify;
pub mod ops;
mod patch;
mod perform;
#[cfg(test)]
mod plain;
pub mod prices;
mod run_log;
mod share;
pub mod skills;
pub mod snapshot;
mod spare;
pub mod supervise;
pub mod token_file;
mod told;
mod trace;
pub mod trees;
mod trouble;
mod upstream;
mod usage;
pub mod workspace;
mod workspace_check;

pub use activity::Activity;
use batch::Deeds;
use blocking::Bulkhead;
use contract::{Code, Fault, RunId};
use data::DataDir;
use drive::{Drive, Left};
use engine::rules::overdue::Overdue;
use engine::rules::price::PriceTable;
use ops::relay::{Bearer, Live};
use prices::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use store::{Seal, Seen, Store};
use tokio::sync::watch;
use tracing::Instrument as _;
pub use trouble::Trouble;
pub use upstream::{LoginConfig, LoginSession, LoginState, Logins};

/// How long drivers may take to let go of their runs.
const LET_GO_MAX: Duration = Duration::from_secs(5);

/// Finds what an agent's name stands for in the host's own configuration.
pub type Resolve = Box<dyn Fn(&str) -> Result<ops::run::Named, Fault> + Send + Sync>;

/// What a host is made of.
pub struct Setup {
    pub data: DataDir,
    pub store: Store,
    /// The product's own binary: keepers and the demo agent are started from it.
    pub program: PathBuf,
    /// The token of the data directory; every secret of a run is derived from it.
    pub token: String,
    /// Budgets that runs share, of the whole house and of its agents.
    pub budgets: Vec<ops::limits::SharedBudget>,
    /// The person's own prices.
    pub prices: PriceTable,
    pub organization: String,
    /// Whether what agents show of their work is stored.
    pub activity: Activity,
    /// The environment of the host's own process, for runs asked for by name alone.
    pub environment: BTreeMap<String, String>,
    pub resolve: Resolve,
    /// What the configuration knows of agents.
    pub book: Box<dyn ops::agents::Book>,
    /// The program and the arguments by which people are told; none when they are not.
    pub notify: Vec<String>,
    /// What a server keeps, and how long.
    pub retention: ops::remove::Retention,
    /// Lifetime of a lease without renewal.
    pub lease_ms: u64,
    /// How strongly agents are to be held.
    pub isolation: keeper::plan::Level,
    /// How often a task of the queue is tried again by itself, at most.
    pub tries_max: Option<u32>,
    pub role: HostRole,
}

/// The kind of process that hosts a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostRole {
    /// A command that hosts for as long as it takes.
    Command,
    /// A process without a terminal that drives runs until none is left.
    Background,
    /// `ostler serve`: it does not make room for another, and someone can answer questions from
    /// elsewhere.
    Server,
}

/// What others may know of a run that is driven here; its driver keeps it true.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub asks: Vec<ops::ask::OpenAsk>,
    /// Set once the agent has said anything: by then it has said what it takes, if it ever does.
    pub heard: bool,
    pub takes_messages: bool,
    pub takes_interrupts: bool,
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
    pub keepers: Arc<spare::Keepers>,
    pub token: String,
    pub budgets: ops::budgets::Budgets,
    pub prices: Prices,
    pub organization: String,
    pub activity: Activity,
    pub environment: BTreeMap<String, String>,
    pub resolve: Resolve,
    pub book: Box<dyn ops::agents::Book>,
    configuration: Mutex<configuration::ConfigurationState>,
    notifier: Option<Arc<notify::Notifier>>,
    retention: ops::remove::Retention,
    /// Whoever takes a run away does it alone: a look at what is too old would else be taken for a
    /// backup by a person who deletes a run meanwhile.
    deleting: tokio::sync::Mutex<()>,
    pub lease_ms: u64,
    pub isolation: keeper::plan::Level,
    pub tries_max: Option<u32>,
    pub role: HostRole,
    pub serves: bool,
    /// Where this host listens; agents are told.
    address: OnceLock<String>,
    audit: audit::Audit,
    /// Links to skills in directories that others use too.
    pub(crate) links: skills::Links,
    /// Workspaces that are ours.
    pub(crate) trees: Arc<trees::Trees>,
    live: Mutex<HashMap<RunId, Live>>,
    /// The runs of an earlier host that are about to be taken over.
    adoption: watch::Sender<adoption::Awaited>,
    /// The runs that are being taken over, each by one task.
    taking_over: Mutex<HashSet<RunId>>,
    /// What must be kept out of the events of runs that this host drove and has to take over from
    /// itself, because their lease ran out.
    seals: Mutex<HashMap<RunId, Seal>>,
    /// The leases of runs that are not driven here, and since when each stands as it is.
    overdue: Mutex<Overdue<RunId, Seen>>,
    /// Runs that are being started under an id of the caller's.
    pub(crate) starting: watch::Sender<HashSet<RunId>>,
    /// Who waits for a slot and is here to ask for it.
    pub(crate) attending: watch::Sender<HashMap<RunId, usize>>,
    /// Whether a run has ended since memory was last given back.
    ended: AtomicBool,
    /// How many reasons there are to stay: live runs, watchers, clients at work.
    reasons: watch::Sender<usize>,
    /// Tells the dispatcher that who works here has changed: tasks that waited for that may go on.
    pub(crate) stirred: tokio::sync::Notify,
    /// Tells every driver and watcher that this host is about to stop.
    leaving: watch::Sender<bool>,
    /// Rises when a token was taken away: whoever came in with one looks whether it is still good.
    tokens_changed: watch::Sender<u64>,
    /// Tells this process that another wants to be the host.
    handover: watch::Sender<bool>,
    /// What is wrong with the store.
    trouble: watch::Sender<Option<Trouble>>,
}

impl Host {
    pub fn new(setup: Setup) -> Self {
        let Setup {
            data,
            store,
            program,
            token,
            budgets,
            prices,
            organization,
            activity,
            environment,
            resolve,
            book,
            notify,
            retention,
            lease_ms,
            isolation,
            tries_max,
            role,
        } = setup;
        let serves = role == HostRole::Server;
        let notifier = notify::Notifier::new(notify, &environment);
        // Leftovers of a keeper that was killed become our children instead of init's. Where the
        // system refuses, the parent-death signal and the mark still hold.
        if let Err(error) = keeper::door::become_subreaper() {
            tracing::warn!(%error, "orphaned processes are not adopted by this process");
        }
        let prices = Prices::new(prices, data.path());
        let links = skills::Links::new(data.path());
        let trees = Arc::new(trees::Trees::new(data.path(), &environment));
        let audit = audit::Audit::new(data.path());
        let keepers = Arc::new(spare::Keepers::new(program.clone(), isolation, serves));
        let inner = Inner {
            data,
            store,
            program,
            keepers,
            token,
            budgets: ops::budgets::Budgets::new(budgets),
            prices,
            organization,
            activity,
            environment,
            resolve,
            book,
            configuration: Mutex::new(configuration::ConfigurationState::loaded(None, Vec::new())),
            notifier,
            retention,
            deleting: Default::default(),
            lease_ms,
            isolation,
            tries_max,
            role,
            serves,
            address: OnceLock::new(),
            audit,
            links,
            trees,
            live: Mutex::default(),
            adoption: watch::Sender::default(),
            taking_over: Mutex::default(),
            seals: Mutex::default(),
            overdue: Mutex::default(),
            starting: watch::Sender::default(),
            attending: watch::Sender::default(),
            ended: AtomicBool::new(false),
            reasons: watch::Sender::new(0),
            stirred: tokio::sync::Notify::new(),
            leaving: watch::Sender::new(false),
            tokens_changed: watch::Sender::new(0),
            handover: watch::Sender::new(false),
            trouble: watch::Sender::new(None),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Says where this host listens. Before that no run can start.
    pub fn listens_at(&self, address: String) {
        // Set once, when the listener is open; a second call keeps the first address.
        let _ = self.inner.address.set(address);
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn live_runs(&self) -> usize {
        self.inner.live().len()
    }

    /// The live run whose own token this is. Only the fence it is held under counts.
    pub fn run_of_token(&self, token: &str) -> Option<Bearer> {
        let given = blake3::hash(token.as_bytes());
        // Comparing two blake3 hashes takes the same time whatever they are.
        let live = self.inner.live();
        let found = live.iter().find(|(_, live)| live.token == Some(given));
        found.map(|(run, live)| Bearer { run: *run, fence: live.fence })
    }

    /// Whether a token was good for this run under one of its fences, and is not any more.
    pub fn was_token_of(&self, run: RunId, token: &str) -> bool {
        let given = blake3::hash(token.as_bytes());
        let was = |fence| blake3::hash(self.inner.lease_token(run, fence).as_bytes()) == given;
        self.run_of_token(token).is_none() && (1..=contract::limits::FENCES_KNOWN_MAX).any(was)
    }

    /// Writes down that a request was refused for its token.
    pub fn token_refused(&self, fault: &Fault, refused: audit::RefusedToken) {
        self.inner.audit.refused(clock::now().wall, fault, refused);
    }

    /// A reason for the host to stay, for as long as the guard lives.
    pub fn attach(&self) -> Attached {
        self.inner.attach()
    }

    /// From now on looks every half lease for runs whose lease ran out and that nobody here drives:
    /// those that could not be taken over at first, or whose driver had to let go.
    pub fn tend(&self) {
        let (house, pause) = (Arc::downgrade(&self.inner), self.inner.lease_ms / 2);
        supervise::spawn("reap expired leases", async move {
            loop {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let Some(inner) = house.upgrade() else { return };
                if inner.ended.swap(false, Ordering::Relaxed) {
                    // What runs leave behind in the heap is scattered, so it stays ours otherwise.
                    // A panic is logged by the supervisor, and memory that is not returned is only larger.
                    let _ = blocking::spawn(Bulkhead::Data, "return memory", keeper::return_memory)
                        .await;
                }
                // A store in trouble is asked again in time.
                if let Err(fault) = adopt::reap(&Host { inner }).await {
                    tracing::warn!(
                        code = fault.code.word(),
                        error = fault.message,
                        "looking for expired leases failed"
                    );
                }
            }
        });
        blocking::watch();
        self.bury_strays();
        ops::remove::tend(self, self.inner.retention);
        self.inner.keepers.refill();
        if self.inner.serves {
            dispatch::begin(self);
        }
    }

    /// From now on waits for strangers that became our children and ended. Without it they would
    /// use up the pids of a container whose first process we are.
    fn bury_strays(&self) {
        let house = Arc::downgrade(&self.inner);
        supervise::spawn("reap child processes", async move {
            let mut strays = keeper::strays::Strays::default();
            while house.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(keeper::limits::STRAYS_LOOK_MS)).await;
                strays.look();
                if let Some(inner) = house.upgrade() {
                    inner.keepers.look();
                }
            }
        });
    }

    pub fn role(&self) -> HostRole {
        self.inner.role
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

    /// Changes when a token was taken away.
    pub fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.inner.tokens_changed.subscribe()
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
        let is_done =
            || self.inner.live().is_empty() && !self.inner.adoption.borrow().is_under_way();
        let let_go = reasons.wait_for(|_| is_done());
        // A driver that is stuck in a store's trouble is left behind like any other.
        let _ = tokio::time::timeout(LET_GO_MAX, let_go).await;
        self.inner.keepers.close().await;
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

    pub(crate) fn live(&self) -> MutexGuard<'_, HashMap<RunId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_here(&self, run: RunId) -> bool {
        self.live().contains_key(&run)
    }

    /// Counts the runs that are driven here and their open requests for approval.
    pub(crate) fn live_counts(&self) -> (usize, usize) {
        let live = self.live();
        (live.len(), live.values().map(|live| live.shown.asks.len()).sum())
    }

    /// The right to take a run over, until it is dropped. `None` while another task has it.
    pub(crate) fn begin_take_over(self: &Arc<Self>, run: RunId) -> Option<TakeOver> {
        let mut taking_over = self.taking_over.lock().unwrap_or_else(PoisonError::into_inner);
        taking_over.insert(run).then(|| TakeOver { inner: Arc::clone(self), run })
    }

    /// What seals words that are said to a run from outside.
    pub(crate) fn seal_of(&self, run: RunId) -> Seal {
        self.live().get(&run).map(|live| live.seal.clone()).unwrap_or_default()
    }

    /// From now on the run's token opens nothing.
    pub(crate) fn end_token(&self, run: RunId) {
        if let Some(live) = self.live().get_mut(&run) {
            live.token = None;
        }
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
        self.live().keys().copied().collect()
    }

    pub(crate) fn seals(&self) -> MutexGuard<'_, HashMap<RunId, Seal>> {
        self.seals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn overdue(&self) -> MutexGuard<'_, Overdue<RunId, Seen>> {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives a run in a task of its own. If its driver panics the run is ended as lost: nothing
    /// inside Ostler may leave a run without an end. A run that is driven here already keeps its driver,
    /// and this one is dropped: its keeper reconnects to the other.
    pub(crate) fn drive(self: &Arc<Self>, mut drive: Drive, deeds: Option<Deeds>) {
        let host = Host { inner: Arc::clone(self) };
        let (run, fence) = (drive.run, drive.fence);
        let asking = drive.callers.open();
        drive.bench.upstream.tells(asking.clone());
        let live = Live {
            fence: drive.fence,
            token: Some(blake3::hash(self.lease_token(run, drive.fence).as_bytes())),
            tools: drive.machine.terms().tools.clone(),
            upstream: Arc::clone(&drive.bench.upstream),
            workspace: Arc::clone(&drive.bench.workspace),
            asking,
            seal: drive.words.seal.clone(),
            shown: drive.shown(),
            told: drive.told.clone(),
        };
        let span = drive.span();
        match self.live().entry(run) {
            Entry::Vacant(place) => place.insert(live),
            Entry::Occupied(_) => {
                span.in_scope(|| tracing::error!("the run is driven here already"));
                return;
            }
        };
        log_secrets::add_run(run, drive.words.seal.clone());
        self.reasons.send_modify(|reasons| *reasons += 1);
        let watched = async move {
            let left = supervise::spawn("run driver", drive.run(deeds)).await;
            host.inner.live().remove(&run);
            host.inner.ended.store(true, Ordering::Relaxed);
            // In each case the store keeps what it has, and the next look for expired leases tries again.
            let (doing, done) = match left {
                Ok(Left::Done) => ("", Ok(())),
                Ok(Left::Expired(seal)) => {
                    tracing::warn!("the lease of the run expired before it was renewed");
                    host.inner.seals().extend(seal.map(|seal| (run, seal)));
                    ("taking the run back", adopt::retake(&host, run, fence).await)
                }
                Ok(Left::CutOff(seal)) => {
                    tracing::warn!("the keeper closed its connection to this host and lives on");
                    host.inner.seals().extend(seal.map(|seal| (run, seal)));
                    ("reconnecting to the keeper", adopt::take_up(&host, run, fence).await)
                }
                Err(_panic) => {
                    tracing::error!("the driver of the run panicked; the run is ended as lost");
                    ("ending the run as lost", adopt::give_up(&host, run).await)
                }
            };
            if let Err(fault) = done {
                tracing::warn!(code = fault.code.word(), error = fault.message, "{doing} failed");
            }
            log_secrets::remove_run(run);
            host.inner.reasons.send_modify(|reasons| *reasons -= 1);
        };
        supervise::spawn("run owner", watched.instrument(span));
    }

    /// The run-scoped token: derived, so that a successor knows it and nothing stores it.
    pub(crate) fn lease_token(&self, run: RunId, fence: u64) -> String {
        self.derived("lease", run, fence)
    }

    /// What a successor shows to the run's keeper.
    pub(crate) fn hello_secret(&self, run: RunId, attempt: u32) -> String {
        self.derived("hello", run, attempt.into())
    }

    /// What enciphers the run's values beside its spool.
    pub(crate) fn keepsake_secret(&self, run: RunId, attempt: u32) -> String {
        self.derived("keepsake", run, attempt.into())
    }

    /// By which what is left of a workspace's beginning is known to be ours.
    pub(crate) fn beginning_secret(&self, run: RunId) -> String {
        self.derived("workspace beginning", run, 0)
    }

    fn derived(&self, purpose: &str, run: RunId, number: u64) -> String {
        let key = blake3::derive_key("ostler 2026-11 secrets of one run", self.token.as_bytes());
        let text = format!("{purpose} {run} {number}");
        blake3::keyed_hash(&key, text.as_bytes()).to_hex().to_string()
    }
}

/// See [`Inner::begin_take_over`].
pub(crate) struct TakeOver {
    inner: Arc<Inner>,
    run: RunId,
}

impl Drop for TakeOver {
    fn drop(&mut self) {
        let taking_over = &self.inner.taking_over;
        taking_over.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
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
