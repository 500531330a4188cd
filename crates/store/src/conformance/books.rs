//! What a backend of the product keeps beside runs and the queue: quotas, budgets, agents, deletions and
//! lists. Answers are not lost here on purpose: what a caller does then is the same as for the verbs
//! of `conformance.rs`, and each of these can be asked again.

use super::{Holder, NOW, claim_of, new_task, next_uuid, refused};
use crate::backend::Books;
use crate::batch::*;
use crate::queue::*;
use crate::removal::Stale;
use crate::row::*;
use crate::scope::*;
use crate::seal::Seal;
use contract::event::Totals;
use contract::state::AgentState;
use contract::{AgentId, Code, NanoUsd, RunId, TaskId, TaskState, Timestamp};

/// Runs every promise, each over a fresh backend.
pub async fn all<B: Books>(make: impl AsyncFn() -> B) {
    a_run_begins_within_all_its_limits_or_not_at_all(&make().await).await;
    a_breaker_is_changed_by_who_saw_it_last(&make().await).await;
    sums_are_set_aside_together_or_not_at_all(&make().await).await;
    a_name_is_given_once_and_changed_as_it_was_seen(&make().await).await;
    a_start_sees_in_one_visit_what_it_would_see_in_many(&make().await).await;
    what_is_deleted_is_hidden_at_once_and_what_lives_is_not_touched(&make().await).await;
    what_an_open_task_needs_is_not_stale(&make().await).await;
    what_belongs_to_a_task_is_found(&make().await).await;
    tasks_are_listed_whole_in_either_order_by_state_and_label(&make().await).await;
    a_line_is_listed_in_the_order_of_its_turns(&make().await).await;
}

const SCOPE: &str = "an account";

fn step(seen: u64, breaker: Option<&str>) -> QuotaStep {
    let (scope, breaker) = (SCOPE.to_owned(), breaker.map(str::to_owned));
    QuotaStep { scope, seen, breaker, opened: None }
}

fn reserve(run: RunId, scope: &str, nanousd: i64, max: i64) -> Reserve {
    Reserve {
        scope: scope.to_owned(),
        run,
        fence: 1,
        nanousd: NanoUsd(nanousd),
        tokens: 5,
        turns: 1,
        ms: 7,
        since: Timestamp(0),
        nanousd_max: Some(NanoUsd(max)),
        tokens_max: None,
        turns_max: None,
        ms_max: None,
    }
}

/// Begins a run of a new task within these.
async fn begin<B: Books>(
    store: &B,
    task: NewTask,
    within: impl FnOnce(RunId) -> Within,
) -> Result<Holder, crate::Error> {
    let mut claim = claim_of(task.id, "one");
    claim.head.agent.clone_from(&task.agent);
    let held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
    let begun = store.begin_within(task, claim, held.batch(&["begun"]), within(held.run)).await?;
    Ok(Holder { head_seq: begun.head_seq, ..held })
}

async fn began<B: Books>(store: &B) -> Holder {
    begin(store, new_task(), |_| Within::default()).await.unwrap()
}

async fn ended<B: Books>(store: &B, state: TaskState) -> Holder {
    let held = began(store).await;
    store.commit(held.settling(state, Totals::default())).await.unwrap();
    held
}

