//! One data directory, many processes. The first that takes the lock becomes the host: it opens the
//! store, listens on loopback and writes its address. Everyone, the host included, then goes through
//! that address. A host that is done but still needed stays; one that died is replaced by the next
//! process that comes, which takes over its runs. A `serve` asks any other host to make room, and
//! that process becomes a client.

use crate::background;
use crate::client::Client;
use crate::config::{self, Config, Surroundings};
use crate::doors::Doors;
use crate::operator_log::{self, LogFlags};
use contract::limits::ADOPTION_ALONE_MS;
use contract::{Code, Fault};
use failpoint::Point;
use host::adoption::{Adoption, Which};
use host::configuration::ConfigurationState;
use host::data::{DataDir, Lock};
use host::ops::run::{Link, Named};
use host::supervise;
use host::{Host, HostRole, Setup};
use server::{Door, Listening};
use std::path::PathBuf;
use std::time::Duration;
use store::Store;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

/// How long to wait for a host that holds the lock but does not answer: it may be about to listen,
/// or about to leave.
const HOST_WAIT_MS: u64 = 10_000;
/// How long a process that made room waits for the one that asked.
const SUCCESSOR_WAIT_MS: u64 = 5_000;
const HOST_RETRY: Duration = Duration::from_millis(15);

/// What a command wants of the data directory.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// To look: runs that a dead host left behind are left alone.
    Look,
    /// To act: whoever becomes host takes over what a dead host left behind.
    Act,
    /// To drive the runs that are there until none is left. A command makes room for it; a server or
    /// another background host is left alone.
    Background,
    /// To be the host, at this address; a living one is in the way.
    Serve { door: Box<Door> },
}

impl Purpose {
    fn role(&self) -> HostRole {
        match self {
            Self::Look | Self::Act => HostRole::Command,
            Self::Background => HostRole::Background,
            Self::Serve { .. } => HostRole::Server,
        }
    }
}

/// Where things are.
pub struct Place {
    pub data: DataDir,
    pub config: Config,
    pub surroundings: Surroundings,
}

impl Place {
    /// Starts the operator log of a process that serves.
    pub fn start_log(&self, flags: &LogFlags) -> Result<(), Fault> {
        let Surroundings { vars, stderr_is_terminal, .. } = &self.surroundings;
        operator_log::start(flags, vars, &self.config, *stderr_is_terminal)?;
        let token = self.data.token()?;
        host::log_secrets::set_process_secrets([(
            "the token of the data directory".to_owned(),
            token,
        )]);
        Ok(())
    }
}

/// This process as the host.
pub struct Hosting {
    host: Host,
    /// The configuration that it works by.
    live: config::Live,
    data: DataDir,
    lock: Lock,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
    url: String,
    /// Where others come to.
    front: String,
    doors: Doors,
}

/// A way to the store, and the host if that is us.
pub struct Reached {
    pub client: Client,
    pub hosting: Option<Hosting>,
}

/// Finds the host of the data directory, or becomes it.
pub async fn reach(place: &Place, purpose: &Purpose) -> Result<Reached, Fault> {
    let token = place.data.token()?;
    let stalled_ms = config::stalled_ms(&place.surroundings.vars)?;
    // Before anyone is asked to make room: a port that is taken must not cost a host its place.
    let mut listening = match purpose {
        Purpose::Serve { door } => {
            Some(server::open(Door { stalled_ms, ..door.as_ref().clone() }).await)
        }
        Purpose::Look | Purpose::Act | Purpose::Background => None,
    };
    let begun_ms = host::clock::now().mono_ms;
    loop {
        if let Some(lock) = place.data.try_lock()? {
            let listening = match listening.take() {
                Some(listening) => listening?,
                None => {
                    let address = "127.0.0.1:0".to_owned();
                    server::open(Door { address, stalled_ms, ..Door::default() }).await?
                }
            };
            let hosting = become_host(place, purpose, lock, &token, listening).await?;
            let client = Client::new(&hosting.url, &token)?;
            return Ok(Reached { client, hosting: Some(hosting) });
        }
        if let Some(address) = place.data.address() {
            let client = Client::new(&address, &token)?;
            if client.greets().await {
                let is_enough = match purpose {
                    Purpose::Look | Purpose::Act => true,
                    Purpose::Background => client.role().await != Some(HostRole::Command),
                    Purpose::Serve { .. } => false,
                };
                if is_enough {
                    return Ok(Reached { client, hosting: None });
                }
                ask_for_room(place, &client, &mut listening).await?;
            }
        }
        if host::clock::now().mono_ms.saturating_sub(begun_ms) > HOST_WAIT_MS {
            let message =
                format!("{} is locked and its host does not answer", place.data.path().display());
            return Err(Fault::new(Code::StoreLocked, message));
        }
        tokio::time::sleep(HOST_RETRY).await;
    }
}

