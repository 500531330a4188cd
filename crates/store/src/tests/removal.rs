//! Deletion and backups: what is shared stays, what is needed is spared, what is broken off can be
//! begun again, and the checker is content at every moment between.

use super::{long_event, sound};
use crate::conformance::{Holder, Sure, holder, refused};
use crate::*;
use contract::event::{Body, Log, Stream, Totals};
use contract::limits::TEXT_BYTES_MAX;
use contract::{Code, TaskState, Timestamp};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tempfile::TempDir;

const NOW: Timestamp = Timestamp(5_000_000_000_000);

/// A run that said these and has ended, with its task in this state.
async fn ended(store: &Store, batches: usize, long: Option<&str>, state: TaskState) -> Holder {
    let mut held = holder(&Sure(store.clone())).await;
    for _ in 0..batches {
        let mut batch = held.batch(&["a", "b"]);
        if let Some(text) = long {
            batch.events = vec![long_event(&held, text.to_owned())];
        }
        held.head_seq = store.commit(batch).await.unwrap().head_seq;
    }
    store.commit(held.settling(state, Totals::default())).await.unwrap();
    held
}

async fn delete(store: &Store, run: RunId) {
    store.delete_run(run, NOW).await.unwrap();
    store.purge(run).await.unwrap();
}

#[tokio::test]
async fn a_blob_goes_with_the_last_run_that_names_it() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let text = "long ".repeat(TEXT_BYTES_MAX / 4);
    let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
    let one = ended(&store, 1, Some(&text), TaskState::Done).await;
    let two = ended(&store, 1, Some(&text), TaskState::Done).await;
    delete(&store, one.run).await;
    assert!(store.blob(&hash).unwrap().is_some());
    sound(dir.path());
    delete(&store, two.run).await;
    assert_eq!(store.blob(&hash).unwrap(), None);
    sound(dir.path());
    assert!(store.was_deleted(one.run).await.unwrap());
    assert_eq!(store.run(one.run).await.unwrap(), None);
    assert_eq!(refused(store.events(one.run, 0, 9).await), Code::NotFound);
    assert_eq!(store.runs(RunsPage { limit: 9, ..RunsPage::default() }).await.unwrap(), []);
    // Its words went from its task too; an asset that a run keeps is counted like any other.
    assert_eq!(store.task(one.task).await.unwrap().unwrap().prompt, "");
    let three = ended(&store, 1, None, TaskState::Done).await;
    let asset = Seal::default().asset(b"a report");
    let (keeping, kept, run) = (store.clone(), asset.clone(), three.run);
    tokio::task::spawn_blocking(move || keeping.keep_for(run, &kept).unwrap()).await.unwrap();
    assert!(store.blob(&asset.hash).unwrap().is_some());
    delete(&store, three.run).await;
    assert_eq!(store.blob(&asset.hash).unwrap(), None);
}

#[tokio::test]
async fn a_deletion_that_was_broken_off_is_sound_and_is_finished_later() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let live = holder(&Sure(store.clone())).await;
    assert_eq!(refused(store.delete_run(live.run, NOW).await), Code::Conflict);
    assert_eq!(refused(store.purge(live.run).await), Code::Conflict);
    let old = ended(&store, 7, None, TaskState::Done).await;
    assert_eq!(refused(store.purge(old.run).await), Code::Conflict, "not before it is deleted");
    store.delete_run(old.run, NOW).await.unwrap();
    for _ in 0..3 {
        // Whole spans, a few at a time.
        assert!(store.shared.sqlite.remove_events(old.run, 3).await.unwrap());
        sound(dir.path());
    }
    assert_eq!(store.half_deleted(9).await.unwrap(), [old.run]);
    store.close().await;
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.half_deleted(9).await.unwrap(), [old.run]);
    store.purge(old.run).await.unwrap();
    assert_eq!(store.half_deleted(9).await.unwrap(), []);
    // Deleted again it stays so.
    delete(&store, old.run).await;
    sound(dir.path());
}

#[tokio::test]
async fn what_is_needed_is_not_stale() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let _live = holder(&Sure(store.clone())).await;
    let done = ended(&store, 1, None, TaskState::Done).await;
    let _looked_at = ended(&store, 1, None, TaskState::Review).await;
    let failed = ended(&store, 1, None, TaskState::Failed).await;
    let stale = async |before: i64| {
        let ended_before = Timestamp(before);
        store.stale(Stale { ended_before, limit: 9 }).await.unwrap()
    };
    assert_eq!(stale(i64::MAX).await, [done.run, failed.run]);
    assert_eq!(stale(0).await, []);

    // A conversation that a live run took up keeps the run in which it began.
    let mut held = holder(&Sure(store.clone())).await;
    let session = Some(Seal::default().given("native-1"));
    let batch = Batch { session, ..held.batch(&["a"]) };
    held.head_seq = store.commit(batch).await.unwrap().head_seq;
    store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
    assert!(stale(i64::MAX).await.contains(&held.run));
    let task = store.enqueue(conformance::new_task()).await.unwrap();
    let mut claim = conformance::claim_of(task, "one");
    claim.head.resumes = Some(Seal::default().given("native-1"));
    let next = claim.run;
    let fence = store.claim(claim).await.unwrap().fence;
    assert!(!stale(i64::MAX).await.contains(&held.run));
    let next = Holder { task, run: next, fence, head_seq: 0 };
    store.commit(next.settling(TaskState::Done, Totals::default())).await.unwrap();
    assert!(stale(i64::MAX).await.contains(&held.run));
}