async fn a_run_begins_within_all_its_limits_or_not_at_all<B: Books>(store: &B) {
    let within = |seen: u64, nanousd: i64| {
        move |run: RunId| Within {
            quota_scope: Some(SCOPE.to_owned()),
            quota: Some(step(seen, Some("open"))),
            reserves: vec![reserve(run, "global", nanousd, 100)],
        }
    };
    let first = begin(store, new_task(), within(0, 60)).await.unwrap();
    for (seen, nanousd, code) in [(0, 10, Code::Conflict), (1, 41, Code::BudgetExceeded)] {
        let task = new_task();
        let refusal = begin(store, task.clone(), within(seen, nanousd)).await.map(drop);
        assert_eq!(refused(refusal), code);
        assert_eq!(store.task(task.id).await.unwrap(), None, "all or nothing");
        assert_eq!(store.quota(SCOPE).await.unwrap().unwrap().version, 1, "not even the breaker");
    }
    let second = begin(store, new_task(), within(1, 40)).await.unwrap();
    assert_eq!(store.quota_runs(SCOPE, 9).await.unwrap(), [first.run, second.run]);
    assert_eq!(store.quota_runs(SCOPE, 1).await.unwrap(), [first.run]);
    assert_eq!(store.quota_of(second.run).await.unwrap().as_deref(), Some(SCOPE));
    let sum = store.scope_sum("global", Timestamp(0)).await.unwrap();
    assert_eq!((sum.nanousd, sum.tokens, sum.live), (NanoUsd(100), 10, 2));
    let spent = Totals { effective_nanousd: Some(NanoUsd(7)), ..Totals::default() };
    store.commit(first.settling(TaskState::Done, spent)).await.unwrap();
    let sum = store.scope_sum("global", Timestamp(0)).await.unwrap();
    assert_eq!((sum.nanousd, sum.turns, sum.ms, sum.live), (NanoUsd(47), 4, 507, 1));
    let later = store.scope_sum("global", NOW.plus_ms(501)).await.unwrap();
    assert_eq!((later.nanousd, later.live), (NanoUsd(40), 1), "what is held counts in any window");
    assert_eq!(store.quota_runs(SCOPE, 9).await.unwrap(), [second.run]);
    assert_eq!(store.scope_sum("nothing", NOW).await.unwrap(), ScopeSum::default());
}

async fn a_breaker_is_changed_by_who_saw_it_last<B: Books>(store: &B) {
    assert_eq!(store.quota(SCOPE).await.unwrap(), None);
    let by = RunId::new(next_uuid());
    let opened =
        Some(Opened { at: Timestamp(5), by: Some(by), why: Seal::default().given("used up") });
    store.step_quota(QuotaStep { opened, ..step(0, Some("open")) }).await.unwrap();
    assert_eq!(refused(store.step_quota(step(0, Some("late"))).await), Code::Conflict);
    assert_eq!(refused(store.step_quota(step(2, Some("early"))).await), Code::Conflict);
    store.step_quota(step(1, None)).await.unwrap();
    for (windows, at) in [("[1]", 9), ("[0]", 8)] {
        let windows = Seal::default().given(windows);
        store.tell_quota(SCOPE.to_owned(), windows, Timestamp(at)).await.unwrap();
    }
    let row = store.quota(SCOPE).await.unwrap().unwrap();
    assert_eq!((row.version, &row.breaker, row.why.as_deref()), (2, &None, Some("used up")));
    assert_eq!((row.opened_at, row.opened_by), (Some(Timestamp(5)), Some(by)));
    assert_eq!(row.windows.as_deref(), Some("[1]"), "what was told later counts");
    store.step_quota(QuotaStep { scope: "another".into(), ..step(0, None) }).await.unwrap();
    let (mut scopes, mut after) = (Vec::new(), String::new());
    while let Some(row) = store.quotas(&after, 1).await.unwrap().pop() {
        after.clone_from(&row.scope);
        scopes.push(row.scope);
        assert!(scopes.len() <= 2, "the pages have no end: {scopes:?}");
    }
    assert_eq!(scopes, [SCOPE, "another"]);
    assert_eq!(store.quotas("", 9).await.unwrap().len(), 2);
}

async fn sums_are_set_aside_together_or_not_at_all<B: Books>(store: &B) {
    let run = began(store).await.run;
    let both = |max: i64| vec![reserve(run, "global", 50, 100), reserve(run, "agent:a", 50, max)];
    assert_eq!(refused(store.reserve_all(both(49)).await), Code::BudgetExceeded);
    assert_eq!(store.scope_sum("global", NOW).await.unwrap().nanousd, NanoUsd(0));
    store.reserve_all(both(50)).await.unwrap();
    store.reserve_all(both(50)).await.unwrap();
    assert_eq!(store.scope_sum("agent:a", NOW).await.unwrap().nanousd, NanoUsd(50), "replaced");
    let stale = vec![Reserve { fence: 2, ..reserve(run, "global", 1, 100) }];
    assert_eq!(refused(store.reserve_all(stale).await), Code::FenceStale);
}

