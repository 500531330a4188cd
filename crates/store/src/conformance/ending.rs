//! How a run ends: once, with one result, whatever else happens; and what its end does to the
//! task, the lease and the money set aside.

use super::{Holder, NOW, Sure, claim_of, holder, refused, reserve};
use crate::backend::Backend;
use crate::batch::Settle;
use contract::event::{Outcome, Totals};
use contract::{Code, NanoUsd, RunState, TaskState, Tokens};

pub(super) async fn all<B: Backend>(make: &impl AsyncFn() -> B) {
    a_run_ends_once_with_one_result_at_its_end(&Sure(make().await)).await;
    a_task_that_is_queued_again_gets_a_higher_fence(&Sure(make().await)).await;
    only_an_expired_lease_is_reaped(&Sure(make().await)).await;
    a_reaper_that_dies_is_reaped(&Sure(make().await)).await;
    a_scope_never_promises_more_than_its_limit(&Sure(make().await)).await;
    the_end_replaces_what_was_set_aside_by_what_was_spent(&Sure(make().await)).await;
}

async fn a_run_ends_once_with_one_result_at_its_end<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let whole = held.settling(TaskState::Done, Totals::default());
    let mut without_settle = whole.clone();
    without_settle.settle = None;
    without_settle.run_state = RunState::Live;
    let mut without_result = whole.clone();
    without_result.events.pop();
    let mut result_first = held.settling(TaskState::Done, Totals::default());
    result_first.events = vec![held.result(1, Totals::default()), held.log(2, "after the end")];
    let mut two_results = whole.clone();
    two_results.events[0] = held.result(1, Totals::default());
    let mut settled_by_word = held.batch(&["settled?"]);
    settled_by_word.run_state = RunState::Settled;
    let mut still_running = whole.clone();
    still_running.settle =
        whole.settle.clone().map(|settle| Settle { task_state: TaskState::Running, ..settle });
    for broken in
        [without_settle, without_result, result_first, two_results, settled_by_word, still_running]
    {
        assert_eq!(refused(store.commit(broken).await), Code::Conflict);
    }
    store.commit(whole).await.unwrap();
    let run = store.0.run(held.run).await.unwrap().unwrap();
    assert_eq!((run.state, run.outcome), (RunState::Settled, Some(Outcome::Failed)));
    assert_eq!((run.code, run.message.as_deref()), (Some(Code::AgentFailed), Some("it failed")));
    assert_eq!(store.0.task(held.task).await.unwrap().unwrap().state, TaskState::Done);
    assert_eq!(store.0.resume_point(held.run).await.unwrap(), None);
    let later = Holder { head_seq: 2, ..held };
    assert_eq!(refused(store.commit(later.batch(&["later"])).await), Code::FenceStale);
    assert_eq!(refused(store.claim(claim_of(held.task, "two")).await), Code::Conflict);
}

async fn a_task_that_is_queued_again_gets_a_higher_fence<B: Backend>(store: &Sure<B>) {
    let first = holder(store).await;
    store.commit(first.settling(TaskState::Queued, Totals::default())).await.unwrap();
    let claim = claim_of(first.task, "two");
    let run = claim.run;
    let fence = store.claim(claim).await.unwrap().fence;
    assert_eq!(fence, first.fence + 1);
    let late = Holder { head_seq: 2, ..first };
    assert_eq!(refused(store.commit(late.batch(&["late"])).await), Code::FenceStale);
    let second = Holder { run, fence, head_seq: 0, ..first };
    store.commit(second.settling(TaskState::Done, Totals::default())).await.unwrap();
}

async fn only_an_expired_lease_is_reaped<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let renewed = holder(store).await;
    store.renew(renewed.run, renewed.fence, NOW.plus_ms(100_000_000)).await.unwrap();
    // Not by `Sure`, which would come back later; whether or not it answers, nothing is reaped.
    let early = store.0.reap(NOW.plus_ms(999)).await.unwrap_or_default();
    assert_eq!(early, []);
    assert_eq!(store.0.run(held.run).await.unwrap().unwrap().fence, held.fence);
    let reaped = store.reap(NOW.plus_ms(1_000)).await.unwrap();
    assert_eq!(reaped.iter().map(|reaped| reaped.run).collect::<Vec<_>>(), [held.run]);
    assert!(reaped[0].fence > held.fence && reaped[0].fence == reaped[0].old_fence + 1);
    assert_eq!(reaped[0].head_seq, 0);
    assert_eq!(refused(store.commit(held.batch(&["late"])).await), Code::FenceStale);
    store.commit(renewed.batch(&["still here"])).await.unwrap();
    let reaper = Holder { fence: reaped[0].fence, ..held };
    store.commit(reaper.settling(TaskState::Queued, Totals::default())).await.unwrap();
    let task = store.0.task(held.task).await.unwrap().unwrap();
    assert_eq!((task.state, task.fence), (TaskState::Queued, reaper.fence));
}

