//! The dispatcher by a clock that is set: what it decides is decided by its own code over the real
//! store (the line, the gates, quotas, budgets, tries), and only the process of a run is played. Each
//! run ends when and how the test says, by the rule that ends a real one. Figures are printed.

#![allow(clippy::print_stdout, reason = "the figures are the point")]

use super::*;
use crate::ops::limits::{self as within, Newcomer, SharedBudget, admit, begin};
use crate::ops::run::{Named, RunRequest, Started};
use crate::ops::{quota, task};
use crate::{Setup, clock, plain};
use contract::event::{EndEvidence, Evidence, RunResult, Totals};
use contract::limits::{QUOTA_PROBE_MS, QUOTA_STAGGER_MS};
use contract::{RunId, TaskId};
use engine::rules::reset;
use std::cell::RefCell;
use std::collections::BTreeMap;
use store::conformance::{Holder, claim_of, new_task};
use store::{Claim, NewTask, RunHead, Settle};
use tempfile::TempDir;

const BEGIN: Timestamp = Timestamp(1_800_000_000_000);
const MINUTE_MS: i64 = 60_000;
/// A test that moves the clock this often has lost its way.
const STEPS_MAX: usize = 20_000;

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

/// What runs, and what ran.
#[derive(Default)]
struct Stage {
    /// What a start is answered with, when it is to fail.
    refuses: Option<Fault>,
    live: BTreeMap<RunId, (Timestamp, Holder)>,
    starts: Vec<(Timestamp, TaskId)>,
    /// Starts that were asked for.
    asked: usize,
}

fn stage<T>(with: impl FnOnce(&mut Stage) -> T) -> T {
    STAGE.with_borrow_mut(|stage| with(stage.get_or_insert_default()))
}

pub(super) fn is_played() -> bool {
    STAGE.with_borrow(Option::is_some)
}

/// Begins a run as `start_new` does, but for its process.
pub(super) async fn begins(host: &Host, request: RunRequest, task: TaskId) -> Result<Begun, Fault> {
    stage(|stage| stage.asked += 1);
    if let Some(fault) = stage(|stage| stage.refuses.clone()) {
        return Err(fault);
    }
    let (request, adapter) = request.completed(host).await?;
    let (run, now) = (chance::run_id(), clock::now().wall);
    let fence = host.store().task(task).await.map_err(stored)?.map_or(1, |row| row.fence + 1);
    let around = within::look(host, &request.agent, &adapter, Some(task)).await?;
    let newcomer = Newcomer { run, task, fence };
    let admission = admit(host, &request, &adapter, newcomer, &around).await?;
    let claim = claim_of(task, "one");
    let head = RunHead { agent: request.agent, adapter: adapter.name, ..claim.head };
    let claim = Claim { run, now, head, ..claim };
    let held = Holder { task, run, fence, head_seq: 0 };
    let new = NewTask { id: task, ..new_task() };
    let begun = begin(host, admission, new, claim, held.batch(&["begun"])).await?;
    let head_seq = begun.map_err(stored)?.head_seq;
    stage(|stage| {
        stage.live.insert(run, (now, Holder { head_seq, ..held }));
        stage.starts.push((now, task));
    });
    Ok(Begun::Started(Started { run_id: run, task_id: task }))
}

/// How a run ends.
#[derive(Clone, Copy)]
struct End {
    after_ms: i64,
    code: Option<Code>,
    /// Until the quota is there again, as its provider says.
    resets_ms: Option<i64>,
    nanousd: i64,
}

const WELL: End = End { after_ms: 5 * MINUTE_MS, code: None, resets_ms: None, nanousd: 0 };

struct Yard {
    dir: TempDir,
    host: Host,
    now: Timestamp,
}

impl Yard {
    /// An agent `a` with this many hands, and these budgets.
    fn new(hands: u32, budgets: Vec<SharedBudget>, tries_max: Option<u32>) -> Self {
        STAGE.set(Some(Stage::default()));
        let dir = TempDir::new().unwrap();
        let host = Self::open(&dir, hands, budgets, tries_max);
        let yard = Self { dir, host, now: BEGIN };
        clock::played::set(yard.now);
        yard
    }