/// A server comes to a directory that is hosted: a command makes room, another server does not, and
/// nobody is asked to by one that could not take the place.
async fn ask_for_room(
    place: &Place,
    client: &Client,
    listening: &mut Option<Result<Listening, Fault>>,
) -> Result<(), Fault> {
    let refusal = match (client.serves().await, &listening) {
        (true, _) => Some(Fault::new(Code::Conflict, "a server is already running")),
        (false, Some(Err(_))) => listening.take().and_then(Result::err),
        (false, _) => client.ask_handover().await.err(),
    };
    match refusal {
        Some(fault) if fault.code == Code::Conflict => {
            let message = format!("{} is hosted at {}", place.data.path().display(), client.base());
            Err(Fault::new(Code::Conflict, message)
                .with_hint("use that address, or wait until its process has ended"))
        }
        // A host that does not answer any more is making room already.
        Some(fault) if fault.code == Code::RemoteUnavailable => Ok(()),
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// Finds who hosts after this process made room for it. Should nobody come, this process hosts
/// again.
pub async fn reach_successor(place: &Place) -> Result<Reached, Fault> {
    let token = place.data.token()?;
    let begun_ms = host::clock::now().mono_ms;
    while host::clock::now().mono_ms.saturating_sub(begun_ms) < SUCCESSOR_WAIT_MS {
        if let Some(address) = place.data.address() {
            let client = Client::new(&address, &token)?;
            if client.greets().await {
                return Ok(Reached { client, hosting: None });
            }
        }
        tokio::time::sleep(HOST_RETRY).await;
    }
    reach(place, &Purpose::Act).await
}

async fn become_host(
    place: &Place,
    purpose: &Purpose,
    lock: Lock,
    token: &str,
    listening: Listening,
) -> Result<Hosting, Fault> {
    failpoint::hit(Point::LockTaken);
    let store = Store::open(place.data.path())
        .map_err(|error| Fault::new(error.code(), error.to_string()))?;
    failpoint::hit(Point::StoreOpened);
    let (url, front) = (listening.url(), listening.front());
    let live = config::Live::new(place.config.clone());
    let configuration = live.clone();
    let host = Host::new(Setup {
        data: place.data.clone(),
        store,
        program: PathBuf::from(OWN_PROGRAM),
        token: token.to_owned(),
        budgets: place.config.budgets(),
        prices: place.config.prices(),
        organization: place.config.organization().to_owned(),
        activity: place.config.activity(),
        environment: place.surroundings.vars.clone(),
        resolve: Box::new(move |name| {
            let resolved = config::resolve(name, &configuration.now())?;
            config::skills::known(name, &resolved.adapter)?;
            Ok(named(resolved))
        }),
        book: Box::new(live.clone()),
        retention: place.config.retention(),
        notify: place
            .config
            .file
            .notify
            .as_ref()
            .map(|notify| notify.command.clone())
            .unwrap_or_default(),
        lease_ms: place.config.lease_ms(),
        isolation: config::isolation(&place.surroundings.vars)?,
        tries_max: place.config.tries_max(),
        role: purpose.role(),
    });
    host.listens_at(url.clone());
    host.set_configuration(ConfigurationState::loaded(place.config.path.as_deref(), Vec::new()));
    let which = match purpose {
        Purpose::Look => Which::Dead,
        Purpose::Act | Purpose::Background | Purpose::Serve { .. } => Which::All,
    };
    let adoption = Adoption::find(&host, which).await?;
    let adopting = host.clone();
    let mut adopted =
        supervise::spawn("adopt runs", async move { adoption.finish(&adopting).await });
    let alone = Duration::from_millis(ADOPTION_ALONE_MS);
    let doors = match tokio::time::timeout(alone, &mut adopted).await {
        Ok(adopted) => {
            all_adopted(adopted)?;
            host.tend();
            Doors::open(&host, token).await
        }
        // Many runs, or keepers that do not answer: requests are answered meanwhile.
        Err(_elapsed) => Doors::open_after(tend_after(host.clone(), adopted), &host, token),
    };
    place.data.write_address(&lock, &url)?;
    let (stop, stopped) = oneshot::channel();
    let serving = supervise::spawn(
        "listener",
        listening.serve(host.clone(), token.to_owned(), async {
            // A sender that is gone means the same.
            let _ = stopped.await;
        }),
    );
    Ok(Hosting { host, live, data: place.data.clone(), lock, stop, serving, url, front, doors })
}

fn all_adopted(adopted: Result<Result<(), Fault>, JoinError>) -> Result<(), Fault> {
    adopted.unwrap_or_else(|panic| {
        Err(Fault::new(Code::InternalError, format!("taking over earlier runs: {panic}")))
    })
}

/// Waits until the runs of an earlier host are taken over, and does then what this host does all the time.
async fn tend_after(host: Host, adopted: JoinHandle<Result<(), Fault>>) {
    if let Err(fault) = all_adopted(adopted.await) {
        tracing::error!(
            code = fault.code.word(),
            error = fault.message,
            "not every run of an earlier host was taken over; each is tried again when its lease expires"
        );
    }
    // A host that is about to stop starts nothing any more.
    if !*host.leaving().borrow() {
        host.tend();
    }
}

/// The running binary, also after it was replaced on disk: the link is followed by whoever is
/// started through it, and that is this program's child or its keeper.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

impl Hosting {
    /// Where others come to.
    pub fn front(&self) -> &str {
        &self.front
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The configuration that this host works by.
    pub fn live(&self) -> &config::Live {
        &self.live
    }

    /// Whether nobody needs this host any longer, now or soon.
    pub async fn is_idle_within(&self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.host.idle()).await.is_ok()
    }

    /// Waits until this host may not go on, and says why.
    pub async fn broken(&self) -> Fault {
        self.host.broken().await
    }

    /// Why this host may not go on, if so.
    pub fn is_broken(&self) -> Option<Fault> {
        self.host.trouble().filter(|trouble| trouble.is_final).map(|trouble| trouble.fault())
    }

    /// Waits until another process asks to be the host instead.
    pub async fn handover_asked(&self) {
        self.host.handover_asked().await;
    }

    pub fn is_asked_for(&self) -> bool {
        self.host.is_asked_for()
    }

    /// Stays until nobody needs this host or another takes its place, then leaves.
    pub async fn finish(self) {
        tokio::select! {
            () = self.host.idle() => {}
            () = self.host.handover_asked() => {}
        }
        self.leave().await;
    }

    /// The same, but a person may say that it is enough.
    pub async fn finish_unless_interrupted(self) {
        tokio::select! {
            () = self.host.idle() => {}
            () = self.host.handover_asked() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        self.leave().await;
    }

    /// Leaves when the runs that are live here go on under a background host, or have ended. If none
    /// can be started, it stays until nobody needs it.
    pub async fn leave_to_background(self, place: &Place) {
        if self.host.live_runs() == 0 {
            return self.finish_unless_interrupted().await;
        }
        if let Err(fault) = background::ensure(place, Some(self)).await {
            crate::terminal::complain(&fault);
        }
    }

    /// Leaves now. Live runs go on with their keepers; the next process takes them over.
    pub async fn leave(self) {
        // Without an address newcomers wait for the lock instead of knocking at a closing door.
        self.data.clear_address(&self.lock);
        failpoint::hit(Point::AddressCleared);
        // A listener that has stopped already needs no word.
        let _ = self.stop.send(());
        self.host.let_go();
        match tokio::time::timeout(Duration::from_secs(2), self.serving).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the listener stopped"),
            // `supervise` has logged the panic.
            Ok(Err(_)) => {}
            Err(_elapsed) => tracing::warn!("open requests did not end in time and are cut off"),
        }
        self.doors.close().await;
        self.host.close().await;
        failpoint::hit(Point::RunsLetGo);
        drop(self.lock);
    }
}

/// What a host needs to know of an agent, when its name was all it was given.
pub fn named(resolved: config::Resolved) -> Named {
    let scope = format!("agent:{}", resolved.agent);
    Named {
        adapter: resolved.adapter,
        budget: resolved.run_budget,
        budgets: config::shared_budgets(&scope, &resolved.budgets),
        prompt_template: resolved.prompt_template,
        system_prompt: resolved.system_prompt,
        tools: resolved.tools,
        cwd: resolved.cwd.or(resolved.repository),
        concurrency: resolved.concurrency,
        fallback: resolved.fallback.iter().filter_map(link).collect(),
        workspace: resolved.workspace.map(config::place),
    }
}

/// As the rule that goes along the chain has it; one that names nobody is refused when the file is
/// read.
fn link(of: &config::file::Fallback) -> Option<Link> {
    let config::file::Fallback { agent, adapter, model } = of;
    match (agent, adapter) {
        (Some(agent), _) => Some(Link::Agent(agent.clone())),
        (None, Some(adapter)) => {
            Some(Link::Adapter { adapter: adapter.clone(), model: model.clone() })
        }
        (None, None) => None,
    }
}
