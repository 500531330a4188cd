//! Starts that compete: a hundred behind one quota by a given clock, over the real store and across a
//! restart of it; and runs side by side under one budget, whose sums are printed.

#![allow(clippy::print_stdout, reason = "the figures are the point")]

use super::super::who::Who;
use super::*;
use crate::{Setup, chance, plain};
use contract::event::Totals;
use contract::limits::{QUOTA_PROBE_MS, QUOTA_STAGGER_MS, RESERVE_NANOUSD};
use contract::{Draft, TaskState};
use futures::future::join_all;
use std::collections::BTreeMap;
use store::conformance::{Holder, claim_of, new_task};
use store::{QuotaStep, Store};
use tempfile::TempDir;

const HOUR_MS: i64 = 3_600_000;
const SCOPE: &str = "fake/work";

fn host(dir: &TempDir, store: Store, budgets: Vec<SharedBudget>) -> Host {
    knowing(dir, store, budgets, Box::new(|name| Err(Fault::new(Code::UnknownAgent, name))))
}

/// A host that knows these agents.
fn knowing(
    dir: &TempDir,
    store: Store,
    budgets: Vec<SharedBudget>,
    resolve: crate::Resolve,
) -> Host {
    Host::new(Setup { budgets, resolve, ..plain::with(dir.path(), store) })
}

fn usd(scope: &str, dollars: i64) -> SharedBudget {
    let limit = Amounts { nanousd: Some(NanoUsd(dollars * RESERVE_NANOUSD)), ..Amounts::default() };
    SharedBudget { scope: scope.to_owned(), window: Window::Day, limit, quota_percent: None }
}

fn request(budget: Budget) -> RunRequest {
    let given =
        serde_json::json!({ "agent": "worker", "prompt": "x", "cwd": "/", "budget": budget });
    serde_json::from_value(given).unwrap()
}

fn adapter() -> Adapter {
    let given = serde_json::json!({ "name": "fake", "runtime": "fake", "account": "work" });
    serde_json::from_value(given).unwrap()
}

