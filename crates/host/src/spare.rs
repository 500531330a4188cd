//! The keeper that is there before it is asked for. A process takes longer to come up than everything
//! else that a start does, so a host that is here to stay has one in hand, and gets the next one when
//! the launch that took it is over. A spare has no plan, touches nothing, and leaves when this
//! process does, however that ends. One that died, that does not see what was mounted since, or that
//! is in another control group than this process is now, is let go and counts as none; whoever finds none starts a keeper, as hosts that keep no spare do.

use crate::blocking::{self, Bulkhead};
use crate::cleanup;
use crate::drive::let_go;
use crate::supervise;
use keeper::door::{self, Spawned};
use keeper::plan::Level;
use keeper::strays::{self, Hold};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long after a launch the next spare is started: the agent's own start is not to share the
/// machine with it.
const PAUSE: Duration = Duration::from_millis(keeper::limits::SPARE_PAUSE_MS);
/// What is mounted, as this process sees it; the kernel tells whoever has it open when that changes.
const MOUNTS: &str = "/proc/self/mounts";
/// The control groups of this process: whoever it starts is bounded by what bounds it.
const GROUPS: &str = "/proc/self/cgroup";
/// As much as is read of them, which names them all on any machine but the strangest.
const GROUPS_BYTES_MAX: usize = 4096;

/// How this host comes by its keepers.
#[derive(Debug)]
pub(crate) struct Keepers {
    program: PathBuf,
    level: Level,
    /// Kept open, for it is looked at in every start.
    groups: Option<File>,
    spare: Mutex<Slot>,
}

#[derive(Debug)]
enum Slot {
    /// This host keeps none, or none any more.
    Never,
    None,
    /// One is being started.
    Coming,
    Here(Spare),
}

#[derive(Debug)]
struct Spare {
    spawned: Spawned,
    /// Keeps its pid from being given to another should it die.
    held: Hold,
    mounts: Option<File>,
    groups: Option<Vec<u8>>,
}

impl Spare {
    fn start(keepers: &Keepers) -> io::Result<Self> {
        // Before the keeper: what is mounted while it starts may or may not be seen by it.
        let mounts = File::open(MOUNTS).ok();
        let groups = keepers.groups();
        let spawned = keepers.start()?;
        let held = strays::hold(Pid::from_child(&spawned.child));
        Ok(Self { spawned, held, mounts, groups })
    }

    /// Whether it lives, and is where an agent that is started now must be.
    fn is_good(&mut self, keepers: &Keepers) -> bool {
        let lives = matches!(self.spawned.child.try_wait(), Ok(None));
        let sees = self.mounts.as_ref().is_none_or(|mounts| !has_changed(mounts));
        lives && sees && keepers.groups() == self.groups
    }

    fn let_go(self) {
        let Self { spawned: Spawned { control, child }, held, .. } = self;
        let_go((control, held), child);
    }
}

/// Whether something was mounted or unmounted since this was opened.
fn has_changed(mounts: &File) -> bool {
    let mut look = [PollFd::new(mounts, PollFlags::PRI)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A look that fails tells nothing, and then nothing may be assumed.
    !matches!(poll(&mut look, Some(&at_once)), Ok(0))
}

impl Keepers {
    pub fn new(program: PathBuf, level: Level, keeps_a_spare: bool) -> Self {
        let spare = if keeps_a_spare { Slot::None } else { Slot::Never };
        Self { program, level, groups: File::open(GROUPS).ok(), spare: Mutex::new(spare) }
    }

    /// The control groups that this process is in now.
    fn groups(&self) -> Option<Vec<u8>> {
        let mut text = vec![0; GROUPS_BYTES_MAX];
        let length = self.groups.as_ref()?.read_at(&mut text, 0).ok()?;
        text.truncate(length);
        Some(text)
    }

    /// A keeper that waits for its plan: the spare, or one that is started now.
    pub fn take(&self) -> io::Result<Spawned> {
        self.take_spare().map_or_else(|| self.start(), Ok)
    }

    /// One that is started now.
    pub fn start(&self) -> io::Result<Spawned> {
        door::spawn(&self.program, self.level, None)
    }

    /// The spare, when there is a good one.
    pub fn take_spare(&self) -> Option<Spawned> {
        let mut spare = self.exchange(Slot::None)?;
        match spare.is_good(self) {
            // From here on whoever has it waits for it as for any keeper.
            true => Some(spare.spawned),
            false => {
                spare.let_go();
                None
            }
        }
    }

    /// Lets go of a spare that is good no more, and gets another.
    pub fn look(self: &Arc<Self>) {
        let mut slot = self.slot();
        let Slot::Here(spare) = &mut *slot else { return };
        if spare.is_good(self) {
            return;
        }
        let spare = std::mem::replace(&mut *slot, Slot::None);
        drop(slot);
        if let Slot::Here(spare) = spare {
            spare.let_go();
        }
        self.refill();
    }

    /// Sees to it that a spare will be there, after a pause.
    pub fn refill(self: &Arc<Self>) {
        {
            let mut slot = self.slot();
            match &*slot {
                Slot::None => *slot = Slot::Coming,
                Slot::Never | Slot::Coming | Slot::Here(_) => return,
            }
        }
        let keepers = Arc::clone(self);
        supervise::spawn("refill keepers", async move {
            tokio::time::sleep(PAUSE).await;
            // `fill` logs a keeper that does not start, and `supervise` a panic.
            let _ = blocking::spawn(Bulkhead::Data, "start keepers", move || keepers.fill()).await;
        });
    }

    fn fill(&self) {
        let started = Spare::start(self)
            .inspect_err(|error| tracing::warn!(%error, "a spare keeper cannot be started"))
            .ok();
        let mut slot = self.slot();
        match (&*slot, started) {
            (Slot::Coming, Some(spare)) => *slot = Slot::Here(spare),
            (Slot::Coming, None) => *slot = Slot::None,
            (Slot::Never | Slot::None | Slot::Here(_), started) => {
                drop(slot);
                started.into_iter().for_each(Spare::let_go);
            }
        }
    }

    /// Lets go of the spare for good, and waits for it.
    pub async fn close(&self) {
        let Some(spare) = self.exchange(Slot::Never) else { return };
        let Spare { spawned: Spawned { control, mut child }, held, .. } = spare;
        drop(control);
        let waited = blocking::spawn(Bulkhead::Wait, "wait for keepers", move || {
            cleanup::wait(&mut child);
            drop(held);
        });
        // One that does not leave is left behind; it has nothing.
        let _ = tokio::time::timeout(crate::LET_GO_MAX, waited).await;
    }

    /// Takes out the spare, if one is here; only then or for good does the slot change.
    fn exchange(&self, next: Slot) -> Option<Spare> {
        let mut slot = self.slot();
        match (&*slot, &next) {
            (Slot::Here(_), _) | (_, Slot::Never) => {}
            (Slot::Never | Slot::None | Slot::Coming, _) => return None,
        }
        match std::mem::replace(&mut *slot, next) {
            Slot::Here(spare) => Some(spare),
            Slot::Never | Slot::None | Slot::Coming => None,
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        // Whatever panicked, a slot is whole at every moment.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
