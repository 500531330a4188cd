//! Sessions of callers elsewhere: each is a run of this host whose tools its caller carries out. The
//! caller names a session by its own run, and asked for again it is the same session; a file of the
//! session, durable before the run, tells a successor which run and which directory belong to it.
//! Whoever closes a session, or leaves it without a word for too long, ends its run, and nothing of
//! it is left but the run in the books. What is said on the wire is not known here.

mod kept;

pub use kept::{Mark, Reading, Session};

use super::agents;
use super::resume::{self, Resume};
use super::run::{self, Budget, RunRequest, ToolsBy, Where};
use super::who::Who;
use crate::blocking::{self, Bulkhead};
use crate::supervise;
use crate::{Host, chance, cleanup, clock};
use contract::limits::{
    SESSION_CLOSE_MS, SESSION_NAME_BYTES_MAX, SESSION_SILENCE_MS, SESSIONS_CLOSED_MAX,
    SESSIONS_KEPT_MAX, SESSIONS_MAX,
};
use contract::{Code, CommandId, Fault, Policy, RunId, Wish};
use kept::{Kept, is_session_dir, workspace, workspace_of, write};
use runtimes::registry;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::RunRow;

/// How often silent sessions are looked for, at most.
const LOOK_MS_MAX: u64 = 5_000;
/// How long a closed session waits between two looks at whether its run has ended.
const CLOSE_PAUSE: Duration = Duration::from_millis(50);

/// What every session of one server is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The agent that is served.
    pub agent: String,
    /// What it may do here without asking.
    pub permission: Option<Policy>,
    /// Where all of them work; without it each has a directory of its own.
    pub dir: Option<PathBuf>,
    /// Where such directories are made.
    pub temporary: PathBuf,
    /// How many may run at once.
    pub live_max: usize,
    /// How long one may be left alone.
    pub silence_ms: u64,
}

impl Terms {
    pub fn new(agent: String, temporary: PathBuf) -> Self {
        Self {
            agent,
            permission: None,
            dir: None,
            temporary,
            live_max: SESSIONS_MAX,
            silence_ms: SESSION_SILENCE_MS,
        }
    }
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The caller's own run.
    pub name: String,
    pub fence: Option<u64>,
    pub prompt: String,
    pub title: Option<String>,
    pub system_prompt: Option<String>,
    pub model: Option<String>,
    /// The id of an earlier session whose conversation is resumed.
    pub resume: Option<String>,
    pub budget: Budget,
}

/// All sessions of one server.
pub struct Sessions {
    host: Host,
    terms: Terms,
    folder: PathBuf,
    known: Mutex<HashMap<String, Arc<Session>>>,
    /// Held while a session is made durable, so that one name gets one session.
    entering: tokio::sync::Mutex<()>,
    /// Those that were closed last, so that whoever comes late is told so.
    closed: Mutex<VecDeque<RunId>>,
}

/// Why there is no session of an id.
#[derive(Debug)]
pub enum Missing {
    /// None is known, or it is long gone.
    Unknown(Fault),
    /// It was there, and was closed.
    Closed(Fault),
}

/// What came of asking for a session.
pub struct Opened {
    pub session: Arc<Session>,
    /// It was not there before.
    pub made: bool,
}

