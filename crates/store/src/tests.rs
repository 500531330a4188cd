//! The SQLite backend itself: the suite over it and over a spiteful one, and what only a file can
//! do wrong.

mod agents;
mod canary;
mod conversation;
mod corpus;
mod corruption;
mod interleavings;
mod ledger;
mod newer;
pub(crate) mod powercut;
mod removal;
mod scope;

use crate::backend::Backend;
use crate::conformance::{self, Holder, Sure, claim_of, holder, new_task, refused};
use crate::model::{Flaw, Model};
use crate::spiteful::Spiteful;
use crate::*;
use contract::event::{Body, Comment, Envelope, Log, Origin, Stream, Totals};
use contract::limits::{BATCH_EVENTS_MAX, PAGE_BYTES_MAX, TEXT_BYTES_MAX};
use contract::state::WaitingFor;
use contract::{Code, TaskState, Wish};
use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

fn sound(dir: &Path) {
    assert_eq!(check(dir).unwrap(), [] as [String; 0]);
}

/// Runs the suite over stores in fresh directories, and checks what each left behind.
async fn conforms<B: Backend>(wrap: impl Fn(Store, u64) -> B) {
    let dirs = RefCell::new(Vec::<TempDir>::new());
    conformance::all(async || {
        let dir = TempDir::new().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let seed = dirs.borrow().len() as u64;
        dirs.borrow_mut().push(dir);
        wrap(store, seed)
    })
    .await;
    dirs.borrow().iter().for_each(|dir| sound(dir.path()));
}

#[tokio::test]
async fn sqlite_conforms() {
    conforms(|store, _| store).await;
}

#[tokio::test]
async fn sqlite_keeps_its_books() {
    let dirs = RefCell::new(Vec::<TempDir>::new());
    conformance::books::all(async || {
        let dir = TempDir::new().unwrap();
        let store = Store::open(dir.path()).unwrap();
        dirs.borrow_mut().push(dir);
        store
    })
    .await;
    dirs.borrow().iter().for_each(|dir| sound(dir.path()));
}

#[tokio::test]
async fn the_model_conforms() {
    conformance::all(async || Model::default()).await;
}

#[tokio::test]
#[should_panic(expected = "Ok(Claimed")]
async fn the_suite_finds_a_store_that_does_not_count_its_slots() {
    conformance::all(async || Model::flawed(Some(Flaw::SlotsUncounted))).await;
}

#[tokio::test]
#[should_panic(expected = "Ok(Claimed")]
async fn the_suite_finds_a_store_in_which_one_may_jump_the_line() {
    conformance::all(async || Model::flawed(Some(Flaw::LineIgnored))).await;
}

#[test]
fn the_suite_finds_every_flaw_of_a_queue() {
    for flaw in [
        Flaw::DependencyUncounted,
        Flaw::RecallIgnored,
        Flaw::DueUnchecked,
        Flaw::DueForgotten,
        Flaw::PriorityIgnored,
        Flaw::ClaimUnchecked,
        Flaw::MoveUnfenced,
        Flaw::MoveUnchecked,
    ] {
        let suite = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let all = conformance::all(async || Model::flawed(Some(flaw)));
            runtime.unwrap().block_on(all);
        });
        assert!(suite.join().is_err(), "{flaw:?} is not found");
    }
}

#[tokio::test]
async fn the_model_conforms_under_spite() {
    let made = Cell::new(0);
    conformance::all(async || {
        made.set(made.get() + 1);
        Spiteful::new(Model::default(), made.get())
    })
    .await;
}

