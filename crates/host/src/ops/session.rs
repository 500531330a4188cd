//! Sessions of callers elsewhere: each is a run of this host whose tools its caller carries out. The
//! caller names a session by its own run, and asked for again it is the same session; a file of the
//! session, durable before the run, tells a successor which run and which directory belong to it.
//! Whoever closes a session, or leaves it without a word for too long, ends its run, and nothing of
//! it is left but the run in the books. What is said on the wire is not known here.

use super::run::{self, Budget, RunRequest, ToolsBy};
use crate::{Host, chance, clock, data};
use contract::limits::{
    SESSION_NAME_BYTES_MAX, SESSION_SILENCE_MS, SESSIONS_KEPT_MAX, SESSIONS_MAX,
};
use contract::{Code, CommandId, Fault, Policy, RunId, Wish};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often silent sessions are looked for, at most.
const LOOK_MS_MAX: u64 = 5_000;
/// How long a closed session waits between two looks at whether its run has ended.
const CLOSE_PAUSE: Duration = Duration::from_millis(50);

/// Events between two remembered places.
const MARK_EVENTS: u64 = 256;

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
    pub budget: Budget,
}

/// A session as its file keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    run: RunId,
    name: String,
    dir: PathBuf,
    /// Made for this session, and removed with it.
    owned: bool,
    fence: u64,
    closed: bool,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    pub run: RunId,
    kept: Mutex<Kept>,
    file: PathBuf,
    readers: AtomicUsize,
    touched_ms: AtomicU64,
    /// Its run is being started.
    starting: AtomicBool,
    /// Where in the run's events a line of this number was told: so far, in order.
    marks: Mutex<Vec<Mark>>,
}

/// After the event `seq`, `id` lines were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    pub id: u64,
    pub seq: u64,
}