async fn a_name_is_given_once_and_changed_as_it_was_seen<B: Books>(store: &B) {
    let put = async |name: &str| {
        let (id, spec) = (AgentId::new(next_uuid()), Some(Seal::default().given("{}")));
        let (name, by) = (name.to_owned(), "someone".to_owned());
        store.put_agent(NewAgent { id, name, state: AgentState::Active, spec, by, at: NOW }).await
    };
    let change = async |version: u64, state: AgentState| {
        let name = "b".to_owned();
        store.change_agent(AgentChange { name, version, state, spec: None, at: NOW }).await
    };
    put("b").await.unwrap();
    put("a").await.unwrap();
    assert_eq!(refused(put("b").await), Code::Conflict);
    change(1, AgentState::Paused).await.unwrap();
    assert_eq!(refused(change(1, AgentState::Active).await), Code::Conflict);
    assert_eq!(refused(change(3, AgentState::Active).await), Code::Conflict);
    let row = store.agent("b").await.unwrap().unwrap();
    assert_eq!((row.state, row.version), (AgentState::Paused, 2));
    change(2, AgentState::Retired).await.unwrap();
    assert_eq!(refused(change(3, AgentState::Active).await), Code::Conflict, "for good");
    assert_eq!(store.agent("c").await.unwrap(), None);
    let mut names = Vec::new();
    while let Some(row) =
        store.agents(names.last().map_or("", String::as_str), 1).await.unwrap().pop()
    {
        names.push(row.name);
    }
    assert_eq!(names, ["a", "b"]);
    for agent in ["b", "b", "a"] {
        begin(store, NewTask { agent: agent.into(), ..new_task() }, |_| Within::default())
            .await
            .unwrap();
    }
    let _at_rest = ended(store, TaskState::Done).await;
    let mut running = store.running().await.unwrap();
    running.sort();
    assert_eq!(running, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

async fn a_start_sees_in_one_visit_what_it_would_see_in_many<B: Books>(store: &B) {
    let look = |task| StartLook { agent: "a".to_owned(), quota_scope: SCOPE.to_owned(), task };
    let nothing = store.surroundings(look(None)).await.unwrap();
    assert_eq!((nothing.agent, nothing.quota), (None, None));
    assert_eq!((nothing.lineage.len(), nothing.live.len()), (0, 0));
    let (id, spec) = (AgentId::new(next_uuid()), Some(Seal::default().given("{}")));
    let (name, state, by) = ("a".to_owned(), AgentState::Active, "someone".to_owned());
    store.put_agent(NewAgent { id, name, state, spec, by, at: NOW }).await.unwrap();
    store.step_quota(step(0, Some("open"))).await.unwrap();
    let _settled = ended(store, TaskState::Done).await;
    let (first, second) = (began(store).await, began(store).await);
    let put = async |above: Option<TaskId>| {
        let parent = above.map(|task| Parent { task, children_max: 9, depth_max: 9 });
        let errand = Some(Errand { parent, ..Errand::default() });
        store.enqueue(NewTask { errand, ..new_task() }).await.unwrap()
    };
    let root = put(None).await;
    let middle = put(Some(root)).await;
    let leaf = put(Some(middle)).await;
    let around = store.surroundings(look(Some(leaf))).await.unwrap();
    assert_eq!(around.agent, store.agent("a").await.unwrap());
    assert_eq!(around.quota, store.quota(SCOPE).await.unwrap());
    let live: Vec<_> = around.live.iter().map(|run| run.id).collect();
    assert_eq!(live, [second.run, first.run]);
    let lineage: Vec<_> = around.lineage.iter().map(|task| task.id).collect();
    assert_eq!(lineage, [leaf, middle, root]);
    assert_eq!(around.lineage, store.lineage(leaf).await.unwrap());
    assert_eq!(store.lineage(TaskId::new(next_uuid())).await.unwrap(), []);
}

async fn what_is_deleted_is_hidden_at_once_and_what_lives_is_not_touched<B: Books>(store: &B) {
    let live = began(store).await;
    let gone = ended(store, TaskState::Done).await;
    let there = ended(store, TaskState::Done).await;
    assert_eq!(refused(store.delete_run(live.run, NOW).await), Code::Conflict);
    assert_eq!(refused(store.purge(there.run).await), Code::Conflict, "not before it is deleted");
    assert_eq!(refused(store.delete_run(RunId::new(next_uuid()), NOW).await), Code::NotFound);
    store.delete_run(gone.run, NOW).await.unwrap();
    store.delete_run(gone.run, NOW.plus_ms(1)).await.unwrap();
    assert_eq!(store.run(gone.run).await.unwrap(), None);
    assert_eq!(refused(store.page(gone.run, 0, 9).await), Code::NotFound);
    assert_eq!(store.half_deleted(9).await.unwrap(), [gone.run]);
    let page = RunsPage { before: None, limit: 9, unsettled_only: false };
    let listed: Vec<_> = store.runs(page).await.unwrap().iter().map(|run| run.id).collect();
    assert_eq!(listed, [there.run, live.run]);
    store.purge(gone.run).await.unwrap();
    assert_eq!(store.half_deleted(9).await.unwrap(), []);
    store.purge(gone.run).await.unwrap();
    let deleted = async |run| store.was_deleted(run).await.unwrap();
    assert_eq!((deleted(gone.run).await, deleted(there.run).await), (true, false));
    assert_eq!(store.page(there.run, 0, 9).await.unwrap().events.len(), 3, "the others are whole");
    store.commit(live.batch(&["goes on"])).await.unwrap();
}

async fn what_an_open_task_needs_is_not_stale<B: Books>(store: &B) {
    let _live = began(store).await;
    let _open = ended(store, TaskState::Review).await;
    let old = ended(store, TaskState::Done).await;
    let failed = ended(store, TaskState::Failed).await;
    let stale = async |ms: i64, limit: usize| {
        store.stale(Stale { ended_before: NOW.plus_ms(ms), limit }).await.unwrap()
    };
    assert_eq!(stale(500, 9).await, [], "they ended then, and not before");
    let mut found = stale(501, 9).await;
    found.sort();
    assert_eq!(found, [old.run, failed.run]);
    assert_eq!(stale(501, 1).await.len(), 1);
    store.delete_run(old.run, NOW).await.unwrap();
    assert_eq!(stale(501, 9).await, [failed.run]);
}

async fn what_belongs_to_a_task_is_found<B: Books>(store: &B) {
    let put = async |errand: Errand| {
        store.enqueue(NewTask { errand: Some(errand), ..new_task() }).await.unwrap()
    };
    let above = put(Errand::default()).await;
    let parent = Some(Parent { task: above, children_max: 9, depth_max: 9 });
    let budget = Some("{}".to_owned());
    let one = put(Errand { parent, budget, ..Errand::default() }).await;
    let two = put(Errand { parent, after: vec![one, above], ..Errand::default() }).await;
    assert_eq!(store.dependencies(two).await.unwrap(), [above, one]);
    assert_eq!(store.dependencies(one).await.unwrap(), []);
    let children = store.children(above).await.unwrap();
    assert_eq!((children.count, children.budgets.as_slice()), (2, &["{}".to_owned()][..]));
    assert_eq!(store.children(two).await.unwrap().count, 0);
    let mut runs = Vec::new();
    for state in [TaskState::Queued, TaskState::Done] {
        let claim = claim_of(one, "one");
        let (run, fence) = (claim.run, store.claim(claim).await.unwrap().fence);
        let held = Holder { task: one, run, fence, head_seq: 0 };
        store.commit(held.settling(state, Totals::default())).await.unwrap();
        runs.push(run);
    }
    assert_eq!(store.runs_of(one, 9).await.unwrap(), [runs[1], runs[0]]);
    assert_eq!(store.runs_of(one, 1).await.unwrap(), [runs[1]]);
    let oldest: Vec<_> = store.task_runs(one).await.unwrap().iter().map(|run| run.id).collect();
    assert_eq!(oldest, runs);
    assert_eq!(store.task_of(runs[0]).await.unwrap().unwrap().id, one);
    assert_eq!(store.task_of(RunId::new(next_uuid())).await.unwrap(), None);
    assert_eq!(store.find_tasks(&two.to_string(), 9).await.unwrap(), [two]);
    assert_eq!(store.find_tasks("task_zz", 9).await.unwrap(), []);
}

async fn tasks_are_listed_whole_in_either_order_by_state_and_label<B: Books>(store: &B) {
    let mut made: Vec<(TaskId, bool, bool)> = Vec::new();
    for n in 0..7 {
        let (done, labelled) = (n % 2 == 0, n % 3 == 0);
        let labels = if labelled { vec!["x".to_owned(), "y".to_owned()] } else { Vec::new() };
        let errand = Some(Errand { labels, ..Errand::default() });
        let task = store.enqueue(NewTask { errand, ..new_task() }).await.unwrap();
        if done {
            let step = TaskMove {
                task,
                fence: 0,
                from: TaskState::Queued,
                to: TaskState::Cancelled,
                waiting_for: None,
                pool: None,
                follow: Follow::default(),
            };
            store.move_task(step).await.unwrap();
        }
        made.push((task, done, labelled));
    }
    for order in [Order::Oldest, Order::Newest] {
        for state in [None, Some(TaskState::Cancelled), Some(TaskState::Review)] {
            for label in [None, Some("x"), Some("z")] {
                for limit in [1, 3, 9] {
                    let page = TasksPage {
                        after: None,
                        limit,
                        state,
                        label: label.map(str::to_owned),
                        handed_over: false,
                        order,
                    };
                    let listed = listed(store, page).await;
                    let fits = |(_, done, labelled): &&(TaskId, bool, bool)| {
                        let state =
                            state.is_none_or(|state| state == TaskState::Cancelled && *done);
                        state && label.is_none_or(|label| label == "x" && *labelled)
                    };
                    let mut expected: Vec<_> =
                        made.iter().filter(fits).map(|(task, _, _)| *task).collect();
                    if order == Order::Newest {
                        expected.reverse();
                    }
                    assert_eq!(listed, expected, "{order:?} {state:?} {label:?} {limit}");
                }
            }
        }
    }
}

async fn listed<B: Books>(store: &B, mut page: TasksPage) -> Vec<TaskId> {
    let mut listed = Vec::new();
    loop {
        let rows = store.tasks(page.clone()).await.unwrap();
        assert!(rows.len() <= page.limit);
        let Some(last) = rows.last() else { return listed };
        page.after = Some(last.id);
        listed.extend(rows.iter().map(|row| row.id));
    }
}

async fn a_line_is_listed_in_the_order_of_its_turns<B: Books>(store: &B) {
    let stand = async |pool: &str, priority: i32| {
        let line = Some(InLine { pool: pool.into(), run: RunId::new(next_uuid()) });
        store.enqueue(NewTask { line, priority, ..new_task() }).await.unwrap()
    };
    let (late, first) = (stand("b", 0).await, stand("b", 1).await);
    let alone = stand("a", 0).await;
    store.enqueue(new_task()).await.unwrap();
    let lines = async |limit: usize| {
        let lines = store.lines(limit).await.unwrap();
        lines.into_iter().map(|(task, ahead)| (task.id, ahead)).collect::<Vec<_>>()
    };
    assert_eq!(lines(9).await, [(alone, 0), (first, 0), (late, 1)]);
    assert_eq!(lines(2).await, [(alone, 0), (first, 0)]);
}
