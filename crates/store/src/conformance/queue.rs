//! The queue: who may be started next, who waits for what and until when, what follows the end of a
//! run, and who is let go on when another task is done. Counted and ordered from the rows, so it
//! holds for whoever opens the store next.

use super::{Holder, NOW, Sure, claim_of, new_task, next_uuid, refused};
use crate::backend::Backend;
use crate::batch::*;
use crate::queue::*;
use crate::row::TaskRow;
use crate::seal::Seal;
use contract::event::Totals;
use contract::state::WaitingFor;
use contract::{Code, CommandId, RunId, TaskId, TaskState, Timestamp};

pub async fn all<B: Backend>(make: &impl AsyncFn() -> B) {
    the_first_of_each_agent_is_found_by_priority_and_arrival(&Sure(make().await)).await;
    of_those_that_are_held_the_first_of_each_agent_and_place_is_found(&Sure(make().await)).await;
    a_task_of_nobody_belongs_to_who_claims_it(&Sure(make().await)).await;
    a_task_waits_for_its_time(&Sure(make().await)).await;
    a_task_goes_on_when_the_last_before_it_is_done(&Sure(make().await)).await;
    whoever_waits_for_a_failed_task_is_told(&Sure(make().await)).await;
    only_tasks_that_are_there_can_come_before(&Sure(make().await)).await;
    the_end_of_a_run_says_what_follows(&Sure(make().await)).await;
    a_recalled_task_is_not_tried_again(&Sure(make().await)).await;
    a_move_says_what_the_next_run_begins_with(&Sure(make().await)).await;
    tasks_below_one_are_so_many_and_so_deep(&Sure(make().await)).await;
    a_comment_is_kept_once_in_its_order(&Sure(make().await)).await;
    a_budget_is_changed_by_who_saw_it_and_wherever_its_task_stands(&Sure(make().await)).await;
}

fn errand() -> NewTask {
    NewTask { errand: Some(Errand::default()), ..new_task() }
}

fn after(tasks: &[TaskId], not_before: Option<Timestamp>) -> NewTask {
    let errand = Errand { after: tasks.to_vec(), not_before, ..Errand::default() };
    NewTask { errand: Some(errand), ..new_task() }
}

async fn row<B: Backend>(store: &Sure<B>, task: TaskId) -> TaskRow {
    store.0.task(task).await.unwrap().expect("the task is there")
}

async fn stands<B: Backend>(store: &Sure<B>, task: TaskId) -> (TaskState, Option<WaitingFor>) {
    let row = row(store, task).await;
    (row.state, row.waiting_for)
}

/// Claims a queued task and ends its run so.
async fn run_to<B: Backend>(store: &Sure<B>, task: TaskId, state: TaskState) -> Holder {
    let held = begun(store, task).await;
    store.commit(held.settling(state, Totals::default())).await.unwrap();
    held
}

async fn begun<B: Backend>(store: &Sure<B>, task: TaskId) -> Holder {
    let claim = claim_of(task, "one");
    let run = claim.run;
    let fence = store.claim(claim).await.expect("a queued task can be claimed").fence;
    Holder { task, run, fence, head_seq: 0 }
}

fn step(task: TaskId, fence: u64, from: TaskState, to: TaskState) -> TaskMove {
    TaskMove { task, fence, from, to, waiting_for: None, pool: None, follow: Follow::default() }
}

const QUEUED: (TaskState, Option<WaitingFor>) = (TaskState::Queued, None);

