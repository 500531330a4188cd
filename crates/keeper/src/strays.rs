//! Strangers that became our children and have ended: a server is a subreaper, and in a container
//! often the first process, so whoever loses its parent comes to it, and stays as a zombie until
//! someone waits for it.
//!
//! A child that someone here started is never taken from its owner. Most owners wait at once, so
//! only a zombie that is still there at the second look counts as nobody's; an owner that waits
//! later, and counts on the number until then, says so with [`hold`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, getpid, waitid, waitpid};

use crate::keep::family;

/// Pids of children that their owners wait for later.
static HELD: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Keeps a child's pid from being given back for as long as it lives.
#[derive(Debug)]
pub struct Hold(Pid);

/// Says that the owner of this child will wait for it in its own time.
pub fn hold(child: Pid) -> Hold {
    held().push(child);
    Hold(child)
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = held();
        if let Some(index) = held.iter().position(|pid| *pid == self.0) {
            held.swap_remove(index);
        }
    }
}

fn held() -> MutexGuard<'static, Vec<Pid>> {
    // A list of numbers is whole at every moment.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub struct Strays {
    /// Zombies with their start times: a number may come again, not both.
    seen: Vec<(Pid, u64)>,
}

impl Strays {
    /// Looks for zombies and lets go of those that nobody waited for since the last look. Gives how
    /// many. Cheap while there are none.
    pub fn look(&mut self) -> usize {
        let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if !matches!(waitid(WaitId::All, any), Ok(Some(_))) {
            self.seen.clear();
            return 0;
        }
        let children = family::children_of(getpid()).into_iter();
        let zombies = children.filter(|pid| family::is_zombie(*pid));
        let zombies: Vec<_> =
            zombies.filter_map(|pid| Some((pid, family::start_ticks(pid)?))).collect();
        let before = std::mem::take(&mut self.seen);
        let held = held();
        let (old, new): (Vec<_>, Vec<_>) = zombies
            .into_iter()
            .filter(|(pid, _)| !held.contains(pid))
            .partition(|zombie| before.contains(zombie));
        self.seen = new;
        let waited = old
            .iter()
            .filter(|(pid, _)| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_))));
        waited.count()
    }
}