#[tokio::test]
async fn sqlite_conforms_under_spite() {
    conforms(Spiteful::new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_conforms_with_threads() {
    conforms(|store, seed| Spiteful::new(store, seed + 1_000)).await;
}

#[tokio::test]
async fn only_the_owner_can_read_the_store() {
    let dir = TempDir::new().unwrap();
    let home = dir.path().join("data");
    let store = Store::open(&home).unwrap();
    let held = holder(&Sure(store.clone())).await;
    store.commit(held.batch(&["x"])).await.unwrap();
    let mode = |name: &str| fs::metadata(home.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("blobs")), (0o700, 0o700));
    assert_eq!((mode("ostler.db"), mode("ostler.db-wal")), (0o600, 0o600));
}

/// The files as a crash leaves them: nothing is closed, the log is not folded in.
fn crash_image(dir: &Path) -> TempDir {
    let image = TempDir::new().unwrap();
    for name in ["ostler.db", "ostler.db-wal"] {
        fs::copy(dir.join(name), image.path().join(name)).unwrap();
    }
    image
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_crash() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut held = holder(&Sure(store.clone())).await;
    store.command(conformance::wish(held.run, Wish::Interrupt)).await.unwrap();
    for n in 0..20 {
        let mut batch = held.batch(&["one", "two"]);
        batch.effects_todo = vec![Effect { n, bytes: Sealed::default() }];
        held.head_seq = store.commit(batch).await.unwrap().head_seq;
        let image = crash_image(dir.path());
        let reopened = Store::open(image.path()).unwrap();
        assert_eq!(reopened.run(held.run).await.unwrap().unwrap().head_seq, held.head_seq);
        let point = reopened.resume_point(held.run).await.unwrap().unwrap();
        assert_eq!((point.head_seq, point.effects.len() as u64), (held.head_seq, n + 1));
        assert_eq!(reopened.inbox(held.run).await.unwrap().len(), 1);
        sound(image.path());
    }
}

#[tokio::test]
async fn a_closed_store_says_so_and_opens_again() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held = holder(&Sure(store.clone())).await;
    store.close().await;
    let closed = store.commit(held.batch(&["x"])).await.unwrap_err();
    assert!(matches!(closed, Error::Closed), "{closed}");
    assert!(matches!(store.run(held.run).await.unwrap_err(), Error::Closed));
    store.close().await;
    let store = Store::open(dir.path()).unwrap();
    store.commit(held.batch(&["x"])).await.unwrap();
}

#[tokio::test]
async fn a_stale_batch_in_a_group_fails_alone() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let sure = Sure(store.clone());
    let mut holders = Vec::new();
    for _ in 0..30 {
        holders.push(holder(&sure).await);
    }
    // Queued one behind the other without waiting, so the writer takes them in groups.
    let batches = holders.iter().enumerate().map(|(n, held)| {
        let fence = held.fence + (n as u64 % 3) / 2;
        store.commit(Holder { fence, ..*held }.batch(&["x"]))
    });
    let answers = join_all(batches).await;
    for (n, answer) in answers.into_iter().enumerate() {
        match n % 3 {
            2 => assert_eq!(refused(answer), Code::FenceStale),
            _ => assert_eq!(answer.unwrap().head_seq, 1),
        }
    }
    sound(dir.path());
}

/// Polls all from one task, so that they queue behind each other. On a busy machine the writer may
/// answer the first before the last has queued.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending = Vec::new();
    for future in futures {
        let mut future = Box::pin(future);
        let early = poll_once(&mut future).await;
        pending.push((future, early));
    }
    let mut outputs = Vec::new();
    for (future, early) in pending {
        outputs.push(match early {
            Some(output) => output,
            None => future.await,
        });
    }
    outputs
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_run_that_starts_at_once_is_there_whole_or_not_at_all() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let task = new_task();
    let claim = claim_of(task.id, "one");
    let held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
    let stale = Holder { fence: 2, ..held }.batch(&["x"]);
    let answer = store.begin(task.clone(), claim.clone(), stale).await;
    assert_eq!(refused(answer), Code::FenceStale);
    assert_eq!(store.task(task.id).await.unwrap(), None, "nothing is left of it");
    assert_eq!(store.run(held.run).await.unwrap(), None);
    let done = store.begin(task.clone(), claim, held.batch(&["x"])).await.unwrap();
    assert_eq!(done.head_seq, 1);
    assert_eq!(store.task(task.id).await.unwrap().unwrap().state, TaskState::Running);
    sound(dir.path());
}

