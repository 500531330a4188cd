//! Quotas and shared sums: changed only by who saw the last change, and never promised twice.

use super::sound;
use crate::conformance::{Holder, claim_of, new_task, refused};
use crate::*;
use contract::event::Totals;
use contract::{Code, NanoUsd, TaskState, Timestamp};
use tempfile::TempDir;

fn step(seen: u64, breaker: Option<&str>) -> QuotaStep {
    let (scope, breaker) = ("claude".to_owned(), breaker.map(str::to_owned));
    QuotaStep { scope, seen, breaker, opened: None }
}

fn reserve(run: RunId, nanousd: i64, max: i64) -> Reserve {
    Reserve {
        scope: "global".to_owned(),
        run,
        fence: 1,
        nanousd: NanoUsd(nanousd),
        tokens: 0,
        turns: 0,
        ms: 0,
        since: Timestamp(0),
        nanousd_max: Some(NanoUsd(max)),
        tokens_max: None,
        turns_max: None,
        ms_max: None,
    }
}

/// Begins a run within these, and gives it.
async fn begin(store: &Store, within: impl FnOnce(RunId) -> Within) -> Result<Holder, Error> {
    let task = new_task();
    let claim = claim_of(task.id, "one");
    let held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
    let begun = store.begin_within(task, claim, held.batch(&["begun"]), within(held.run)).await?;
    Ok(Holder { head_seq: begun.head_seq, ..held })
}

#[tokio::test]
async fn a_breaker_is_changed_by_who_saw_it_last_and_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.step_quota(step(0, Some("a"))).await.unwrap();
    assert_eq!(refused(store.step_quota(step(0, Some("b"))).await), Code::Conflict);
    let opened = Opened {
        at: Timestamp(5),
        by: Some(claim_of(new_task().id, "x").run),
        why: Seal::default().given("full"),
    };
    let by = opened.by;
    store.step_quota(QuotaStep { opened: Some(opened), ..step(1, Some("c")) }).await.unwrap();
    let windows = Seal::default().given("[]");
    store.tell_quota("claude".to_owned(), windows.clone(), Timestamp(9)).await.unwrap();
    store
        .tell_quota("claude".to_owned(), Seal::default().given("old"), Timestamp(8))
        .await
        .unwrap();
    store.close().await;
    let store = Store::open(dir.path()).unwrap();
    let row = store.quota("claude").await.unwrap().unwrap();
    let expected = QuotaRow {
        scope: "claude".to_owned(),
        version: 2,
        breaker: Some("c".to_owned()),
        why: Some("full".to_owned()),
        opened_at: Some(Timestamp(5)),
        opened_by: by,
        windows: Some("[]".to_owned()),
        told_at: Some(Timestamp(9)),
    };
    assert_eq!(row, expected);
    store.step_quota(step(2, None)).await.unwrap();
    let row = store.quota("claude").await.unwrap().unwrap();
    assert_eq!((row.version, row.breaker, row.why.as_deref()), (3, None, Some("full")));
    assert_eq!(store.quotas("", 10).await.unwrap().len(), 1);
    sound(dir.path());
}

#[tokio::test]
async fn a_run_that_may_not_start_leaves_nothing_and_one_that_may_holds_its_sum() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let within = |seen: u64, nanousd: i64| {
        move |run: RunId| Within {
            quota_scope: Some("claude".to_owned()),
            quota: Some(step(seen, Some("p"))),
            reserves: vec![reserve(run, nanousd, 100)],
        }
    };
    let first = begin(&store, within(0, 60)).await.unwrap();
    let stale = begin(&store, within(0, 10)).await.map(|_| ());
    assert_eq!(refused(stale), Code::Conflict);
    let poor = begin(&store, within(1, 41)).await.map(|_| ());
    assert_eq!(refused(poor), Code::BudgetExceeded);
    assert_eq!(store.quota("claude").await.unwrap().unwrap().version, 1, "not even the breaker");
    let second = begin(&store, within(1, 40)).await.unwrap();
    assert_eq!(store.runs(RunsPage { limit: 10, ..RunsPage::default() }).await.unwrap().len(), 2);
    assert_eq!(store.quota_runs("claude", 10).await.unwrap(), [first.run, second.run]);
    assert_eq!(store.quota_of(first.run).await.unwrap().as_deref(), Some("claude"));
    let sum = store.scope_sum("global", Timestamp(0)).await.unwrap();
    assert_eq!((sum.nanousd, sum.live), (NanoUsd(100), 2));

    let spent = Totals { effective_nanousd: Some(NanoUsd(7)), ..Totals::default() };
    store.commit(first.settling(TaskState::Done, spent)).await.unwrap();
    let sum = store.scope_sum("global", Timestamp(0)).await.unwrap();
    assert_eq!((sum.nanousd, sum.turns, sum.ms, sum.live), (NanoUsd(47), 3, 500, 1));
    assert_eq!(store.quota_runs("claude", 10).await.unwrap(), [second.run]);
    let later = store.scope_sum("global", Timestamp(i64::MAX)).await.unwrap();
    assert_eq!(
        (later.nanousd, later.live),
        (NanoUsd(40), 1),
        "what is held counts in every window"
    );
    sound(dir.path());
}