async fn the_first_of_each_agent_is_found_by_priority_and_arrival<B: Backend>(store: &Sure<B>) {
    assert_eq!(store.0.heads().await.unwrap(), []);
    let put = async |agent: &str, priority: i32| {
        let task = NewTask { agent: agent.into(), priority, ..errand() };
        store.enqueue(task).await.unwrap()
    };
    let first = put("a", 0).await;
    let _second = put("a", 0).await;
    let other = put("b", 0).await;
    let heads = async || {
        let heads = store.0.heads().await.unwrap();
        heads.into_iter().map(|head| (head.task.id, head.busy)).collect::<Vec<_>>()
    };
    assert_eq!(heads().await, [(first, 0), (other, 0)]);
    let urgent = put("a", 5).await;
    assert_eq!(heads().await, [(urgent, 0), (other, 0)]);
    let mut claim = claim_of(urgent, "one");
    claim.head.agent = "a".into();
    store.claim(claim).await.unwrap();
    assert_eq!(heads().await, [(first, 1), (other, 0)]);
    // One in line for a slot is still first of its agent; one that waits for anything else is not.
    let (from, to) = (TaskState::Queued, TaskState::Waiting);
    let pool = Some("fake".to_owned());
    let wait = TaskMove { waiting_for: Some(WaitingFor::Pool), pool, ..step(first, 0, from, to) };
    store.move_task(wait).await.unwrap();
    let wait = TaskMove { waiting_for: Some(WaitingFor::Budget), ..step(other, 0, from, to) };
    store.move_task(wait).await.unwrap();
    assert_eq!(heads().await, [(first, 1)]);
    // What a person asked for under the id of a run is carried by them, and by nobody else.
    let line = Some(InLine { pool: "fake".into(), run: RunId::new(next_uuid()) });
    store.enqueue(NewTask { agent: "c".into(), line, ..new_task() }).await.unwrap();
    assert_eq!(heads().await, [(first, 1)]);
    let nums: Vec<_> = store.0.heads().await.unwrap().iter().map(|head| head.num).collect();
    assert_eq!(nums, [1]);
}

async fn of_those_that_are_held_the_first_of_each_agent_and_place_is_found<B: Backend>(
    store: &Sure<B>,
) {
    let hold = async |agent: &str, cwd: Option<&str>, priority: i32, why: WaitingFor| {
        let errand = Some(Errand { cwd: cwd.map(str::to_owned), ..Errand::default() });
        let task = NewTask { agent: agent.into(), priority, errand, ..new_task() };
        let task = store.enqueue(task).await.unwrap();
        let wait = step(task, 0, TaskState::Queued, TaskState::Waiting);
        store.move_task(TaskMove { waiting_for: Some(why), ..wait }).await.unwrap();
        task
    };
    let why = WaitingFor::Workspace;
    let _behind = hold("a", Some("/x"), 0, why).await;
    let first = hold("a", Some("/x"), 1, why).await;
    let anywhere = hold("a", None, 0, why).await;
    let other = hold("b", Some("/x"), 0, why).await;
    let nobodys = hold("", None, 0, why).await;
    let budget = hold("a", Some("/x"), 0, WaitingFor::Budget).await;
    // One that knows until when, and one that stands in somebody's line, are found by others.
    let timed = hold("c", None, 0, why).await;
    store.move_task(step(timed, 0, TaskState::Waiting, TaskState::Queued)).await.unwrap();
    let until = TaskMove {
        waiting_for: Some(why),
        follow: Follow { until: Some(NOW.plus_ms(9)), ..Follow::default() },
        ..step(timed, 0, TaskState::Queued, TaskState::Waiting)
    };
    store.move_task(until).await.unwrap();
    let all = async |why: WaitingFor, limit: usize| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = CrowdsPage { why, after: after.clone(), limit };
            let heads = store.0.crowds(page).await.unwrap();
            assert!(heads.len() <= limit);
            let Some(last) = heads.last().map(|head| head.task.clone()) else { return found };
            after = Some(Crowd { why, agent: last.agent, cwd: last.cwd, of: last.pool });
            found.extend(heads.into_iter().map(|head| (head.task.id, head.busy)));
        }
    };
    let expected = [(nobodys, 0), (anywhere, 0), (first, 0), (other, 0)];
    assert_eq!(all(why, 100).await, expected);
    assert_eq!(all(why, 1).await, expected, "page by page");
    assert_eq!(all(WaitingFor::Budget, 100).await, [(budget, 0)]);
    assert_eq!(all(WaitingFor::Agent, 100).await, []);
    // What is the matter of one task makes a crowd apart, whoever does it and wherever.
    let theirs = hold("a", Some("/x"), 0, WaitingFor::Budget).await;
    let wait = step(theirs, 0, TaskState::Waiting, TaskState::Waiting);
    let (waiting_for, pool) = (Some(WaitingFor::Budget), Some(first.to_string()));
    store.move_task(TaskMove { waiting_for, pool, ..wait }).await.unwrap();
    for limit in [1, 100] {
        assert_eq!(all(WaitingFor::Budget, limit).await, [(budget, 0), (theirs, 0)]);
    }
    // How busy its agent is, is said with it.
    store.move_task(step(budget, 0, TaskState::Waiting, TaskState::Queued)).await.unwrap();
    let mut claim = claim_of(budget, "one");
    claim.head.agent = "a".into();
    store.claim(claim).await.unwrap();
    assert_eq!(all(why, 100).await, [(nobodys, 0), (anywhere, 1), (first, 1), (other, 0)]);
}