    fn open(dir: &TempDir, hands: u32, budgets: Vec<SharedBudget>, tries_max: Option<u32>) -> Host {
        let adapter =
            serde_json::json!({ "name": "fake", "runtime": "process", "account": "work" });
        let named = Named {
            adapter: serde_json::from_value(adapter).unwrap(),
            budget: Default::default(),
            budgets: Vec::new(),
            prompt_template: None,
            system_prompt: None,
            tools: None,
            cwd: Some("/".into()),
            concurrency: Some(hands),
            fallback: Vec::new(),
            // Nobody is in anybody's way.
            workspace: Some(crate::ops::run::Where::Temporary),
        };
        Host::new(Setup {
            role: crate::HostRole::Server,
            budgets,
            resolve: Box::new(move |_| Ok(named.clone())),
            tries_max,
            ..plain::setup(dir.path())
        })
    }

    /// What is durable goes on with another host.
    async fn restarts(&mut self, hands: u32) {
        self.host.close().await;
        self.host = Self::open(&self.dir, hands, Vec::new(), None);
    }

    async fn add(&self, n: usize) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for n in 0..n {
            tasks.push(self.put(serde_json::json!({ "title": format!("task {n}") })).await);
        }
        tasks
    }

    async fn put(&self, mut new: serde_json::Value) -> TaskId {
        new["agent"] = "a".into();
        new["review"] = "none".into();
        let new = serde_json::from_value(new).unwrap();
        task::add::add(&self.host, new).await.unwrap().id
    }

    /// What a scope has spent, and holds for those that run.
    async fn spent(&self, scope: &str) -> f64 {
        let sum = self.host.store().scope_sum(scope, Timestamp(0)).await.unwrap();
        sum.nanousd.usd()
    }

    /// Goes on until nothing runs and nothing waits for a time, or until `until`; ends each run as told.
    async fn goes_on(&mut self, until: Timestamp, end: impl Fn(TaskId) -> End) {
        for _ in 0..STEPS_MAX {
            clock::played::set(self.now);
            let mut round = Round::whole();
            let mut due = look(&self.host, &mut round).await.unwrap();
            while round.goes_on() {
                due = look(&self.host, &mut round).await.unwrap();
            }
            let ends = stage(|stage| {
                let ends = stage
                    .live
                    .values()
                    .map(|(begun, held)| (begun.plus_ms(end(held.task).after_ms), *held));
                ends.min_by_key(|(at, _)| *at)
            });
            let next = due.into_iter().chain(ends.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = until;
                clock::played::set(until);
                return;
            };
            self.now = self.now.max(next);
            clock::played::set(self.now);
            if let Some((_, held)) = ends.filter(|(at, _)| *at <= self.now) {
                self.ends(held, end(held.task)).await;
            }
        }
        panic!("it goes on without end");
    }

    /// Ends a run as its driver does.
    async fn ends(&self, held: Holder, end: End) {
        let now = self.now;
        let resets_at = end.resets_ms.map(|ms| now.plus_ms(ms));
        let outcome = if end.code.is_some() { Outcome::Failed } else { Outcome::Succeeded };
        let (house, seal) = (&self.host.inner, Seal::default());
        if end.code == Some(Code::ProviderQuota) {
            let until = reset::until(resets_at, now);
            quota::trip(house, held.run, until, "nothing is left", &seal).await.unwrap();
        }
        let totals =
            Totals { effective_nanousd: Some(contract::NanoUsd(end.nanousd)), ..Totals::default() };
        let evidence = Evidence {
            end: EndEvidence::Exit,
            salvaged: None,
            stopped_by: None,
            forced: None,
            note: None,
            workspace: None,
            workspace_note: None,
        };
        let result = RunResult {
            outcome,
            code: end.code,
            message: None,
            text: None,
            output: None,
            exit_code: None,
            signal: None,
            duration_ms: 1,
            totals,
            report: Default::default(),
            denials: 0,
            evidence,
        };
        let errand = errand::of(&self.host, held.task).await.unwrap().unwrap();
        let next = errand::ended(house.tries_max, &errand, &result, true, resets_at, now);
        let follow = errand::follow(&errand, held.run, &next, "it ended", &seal);
        let mut batch = held.settling(next.state, totals);
        batch.settle = batch.settle.map(|settle| Settle {
            outcome,
            code: end.code,
            ended_at: now,
            waiting_for: next.waiting_for,
            follow,
            ..settle
        });
        self.host.store().commit(batch).await.unwrap();
        stage(|stage| stage.live.remove(&held.run));
    }

    async fn states(&self, tasks: &[TaskId]) -> BTreeMap<String, usize> {
        let mut states = BTreeMap::new();
        for task in tasks {
            let row = self.host.store().task(*task).await.unwrap().unwrap();
            let why = row.waiting_for.map(|why| format!(" {why:?}")).unwrap_or_default();
            *states.entry(format!("{}{why}", row.state.word())).or_default() += 1;
        }
        states
    }
}