impl Sessions {
    /// Finds the sessions of an earlier server, and from now on looks for silent ones.
    pub fn open(host: &Host, terms: Terms) -> Result<Arc<Self>, Fault> {
        let folder = host.inner.data.path().join("sessions");
        let unusable = |error: io::Error| {
            Fault::new(Code::StoreUnreadable, format!("{}: {error}", folder.display()))
        };
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(unusable)?;
        let mut known = HashMap::new();
        for entry in fs::read_dir(&folder).map_err(unusable)? {
            let file = entry.map_err(unusable)?.path();
            // One that was cut while it was written was never answered.
            if file.extension().is_none_or(|kind| kind != "json") {
                cleanup::remove_file(&file);
                continue;
            }
            let bytes = match fs::read(&file) {
                Ok(bytes) => bytes,
                Err(error) => {
                    let path = file.display();
                    tracing::warn!(%path, %error, "a session cannot be read; it is not resumed");
                    continue;
                }
            };
            match serde_json::from_slice::<Kept>(&bytes) {
                Ok(kept) => {
                    known.insert(kept.name.clone(), Arc::new(Session::new(kept, file)));
                }
                // The file was never whole, so that no client knows the session.
                Err(_) => cleanup::remove_file(&file),
            }
        }
        let closing: Vec<_> =
            known.values().filter(|session| session.kept().closed).map(Arc::clone).collect();
        let (host, known, closed) = (host.clone(), Mutex::new(known), Mutex::default());
        let entering = tokio::sync::Mutex::default();
        let sessions = Arc::new(Self { host, terms, folder, known, entering, closed });
        for session in closing {
            supervise::spawn("end session", Arc::clone(&sessions).finish(session));
        }
        supervise::spawn("watch sessions", look(Arc::downgrade(&sessions)));
        Ok(sessions)
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn agent(&self) -> &str {
        &self.terms.agent
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> MutexGuard<'_, VecDeque<RunId>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session, or gives the one that was opened for this run of the caller before.
    pub async fn create(self: &Arc<Self>, wanted: Wanted) -> Result<Opened, Fault> {
        if wanted.name.is_empty() || wanted.name.len() > SESSION_NAME_BYTES_MAX {
            let message = format!("runId must have 1 to {SESSION_NAME_BYTES_MAX} bytes");
            return Err(Fault::new(Code::Usage, message));
        }
        let earlier = match &wanted.resume {
            Some(id) => Some(self.earlier(&wanted.name, id).await?),
            None => None,
        };
        let Opened { session, made } = self.enter(&wanted, earlier.as_ref()).await?;
        let request = self.request(&wanted, &session);
        session.starting.store(true, Ordering::Relaxed);
        let started = run::start(&self.host, request).await;
        session.starting.store(false, Ordering::Relaxed);
        session.touch();
        match started {
            Ok(_) => Ok(Opened { session, made }),
            Err(fault) => {
                let is_there = self.host.store().run(session.run).await.map_err(run::stored)?;
                if is_there.is_none() {
                    self.forget(&session).await;
                }
                Err(fault)
            }
        }
    }

    /// Whether a later session can resume the conversation of one of these, as far as that is known
    /// before an agent runs.
    pub async fn can_resume(&self) -> bool {
        let named = agents::named(&self.host, &self.terms.agent).await;
        let runtime = named.and_then(|named| registry::of(&named.adapter));
        runtime.is_ok_and(|runtime| resume::is_possible(&runtime.card()))
    }

    /// The run of an earlier session whose conversation can be resumed. Only sessions of callers can:
    /// the runs that the owner of this machine started are nobody else's.
    async fn earlier(&self, name: &str, id: &str) -> Result<RunRow, Fault> {
        let shown: String = id.chars().take(80).collect();
        let unknown = |why: &str| {
            Fault::new(Code::NativeSessionUnknown, format!("the session '{shown}' {why}"))
        };
        let run: RunId = id.parse().map_err(|_| unknown("is not known"))?;
        let store = self.host.store();
        let row = store.run(run).await.map_err(run::stored)?;
        let row = row.filter(|row| row.agent == self.terms.agent);
        let row = row.ok_or_else(|| unknown("is not known"))?;
        let task = store.task(row.task).await.map_err(run::stored)?;
        if task.and_then(|task| task.key) != Some(task_key(run)) {
            return Err(unknown("is not known"));
        }
        let held = store.conversation_of(run).await.map_err(run::stored)?;
        if held.is_none_or(|held| held.native_session.is_none()) {
            return Err(unknown("left no conversation"));
        }
        // Whoever deleted it is answered before it is gone, and its directory is wanted again.
        let asked_ms = clock::now().mono_ms;
        loop {
            let open = self.known().values().find(|session| session.run == run).map(Arc::clone);
            match open {
                None => return Ok(row),
                // It is asked for again.
                Some(session) if session.kept().name == name => return Ok(row),
                Some(session) if !session.kept().closed => {
                    let message = format!("the session '{shown}' is still open");
                    return Err(Fault::new(Code::Conflict, message)
                        .with_hint("close it, then open the one that resumes it"));
                }
                Some(_) if clock::now().mono_ms.saturating_sub(asked_ms) > SESSION_CLOSE_MS => {
                    let message = format!("the session '{shown}' is being closed");
                    return Err(Fault::new(Code::Overloaded, message).with_hint("try again later"));
                }
                Some(_) => tokio::time::sleep(CLOSE_PAUSE).await,
            }
        }
    }

    /// The session of this name, made durable when it is new.
    async fn enter(&self, wanted: &Wanted, earlier: Option<&RunRow>) -> Result<Opened, Fault> {
        let _entering = self.entering.lock().await;
        let found = self.known().get(&wanted.name).map(Arc::clone);
        if let Some(session) = found {
            if session.kept().closed {
                let message = format!("the session of {} is being closed", wanted.name);
                return Err(Fault::new(Code::Conflict, message));
            }
            session.admit(wanted.fence).await?;
            session.touch();
            return Ok(Opened { session, made: false });
        }
        let lives = |session: &&Arc<Session>| {
            session.starting.load(Ordering::Relaxed) || self.host.inner.is_here(session.run)
        };
        let (live, kept) = {
            let known = self.known();
            (known.values().filter(lives).count(), known.len())
        };
        if live >= self.terms.live_max || kept >= SESSIONS_KEPT_MAX {
            let message = format!("{live} sessions are already open");
            return Err(Fault::new(Code::Overloaded, message)
                .with_hint("wait for one to end, or raise --max-sessions"));
        }
        let run = chance::run_id();
        let (dir, owned) = match &self.terms.dir {
            Some(dir) => (dir.clone(), false),
            None => {
                let temporary = self.terms.temporary.clone();
                let earlier = earlier.map(|earlier| PathBuf::from(&earlier.cwd));
                let make = move || {
                    let again = earlier.filter(|dir| is_session_dir(&temporary, dir));
                    workspace(again.unwrap_or_else(|| workspace_of(&temporary, run)))
                };
                (blocking::probe(&self.terms.temporary, "make a directory", make).await??, true)
            }
        };
        let name = blake3::hash(wanted.name.as_bytes()).to_hex();
        let file = self.folder.join(format!("{}.json", &name.as_str()[..32]));
        let fence = wanted.fence.unwrap_or(0);
        let kept = Kept { run, name: wanted.name.clone(), dir, owned, fence, closed: false };
        write(&file, &kept).await?;
        let session = Arc::new(Session::new(kept, file));
        session.starting.store(true, Ordering::Relaxed);
        self.known().insert(wanted.name.clone(), Arc::clone(&session));
        Ok(Opened { session, made: true })
    }

    fn request(&self, wanted: &Wanted, session: &Session) -> RunRequest {
        let (dir, owned) = {
            let kept = session.kept();
            (kept.dir.clone(), kept.owned)
        };
        // In a directory of its own it may do what it likes.
        let unasked = owned.then_some(Policy::AllowAll);
        RunRequest {
            run_id: Some(session.run),
            agent: self.terms.agent.clone(),
            prompt: wanted.prompt.clone(),
            cwd: dir,
            adapter: None,
            title: wanted.title.clone(),
            system_prompt: wanted.system_prompt.clone(),
            model: wanted.model.clone(),
            prompt_template: None,
            tools: None,
            tools_by: ToolsBy::Caller,
            clocks: Default::default(),
            permission: self.terms.permission.or(unasked),
            budget: wanted.budget,
            task_budget: Default::default(),
            fallback: None,
            goes_on_in: None,
            own_budget: Default::default(),
            counted_budget: Default::default(),
            // A session has a directory of its own already, or is told to use another's.
            workspace: Some(Where::Here),
            keep: false,
            attended: false,
            resume: wanted.resume.clone().map(Resume::Run),
            force_cwd: false,
            context: None,
            environment: None,
        }
    }

    /// The session of this id, if it is open.
    pub fn find(&self, id: &str) -> Result<Arc<Session>, Missing> {
        let fault = |what: &str| {
            let shown: String = id.chars().take(80).collect();
            Fault::new(Code::NotFound, format!("{what} '{shown}'"))
        };
        let unknown = || Missing::Unknown(fault("there is no session"));
        let closed = || Missing::Closed(fault("the session was closed:"));
        let run: RunId = id.parse().map_err(|_| unknown())?;
        let known = self.known();
        match known.values().find(|session| session.run == run) {
            Some(session) if session.kept().closed => Err(closed()),
            Some(session) => Ok(Arc::clone(session)),
            None if self.closed().contains(&run) => Err(closed()),
            None => Err(unknown()),
        }
    }

    /// Takes an input of the caller. The same number again is the same input.
    pub async fn input(
        &self,
        session: &Session,
        fence: Option<u64>,
        number: Option<u64>,
        wish: Wish,
    ) -> Result<(), Fault> {
        session.admit(fence).await?;
        session.touch();
        let id = number.map(|number| numbered(session.run, number));
        // What only helps a run along is in time for one that has just ended, too.
        let helps = match &wish {
            Wish::Stop { .. } | Wish::ToolResult { .. } | Wish::Budget { .. } => true,
            Wish::Say { .. } | Wish::Interrupt | Wish::Answer { .. } | Wish::Unknown => false,
        };
        match run::wish(&self.host, session.run, id, wish, &Who::Caller).await {
            Err(fault) if fault.code == Code::Conflict => {
                match (self.has_ended(session).await?, helps) {
                    (true, true) => Ok(()),
                    (true, false) => Err(fault),
                    (false, _) => {
                        let message = "too many inputs wait for this session";
                        Err(Fault::new(Code::Overloaded, message).with_hint("send it again later"))
                    }
                }
            }
            done => done,
        }
    }

    async fn has_ended(&self, session: &Session) -> Result<bool, Fault> {
        let row = self.host.store().run(session.run).await.map_err(run::stored)?;
        Ok(row.is_none_or(|row| row.outcome.is_some()))
    }

    /// Closes a session for good: from now on nobody finds it, and its run is ended.
    pub async fn close(self: &Arc<Self>, session: &Arc<Session>) -> Result<(), Fault> {
        session.close().await?;
        supervise::spawn("end session", Arc::clone(self).finish(Arc::clone(session)));
        Ok(())
    }

    /// Ends the run of a closed session, and then removes what the session had.
    async fn finish(self: Arc<Self>, session: Arc<Session>) {
        let stop = Wish::Stop { reason: Code::Cancelled, at_once: true };
        let id = numbered(session.run, CLOSING);
        let mut told = false;
        // A store in trouble is asked again.
        while !matches!(self.has_ended(&session).await, Ok(true)) {
            // The next server of this directory goes on with it.
            if *self.host.leaving().borrow() {
                return;
            }
            let (run, stop) = (session.run, stop.clone());
            let wished = run::wish(&self.host, run, Some(id), stop, &Who::Caller);
            told = told || wished.await.is_ok();
            tokio::time::sleep(CLOSE_PAUSE).await;
        }
        self.forget(&session).await;
    }

    /// Removes what a session had. Its run stays in the books.
    async fn forget(&self, session: &Session) {
        let kept = session.kept().clone();
        let (file, dir) = (session.file.clone(), kept.owned.then(|| kept.dir.clone()));
        let remove = move || {
            if let Some(dir) = dir {
                cleanup::remove_dir(&dir);
            }
            cleanup::remove_file(&file);
        };
        // Only a panic is left to be dropped here, and `supervise` has logged it.
        let _ = blocking::spawn(Bulkhead::Directory(&kept.dir), "remove session", remove).await;
        let mut known = self.known();
        known.remove(&kept.name);
        if kept.closed {
            let mut closed = self.closed();
            if closed.len() == SESSIONS_CLOSED_MAX {
                closed.pop_front();
            }
            closed.push_back(kept.run);
        }
    }

    async fn close_silent(self: &Arc<Self>) {
        let now_ms = clock::now().mono_ms;
        let silent: Vec<_> = self
            .known()
            .values()
            .filter(|session| session.is_silent(now_ms, self.terms.silence_ms))
            .filter(|session| !session.kept().closed && !session.starting.load(Ordering::Relaxed))
            .map(Arc::clone)
            .collect();
        for session in silent {
            // A store in trouble is asked again at the next look.
            let _ = self.close(&session).await;
        }
    }
}

/// The key of the task of a session, by which it is told from a run of this machine's owner.
pub(super) fn task_key(run: RunId) -> String {
    format!("session {run}")
}

/// The number of the wish by which a closed session's run is ended; no caller counts this far.
const CLOSING: u64 = u64::MAX;

/// The id of the input of this number: the same whoever serves.
fn numbered(run: RunId, number: u64) -> CommandId {
    chance::command_id_of(&format!("input {number} of {run}"))
}

async fn look(sessions: std::sync::Weak<Sessions>) {
    loop {
        let Some(silence_ms) = sessions.upgrade().map(|sessions| sessions.terms.silence_ms) else {
            return;
        };
        let pause_ms = (silence_ms / 4).clamp(10, LOOK_MS_MAX);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        if let Some(sessions) = sessions.upgrade() {
            sessions.close_silent().await;
        }
    }
}