#[tokio::test]
async fn a_burst_of_ten_thousand_events_arrives_whole() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut held = holder(&Sure(store.clone())).await;
    let watcher = tokio::spawn({
        let mut follower = store.follow(held.run, 0);
        async move {
            let mut seen = 0;
            loop {
                let page = follower.next(512).await.unwrap();
                for event in &page.events {
                    seen += 1;
                    assert_eq!(event.seq, seen);
                }
                if page.settled {
                    return seen;
                }
            }
        }
    });
    let texts = ["a line of ordinary length, as agents print them"; BATCH_EVENTS_MAX];
    while held.head_seq + (BATCH_EVENTS_MAX as u64) < 10_000 {
        held.head_seq = store.commit(held.batch(&texts)).await.unwrap().head_seq;
    }
    let rest = 10_000 - held.head_seq - 2;
    held.head_seq = store.commit(held.batch(&texts[..rest as usize])).await.unwrap().head_seq;
    store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
    assert_eq!(watcher.await.unwrap(), 10_000);
    sound(dir.path());
}

fn envelope(held: &Holder, seq: u64) -> Envelope {
    let (run_id, fence, ts) = (held.run, held.fence, conformance::NOW);
    Envelope { run_id, seq, ts, attempt: 1, fence, origin: Origin::Agent }
}

fn long_event(held: &Holder, text: String) -> SealedEvent {
    let body = Body::Log(Log { stream: Stream::Stdout, text, level: None });
    Seal::default().event(&envelope(held, held.head_seq + 1), &body, None)
}

#[tokio::test]
async fn a_page_ends_where_it_is_long_enough_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held = holder(&Sure(store.clone())).await;
    let events = 7;
    let mut batch = held.batch(&[]);
    batch.events = (0..events)
        .map(|n| {
            let text = "x".repeat(PAGE_BYTES_MAX / 3);
            long_event(&Holder { head_seq: held.head_seq + n, ..held }, text)
        })
        .collect();
    store.commit(batch).await.unwrap();
    let mut follower = store.follow(held.run, 0);
    let mut seen = Vec::new();
    while seen.len() < events as usize {
        let page = follower.next(PAGE_EVENTS_MAX).await.unwrap().events;
        let bytes: usize = page.iter().map(|event| event.bytes.len()).sum();
        let last = page.last().map_or(0, |event| event.bytes.len());
        assert!(bytes - last < PAGE_BYTES_MAX, "{bytes}");
        seen.extend(page.iter().map(|event| event.seq));
    }
    assert_eq!(seen, (1..=events).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_blob_is_there_before_the_event_that_names_it_and_a_lost_one_is_noticed() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (held, text, hash) = with_blob(&store).await;
    assert_eq!(store.blob(&hash).unwrap().unwrap(), text.as_bytes());
    sound(dir.path());
    let event = &store.events(held.run, 0, 1).await.unwrap()[0];
    let whole = store.whole(&event.bytes).unwrap();
    assert_eq!(whole["text"], text);
    assert_eq!((whole.get("text_blob"), whole.get("truncated")), (None, None));
    let path = store.blob_path(&hash).unwrap();
    fs::write(&path, "something else").unwrap();
    assert_eq!(check(dir.path()).unwrap().len(), 1);
    fs::remove_file(&path).unwrap();
    assert_eq!(check(dir.path()).unwrap(), [format!("every blob is there: {hash}")]);
    for nonsense in ["", "../../ostler.db", &"z".repeat(64)] {
        assert_eq!(store.blob(nonsense).unwrap(), None);
    }
}

/// A run whose only event was too long, its text, and the name of the blob that has the whole.
async fn with_blob(store: &Store) -> (Holder, String, String) {
    let held = holder(&Sure(store.clone())).await;
    let text = "long ".repeat(TEXT_BYTES_MAX / 4);
    let mut batch = held.batch(&[]);
    batch.events = vec![long_event(&held, text.clone())];
    let hash = batch.events[0].blobs[0].hash.clone();
    store.commit(batch).await.unwrap();
    (held, text, hash)
}

/// Changes one bit of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_blob_that_is_not_what_its_name_says_is_never_given_out() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (held, text, hash) = with_blob(&store).await;
    damage(&store.blob_path(&hash).unwrap());
    let refused = store.blob(&hash).unwrap_err();
    assert_eq!(refused.code(), Code::StoreUnreadable);
    assert!(refused.to_string().contains(&hash), "{refused}");
    // The run can be read all the same, and says what is missing of it.
    let event = &store.events(held.run, 0, 1).await.unwrap()[0];
    let shown = store.whole(&event.bytes).unwrap();
    assert!(text.starts_with(shown["text"].as_str().unwrap().trim_end_matches('…')), "{shown}");
    assert_eq!((&shown["text_blob"]["hash"], &shown["truncated"]), (&hash.into(), &true.into()));
}

