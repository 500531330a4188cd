//! Slots: how many runs of one adapter there may be, who comes next, and how a place in line is
//! left. Counted from the rows, so it holds for whoever opens the store next.

use super::{Sure, claim_of, new_task, next_uuid, refused};
use crate::backend::Backend;
use crate::batch::*;
use crate::conformance::Holder;
use crate::error::Error;
use crate::queue::Follow;
use crate::row::Standing;
use contract::event::Totals;
use contract::state::WaitingFor;
use contract::{Code, RunId, TaskId, TaskState};

pub async fn all<B: Backend>(make: &impl AsyncFn() -> B) {
    a_slot_is_had_by_one_run_until_its_end(&Sure(make().await)).await;
    whoever_came_first_is_first_within_a_priority(&Sure(make().await)).await;
    a_place_in_line_is_had_once_under_its_runs_id(&Sure(make().await)).await;
    a_place_in_line_is_left_only_from_where_it_was_seen(&Sure(make().await)).await;
    a_task_that_waits_for_a_slot_is_claimed_only_with_one(&Sure(make().await)).await;
}

const POOL: &str = "fake";

/// A task that stands in line under the id of a run.
fn in_line(priority: i32) -> (NewTask, RunId) {
    let run = RunId::new(next_uuid());
    let line = Some(InLine { pool: POOL.into(), run });
    (NewTask { priority, line, ..new_task() }, run)
}

fn claim_slot(task: TaskId, run: RunId, places: u32) -> Claim {
    Claim { run, places: Some(places), ..claim_of(task, "one") }
}

async fn lined_up<B: Backend>(store: &Sure<B>, priority: i32) -> (TaskId, RunId) {
    let (task, run) = in_line(priority);
    (store.enqueue(task).await.expect("a line takes everyone"), run)
}

fn no_slot<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(&answer, Err(Error::PoolFull { pool }) if pool == POOL), "{answer:?}");
}

async fn a_slot_is_had_by_one_run_until_its_end<B: Backend>(store: &Sure<B>) {
    let (one, two) = (lined_up(store, 0).await, lined_up(store, 0).await);
    let fence = store.claim(claim_slot(one.0, one.1, 1)).await.unwrap().fence;
    no_slot(store.claim(claim_slot(two.0, two.1, 1)).await);
    // A run of another adapter takes none of these slots, and one that only queues waits for them.
    let other = store.enqueue(new_task()).await.unwrap();
    let mut elsewhere = claim_slot(other, RunId::new(next_uuid()), 1);
    elsewhere.head.adapter = "another".into();
    store.claim(elsewhere).await.unwrap();
    let queued = store.enqueue(new_task()).await.unwrap();
    no_slot(store.claim(claim_slot(queued, RunId::new(next_uuid()), 1)).await);
    let standing = store.0.standing(two.0).await.unwrap();
    assert_eq!(standing, Some(Standing { ahead: 0, taken: 1 }));

    let held = Holder { task: one.0, run: one.1, fence, head_seq: 0 };
    store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
    assert_eq!(store.0.standing(two.0).await.unwrap(), Some(Standing { ahead: 0, taken: 0 }));
    store.claim(claim_slot(two.0, two.1, 1)).await.unwrap();
    assert_eq!(store.0.standing(two.0).await.unwrap(), None, "it waits no more");
    assert_eq!(store.0.task(two.0).await.unwrap().unwrap().waiting_for, None);
}

async fn whoever_came_first_is_first_within_a_priority<B: Backend>(store: &Sure<B>) {
    let first = lined_up(store, 0).await;
    let second = lined_up(store, 0).await;
    let urgent = lined_up(store, 5).await;
    let order = [urgent, first, second];
    for (ahead, (task, _)) in order.iter().enumerate() {
        let standing = store.0.standing(*task).await.unwrap();
        assert_eq!(standing, Some(Standing { ahead: ahead as u64, taken: 0 }));
    }
    // Room for all, and still one after the other.
    for (n, turn) in order.iter().enumerate() {
        for (task, run) in &order[n + 1..] {
            no_slot(store.claim(claim_slot(*task, *run, 9)).await);
        }
        store.claim(claim_slot(turn.0, turn.1, 9)).await.unwrap();
    }
}