#[tokio::test]
async fn several_sums_are_set_aside_together_or_not_at_all() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held =
        begin(&store, |run| Within { reserves: vec![reserve(run, 10, 100)], ..Within::default() });
    let run = held.await.unwrap().run;
    let of = |scope: &str, max: i64| Reserve { scope: scope.to_owned(), ..reserve(run, 50, max) };
    assert_eq!(
        refused(store.reserve_all(vec![of("global", 100), of("agent:a", 49)]).await),
        Code::BudgetExceeded
    );
    assert_eq!(store.scope_sum("global", Timestamp(0)).await.unwrap().nanousd, NanoUsd(10));
    store.reserve_all(vec![of("global", 100), of("agent:a", 50)]).await.unwrap();
    assert_eq!(store.scope_sum("global", Timestamp(0)).await.unwrap().nanousd, NanoUsd(50));
    sound(dir.path());
}

#[tokio::test]
async fn a_scope_has_a_breaker_windows_runs_and_sums_of_its_own() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let of = |scope: &str, seen: u64, breaker: &str| QuotaStep {
        scope: scope.to_owned(),
        ..step(seen, Some(breaker))
    };
    for scope in ["a", "b", "c"] {
        store.step_quota(of(scope, 0, "first")).await.unwrap();
    }
    // All of them are as the second one was seen.
    store.step_quota(of("b", 1, "second")).await.unwrap();
    let windows = |text: &str| Seal::default().given(text);
    for (scope, text, at) in [("a", "old", 8), ("a", "new", 9), ("b", "another", 1)] {
        store.tell_quota(scope.to_owned(), windows(text), Timestamp(at)).await.unwrap();
    }
    let row = |row: QuotaRow| (row.scope, row.breaker.unwrap(), row.windows);
    let told = |scope: &str, breaker: &str, windows: Option<&str>| {
        (scope.to_owned(), breaker.to_owned(), windows.map(str::to_owned))
    };
    let (a, b) = (told("a", "first", Some("new")), told("b", "second", Some("another")));
    let c = told("c", "first", None);
    assert_eq!(store.quota("b").await.unwrap().map(row), Some(b.clone()));
    assert_eq!(store.quota("d").await.unwrap().map(row), None);
    let after = async |scope: &str| -> Vec<_> {
        store.quotas(scope, 9).await.unwrap().into_iter().map(row).collect()
    };
    assert_eq!(after("").await, [a, b.clone(), c.clone()]);
    assert_eq!(after("a").await, [b, c]);

    let within = |scope: &str, nanousd: i64| {
        let scope = scope.to_owned();
        move |run: RunId| Within {
            quota_scope: Some(scope.clone()),
            quota: None,
            reserves: vec![Reserve { scope, ..reserve(run, nanousd, 60) }],
        }
    };
    let first = begin(&store, within("a", 60)).await.unwrap();
    let second = begin(&store, within("b", 50)).await.unwrap();
    for (scope, run, nanousd) in [("a", first.run, 60), ("b", second.run, 50)] {
        assert_eq!(store.quota_runs(scope, 9).await.unwrap(), [run]);
        let sum = store.scope_sum(scope, Timestamp(0)).await.unwrap();
        assert_eq!((sum.nanousd, sum.live), (NanoUsd(nanousd), 1), "{scope}");
    }
    sound(dir.path());
}
