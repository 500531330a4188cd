//! Places for connections. There are so many and no more, and a crowd that only stands there takes
//! them from nobody: whoever has not shown a good token yet is a stranger, and when a place is needed
//! the stranger who came first goes. Whoever has shown one stays until it leaves by itself. What is
//! asked over a connection is not known here.

use std::collections::BTreeMap;
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
        self.standing.vouch();
    }
}

impl Standing {
    /// From now on this connection is no stranger's.
    pub fn vouch(&self) {
        lock(&self.strangers).waiting.remove(&self.number);
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
        known.standing().vouch();
        assert!(stranger.asked_to_go().now_or_never().is_none(), "nobody needs a place yet");
        let mut third = Box::pin(places.take());
        assert!(third.as_mut().now_or_never().is_none());
        assert!(stranger.asked_to_go().now_or_never().is_some());
        assert!(known.asked_to_go().now_or_never().is_none());
        drop(stranger);
        let third = third.await;
        // Where everyone is known the next one waits.
        third.standing().vouch();
        let mut fourth = Box::pin(places.take());
        assert!(fourth.as_mut().now_or_never().is_none());
        assert!(third.asked_to_go().now_or_never().is_none());
        drop(known);
        fourth.await;
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