async fn a_task_of_nobody_belongs_to_who_claims_it<B: Backend>(store: &Sure<B>) {
    for places in [None, Some(1)] {
        let task = store.enqueue(NewTask { agent: String::new(), ..errand() }).await.unwrap();
        let heads = store.0.heads().await.unwrap();
        assert_eq!(heads[0].task.agent, "");
        let mut claim = Claim { places, ..claim_of(task, "one") };
        claim.head.agent = "b".into();
        let run = claim.run;
        let fence = store.claim(claim).await.unwrap().fence;
        assert_eq!(row(store, task).await.agent, "b");
        // It stays with whoever had it first, also where another goes on with it.
        let held = Holder { task, run, fence, head_seq: 0 };
        store.commit(held.settling(TaskState::Queued, Totals::default())).await.unwrap();
        let next = begun(store, task).await;
        assert_eq!(row(store, task).await.agent, "b");
        store.commit(next.settling(TaskState::Done, Totals::default())).await.unwrap();
    }
}

async fn a_task_waits_for_its_time<B: Backend>(store: &Sure<B>) {
    let at = |ms| Some(NOW.plus_ms(ms));
    let late = store.enqueue(after(&[], at(1_000))).await.unwrap();
    let later = store.enqueue(after(&[], at(2_000))).await.unwrap();
    let now = store.enqueue(after(&[], at(0))).await.unwrap();
    assert_eq!(stands(store, now).await, QUEUED);
    assert_eq!(stands(store, late).await, (TaskState::Waiting, Some(WaitingFor::NotBefore)));
    assert_eq!(refused(store.claim(claim_of(late, "one")).await), Code::Conflict);
    assert_eq!(store.0.next_due().await.unwrap(), at(1_000));
    store.again(Again::Due(NOW.plus_ms(999))).await.unwrap();
    assert_eq!(store.0.next_due().await.unwrap(), at(1_000));
    store.again(Again::Due(NOW.plus_ms(1_000))).await.unwrap();
    assert_eq!(stands(store, late).await, QUEUED);
    assert_eq!(row(store, late).await.until, None);
    assert_eq!(store.0.next_due().await.unwrap(), at(2_000));
    // Without a time it waits for what it waits for, and for nothing else.
    let hold = |waiting_for| TaskMove {
        waiting_for: Some(waiting_for),
        ..step(late, 0, TaskState::Queued, TaskState::Waiting)
    };
    store.move_task(hold(WaitingFor::Workspace)).await.unwrap();
    store.again(Again::Due(NOW.plus_ms(1_999))).await.unwrap();
    assert_eq!(stands(store, late).await, (TaskState::Waiting, Some(WaitingFor::Workspace)));
    assert_eq!(stands(store, later).await, (TaskState::Waiting, Some(WaitingFor::NotBefore)));
    // Who knows until when is looked at again early when what it waits for has changed.
    store.again(Again::Whenever(WaitingFor::Quota)).await.unwrap();
    assert_eq!(stands(store, later).await, (TaskState::Waiting, Some(WaitingFor::NotBefore)));
    store.again(Again::Whenever(WaitingFor::NotBefore)).await.unwrap();
    assert_eq!(stands(store, later).await, QUEUED);
    assert_eq!(row(store, later).await.until, None);
}