async fn a_reaper_that_dies_is_reaped<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let first = store.reap(NOW.plus_ms(1_000)).await.unwrap()[0];
    let second = store.reap(NOW.plus_ms(100_000_000)).await.unwrap()[0];
    assert!(second.fence > first.fence);
    let dead = Holder { fence: first.fence, ..held };
    let closing = dead.settling(TaskState::Failed, Totals::default());
    assert_eq!(refused(store.commit(closing).await), Code::FenceStale);
    let alive = Holder { fence: second.fence, ..held };
    store.commit(alive.settling(TaskState::Failed, Totals::default())).await.unwrap();
}

async fn a_scope_never_promises_more_than_its_limit<B: Backend>(store: &Sure<B>) {
    let (one, two) = (holder(store).await, holder(store).await);
    store.reserve(reserve(&one, 60, Some(100))).await.unwrap();
    assert_eq!(refused(store.reserve(reserve(&two, 41, Some(100))).await), Code::BudgetExceeded);
    store.reserve(reserve(&two, 40, Some(100))).await.unwrap();
    store.reserve(reserve(&one, 60, Some(100))).await.unwrap();
    assert_eq!(refused(store.reserve(reserve(&one, 61, Some(100))).await), Code::BudgetExceeded);
    let mut tokens = reserve(&one, 1, None);
    tokens.tokens_max = Some(19);
    assert_eq!(refused(store.reserve(tokens).await), Code::BudgetExceeded);
    let mut turns = reserve(&one, 1, None);
    turns.turns_max = Some(3);
    assert_eq!(refused(store.reserve(turns.clone()).await), Code::BudgetExceeded);
    turns.turns_max = Some(4);
    store.reserve(turns).await.unwrap();
    let mut time = reserve(&one, 1, None);
    time.ms_max = Some(199);
    assert_eq!(refused(store.reserve(time).await), Code::BudgetExceeded);
}

async fn the_end_replaces_what_was_set_aside_by_what_was_spent<B: Backend>(store: &Sure<B>) {
    let (priced, unpriced, next) = (holder(store).await, holder(store).await, holder(store).await);
    store.reserve(reserve(&priced, 50, Some(100))).await.unwrap();
    store.reserve(reserve(&unpriced, 50, Some(100))).await.unwrap();
    let tokens = Tokens { output: 5, ..Tokens::default() };
    let spent = Totals { tokens, effective_nanousd: Some(NanoUsd(20)) };
    store.commit(priced.settling(TaskState::Done, spent)).await.unwrap();
    let unknown = Totals { tokens, effective_nanousd: None };
    store.commit(unpriced.settling(TaskState::Done, unknown)).await.unwrap();
    assert_eq!(refused(store.reserve(reserve(&next, 31, Some(100))).await), Code::BudgetExceeded);
    store.reserve(reserve(&next, 30, Some(100))).await.unwrap();
    // Three turns and half a second of each that ended, whatever was set aside for them.
    let mut turns = reserve(&next, 30, None);
    (turns.turns_max, turns.ms_max) = (Some(8), Some(1_100));
    store.reserve(turns.clone()).await.unwrap();
    (turns.turns_max, turns.ms_max) = (Some(7), None);
    assert_eq!(refused(store.reserve(turns.clone()).await), Code::BudgetExceeded);
    (turns.turns_max, turns.ms_max) = (None, Some(1_099));
    assert_eq!(refused(store.reserve(turns).await), Code::BudgetExceeded);
    // One of which it is known that it spent nothing gives back what was set aside for it.
    let mut refused_by_its_provider = next.settling(TaskState::Failed, Totals::default());
    if let Some(settle) = &mut refused_by_its_provider.settle {
        settle.unspent = true;
    }
    store.commit(refused_by_its_provider).await.unwrap();
    let next = holder(store).await;
    store.reserve(reserve(&next, 30, Some(100))).await.unwrap();
    let mut tomorrow = reserve(&next, 100, Some(100));
    tomorrow.since = NOW.plus_ms(1_000);
    store.reserve(tomorrow).await.unwrap();
}