/// One start by the given clock. False when it has to wait, with the time to look again.
async fn starts(store: &Store, now: Timestamp) -> Result<RunId, Timestamp> {
    let task = new_task();
    let claim = claim_of(task.id, "one");
    let held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
    for _ in 0..TRIES_MAX {
        let seen = quota::look(store, SCOPE, held.run, now).await.unwrap();
        if let breaker::Passage::Wait { until } = seen.passage {
            return Err(until);
        }
        let within = Within {
            quota_scope: Some(SCOPE.to_owned()),
            quota: seen.step(),
            reserves: Vec::new(),
        };
        let batch = held.batch(&["begun"]);
        match store.begin_within(task.clone(), claim.clone(), batch, within).await {
            Ok(_) => return Ok(held.run),
            Err(store::Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it was looked at more often than there are others")
}

#[tokio::test]
async fn a_hundred_behind_one_quota_start_after_the_reset_one_after_another() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let house = host(&dir, store.clone(), Vec::new());
    let begin = Timestamp(1_800_000_000_000);
    let reset = begin.plus_ms(2 * HOUR_MS);
    let first = starts(&store, begin).await.unwrap();
    let why = "You've hit your usage limit. Try again in 2 hours.";
    quota::trip(&house.inner, first, reset, why, &Default::default()).await.unwrap();

    // What was answered survives this process.
    house.close().await;
    let store = Store::open(&dir.path().join("store")).unwrap();

    let (mut now, mut waiting) = (begin, 100_usize);
    let mut started: BTreeMap<Timestamp, usize> = BTreeMap::new();
    while waiting > 0 {
        // All that wait ask at the same moment.
        let asked = join_all((0..waiting).map(|_| starts(&store, now))).await;
        let begun = asked.iter().filter(|asked| asked.is_ok()).count();
        if begun > 0 {
            *started.entry(now).or_default() += begun;
            waiting -= begun;
        }
        let next = asked.iter().filter_map(|asked| asked.as_ref().err()).min().copied();
        let Some(next) = next else { break };
        assert!(next > now, "whoever waits is told a later time");
        now = next;
    }
    let before = started.range(..reset).count();
    let at_once = started.values().max().copied().unwrap();
    let moments: Vec<Timestamp> = started.keys().copied().collect();
    let gaps: Vec<u64> = moments.windows(2).map(|two| two[1].since(two[0])).collect();
    println!(
        "100 tasks behind one quota: {before} starts before the reset, at most {at_once} at one moment, \
         the first {} ms after it, the second {} ms later, then every {} ms",
        moments[0].since(reset),
        gaps[0],
        gaps[1]
    );
    assert_eq!((before, at_once), (0, 1));
    assert_eq!(moments[0], reset);
    assert_eq!(gaps[0], QUOTA_PROBE_MS, "one asks first");
    assert!(gaps[1..].iter().all(|gap| *gap == QUOTA_STAGGER_MS), "{gaps:?}");
    assert_eq!(started.values().sum::<usize>(), 100);
}

#[tokio::test]
async fn a_second_answer_closes_the_door_again_and_a_person_opens_it() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let house = host(&dir, store.clone(), Vec::new());
    let now = Timestamp(1_800_000_000_000);
    let first = starts(&store, now).await.unwrap();
    let trip = async |run, until| {
        quota::trip(&house.inner, run, until, "full", &Default::default()).await.unwrap();
    };
    trip(first, now.plus_ms(1_000)).await;
    let probe = starts(&store, now.plus_ms(1_000)).await.unwrap();
    trip(probe, now.plus_ms(HOUR_MS)).await;
    assert_eq!(starts(&store, now.plus_ms(2_000)).await, Err(now.plus_ms(HOUR_MS)));
    let cleared = quota::clear(&house, SCOPE, &Who::Owner).await.unwrap();
    assert_eq!(cleared.state, quota::QuotaState::Open);
    starts(&store, now.plus_ms(2_000)).await.unwrap();
    starts(&store, now.plus_ms(2_000)).await.unwrap();
    assert_eq!(quota::clear(&house, "nobody", &Who::Owner).await.unwrap_err().code, Code::NotFound);
    let listed = quota::list(&house, "", 9).await.unwrap();
    assert_eq!((listed.len(), listed[0].live, listed[0].why.as_deref()), (1, 4, Some("full")));
}

/// Begins a run as a direct one is begun.
async fn begins(house: &Host, budget: Budget) -> Result<(Holder, Admission), Fault> {
    let (task, claim) = (new_task(), chance::run_id());
    let claim = Claim { run: claim, ..claim_of(task.id, "one") };
    let held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
    let newcomer = Newcomer { run: held.run, task: held.task, fence: 1 };
    let around = look(house, "worker", &adapter(), None).await?;
    let admitted = admit(house, &request(budget), &adapter(), newcomer, &around).await?;
    let again = admit(house, &request(budget), &adapter(), newcomer, &around).await;
    let begun = begin(house, admitted, task, claim, held.batch(&["begun"])).await?.unwrap();
    let again = again.unwrap_or_else(|fault| panic!("{fault:?}"));
    Ok((Holder { head_seq: begun.head_seq, ..held }, again))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_side_by_side_never_hold_more_than_their_budget() {
    for side_by_side in [1, 10, 100] {
        let dir = TempDir::new().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let house = host(&dir, store.clone(), vec![usd("global", 10), usd("agent:worker", 7)]);
        let asked = join_all((0..side_by_side).map(|_| begins(&house, Budget::default()))).await;
        let refused = asked.iter().filter_map(|asked| asked.as_ref().err());
        assert!(refused.clone().all(|fault| fault.code == Code::BudgetExceeded));
        let held: Vec<&Holder> =
            asked.iter().filter_map(|asked| asked.as_ref().ok().map(|(held, _)| held)).collect();
        let sum = |scope: &'static str| {
            let store = store.clone();
            async move { store.scope_sum(scope, Timestamp(0)).await.unwrap() }
        };
        let reserved = [sum("global").await, sum("agent:worker").await];
        // Each spends a third more than its share before it hears that it may not.
        let paid = NanoUsd(RESERVE_NANOUSD * 4 / 3);
        for held in &held {
            let spent = Totals { effective_nanousd: Some(paid), ..Totals::default() };
            store.commit(held.settling(TaskState::Done, spent)).await.unwrap();
        }
        let spent = sum("agent:worker").await;
        let over = spent.nanousd.0 - 7 * RESERVE_NANOUSD;
        println!(
            "{side_by_side} at once: {} started, {} refused; set aside {} of 7 and {} of 10 dollars, \
             spent {:.2}",
            held.len(),
            refused.count(),
            reserved[1].nanousd.0 / RESERVE_NANOUSD,
            reserved[0].nanousd.0 / RESERVE_NANOUSD,
            spent.nanousd.usd(),
        );
        assert_eq!(held.len(), side_by_side.min(7));
        assert!(reserved[1].nanousd.0 <= 7 * RESERVE_NANOUSD);
        assert_eq!(reserved[0].nanousd, reserved[1].nanousd);
        let in_flight = held.len() as i64 * (paid.0 - RESERVE_NANOUSD);
        assert!(over <= in_flight, "{over} over, {in_flight} in flight");
        let views = budgets(&house).await.unwrap();
        assert_eq!(views.len(), 2);
    }
}

#[tokio::test]
async fn a_run_reserves_its_own_budget_or_asks_for_more_until_nothing_is_left() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let house = host(&dir, store.clone(), vec![usd("global", 3)]);
    let dollars = |n: i64| Some(NanoUsd(n * RESERVE_NANOUSD));
    let own = Budget { nanousd: dollars(4), ..Budget::default() };
    let refused = begins(&house, own).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code, Code::BudgetExceeded, "its own budget is more than is left");

    let (held, admission) = begins(&house, Budget::default()).await.unwrap();
    assert_eq!(admission.budget.nanousd, dollars(1));
    let scopes: Vec<_> = admission.drafts.iter().map(scope_of_budget).collect();
    assert_eq!(scopes, ["global day"]);
    let mut fund = admission.fund.unwrap();
    let left = |n: i64| Remaining { nanousd: Some(NanoUsd(n)), ..Remaining::default() };
    assert_eq!(fund.wants(&left(RESERVE_NANOUSD)), None);
    for n in [2, 3] {
        let more = fund.wants(&left(5)).unwrap();
        assert_eq!(more.nanousd, dollars(n));
        let grown = fund.grow(&house.inner, (held.run, 1), more, left(5)).await;
        assert_eq!(grown.unwrap().unwrap().nanousd, Some(NanoUsd(RESERVE_NANOUSD + 5)));
    }
    let more = fund.wants(&left(5)).unwrap();
    let told = fund.grow(&house.inner, (held.run, 1), more, left(5)).await.unwrap();
    assert_eq!(told.unwrap_err().iter().map(scope_of_budget).collect::<Vec<_>>(), ["global day"]);
    assert_eq!(fund.wants(&left(5)), None, "it asks once");
    let sum = store.scope_sum("global", Timestamp(0)).await.unwrap();
    assert_eq!(sum.nanousd, NanoUsd(3 * RESERVE_NANOUSD));
    let refused = begins(&house, Budget::default()).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code, Code::BudgetExceeded);
    assert!(refused.message.contains("global day"), "{}", refused.message);
}

