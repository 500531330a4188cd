//! Places for connections. There are so many and no more, and a crowd that only stands there takes
//! them from nobody: whoever has not shown a good token yet is a stranger, and when a place is needed
//! the stranger who came first goes. Whoever has shown one stays until it leaves by itself. What is
//! asked over a connection is not known here.

use crate::watchers::Holder;
use contract::limits::TOKEN_CONNECTIONS_MAX;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All places of a server. Cheap to clone.
#[derive(Clone)]
pub struct Places {
    free: Arc<Semaphore>,
    strangers: Arc<Mutex<Strangers>>,
}

#[derive(Default)]
struct Strangers {
    next: u64,
    /// In the order in which they came.
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// The connections that a token has vouched for, and how many each token has.
    vouched: HashMap<u64, Holder>,
    held: HashMap<Holder, usize>,
}

impl Strangers {
    /// Forgets a connection.
    fn remove(&mut self, number: u64) {
        self.waiting.remove(&number);
        let Some(holder) = self.vouched.remove(&number) else { return };
        if let Some(held) = self.held.get_mut(&holder) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held.remove(&holder);
            }
        }
    }
}

/// The place of one connection, for as long as it is held.
pub struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    standing: Standing,
    asked_to_go: Arc<Notify>,
}

/// How a connection is looked upon. Requests carry it, so that the guard can speak for them.
#[derive(Clone)]
pub struct Standing {
    number: u64,
    strangers: Arc<Mutex<Strangers>>,
}

impl Places {
    pub fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), strangers: Arc::default() }
    }

    /// A place for the next connection: a free one, else that of the stranger who came first, else
    /// the first that becomes free.
    pub async fn take(&self) -> Place {
        let permit = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(permit) => Some(permit),
            // All are taken.
            Err(_) => {
                if let Some((_, first)) = lock(&self.strangers).waiting.pop_first() {
                    first.notify_one();
                }
                // The semaphore is never closed.
                Arc::clone(&self.free).acquire_owned().await.ok()
            }
        };
        let asked_to_go = Arc::new(Notify::new());
        let mut strangers = lock(&self.strangers);
        let number = strangers.next;
        strangers.next += 1;
        strangers.waiting.insert(number, Arc::clone(&asked_to_go));
        drop(strangers);
        let standing = Standing { number, strangers: Arc::clone(&self.strangers) };
        Place { _permit: permit, standing, asked_to_go }
    }
}

impl Place {
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Waits until another needs the place.
    pub async fn asked_to_go(&self) {
        self.asked_to_go.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.standing.strangers).remove(self.standing.number);
    }
}

impl Standing {
    /// From now on this connection is no stranger's, if its token has a share left: a token that leaks,
    /// or an agent with the token of its run, does not take the places of all others. The owner has no
    /// limit.
    pub fn vouch(&self, holder: Holder) {
        let mut strangers = lock(&self.strangers);
        if !strangers.waiting.contains_key(&self.number) {
            return;
        }
        if holder != Holder::Owner {
            let held = strangers.held.entry(holder).or_default();
            if *held >= TOKEN_CONNECTIONS_MAX {
                return;
            }
            *held += 1;
            strangers.vouched.insert(self.number, holder);
        }
        strangers.waiting.remove(&self.number);
    }
}

fn lock(strangers: &Mutex<Strangers>) -> MutexGuard<'_, Strangers> {
    // Whatever panicked, the list is whole at every moment.
    strangers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn the_stranger_who_came_first_goes_and_whoever_was_vouched_for_stays() {
        let places = Places::new(2);
        let (known, stranger) = (places.take().await, places.take().await);
        known.standing().vouch(Holder::Owner);
        assert!(stranger.asked_to_go().now_or_never().is_none(), "nobody needs a place yet");
        let mut third = Box::pin(places.take());
        assert!(third.as_mut().now_or_never().is_none());
        assert!(stranger.asked_to_go().now_or_never().is_some());
        assert!(known.asked_to_go().now_or_never().is_none());
        drop(stranger);
        let third = third.await;
        // Where everyone is known the next one waits.
        third.standing().vouch(Holder::Owner);
        let mut fourth = Box::pin(places.take());
        assert!(fourth.as_mut().now_or_never().is_none());
        assert!(third.asked_to_go().now_or_never().is_none());
        drop(known);
        fourth.await;
    }

    #[tokio::test]
    async fn a_token_vouches_for_its_share_of_connections() {
        let places = Places::new(TOKEN_CONNECTIONS_MAX + 2);
        let run = |n| Holder::Run(contract::RunId::new(uuid::Uuid::from_bytes([n; 16])));
        let mut held = Vec::new();
        for _ in 0..=TOKEN_CONNECTIONS_MAX {
            let place = places.take().await;
            place.standing().vouch(run(1));
            // A second request over the same connection counts once.
            place.standing().vouch(run(1));
            held.push(place);
        }
        let other = places.take().await;
        other.standing().vouch(run(2));
        // The connection beyond the share is the stranger who goes.
        let mut next = Box::pin(places.take());
        assert!(next.as_mut().now_or_never().is_none());
        let beyond = held.pop().unwrap();
        assert!(beyond.asked_to_go().now_or_never().is_some());
        assert!(other.asked_to_go().now_or_never().is_none());
        drop(beyond);
        drop(next.await);
        // A connection that ends gives its share back.
        drop(held.pop());
        let again = places.take().await;
        again.standing().vouch(run(1));
        assert!(lock(&places.strangers).waiting.is_empty());
        drop((held, other, again));
        let strangers = lock(&places.strangers);
        assert!(strangers.held.is_empty() && strangers.vouched.is_empty());
    }

    #[tokio::test]
    async fn a_place_that_is_given_back_leaves_nobody_on_the_list() {
        let places = Places::new(1);
        for _ in 0..3 {
            drop(places.take().await);
        }
        assert!(lock(&places.strangers).waiting.is_empty());
    }
}