fn starts() -> Vec<Timestamp> {
    stage(|stage| stage.starts.iter().map(|(at, _)| *at).collect())
}

#[tokio::test]
async fn a_hundred_tasks_behind_one_quota_answer_wait_for_the_reset_and_come_one_by_one() {
    let mut yard = Yard::new(200, Vec::new(), None);
    let (hour_ms, reset) = (60 * MINUTE_MS, BEGIN.plus_ms(121 * MINUTE_MS));
    let first = yard.add(1).await[0];
    // Its answer comes after a minute, and names a reset in two hours.
    let full = End { after_ms: MINUTE_MS, resets_ms: Some(2 * hour_ms), ..WELL };
    let full = End { code: Some(Code::ProviderQuota), ..full };
    yard.goes_on(BEGIN.plus_ms(2 * MINUTE_MS), |_| full).await;
    assert_eq!(starts(), [BEGIN]);
    let tasks = yard.add(100).await;
    yard.goes_on(reset.plus_ms(-1), |_| WELL).await;
    let before = starts().len() - 1;
    assert_eq!(yard.states(&tasks).await, [("waiting Quota".to_owned(), 100)].into());
    yard.restarts(200).await;
    yard.goes_on(reset.plus_ms(3 * hour_ms), |_| WELL).await;
    let after = starts().split_off(1);
    let gaps: Vec<u64> = after.windows(2).map(|two| two[1].since(two[0])).collect();
    println!(
        "100 tasks behind one quota answer: {before} starts before the reset; after it {} starts, the \
         first after {} ms, the second {} ms later, then at least {} ms apart; {} starts were asked for",
        after.len(),
        after[0].since(reset),
        gaps[0],
        gaps[1..].iter().min().unwrap(),
        stage(|stage| stage.asked),
    );
    assert_eq!(before, 0);
    assert_eq!(after.len(), 101, "the one that asked first is tried again too");
    assert!(after[0] >= reset);
    assert_eq!(gaps[0], QUOTA_PROBE_MS, "one asks first");
    assert!(gaps[1..].iter().all(|gap| *gap >= QUOTA_STAGGER_MS), "{gaps:?}");
    let all: Vec<_> = tasks.iter().copied().chain([first]).collect();
    assert_eq!(yard.states(&all).await, [("done".to_owned(), 101)].into());
}

#[tokio::test]
async fn a_person_who_opens_a_quota_lets_those_go_on_that_wait_for_it() {
    let mut yard = Yard::new(200, Vec::new(), None);
    yard.add(1).await;
    let full = End { after_ms: 0, code: Some(Code::ProviderQuota), ..WELL };
    yard.goes_on(BEGIN, |_| full).await;
    let tasks = yard.add(100).await;
    yard.goes_on(BEGIN.plus_ms(MINUTE_MS), |_| WELL).await;
    assert_eq!(yard.states(&tasks).await, [("waiting Quota".to_owned(), 100)].into());
    quota::clear(&yard.host, "process/work", &crate::ops::who::Who::Owner).await.unwrap();
    yard.goes_on(BEGIN.plus_ms(MINUTE_MS), |_| WELL).await;
    assert_eq!(yard.states(&tasks).await, [("running".to_owned(), 100)].into());
}

#[tokio::test]
async fn what_an_agent_says_of_its_quota_is_kept_without_its_secrets() {
    let mut yard = Yard::new(1, Vec::new(), None);
    yard.add(1).await;
    yard.goes_on(BEGIN, |_| WELL).await;
    let run = stage(|stage| *stage.live.keys().next().unwrap());
    let (house, secret) = (&yard.host.inner, "ruby-4f9a77-otter-lake");
    let seal = Seal::new([("SHIP_TOKEN".to_owned(), secret.to_owned())]);
    quota::trip(house, run, BEGIN, &format!("nothing is left for {secret}"), &seal).await.unwrap();
    let window = serde_json::json!([{ "id": secret, "label": format!("of {secret}") }]);
    let windows: Vec<contract::event::QuotaWindow> = serde_json::from_value(window).unwrap();
    let source = quota::WindowsSource::Agent;
    quota::tell(house, run, &windows, source, BEGIN, &seal).await.unwrap();
    let row = yard.host.store().quota("process/work").await.unwrap().unwrap();
    let (why, windows) = (row.why.unwrap(), row.windows.unwrap());
    assert!(why.starts_with("nothing is left for ") && windows.contains("of "), "{why} {windows}");
    assert!(!why.contains("4f9a77") && !windows.contains("4f9a77"), "{why} {windows}");
}