/// Someone reads a session's events for as long as this lives.
#[derive(Debug)]
pub struct Reading(Arc<Session>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.touch();
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    fn new(kept: Kept, file: PathBuf) -> Self {
        Self {
            run: kept.run,
            kept: Mutex::new(kept),
            file,
            readers: AtomicUsize::new(0),
            touched_ms: AtomicU64::new(clock::now().mono_ms),
            starting: AtomicBool::new(false),
            marks: Mutex::default(),
        }
    }

    pub fn read(self: &Arc<Self>) -> Reading {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Reading(Arc::clone(self))
    }

    fn touch(&self) {
        self.touched_ms.store(clock::now().mono_ms, Ordering::Relaxed);
    }

    fn is_silent(&self, now_ms: u64, silence_ms: u64) -> bool {
        self.readers.load(Ordering::Relaxed) == 0
            && now_ms.saturating_sub(self.touched_ms.load(Ordering::Relaxed)) >= silence_ms
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last known place at or before the line of this number.
    pub fn mark_before(&self, id: u64) -> Mark {
        let marks = self.marks();
        let at = marks.partition_point(|mark| mark.id <= id);
        at.checked_sub(1).map(|at| marks[at]).unwrap_or_default()
    }

    /// Remembers a place, if it is far enough from those that are known.
    pub fn remember(&self, mark: Mark) {
        let mut marks = self.marks();
        let last = marks.last().copied().unwrap_or_default();
        if mark.seq >= last.seq + MARK_EVENTS && mark.id > last.id {
            marks.push(mark);
        }
    }

    /// Lets through who has the newest fence, and remembers it when it is newer.
    fn admit(&self, fence: Option<u64>) -> Result<(), Fault> {
        let Some(fence) = fence else { return Ok(()) };
        let mut kept = self.kept();
        if fence < kept.fence {
            let message = format!("fence {fence} is older than {}, which was seen", kept.fence);
            return Err(Fault::new(Code::FenceStale, message));
        }
        if fence > kept.fence {
            kept.fence = fence;
            write(&self.file, &kept)?;
        }
        Ok(())
    }
}

/// All sessions of one server.
pub struct Sessions {
    host: Host,
    terms: Terms,
    folder: PathBuf,
    known: Mutex<HashMap<String, Arc<Session>>>,
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
            let whole = file.extension().is_some_and(|kind| kind == "json");
            let kept = whole.then(|| fs::read(&file).ok()).flatten();
            let kept = kept.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
            match kept {
                Some(kept) => {
                    known.insert(kept.name.clone(), Arc::new(Session::new(kept, file)));
                }
                None => {
                    let _ = fs::remove_file(&file);
                }
            }
        }
        let closing: Vec<_> =
            known.values().filter(|session| session.kept().closed).map(Arc::clone).collect();
        let sessions =
            Arc::new(Self { host: host.clone(), terms, folder, known: Mutex::new(known) });
        for session in closing {
            tokio::spawn(Arc::clone(&sessions).finish(session));
        }
        tokio::spawn(look(Arc::downgrade(&sessions)));
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

    /// Opens a session, or gives the one that was opened for this run of the caller before.
    pub async fn create(self: &Arc<Self>, wanted: Wanted) -> Result<Opened, Fault> {
        if wanted.name.is_empty() || wanted.name.len() > SESSION_NAME_BYTES_MAX {
            let message = format!("runId must have 1 to {SESSION_NAME_BYTES_MAX} bytes");
            return Err(Fault::new(Code::Usage, message));
        }
        let Opened { session, made } = self.enter(&wanted)?;
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
                    self.forget(&session);
                }
                Err(fault)
            }
        }
    }

    /// The session of this name, made durable when it is new.
    fn enter(&self, wanted: &Wanted) -> Result<Opened, Fault> {
        let mut known = self.known();
        if let Some(session) = known.get(&wanted.name) {
            if session.kept().closed {
                let message = format!("the session of {} is being closed", wanted.name);
                return Err(Fault::new(Code::Conflict, message));
            }
            session.admit(wanted.fence)?;
            session.touch();
            return Ok(Opened { session: Arc::clone(session), made: false });
        }
        let lives = |session: &&Arc<Session>| {
            session.starting.load(Ordering::Relaxed) || self.host.inner.is_here(session.run)
        };
        let live = known.values().filter(lives).count();
        if live >= self.terms.live_max || known.len() >= SESSIONS_KEPT_MAX {
            let message = format!("{live} sessions are here already");
            return Err(Fault::new(Code::Overloaded, message)
                .with_hint("wait for one to end, or raise --max-sessions"));
        }
        let run = chance::run_id();
        let (dir, owned) = match &self.terms.dir {
            Some(dir) => (dir.clone(), false),
            None => (workspace(&self.terms.temporary, run)?, true),
        };
        let name = blake3::hash(wanted.name.as_bytes()).to_hex();
        let file = self.folder.join(format!("{}.json", &name.as_str()[..32]));
        let fence = wanted.fence.unwrap_or(0);
        let kept = Kept { run, name: wanted.name.clone(), dir, owned, fence, closed: false };
        write(&file, &kept)?;
        let session = Arc::new(Session::new(kept, file));
        session.starting.store(true, Ordering::Relaxed);
        known.insert(wanted.name.clone(), Arc::clone(&session));
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
            resume: None,
            environment: None,
        }
    }

    /// The session of this id, if it is open.
    pub fn find(&self, id: &str) -> Result<Arc<Session>, Fault> {
        let gone = || {
            let shown: String = id.chars().take(80).collect();
            Fault::new(Code::NotFound, format!("there is no session '{shown}'"))
        };
        let run: RunId = id.parse().map_err(|_| gone())?;
        let known = self.known();
        let mut open = known.values().filter(|session| session.run == run);
        open.next().filter(|session| !session.kept().closed).map(Arc::clone).ok_or_else(gone)
    }

    /// Takes an input of the caller. The same number again is the same input.
    pub async fn input(
        &self,
        session: &Session,
        fence: Option<u64>,
        number: Option<u64>,
        wish: Wish,
    ) -> Result<(), Fault> {
        session.admit(fence)?;
        session.touch();
        let id = number.map(|number| numbered(session.run, number));
        // What only helps a run along is in time for one that has just ended, too.
        let helps = match &wish {
            Wish::Stop { .. } | Wish::ToolResult { .. } | Wish::Budget { .. } => true,
            Wish::Say { .. } | Wish::Interrupt | Wish::Answer { .. } => false,
        };
        match run::wish(&self.host, session.run, id, wish).await {
            Err(fault) if fault.code == Code::Conflict => {
                match (self.has_ended(session).await?, helps) {
                    (true, true) => Ok(()),
                    (true, false) => Err(fault),
                    (false, _) => {
                        let message = "more inputs wait for this session than are kept";
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
    pub fn close(self: &Arc<Self>, session: &Arc<Session>) -> Result<(), Fault> {
        {
            let mut kept = session.kept();
            kept.closed = true;
            write(&session.file, &kept)?;
        }
        tokio::spawn(Arc::clone(self).finish(Arc::clone(session)));
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
            told = told || run::wish(&self.host, session.run, Some(id), stop.clone()).await.is_ok();
            tokio::time::sleep(CLOSE_PAUSE).await;
        }
        self.forget(&session);
    }

    /// Removes what a session had. Its run stays in the books.
    fn forget(&self, session: &Session) {
        let kept = session.kept().clone();
        if kept.owned {
            let _ = fs::remove_dir_all(&kept.dir);
        }
        let _ = fs::remove_file(&session.file);
        self.known().remove(&kept.name);
    }

    fn close_silent(self: &Arc<Self>) {
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
            let _ = self.close(&session);
        }
    }
}

/// The number of the wish by which a closed session's run is ended; no caller counts this far.
const CLOSING: u64 = u64::MAX;

/// The id of the input of this number: the same whoever serves.
fn numbered(run: RunId, number: u64) -> CommandId {
    let hash = blake3::hash(format!("input {number} of {run}").as_bytes());
    let bytes: [u8; 16] = std::array::from_fn(|i| hash.as_bytes()[i]);
    CommandId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

async fn look(sessions: std::sync::Weak<Sessions>) {
    loop {
        let Some(silence_ms) = sessions.upgrade().map(|sessions| sessions.terms.silence_ms) else {
            return;
        };
        let pause_ms = (silence_ms / 4).clamp(10, LOOK_MS_MAX);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        if let Some(sessions) = sessions.upgrade() {
            sessions.close_silent();
        }
    }
}

/// A directory for one session, outside of our own.
fn workspace(temporary: &Path, run: RunId) -> Result<PathBuf, Fault> {
    let dir = temporary.join(format!("ostler-session-{}", run.uuid().simple()));
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => Ok(dir),
        Err(error) => {
            let message = format!("making the directory {}: {error}", dir.display());
            Err(Fault::new(Code::BadWorkspace, message).with_hint("give one with --dir"))
        }
    }
}

/// Makes a session durable: what is answered survives us.
fn write(file: &Path, kept: &Kept) -> Result<(), Fault> {
    let failed = |error: io::Error| {
        Fault::new(Code::StoreUnreadable, format!("{}: {error}", file.display()))
    };
    let text = serde_json::to_string(kept).map_err(io::Error::other).map_err(failed)?;
    let new = file.with_extension("new");
    data::write_private(&new, &text)
        .and_then(|()| fs::rename(&new, file))
        .and_then(|()| fs::File::open(file.parent().unwrap_or(file))?.sync_all())
        .map_err(failed)
}