#[tokio::test]
async fn nobody_names_a_blob_while_some_are_removed() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let text = "long ".repeat(TEXT_BYTES_MAX / 4);
    let old = ended(&store, 1, Some(&text), TaskState::Done).await;
    store.delete_run(old.run, NOW).await.unwrap();
    let held = holder(&Sure(store.clone())).await;
    let mut batch = held.batch(&[]);
    batch.events = vec![long_event(&held, text)];
    // Held as it should be it never comes through; let through it would, in far less than this.
    let waits = Duration::from_secs(3);
    // Whoever is about to name one keeps the remover out, and the other way round.
    let naming = store.shared.naming.read().await;
    assert!(tokio::time::timeout(waits, store.purge(old.run)).await.is_err());
    drop(naming);
    let alone = store.shared.naming.write().await;
    assert!(tokio::time::timeout(waits, store.commit(batch.clone())).await.is_err());
    drop(alone);
    store.purge(old.run).await.unwrap();
    store.commit(batch).await.unwrap();
    sound(dir.path());
}

#[test]
fn the_gate_stays_closed_until_the_files_are_gone_although_nobody_waits_for_that() {
    // One thread for files, so that the removal can be kept waiting.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let dir = TempDir::new().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let text = "long ".repeat(TEXT_BYTES_MAX / 4);
        let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        let old = ended(&store, 1, Some(&text), TaskState::Done).await.run;
        store.delete_run(old, NOW).await.unwrap();
        // Whoever leaves before it came to the files leaves nothing to look at: once more, later.
        for ms in [20, 200, 2_000, 20_000] {
            let (go, wait) = sync_channel::<()>(1);
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let left = tokio::time::timeout(Duration::from_millis(ms), store.purge(old)).await;
            assert!(left.is_err(), "it waits for the files");
            let is_open = store.shared.naming.try_read().is_ok();
            go.send(()).unwrap();
            busy.await.unwrap().unwrap();
            // Behind what was to be done with files.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            if store.blob(&hash).unwrap().is_none() {
                assert!(!is_open, "a blob could have been named while it was removed");
                assert!(store.shared.naming.try_read().is_ok());
                return;
            }
        }
        panic!("the files were never come to");
    });
}

/// What a host does at its start.
async fn sweep(store: &Store) -> usize {
    let mut swept = 0;
    for shelf in store.shelves().await.unwrap() {
        swept += store.sweep_shelf(&shelf).await.unwrap();
    }
    swept
}

#[tokio::test]
async fn a_blob_that_nobody_came_to_name_is_noticed_and_swept() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let text = "long ".repeat(TEXT_BYTES_MAX / 4);
    let run = ended(&store, 1, Some(&text), TaskState::Done).await.run;
    let (kept, left) = (Seal::default().asset(b"a report"), Seal::default().asset(b"left behind"));
    let (keeping, keep) = (store.clone(), kept.clone());
    tokio::task::spawn_blocking(move || keeping.keep_for(run, &keep).unwrap()).await.unwrap();
    // Someone wrote it, and died before it was named.
    store.shared.blobs.write(&left).unwrap();
    sound(dir.path());
    let unnamed = format!("some run names every blob: {}", left.hash);
    assert_eq!(check_swept(dir.path()).unwrap(), [unnamed]);
    let strange = store.blob_path(&left.hash).unwrap().with_file_name("not a blob");
    std::fs::write(&strange, "x").unwrap();
    assert_eq!(sweep(&store).await, 1);
    assert_eq!(store.blob(&left.hash).unwrap(), None);
    assert!(strange.exists(), "what is not ours is left alone");
    assert!(store.blob(&kept.hash).unwrap().is_some());
    assert_eq!(check_swept(dir.path()).unwrap(), [] as [String; 0]);
    assert_eq!(sweep(&store).await, 0);
}