#[tokio::test]
async fn a_damaged_blob_is_mended_by_the_next_one_who_names_it() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (_, text, hash) = with_blob(&store).await;
    damage(&store.blob_path(&hash).unwrap());
    assert_eq!(check(dir.path()).unwrap(), [format!("every blob hashes to its name: {hash}")]);
    with_blob(&store).await;
    assert_eq!(store.blob(&hash).unwrap().unwrap(), text.as_bytes());
    sound(dir.path());
}

#[tokio::test]
async fn what_is_written_behind_a_later_fence_is_noticed() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held = holder(&Sure(store.clone())).await;
    store.commit(held.batch(&["one", "two"])).await.unwrap();
    sound(dir.path());
    let file = rusqlite::Connection::open(dir.path().join(DATABASE)).unwrap();
    let older =
        "UPDATE events SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"fence\":1', '\"fence\":0')
        AS BLOB) WHERE seq = 2";
    assert_eq!(file.execute(older, []).unwrap(), 1);
    let said = check(dir.path()).unwrap();
    assert!(said.iter().any(|said| said.ends_with("has fence 0 behind 1")), "{said:?}");
}

#[tokio::test]
async fn a_run_is_found_by_either_end_of_its_id_and_by_the_first_of_the_digits_shown() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let digits = ["0190aaaa00007000800000005000beef", "0190bbbb00007000800000007000f00d"];
    let mut runs = Vec::new();
    for digits in digits {
        let task = store.enqueue(new_task()).await.unwrap();
        let run: RunId = format!("run_{digits}").parse().unwrap();
        store.claim(Claim { run, ..claim_of(task, "one") }).await.unwrap();
        runs.push(run);
    }
    let found = async |given: &str| store.find_runs(given, 9).await.unwrap();
    assert_eq!(found("run_0190a").await, [runs[0]]);
    assert_eq!(found("BEEF").await, [runs[0]]);
    assert_eq!(found("5000b").await, [runs[0]], "five of the eight digits that a list shows");
    assert_eq!(found("run_0190").await, [runs[1], runs[0]]);
    assert_eq!(found(&runs[1].to_string()).await, [runs[1]]);
    for nothing in ["run_ffff", "nonsense", "run_0190%", &"0".repeat(40)] {
        assert_eq!(found(nothing).await, [], "{nothing}");
    }
}

#[tokio::test]
async fn hints_tell_of_runs_and_of_what_was_missed() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut hints = store.feed();
    let mut held = holder(&Sure(store.clone())).await;
    let mut inbox = store.inbox_changed(held.run);
    assert_eq!(hints.next().await, Some(Hint::Task { task: held.task, begun: false }));
    let run = Hint::Run { run: held.run, head_seq: 0, settled: false };
    assert_eq!(hints.next().await, Some(run));
    store.command(conformance::wish(held.run, Wish::Interrupt)).await.unwrap();
    inbox.changed().await;
    assert_eq!(store.inbox(held.run).await.unwrap().len(), 1);
    for _ in 0..300 {
        held.head_seq = store.commit(held.batch(&["x"])).await.unwrap().head_seq;
    }
    assert_eq!(hints.next().await, Some(Hint::Missed));
}

#[tokio::test]
async fn whoever_reaps_leaves_alone_what_it_holds_itself() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut runs = Vec::new();
    for holder in ["one", "two"] {
        let task = store.enqueue(new_task()).await.unwrap();
        let claim = claim_of(task, holder);
        runs.push(claim.run);
        store.claim(claim).await.unwrap();
    }
    let late = crate::conformance::NOW.plus_ms(100_000_000);
    let reaped = store.reap_but(late, vec![runs[0]]).await.unwrap();
    assert_eq!(reaped.iter().map(|reaped| reaped.run).collect::<Vec<_>>(), [runs[1]]);
    assert_eq!(store.run(runs[0]).await.unwrap().unwrap().fence, 1);
    assert_eq!(store.run(runs[1]).await.unwrap().unwrap().fence, 2);
}