async fn a_task_goes_on_when_the_last_before_it_is_done<B: Backend>(store: &Sure<B>) {
    let one = store.enqueue(errand()).await.unwrap();
    let two = store.enqueue(errand()).await.unwrap();
    let both = store.enqueue(after(&[one, two], None)).await.unwrap();
    let timed = store.enqueue(after(&[one], Some(NOW.plus_ms(9)))).await.unwrap();
    let held = (TaskState::Waiting, Some(WaitingFor::Dependency));
    assert_eq!((stands(store, both).await, stands(store, timed).await), (held, held));
    assert_eq!(row(store, timed).await.until, None, "its time counts when the others are done");
    run_to(store, one, TaskState::Done).await;
    assert_eq!(stands(store, both).await, held);
    assert_eq!(stands(store, timed).await, (TaskState::Waiting, Some(WaitingFor::NotBefore)));
    assert_eq!(row(store, timed).await.until, Some(NOW.plus_ms(9)));
    // A person's word is an end like any other.
    let reviewed = run_to(store, two, TaskState::Review).await;
    assert_eq!(stands(store, both).await, held);
    store.move_task(step(two, reviewed.fence, TaskState::Review, TaskState::Done)).await.unwrap();
    assert_eq!(stands(store, both).await, QUEUED);
    // What is done already holds nobody up.
    let late = store.enqueue(after(&[one, two], None)).await.unwrap();
    assert_eq!(stands(store, late).await, QUEUED);
}

async fn whoever_waits_for_a_failed_task_is_told<B: Backend>(store: &Sure<B>) {
    let first = store.enqueue(errand()).await.unwrap();
    let then = store.enqueue(after(&[first], None)).await.unwrap();
    assert_eq!(row(store, then).await.note, None);
    let held = run_to(store, first, TaskState::Failed).await;
    let told = Some(format!("{first} is failed"));
    assert_eq!(row(store, then).await.note, told);
    let late = store.enqueue(after(&[first], None)).await.unwrap();
    assert_eq!(row(store, late).await.note, told);
    assert_eq!(stands(store, late).await, (TaskState::Waiting, Some(WaitingFor::Dependency)));
    store.move_task(step(first, held.fence, TaskState::Failed, TaskState::Queued)).await.unwrap();
    assert_eq!(row(store, then).await.note, None);
    run_to(store, first, TaskState::Done).await;
    assert_eq!(stands(store, then).await, QUEUED);
    let other = store.enqueue(errand()).await.unwrap();
    let waits = store.enqueue(after(&[other], None)).await.unwrap();
    store.move_task(step(other, 0, TaskState::Queued, TaskState::Cancelled)).await.unwrap();
    assert_eq!(row(store, waits).await.note, Some(format!("{other} is cancelled")));
    // A person may let it go on all the same.
    store.move_task(step(waits, 0, TaskState::Waiting, TaskState::Queued)).await.unwrap();
    run_to(store, waits, TaskState::Done).await;
}

async fn only_tasks_that_are_there_can_come_before<B: Backend>(store: &Sure<B>) {
    let unknown = after(&[TaskId::new(next_uuid())], None);
    assert_eq!(refused(store.enqueue(unknown.clone()).await), Code::NotFound);
    assert_eq!(store.0.task(unknown.id).await.unwrap(), None, "all or nothing");
    let mut own = errand();
    own.errand = Some(Errand { after: vec![own.id], ..Errand::default() });
    assert_eq!(refused(store.enqueue(own).await), Code::Conflict);
}