/// What each code leads to: how many runs there are in all, and within which minutes each next one
/// comes after the last has ended.
fn tries_by_code(code: Code) -> &'static [(i64, i64)] {
    use contract::fault::Retry;
    const BACKOFF: &[(i64, i64)] = &[(90, 150), (450, 750), (1_350, 2_250), (5_400, 9_000)];
    match code.row().retry {
        // By the table of the contract; a quota says its reset of an hour each time.
        Retry::No | Retry::AfterFix | Retry::Person => &[],
        Retry::Once => &[(0, 0)],
        Retry::Resume => &[(0, 0), (0, 0)],
        Retry::Requeue => &[(0, 0); 4],
        Retry::Backoff => BACKOFF,
        Retry::AtReset => &[(3_600, 3_660); 4],
    }
}

#[tokio::test]
async fn every_code_is_tried_as_often_and_as_late_as_the_table_says() {
    let mut printed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for code in Code::ALL.iter().copied().filter(|code| *code != Code::Cancelled) {
        for tries_max in [None, Some(1)] {
            let mut yard = Yard::new(1, Vec::new(), tries_max);
            let tasks = yard.add(1).await;
            let resets_ms = (code == Code::ProviderQuota).then_some(60 * MINUTE_MS);
            let end = End { after_ms: 1_000, code: Some(code), resets_ms, nanousd: 0 };
            yard.goes_on(BEGIN.plus_ms(30 * 24 * 60 * MINUTE_MS), |_| end).await;
            let waits: Vec<i64> = starts()
                .windows(2)
                .map(|two| (two[1].ms() - two[0].ms() - end.after_ms) / 1_000)
                .collect();
            let expected = tries_by_code(code);
            let expected = &expected[..expected.len().min(tries_max.map_or(4, |max| max as usize))];
            let fits = |(wait, (least, most)): (&i64, &(i64, i64))| (least..=most).contains(&wait);
            let fit = waits.len() == expected.len() && waits.iter().zip(expected).all(fits);
            assert!(fit, "{code}, at most {tries_max:?}: {waits:?}, not {expected:?}");
            assert_eq!(yard.states(&tasks).await, [("failed".to_owned(), 1)].into(), "{code}");
            if tries_max.is_none() {
                printed.entry(format!("{expected:?}")).or_default().push(code.word());
            }
        }
    }
    for (waits, codes) in printed {
        println!("seconds between runs {waits}: {}", codes.join(", "));
    }
}

#[tokio::test]
async fn a_start_that_fails_counts_like_a_run_and_is_never_repeated_at_once() {
    for (code, asked, tries, state) in [
        (Code::NotInstalled, 1, 0, "failed"),
        (Code::AuthRequired, 1, 0, "failed"),
        (Code::SpawnFailed, 1, 0, "failed"),
        (Code::LeaseExpired, 1, 1, "failed"),
        (Code::RemoteUnavailable, 5, 4, "failed"),
        // Others were quicker: it is looked at again and not counted.
        (Code::BudgetExceeded, 30, 0, "waiting Budget"),
        (Code::ProviderQuota, 30, 0, "waiting Quota"),
    ] {
        let mut yard = Yard::new(1, Vec::new(), None);
        let fault = Fault::new(code, "it could not be started");
        stage(|stage| stage.refuses = Some(fault));
        let tasks = yard.add(1).await;
        let minutes = if state == "failed" { 600 } else { 29 };
        yard.goes_on(BEGIN.plus_ms(minutes * MINUTE_MS), |_| WELL).await;
        assert_eq!(yard.states(&tasks).await, [(state.to_owned(), 1)].into(), "{code}");
        assert_eq!(stage(|stage| stage.asked), asked, "{code}");
        let row = yard.host.store().task(tasks[0]).await.unwrap().unwrap();
        assert_eq!(row.tries, tries, "{code}");
    }
}

