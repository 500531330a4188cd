//! Who watches. A watcher is a cursor and costs little, but not nothing: there are places for so many,
//! each token has a share of them, and some are kept for the owner, whom nobody can lock out. What a
//! watcher holds ends from outside: when the host leaves or the token is good no more, its stream is
//! told, and whoever does not read is not waited for (`patience.rs`).

use crate::auth::Caller;
use crate::pass::Pass;
use crate::patience::Hurry;
use contract::{Code, Fault, RunId, TokenId, limits};
use host::Host;
use host::supervise;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// All places for watchers of a host. Cheap to clone.
#[derive(Clone, Default)]
pub struct Watchers(Arc<Mutex<HashMap<Holder, usize>>>);

/// Whose places are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Owner,
    Token(TokenId),
    Run(RunId),
}

impl From<&Caller> for Holder {
    fn from(caller: &Caller) -> Self {
        match caller {
            Caller::Run(bearer) => Self::Run(bearer.run),
            Caller::Person(person) => person.token().map_or(Self::Owner, Self::Token),
        }
    }
}

/// The place of one watcher, for as long as it is held.
pub struct WatcherPlace {
    watchers: Watchers,
    holder: Holder,
}

impl Watchers {
    pub fn take(&self, caller: &Caller) -> Result<WatcherPlace, Fault> {
        self.place_of(caller.into())
    }

    /// Counts the connected watchers.
    pub fn count(&self) -> usize {
        self.lock().values().sum()
    }

    fn place_of(&self, holder: Holder) -> Result<WatcherPlace, Fault> {
        let full = |message: String| {
            Err(Fault::new(Code::RateLimited, message)
                .with_hint("close a stream that you do not read, and try again"))
        };
        let mut held = self.lock();
        let all: usize = held.values().sum();
        let own = held.get(&holder).copied().unwrap_or(0);
        if holder != Holder::Owner {
            let others = all - held.get(&Holder::Owner).copied().unwrap_or(0);
            if own >= limits::WATCHERS_OF_TOKEN_MAX {
                return full(format!("{own} watchers are already connected with this token"));
            }
            if others >= limits::WATCHERS_MAX - limits::WATCHERS_OF_OWNER_MIN {
                return full(format!("{others} watchers are already connected"));
            }
        }
        if all >= limits::WATCHERS_MAX {
            return full(format!("{all} watchers are already connected"));
        }
        *held.entry(holder).or_default() += 1;
        Ok(WatcherPlace { watchers: self.clone(), holder })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        // Whatever panicked, the count is whole at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WatcherPlace {
    fn drop(&mut self) {
        let mut held = self.watchers.lock();
        if let Some(count) = held.get_mut(&self.holder) {
            *count -= 1;
        }
        held.retain(|_, count| *count > 0);
    }
}

/// What ends a stream from outside, also while nobody asks the stream anything because its socket is
/// full. Held by the stream; its task ends with it.
pub struct Leash {
    over: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Leash {
    /// Until the host leaves, or the token of whoever asked is good no more.
    pub fn of(host: &Host, caller: &Caller, hurry: Hurry) -> Self {
        let (mut leaving, mut pass) = (host.leaving(), Pass::of(host, caller));
        Self::until(hurry, async move {
            tokio::select! {
                _ = leaving.changed() => {}
                () = pass.ended() => {}
            }
        })
    }

    pub fn until(hurry: Hurry, end: impl Future<Output = ()> + Send + 'static) -> Self {
        let (tell, over) = watch::channel(false);
        let task = supervise::spawn("end of stream", async move {
            end.await;
            tell.send_replace(true);
            hurry.press();
        });
        Self { over, task: task.abort_handle() }
    }

    /// Returns when the stream is to end. Dropping the future loses nothing.
    pub async fn over(&mut self) {
        // A task that is gone without a word has nobody to wait for either.
        let _ = self.over.wait_for(|over| *over).await;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::limits::{WATCHERS_MAX, WATCHERS_OF_OWNER_MIN, WATCHERS_OF_TOKEN_MAX};

    fn fill(watchers: &Watchers, holder: Holder) -> Vec<WatcherPlace> {
        std::iter::from_fn(|| watchers.place_of(holder).ok()).collect()
    }

    fn token(number: u128) -> Holder {
        Holder::Token(TokenId::new(uuid::Uuid::from_u128(number)))
    }

    #[test]
    fn one_token_has_its_share_and_all_of_them_leave_places_for_the_owner() {
        let watchers = Watchers::default();
        let first = fill(&watchers, token(1));
        assert_eq!(first.len(), WATCHERS_OF_TOKEN_MAX);
        assert_eq!(fill(&watchers, token(2)).len(), WATCHERS_OF_TOKEN_MAX);
        let all: Vec<_> = (1..100).flat_map(|number| fill(&watchers, token(number))).collect();
        assert_eq!(first.len() + all.len(), WATCHERS_MAX - WATCHERS_OF_OWNER_MIN);
        let own = fill(&watchers, Holder::Owner);
        assert_eq!(own.len(), WATCHERS_OF_OWNER_MIN);
        drop(all);
        assert_eq!(fill(&watchers, Holder::Owner).len(), WATCHERS_MAX - own.len() - first.len());
        drop((first, own));
        assert!(watchers.lock().is_empty(), "nobody is remembered who is gone");
    }
}