async fn the_end_of_a_run_says_what_follows<B: Backend>(store: &Sure<B>) {
    let seal = Seal::default();
    let task = store.enqueue(errand()).await.unwrap();
    let held = begun(store, task).await;
    let mut batch = held.settling(TaskState::Waiting, Totals::default());
    if let Some(end) = &mut batch.settle {
        end.waiting_for = Some(WaitingFor::Quota);
        end.follow = Follow {
            until: Some(NOW.plus_ms(700)),
            note: Some(seal.given("the account is used up")),
            tries: Some(1),
            prompt: Some(seal.given("go on")),
            resumes: Some(held.run),
            wake: Some("retry".into()),
            code: None,
        };
    }
    store.commit(batch).await.unwrap();
    let row = row(store, task).await;
    assert_eq!((row.state, row.waiting_for), (TaskState::Waiting, Some(WaitingFor::Quota)));
    assert_eq!((row.until, row.tries), (Some(NOW.plus_ms(700)), 1));
    assert_eq!(row.note.as_deref(), Some("the account is used up"));
    assert_eq!((row.code, row.resumes), (Some(Code::AgentFailed), Some(held.run)));
    assert_eq!((row.next_prompt.as_deref(), row.wake.as_deref()), (Some("go on"), Some("retry")));
    assert_eq!(refused(store.claim(claim_of(task, "two")).await), Code::Conflict);
    store.again(Again::Due(NOW.plus_ms(700))).await.unwrap();
    let next = begun(store, task).await;
    assert_eq!(next.fence, held.fence + 1, "one run after the other, each with its own fence");
    store.commit(next.settling(TaskState::Done, Totals::default())).await.unwrap();
}

async fn a_recalled_task_is_not_tried_again<B: Backend>(store: &Sure<B>) {
    use TaskState::*;
    for (ends_as, becomes) in [
        (Queued, Cancelled),
        (Waiting, Cancelled),
        (Failed, Cancelled),
        (Review, Review),
        (Done, Done),
    ] {
        let task = store.enqueue(errand()).await.unwrap();
        assert_eq!(refused(store.recall(task, 0).await), Code::Conflict, "it does not run yet");
        let held = begun(store, task).await;
        assert_eq!(refused(store.recall(task, held.fence + 1).await), Code::Conflict);
        store.recall(task, held.fence).await.unwrap();
        assert_eq!(stands(store, task).await, (Running, None));
        store.commit(held.settling(ends_as, Totals::default())).await.unwrap();
        assert_eq!(stands(store, task).await, (becomes, None), "{ends_as:?}");
        assert_eq!(refused(store.recall(task, held.fence).await), Code::Conflict);
    }
}

async fn a_budget_is_changed_by_who_saw_it_and_wherever_its_task_stands<B: Backend>(
    store: &Sure<B>,
) {
    let text = |budget: &str| Some(budget.to_owned()).filter(|budget| !budget.is_empty());
    let task = store.enqueue(errand()).await.unwrap();
    let other = store.enqueue(errand()).await.unwrap();
    let change = |from: &str, to: &str| BudgetStep { task, from: text(from), to: text(to) };
    assert_eq!(refused(store.change_budget(change("1", "2")).await), Code::Conflict);
    store.change_budget(change("", "1")).await.unwrap();
    assert_eq!(row(store, task).await.budget, text("1"));
    assert_eq!(refused(store.change_budget(change("", "2")).await), Code::Conflict);
    let held = begun(store, task).await;
    store.change_budget(change("1", "2")).await.unwrap();
    store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
    store.change_budget(change("2", "3")).await.unwrap();
    assert_eq!(row(store, task).await.budget, text("3"));
    store.change_budget(change("3", "")).await.unwrap();
    assert_eq!((row(store, task).await.budget, row(store, other).await.budget), (None, None));
    let nobody = BudgetStep { task: TaskId::new(next_uuid()), from: None, to: text("1") };
    assert_eq!(refused(store.change_budget(nobody).await), Code::Conflict);
}