fn scope_of_budget(draft: &Draft) -> String {
    match &draft.body {
        Body::Budget(budget) => budget.scope.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_share_of_the_quota_holds_until_its_window_begins_anew() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let share = SharedBudget {
        quota_percent: Some(80.0),
        limit: Amounts::default(),
        ..usd("agent:worker", 0)
    };
    let house = host(&dir, store.clone(), vec![share]);
    let candidate = Candidate {
        task: new_task().id,
        agent: "worker".to_owned(),
        adapter: "fake".to_owned(),
        runtime: "fake".to_owned(),
        provider: None,
        account: Some("work".to_owned()),
        billing: None,
        cwd: "/".into(),
    };
    assert_eq!(hold(&house, &candidate).await.unwrap(), None);
    let now = clock::now().wall;
    let resets_at = now.plus_ms(HOUR_MS);
    let told = async |percent: f64, at: Timestamp, resets: Timestamp| {
        let windows = serde_json::json!([{ "id": "week", "used_percent": percent,
            "resets_at": resets.to_string(), "exhausted": false }]);
        let windows = store::Seal::default().json(&windows);
        store.tell_quota(SCOPE.to_owned(), windows, at).await.unwrap();
    };
    told(79.0, now, resets_at).await;
    assert_eq!(hold(&house, &candidate).await.unwrap(), None);
    told(80.0, now.plus_ms(1), resets_at).await;
    let held = hold(&house, &candidate).await.unwrap().unwrap();
    assert_eq!((held.why, held.until), (WaitingFor::Budget, Some(resets_at)));
    let refused = begins(&house, Budget::default()).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code, Code::BudgetExceeded);
    told(100.0, now.plus_ms(2), now.plus_ms(-1)).await;
    assert_eq!(hold(&house, &candidate).await.unwrap(), None, "that window is over");
    let other = Candidate { agent: "other".to_owned(), ..candidate.clone() };
    told(100.0, now.plus_ms(3), resets_at).await;
    assert_eq!(hold(&house, &other).await.unwrap(), None, "it is another's budget");

    let until = now.plus_ms(HOUR_MS);
    let open = serde_json::json!({ "state": "open", "until": until.to_string() }).to_string();
    let seen = store.quota(SCOPE).await.unwrap().unwrap().version;
    let step = QuotaStep { scope: SCOPE.to_owned(), seen, breaker: Some(open), opened: None };
    store.step_quota(step).await.unwrap();
    let held = hold(&house, &other).await.unwrap().unwrap();
    assert_eq!((held.why, held.until), (WaitingFor::Quota, Some(until)));
}