/// The Batch of a run with a long text is on its way, and the writer has not come to it. Whoever sent
/// it waits for the answer, or has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_is_being_named_stays() {
    for (waits, sweeps) in [(true, true), (true, false), (false, true), (false, false)] {
        let dir = TempDir::new().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let text = "long ".repeat(TEXT_BYTES_MAX / 4);
        let old = ended(&store, 1, Some(&text), TaskState::Done).await;
        store.delete_run(old.run, NOW).await.unwrap();
        let held = holder(&Sure(store.clone())).await;
        let mut batch = held.batch(&[]);
        // One that the deleted run names too, and one that nobody does.
        let other = Seal::default().event(
            &super::envelope(&held, held.head_seq + 2),
            &Body::Log(Log { stream: Stream::Stdout, text: format!("{text} more"), level: None }),
            None,
        );
        batch.events = vec![long_event(&held, text), other];
        let hashes: Vec<_> = batch
            .events
            .iter()
            .flat_map(|event| &event.blobs)
            .map(|blob| blob.hash.clone())
            .collect();
        assert_eq!(hashes.len(), 2);
        let ((begun, begins), (release, until)) = (sync_channel(1), sync_channel(1));
        let holding = store.clone();
        let held_back = tokio::spawn(async move { holding.shared.sqlite.hold(begun, until).await });
        begins.recv().unwrap();
        let committing = store.clone();
        let commit = tokio::spawn(async move { committing.commit(batch).await });
        while store.shared.sqlite.queued() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if !waits {
            commit.abort();
        }
        let remover = store.clone();
        let removed = tokio::spawn(async move {
            match sweeps {
                true => assert_eq!(sweep(&remover).await, 0),
                false => assert!(remover.remove_blobs(old.run).await.unwrap()),
            }
        });
        // Held as it should be it waits; let through it would come far in this time.
        tokio::time::sleep(Duration::from_millis(500)).await;
        release.send(()).unwrap();
        removed.await.unwrap();
        held_back.await.unwrap().unwrap();
        assert_eq!(commit.await.is_ok(), waits);
        assert_eq!(store.events(held.run, held.head_seq, 9).await.unwrap().len(), 2);
        let there = hashes.iter().all(|hash| store.blob(hash).unwrap().is_some());
        assert!(there, "whoever sent it waits: {waits}, swept: {sweeps}");
        store.purge(old.run).await.unwrap();
        assert_eq!(check_swept(dir.path()).unwrap(), [] as [String; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_names_blobs_while_others_are_swept_loses_none() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let writing = {
        let store = store.clone();
        let mut held = holder(&Sure(store.clone())).await;
        tokio::spawn(async move {
            for n in 0..100 {
                let mut batch = held.batch(&[]);
                batch.events =
                    vec![long_event(&held, format!("{n} {}", "x".repeat(TEXT_BYTES_MAX)))];
                held.head_seq = store.commit(batch).await.unwrap().head_seq;
            }
        })
    };
    while !writing.is_finished() {
        assert_eq!(sweep(&store).await, 0);
    }
    writing.await.unwrap();
    assert_eq!(check_swept(dir.path()).unwrap(), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_between_two_commits_is_one_moment_of_the_store() {
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = Store::open(dir.path()).unwrap();
    let text = "long ".repeat(TEXT_BYTES_MAX / 4);
    ended(&store, 3, Some(&text), TaskState::Done).await;
    let writing = {
        let store = store.clone();
        let mut held = holder(&Sure(store.clone())).await;
        tokio::spawn(async move {
            for n in 0..200 {
                let mut batch = held.batch(&["a", "b"]);
                if n % 10 == 0 {
                    batch.events =
                        vec![long_event(&held, format!("{n} {}", "x".repeat(TEXT_BYTES_MAX)))];
                }
                held.head_seq = store.commit(batch).await.unwrap().head_seq;
            }
            held
        })
    };
    for n in 0..4 {
        let to = out.path().join(format!("{n}"));
        let made = backup(dir.path(), &to, NOW).await.unwrap();
        assert_eq!(made.runs, 2);
        sound(&to);
        let copy = Store::open(&to).unwrap();
        let page = RunsPage { limit: 9, unsettled_only: true, before: None };
        assert_eq!(copy.runs(page).await.unwrap(), [], "whatever lived is closed in the copy");
        assert_eq!(refused(backup(dir.path(), &to, NOW).await), Code::Conflict);
    }
    let held = writing.await.unwrap();
    // The original noticed nothing.
    store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
    sound(dir.path());
    let parts = std::fs::read_dir(out.path()).unwrap().flatten();
    assert_eq!(parts.filter(|part| part.path().extension().is_some()).count(), 0);
}

#[test]
fn nothing_is_deleted_while_a_backup_is_made() {
    let dir = TempDir::new().unwrap();
    let first = Upkeep::to_delete(dir.path()).unwrap().unwrap();
    assert!(Upkeep::to_delete(dir.path()).unwrap().is_none());
    drop(first);
    assert!(Upkeep::to_delete(dir.path()).unwrap().is_some());
}