async fn a_move_says_what_the_next_run_begins_with<B: Backend>(store: &Sure<B>) {
    let seal = Seal::default();
    let task = store.enqueue(errand()).await.unwrap();
    let held = run_to(store, task, TaskState::Review).await;
    let reject = TaskMove {
        follow: Follow {
            prompt: Some(seal.given("not so")),
            resumes: Some(held.run),
            wake: Some("rejected".into()),
            tries: Some(0),
            ..Follow::default()
        },
        ..step(task, held.fence, TaskState::Review, TaskState::Queued)
    };
    let early = TaskMove { fence: held.fence - 1, ..reject.clone() };
    assert_eq!(refused(store.move_task(early).await), Code::Conflict);
    store.move_task(reject).await.unwrap();
    let rejected = row(store, task).await;
    assert_eq!(rejected.next_prompt.as_deref(), Some("not so"));
    assert_eq!((rejected.resumes, rejected.wake.as_deref()), (Some(held.run), Some("rejected")));
    assert_eq!((rejected.prompt.as_str(), rejected.generation), ("do it", 1));
    // A start that fails ends the task, and the reason stays.
    let failed = TaskMove {
        follow: Follow { code: Some(Code::NotInstalled), ..Follow::default() },
        ..step(task, held.fence, TaskState::Queued, TaskState::Failed)
    };
    store.move_task(failed).await.unwrap();
    let failed = row(store, task).await;
    assert_eq!((failed.state, failed.code), (TaskState::Failed, Some(Code::NotInstalled)));
    assert_eq!(failed.next_prompt.as_deref(), Some("not so"), "what was to be said is still");
}

async fn tasks_below_one_are_so_many_and_so_deep<B: Backend>(store: &Sure<B>) {
    let below = |task| {
        let parent = Some(Parent { task, children_max: 2, depth_max: 2 });
        NewTask { errand: Some(Errand { parent, ..Errand::default() }), ..new_task() }
    };
    let top = store.enqueue(errand()).await.unwrap();
    let child = store.enqueue(below(top)).await.unwrap();
    let grandchild = store.enqueue(below(child)).await.unwrap();
    assert_eq!(refused(store.enqueue(below(grandchild)).await), Code::Conflict, "too deep");
    store.enqueue(below(top)).await.unwrap();
    assert_eq!(refused(store.enqueue(below(top)).await), Code::Conflict, "too many");
    assert_eq!(refused(store.enqueue(below(TaskId::new(next_uuid()))).await), Code::NotFound);
    let row = row(store, grandchild).await;
    assert_eq!((row.parent, row.depth), (Some(child), 2));
}

async fn a_comment_is_kept_once_in_its_order<B: Backend>(store: &Sure<B>) {
    let task = store.enqueue(errand()).await.unwrap();
    let comment = |text: &str| NewComment {
        id: CommandId::new(next_uuid()),
        task,
        at: NOW,
        author: "person".into(),
        text: Seal::default().given(text),
        mentions: vec!["reviewer".into()],
    };
    let (one, two) = (comment("one"), comment("two"));
    for said in [&one, &two, &one] {
        store.comment(said.clone()).await.unwrap();
    }
    let kept = store.0.comments_of(task).await.unwrap();
    assert_eq!(kept.iter().map(|said| said.text.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((kept[0].id, kept[0].mentions.as_slice()), (one.id, &["reviewer".to_owned()][..]));
    let other = store.enqueue(new_task()).await.unwrap();
    assert_eq!(store.0.comments_of(other).await.unwrap(), []);
    let nobody = NewComment { task: TaskId::new(next_uuid()), ..comment("three") };
    assert_eq!(refused(store.comment(nobody).await), Code::NotFound);
}