#[tokio::test]
async fn why_a_start_failed_is_kept_without_keys() {
    let mut yard = Yard::new(1, Vec::new(), None);
    let key = format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
    let message = format!("it was started with {key} and said no");
    stage(|stage| stage.refuses = Some(Fault::new(Code::SpawnFailed, message)));
    let task = yard.add(1).await[0];
    yard.goes_on(BEGIN, |_| WELL).await;
    let row = yard.host.store().task(task).await.unwrap().unwrap();
    let note = row.note.unwrap();
    assert_eq!((row.state, row.code), (TaskState::Failed, Some(Code::SpawnFailed)));
    assert!(note.starts_with("it was started with ") && note.ends_with(" and said no"), "{note}");
    assert!(!note.contains("16C7e42F"), "{note}");
}

fn day(usd: i64) -> SharedBudget {
    within("day", usd)
}

fn within(window: &str, usd: i64) -> SharedBudget {
    let given = serde_json::json!({ "scope": "global", "window": window, "nanousd": usd * DOLLAR });
    serde_json::from_value(given).unwrap()
}

const DOLLAR: i64 = 1_000_000_000;

#[tokio::test]
async fn tasks_side_by_side_hold_no_more_than_their_budget_and_go_on_when_it_is_raised() {
    for hands in [1, 10, 100] {
        let mut yard = Yard::new(hands, vec![day(10)], None);
        let tasks = yard.add(100).await;
        let mut most = 0.0_f64;
        // Each spends less than was set aside for it, so others go on with the rest.
        let cheap = End { nanousd: DOLLAR / 2, ..WELL };
        for minutes in 0..300 {
            yard.goes_on(BEGIN.plus_ms(minutes * MINUTE_MS), |_| cheap).await;
            most = most.max(yard.spent("global").await);
        }
        let (done, spent) = (starts().len(), yard.spent("global").await);
        println!(
            "{hands} at once on $10: {done} of 100 ran, at most ${most:.2} set aside or spent, ${spent:.2} spent"
        );
        assert!(most <= 10.0, "{most}");
        assert_eq!((done, spent), (20, 10.0), "what is free again is used");
        let waits = [("done".to_owned(), done), ("waiting Budget".to_owned(), 100 - done)];
        assert_eq!(yard.states(&tasks).await, waits.into(), "nobody failed");

        assert!(yard.host.set_budgets(vec![day(100)]).await.unwrap());
        assert!(!yard.host.set_budgets(vec![day(100)]).await.unwrap(), "they are these already");
        yard.goes_on(yard.now.plus_ms(600 * MINUTE_MS), |_| cheap).await;
        assert_eq!(yard.states(&tasks).await, [("done".to_owned(), 100)].into());
        assert_eq!(yard.spent("global").await, 50.0);
    }
}

#[tokio::test]
async fn what_is_handed_on_is_charged_to_every_task_above() {
    let mut yard = Yard::new(1, Vec::new(), None);
    let budget = serde_json::json!({ "nanousd": 5 * DOLLAR });
    let root = yard.put(serde_json::json!({ "title": "root", "budget": budget })).await;
    let budget = serde_json::json!({ "nanousd": 2 * DOLLAR });
    let part = serde_json::json!({ "title": "part", "parent": root, "budget": budget });
    let part = yard.put(part).await;
    let mut below = vec![root, part];
    for _ in 0..4 {
        below.push(yard.put(serde_json::json!({ "title": "deep", "parent": part })).await);
    }
    for _ in 0..4 {
        below.push(yard.put(serde_json::json!({ "title": "wide", "parent": root })).await);
    }
    let apart = yard.put(serde_json::json!({ "title": "apart" })).await;
    let costs = End { nanousd: DOLLAR, ..WELL };
    yard.goes_on(BEGIN.plus_ms(600 * MINUTE_MS), |_| costs).await;
    // The part has its own and one below it; the root three besides, and nothing for the last.
    let rests = [("done".to_owned(), 5), ("waiting Budget".to_owned(), 5)];
    assert_eq!(yard.states(&below).await, rests.into());
    assert_eq!(yard.states(&[apart]).await, [("done".to_owned(), 1)].into());
    let scopes = [format!("task:{root}"), format!("task:{part}")];
    assert_eq!([yard.spent(&scopes[0]).await, yard.spent(&scopes[1]).await], [5.0, 2.0]);
}