#[tokio::test]
async fn a_plan_and_the_tasks_that_wait_can_be_read() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held = holder(&Sure(store.clone())).await;
    let waiting = store.enqueue(new_task()).await.unwrap();
    assert_eq!(store.plan(held.run).await.unwrap().unwrap(), br#"{"program":"fake"}"#);
    let queued = TasksPage { limit: 9, state: Some(TaskState::Queued), ..TasksPage::default() };
    let ids = async |page| -> Vec<TaskId> {
        store.tasks(page).await.unwrap().iter().map(|task| task.id).collect()
    };
    assert_eq!(ids(queued.clone()).await, [waiting]);
    assert_eq!(ids(TasksPage { state: None, ..queued.clone() }).await, [held.task, waiting]);
    assert_eq!(ids(TasksPage { after: Some(waiting), ..queued }).await, []);
}

#[tokio::test]
async fn comments_are_read_over_all_runs_of_a_task() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let sure = Sure(store.clone());
    let mut held = holder(&sure).await;
    let other = holder(&sure).await;
    let comment = |held: &Holder, text: &str| {
        let body = Body::Comment(Comment { text: text.into(), mentions: Vec::new() });
        let mut batch = held.batch(&[r#"not a "kind":"comment""#]);
        batch.events.push(Seal::default().event(&envelope(held, held.head_seq + 2), &body, None));
        batch
    };
    held.head_seq = store.commit(comment(&held, "one")).await.unwrap().head_seq;
    store.commit(comment(&other, "elsewhere")).await.unwrap();
    store.commit(held.settling(TaskState::Queued, Totals::default())).await.unwrap();
    let claim = claim_of(held.task, "two");
    let run = claim.run;
    let fence = store.claim(claim).await.unwrap().fence;
    let second = Holder { run, fence, head_seq: 0, ..held };
    store.commit(comment(&second, "two")).await.unwrap();
    let texts: Vec<_> = store.comments(held.task).await.unwrap();
    let texts: Vec<_> = texts
        .iter()
        .map(|event| serde_json::from_slice::<serde_json::Value>(&event.bytes).unwrap())
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(store.last_progress(held.task).await.unwrap(), None);
}

#[tokio::test]
async fn a_task_moves_only_as_it_may_and_only_from_where_it_was_seen() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let task = store.enqueue(new_task()).await.unwrap();
    let step = |from, to, fence| TaskMove {
        task,
        fence,
        from,
        to,
        waiting_for: None,
        pool: None,
        follow: Follow::default(),
    };
    use TaskState::*;
    let waiting_for = Some(WaitingFor::Quota);
    store.move_task(TaskMove { waiting_for, ..step(Queued, Waiting, 0) }).await.unwrap();
    assert_eq!(store.task(task).await.unwrap().unwrap().waiting_for, waiting_for);
    for wrong in [step(Queued, Waiting, 0), step(Waiting, Queued, 1), step(Waiting, Running, 0)] {
        assert_eq!(refused(store.move_task(wrong).await), Code::Conflict);
    }
    store.move_task(step(Waiting, Queued, 0)).await.unwrap();
    let claim = claim_of(task, "one");
    let run = claim.run;
    let fence = store.claim(claim).await.unwrap().fence;
    assert_eq!(refused(store.move_task(step(Running, Cancelled, fence)).await), Code::Conflict);
    let held = Holder { task, run, fence, head_seq: 0 };
    store.commit(held.settling(Failed, Totals::default())).await.unwrap();
    store.move_task(step(Failed, Queued, fence)).await.unwrap();
    assert_eq!(store.task(task).await.unwrap().unwrap().generation, 2);
    store.move_task(step(Queued, Cancelled, fence)).await.unwrap();
    assert_eq!(refused(store.move_task(step(Cancelled, Queued, fence)).await), Code::Conflict);
    sound(dir.path());
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("ostler.db"), "this is not a database, it is a letter").unwrap();
    let refused = Store::open(dir.path()).err().unwrap();
    assert_eq!(refused.code(), Code::StoreUnreadable);
}
