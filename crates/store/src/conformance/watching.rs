//! What a watcher sees: committed events only, each once, in order, however slow or late it is,
//! and the end.

use super::{Holder, Sure, holder, refused};
use crate::backend::Backend;
use crate::error::Error;
use contract::event::Totals;
use contract::{Code, RunId, TaskState};

pub(super) async fn all<B: Backend>(make: &impl AsyncFn() -> B) {
    a_watcher_sees_every_event_once_in_order_and_the_end(&Sure(make().await)).await;
    a_watcher_that_comes_late_sees_the_same(&Sure(make().await)).await;
    nothing_is_seen_of_a_batch_that_was_refused(&Sure(make().await)).await;
}

/// The numbers a watcher sees from here to the end of the run.
pub async fn watched<B: Backend>(
    backend: B,
    run: RunId,
    after_seq: u64,
    limit: usize,
) -> Result<Vec<u64>, Error> {
    let mut follower = backend.follow(run, after_seq);
    let mut seen = Vec::new();
    loop {
        let page = follower.next(limit).await?;
        seen.extend(page.events.iter().map(|event| event.seq));
        if page.settled {
            return Ok(seen);
        }
        assert!(!page.events.is_empty(), "a page before the end has events");
    }
}

async fn run_of<B: Backend>(store: &Sure<B>, mut held: Holder, batches: u64) {
    for n in 0..batches {
        let texts = ["a", "b", "c"];
        let batch = held.batch(&texts[..1 + n as usize % 3]);
        held.head_seq = store.commit(batch).await.unwrap().head_seq;
        tokio::task::yield_now().await;
    }
    store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the suite awaits the watchers that it starts")]
async fn a_watcher_sees_every_event_once_in_order_and_the_end<B: Backend>(store: &Sure<B>) {
    let (one, two) = (holder(store).await, holder(store).await);
    let watchers: Vec<_> = [(one.run, 0, 1), (one.run, 0, 512), (one.run, 7, 3), (two.run, 0, 5)]
        .into_iter()
        .map(|(run, after, limit)| {
            (after, tokio::spawn(watched(store.0.clone(), run, after, limit)))
        })
        .collect();
    tokio::join!(run_of(store, one, 12), run_of(store, two, 12));
    for (after, watcher) in watchers {
        let seen = watcher.await.unwrap().unwrap();
        assert_eq!(seen, (after + 1..=26).collect::<Vec<_>>());
    }
}

async fn a_watcher_that_comes_late_sees_the_same<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    run_of(store, held, 6).await;
    for after in [0, 5, 14, 99] {
        let seen = watched(store.0.clone(), held.run, after, 4).await.unwrap();
        assert_eq!(seen, (after + 1..=14).collect::<Vec<_>>());
    }
    let mut follower = store.0.follow(held.run, 14);
    assert!(follower.next(1).await.unwrap().settled);
    assert!(follower.next(1).await.unwrap().settled, "the end stays the end");
    let nobody = RunId::new(super::next_uuid());
    assert_eq!(refused(watched(store.0.clone(), nobody, 0, 1).await), Code::NotFound);
}

#[expect(clippy::disallowed_methods, reason = "the suite awaits the watchers that it starts")]
async fn nothing_is_seen_of_a_batch_that_was_refused<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let stale = Holder { fence: held.fence + 1, ..held };
    let watcher = tokio::spawn(watched(store.0.clone(), held.run, 0, 8));
    assert_eq!(refused(store.commit(stale.batch(&["never"])).await), Code::FenceStale);
    run_of(store, held, 1).await;
    assert_eq!(watcher.await.unwrap().unwrap(), [1, 2, 3]);
}