#[tokio::test]
async fn a_task_that_waits_for_its_own_budget_keeps_no_other_of_its_agent_from_going_on() {
    let mut yard = Yard::new(1, vec![within("lifetime", 1)], None);
    let budget = serde_json::json!({ "nanousd": DOLLAR });
    let root = yard.put(serde_json::json!({ "title": "root", "budget": budget })).await;
    let costs = End { nanousd: DOLLAR, ..WELL };
    yard.goes_on(BEGIN.plus_ms(10 * MINUTE_MS), |_| costs).await;
    // The root has spent what it may, and the house has nothing left for anyone.
    let mut below = Vec::new();
    for _ in 0..3 {
        below.push(yard.put(serde_json::json!({ "title": "below", "parent": root })).await);
    }
    let others = yard.add(3).await;
    yard.goes_on(yard.now.plus_ms(10 * MINUTE_MS), |_| WELL).await;
    let wait = |n| [("waiting Budget".to_owned(), n)].into();
    assert_eq!((yard.states(&below).await, yard.states(&others).await), (wait(3), wait(3)));

    // Raised while nobody was there, so that nobody was told: whoever can go is found by asking.
    yard.host.close().await;
    yard.host = Yard::open(&yard.dir, 1, vec![within("lifetime", 100)], None);
    yard.goes_on(yard.now.plus_ms(60 * MINUTE_MS), |_| WELL).await;
    assert_eq!(yard.states(&others).await, [("done".to_owned(), 3)].into());
    assert_eq!(yard.states(&below).await, wait(3), "the root's budget is what it was");
}

#[tokio::test]
async fn the_budget_of_a_task_is_raised_and_lowered_and_those_below_it_heed_it_at_once() {
    let mut yard = Yard::new(1, Vec::new(), None);
    let budget = serde_json::json!({ "nanousd": DOLLAR });
    let root = yard.put(serde_json::json!({ "title": "root", "budget": budget })).await;
    let mut below = Vec::new();
    for _ in 0..6 {
        below.push(yard.put(serde_json::json!({ "title": "below", "parent": root })).await);
    }
    let costs = End { nanousd: DOLLAR, ..WELL };
    let hour = |yard: &Yard| yard.now.plus_ms(60 * MINUTE_MS);
    yard.goes_on(hour(&yard), |_| costs).await;
    let counts = |done: usize, wait: usize| {
        let all = [("done".to_owned(), done), ("waiting Budget".to_owned(), wait)];
        all.into_iter().filter(|(_, n)| *n > 0).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(yard.states(&below).await, counts(0, 6), "the root has used it up");
    let change = async |yard: &Yard, json: &str| {
        let change = serde_json::from_str(json).unwrap();
        let by = crate::ops::who::Who::Owner;
        task::budget::change(&yard.host, &root.to_string(), change, &by).await.unwrap()
    };
    // It is done by now, and those below it spend from it all the same.
    change(&yard, r#"{"nanousd": 3000000000}"#).await;
    assert_eq!(yard.states(&below).await, [("queued".to_owned(), 6)].into(), "at once");
    yard.goes_on(hour(&yard), |_| costs).await;
    assert_eq!(yard.states(&below).await, counts(2, 4));
    change(&yard, r#"{"nanousd": 5000000000}"#).await;
    // Less than was spent lets nothing start.
    change(&yard, r#"{"nanousd": 1}"#).await;
    yard.goes_on(hour(&yard), |_| costs).await;
    assert_eq!(yard.states(&below).await, counts(2, 4));
    let sheet = task::show(&yard.host, &root.to_string()).await.unwrap();
    let standing = sheet.budget.map(|budget| (budget.used.nanousd, budget.left.nanousd));
    let nano = |usd: i64| Some(contract::NanoUsd(usd * DOLLAR));
    assert_eq!(standing, Some((nano(3), nano(0))));
    // Nor does it where another unit is limited and the first one no more.
    change(&yard, r#"{"nanousd": null, "turns": 0}"#).await;
    yard.goes_on(hour(&yard), |_| costs).await;
    assert_eq!(yard.states(&below).await, counts(2, 4));
    change(&yard, r#"{"turns": null}"#).await;
    yard.goes_on(hour(&yard), |_| costs).await;
    assert_eq!(yard.states(&below).await, counts(6, 0));
    assert_eq!(task::show(&yard.host, &root.to_string()).await.unwrap().budget, None);
}