async fn a_place_in_line_is_had_once_under_its_runs_id<B: Backend>(store: &Sure<B>) {
    let (task, run) = in_line(0);
    let id = store.enqueue(task.clone()).await.unwrap();
    let again = NewTask { id: TaskId::new(next_uuid()), ..task };
    assert_eq!(store.enqueue(again).await.unwrap(), id);
    let row = store.0.task(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.waiting_for), (TaskState::Waiting, Some(WaitingFor::Pool)));
    assert_eq!((row.run, row.pool.as_deref(), row.fence), (Some(run), Some(POOL), 0));
    assert_eq!(store.0.run(run).await.unwrap(), None, "no run is made by waiting");
}

async fn a_place_in_line_is_left_only_from_where_it_was_seen<B: Backend>(store: &Sure<B>) {
    let (first, second) = (lined_up(store, 0).await, lined_up(store, 0).await);
    let (from, to) = (TaskState::Waiting, TaskState::Cancelled);
    let leave = TaskMove {
        task: first.0,
        fence: 0,
        from,
        to,
        waiting_for: None,
        pool: None,
        follow: Follow::default(),
    };
    for wrong in [
        TaskMove { fence: 1, ..leave.clone() },
        TaskMove { from: TaskState::Queued, ..leave.clone() },
        TaskMove { to: TaskState::Running, ..leave.clone() },
        TaskMove { task: TaskId::new(next_uuid()), ..leave.clone() },
        // Nobody waits for a slot of nothing.
        TaskMove { to: from, waiting_for: Some(WaitingFor::Pool), ..leave.clone() },
    ] {
        assert_eq!(refused(store.move_task(wrong).await), Code::Conflict);
    }
    no_slot(store.claim(claim_slot(second.0, second.1, 9)).await);
    store.move_task(leave.clone()).await.unwrap();
    assert_eq!(refused(store.0.move_task(leave).await), Code::Conflict, "once");
    assert_eq!(refused(store.claim(claim_slot(first.0, first.1, 9)).await), Code::Conflict);
    assert_eq!(store.0.standing(first.0).await.unwrap(), None);
    store.claim(claim_slot(second.0, second.1, 9)).await.unwrap();
    // Who began is not cancelled any more by whoever saw it wait.
    let late = TaskMove {
        task: second.0,
        fence: 0,
        from,
        to,
        waiting_for: None,
        pool: None,
        follow: Follow::default(),
    };
    assert_eq!(refused(store.move_task(late).await), Code::Conflict);
    // A queued task goes to the end of nobody's line: its place is that of its arrival.
    let queued = store.enqueue(new_task()).await.unwrap();
    let third = lined_up(store, 0).await;
    let (waiting_for, pool) = (Some(WaitingFor::Pool), Some(POOL.to_owned()));
    let from = TaskState::Queued;
    let wait = TaskMove {
        task: queued,
        fence: 0,
        from,
        to: TaskState::Waiting,
        waiting_for,
        pool,
        follow: Follow::default(),
    };
    store.move_task(wait).await.unwrap();
    assert_eq!(store.0.standing(third.0).await.unwrap(), Some(Standing { ahead: 1, taken: 1 }));
    store.claim(claim_slot(queued, RunId::new(next_uuid()), 9)).await.unwrap();
}

async fn a_task_that_waits_for_a_slot_is_claimed_only_with_one<B: Backend>(store: &Sure<B>) {
    let (task, run) = lined_up(store, 0).await;
    let bare = Claim { places: None, ..claim_slot(task, run, 9) };
    assert_eq!(refused(store.claim(bare).await), Code::Conflict);
    let mut elsewhere = claim_slot(task, run, 9);
    elsewhere.head.adapter = "another".into();
    let refusal = store.claim(elsewhere).await.unwrap_err();
    assert!(matches!(refusal, Error::Conflict { .. }), "{refusal}");
    store.claim(claim_slot(task, run, 9)).await.unwrap();
}
