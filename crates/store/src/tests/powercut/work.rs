//! The work during which the power is cut, the answers it was given, and what must be true of them
//! afterwards. Every answer is noted in the log at the moment it came, so an image knows which
//! promises it has to keep.

use super::log::Recording;
use crate::conformance::{Holder, NOW, claim_of, new_task, next_uuid, wish};
use crate::tests::{envelope, join_all};
use crate::*;
use contract::event::{Body, Log, Stream, Totals};
use contract::limits::TEXT_BYTES_MAX;
use contract::state::WaitingFor;
use contract::{CommandId, RunState, Scope, TaskState, TokenId, Wish};
use std::collections::{BTreeMap, BTreeSet};

/// What a copy is called, beside the original.
pub(super) const COPY: &str = "copy";
/// More rows than there are.
const ALL: usize = 500;

/// What the store said is so.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Queued(TaskId),
    /// It stands where this step of it led, or further on.
    Moved {
        task: TaskId,
        place: usize,
    },
    Commented(CommandId),
    Recalled(TaskId),
    Head {
        run: RunId,
        head_seq: u64,
        state: RunState,
    },
    Lease {
        run: RunId,
        until: Timestamp,
    },
    /// Whoever held it before may write no more.
    Fenced {
        run: RunId,
        fence: u64,
    },
    /// A token opens the API.
    Given(TokenId),
    /// It does not any more.
    Revoked(TokenId),
    Wished {
        run: RunId,
        id: CommandId,
    },
    Kept {
        run: RunId,
        hash: String,
    },
    Traced(RunId),
    Purged(RunId),
    BackedUp,
}

/// Everything that was asked for, and what was answered, in order.
#[derive(Default)]
pub(super) struct Told {
    pub answers: Vec<Answer>,
    /// The steps before those in which the power is cut.
    pub prepared: usize,
    events: BTreeMap<(RunId, u64), Vec<u8>>,
    blobs: BTreeMap<String, Vec<u8>>,
    traces: BTreeMap<RunId, Vec<u8>>,
    /// Where a task stood, and where it was asked to go, in order.
    moves: BTreeMap<TaskId, Vec<TaskState>>,
    named: BTreeMap<RunId, BTreeSet<String>>,
    /// Runs whose deletion was asked for, after so many answers.
    deleted: BTreeMap<RunId, usize>,
    /// The runs that a copy has, and the blobs that they named.
    copied: BTreeMap<RunId, BTreeSet<String>>,
    /// Tokens that were asked to be taken away, after so many answers.
    revoking: BTreeMap<TokenId, usize>,
    /// The head of the run once a wish is taken.
    taken: BTreeMap<CommandId, u64>,
}

pub(super) struct Worker<'a> {
    pub recording: &'a Recording,
    pub told: Told,
}

impl Worker<'_> {
    fn answered(&mut self, answer: Answer) {
        assert_eq!(self.recording.answered(), self.told.answers.len());
        self.told.answers.push(answer);
    }

    /// Remembers what a Batch will be found to hold.
    fn expect(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.told.events.insert((batch.run, event.seq), event.bytes.bytes().to_vec());
            for blob in &event.blobs {
                self.told.blobs.insert(blob.hash.clone(), blob.bytes.bytes().to_vec());
                self.told.named.entry(batch.run).or_default().insert(blob.hash.clone());
            }
        }
        for id in &batch.taken {
            self.told.taken.insert(*id, batch.first_seq + batch.events.len() as u64 - 1);
        }
    }

    fn committed(&mut self, held: &mut Holder, done: Committed, state: RunState) {
        held.head_seq = done.head_seq;
        self.answered(Answer::Head { run: held.run, head_seq: done.head_seq, state });
    }

    async fn begin(&mut self, store: &Store) -> Result<Holder, Error> {
        let task = new_task();
        let claim = claim_of(task.id, "one");
        let mut held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
        let batch = held.batch(&["the first words"]);
        self.expect(&batch);
        let done = store.begin(task, claim, batch).await?;
        self.committed(&mut held, done, RunState::Live);
        Ok(held)
    }

    /// Commits of several runs at once, so that they share groups and race for the blobs. A run
    /// whose commit failed is given up.
    async fn commit_all(
        &mut self,
        store: &Store,
        held: &mut Vec<Holder>,
        n: usize,
    ) -> Result<(), Error> {
        let mut batches = Vec::new();
        for (place, held) in held.iter().enumerate() {
            let mut batch = held.batch(&["one", "two"]);
            if (n + place).is_multiple_of(3) {
                batch.events.push(long(held, held.head_seq + 3, n * 10 + place));
            }
            if n.is_multiple_of(2) {
                batch.taken = store.inbox(held.run).await?.iter().map(|wish| wish.id).collect();
            }
            self.expect(&batch);
            batches.push(batch);
        }
        let done = join_all(batches.into_iter().map(|batch| commit(store, batch))).await;
        let mut failed = Ok(());
        let mut kept = Vec::new();
        for (mut held, done) in held.drain(..).zip(done) {
            match done {
                Ok(done) => {
                    self.committed(&mut held, done, RunState::Live);
                    kept.push(held);
                }
                Err(error) => failed = Err(error),
            }
        }
        *held = kept;
        failed
    }

    async fn wish(&mut self, store: &Store, run: RunId) -> Result<(), Error> {
        let wish = wish(run, Wish::Interrupt);
        let id = wish.id;
        store.command(wish).await?;
        self.answered(Answer::Wished { run, id });
        Ok(())
    }

    /// So many jobs in a group that the writer makes a checkpoint after it.
    async fn renew_often(&mut self, store: &Store, held: &Holder) -> Result<(), Error> {
        let from = NOW.plus_ms(1_000_000 + held.head_seq as i64 * 1_000);
        let until = |n| from.plus_ms(n);
        let done = join_all((0..260).map(|n| store.renew(held.run, held.fence, until(n)))).await;
        done.into_iter().collect::<Result<(), _>>()?;
        self.answered(Answer::Lease { run: held.run, until: until(259) });
        Ok(())
    }

    async fn settle(&mut self, store: &Store, held: &mut Holder) -> Result<(), Error> {
        let batch = held.settling(TaskState::Done, Totals::default());
        self.expect(&batch);
        let done = commit(store, batch).await?;
        self.committed(held, done, RunState::Settled);
        let mut trace = store.new_trace(held.run, 100_000);
        for line in 1..20 {
            let text = Seal::default().line("a line that was heard ".repeat(20).as_bytes());
            assert!(trace.hear(Stream::Stdout, line, &text, false));
            trace.write()?;
        }
        let mut lines = Vec::new();
        let read = store.read_trace(held.run)?;
        read.ok_or_else(|| Error::not_found("a trace"))?.copy(&mut lines)?;
        self.told.traces.insert(held.run, lines);
        trace.sync()?;
        self.answered(Answer::Traced(held.run));
        Ok(())
    }

    async fn purge(&mut self, store: &Store, run: RunId) -> Result<(), Error> {
        self.told.deleted.insert(run, self.told.answers.len());
        store.delete_run(run, NOW).await?;
        if store.purge(run).await.is_err() {
            // As the next look does.
            store.purge(run).await?;
        }
        self.answered(Answer::Purged(run));
        Ok(())
    }

    async fn back_up(&mut self, store: &Store, home: &Path) -> Result<(), Error> {
        let page = RunsPage { before: None, limit: ALL, unsettled_only: false };
        let runs = store.runs(page).await?.into_iter();
        let named = |run| (run, self.told.named.get(&run).cloned().unwrap_or_default());
        self.told.copied = runs.map(|row| named(row.id)).collect();
        backup(home, &home.with_file_name(COPY), NOW).await?;
        self.answered(Answer::BackedUp);
        // Before it has its name there is nothing to look at.
        self.told.prepared = self.recording.named(COPY);
        Ok(())
    }

    async fn keep(&mut self, store: &Store, run: RunId, n: usize) -> Result<(), Error> {
        let blob = blob(n);
        self.told.blobs.insert(blob.hash.clone(), blob.bytes.bytes().to_vec());
        if n.is_multiple_of(2) {
            // Someone else made the shelf, and died before he synced its name.
            let path = store.blob_path(&blob.hash).unwrap();
            let _ = crate::disk::make_folder(path.parent().unwrap());
        }
        let (keeping, kept) = (store.clone(), blob.clone());
        let keep = move || keeping.keep_for(run, &kept).or_else(|_| keeping.keep_for(run, &kept));
        tokio::task::spawn_blocking(keep).await.unwrap()?;
        self.answered(Answer::Kept { run, hash: blob.hash });
        Ok(())
    }

    /// What people do with a queue: hand over, hold, release, cancel, and say something about it.
    async fn queue(&mut self, store: &Store) -> Result<(), Error> {
        let task = store.enqueue(new_task()).await?;
        self.answered(Answer::Queued(task));
        let steps =
            [TaskState::Queued, TaskState::Waiting, TaskState::Queued, TaskState::Cancelled];
        for (place, pair) in steps.windows(2).enumerate() {
            let (from, to) = (pair[0], pair[1]);
            let waiting_for = (to == TaskState::Waiting).then_some(WaitingFor::Budget);
            let follow = Follow::default();
            let step = TaskMove { task, fence: 0, from, to, waiting_for, pool: None, follow };
            self.told.moves.entry(task).or_insert_with(|| vec![from]).push(to);
            store.move_task(step).await?;
            self.answered(Answer::Moved { task, place: place + 1 });
        }
        let id = CommandId::new(next_uuid());
        let text = Seal::default().given("we do not need it");
        let author = "someone".to_owned();
        let comment = NewComment { id, task, at: NOW, author, text, mentions: Vec::new() };
        store.comment(comment).await?;
        self.answered(Answer::Commented(id));
        Ok(())
    }

    /// Takes a run over from its holder, who may be dead.
    async fn take_over(&mut self, store: &Store, held: &mut Holder) -> Result<(), Error> {
        let row = store.run(held.run).await?.ok_or_else(|| Error::not_found("a run"))?;
        let seen =
            crate::Seen { run: held.run, fence: held.fence, expires_at: row.lease_expires_at };
        for reaped in store.reap_seen(NOW, vec![seen]).await? {
            held.fence = reaped.fence;
            self.answered(Answer::Fenced { run: held.run, fence: reaped.fence });
        }
        Ok(())
    }

    /// Gives a token out, and takes one away that was given before.
    async fn tokens(&mut self, store: &Store) -> Result<(), Error> {
        let mut given = Vec::new();
        for _ in 0..2 {
            let id = TokenId::new(next_uuid());
            let (name, hash) =
                (id.to_string(), *blake3::hash(id.to_string().as_bytes()).as_bytes());
            let (scope, browser, created_at, expires_at) = (Scope::Viewer, false, NOW, None);
            let row = TokenRow { id, name, scope, browser, created_at, expires_at };
            store.add_token(NewToken { row, hash }).await?;
            self.answered(Answer::Given(id));
            given.push(id);
        }
        self.told.revoking.insert(given[0], self.told.answers.len());
        store.revoke_token(given[0]).await?;
        self.answered(Answer::Revoked(given[0]));
        Ok(())
    }

    async fn recall(&mut self, store: &Store, held: &Holder) -> Result<(), Error> {
        store.recall(held.task, held.fence).await?;
        self.answered(Answer::Recalled(held.task));
        Ok(())
    }

    /// Runs that said much and have ended, and one that has not.
    async fn prepare(&mut self, store: &Store) -> Result<(Vec<RunId>, Vec<Holder>), Error> {
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(self.begin(store).await?);
        }
        for n in 0..3 {
            self.commit_all(store, &mut held, n).await?;
        }
        let mut ended = Vec::new();
        for mut held in held.split_off(1) {
            self.settle(store, &mut held).await?;
            ended.push(held.run);
        }
        self.told.prepared = self.recording.steps();
        Ok((ended, held))
    }

    /// Deletes, while others go on.
    pub async fn delete(&mut self, home: &Path) -> Result<(), Error> {
        let store = Store::open(home)?;
        let (ended, mut held) = self.prepare(&store).await?;
        for (n, run) in ended.into_iter().enumerate() {
            self.purge(&store, run).await?;
            self.commit_all(&store, &mut held, 3 + n).await?;
        }
        Ok(())
    }

    /// Copies, and goes on.
    pub async fn copy(&mut self, home: &Path) -> Result<(), Error> {
        let store = Store::open(home)?;
        let (_, mut held) = self.prepare(&store).await?;
        self.back_up(&store, home).await?;
        self.commit_all(&store, &mut held, 3).await
    }

    /// Opens, works, closes, opens again, works on, and is cut off.
    pub async fn work(&mut self, home: &Path) -> Result<(), Error> {
        let mut held = Vec::new();
        for opening in 0..3 {
            let store = Store::open(home)?;
            self.queue(&store).await?;
            self.tokens(&store).await?;
            for n in 0..6 {
                held.push(self.begin(&store).await?);
                self.wish(&store, held[n % held.len()].run).await?;
                self.commit_all(&store, &mut held, opening * 6 + n).await?;
                if n % 2 == 1 {
                    self.renew_often(&store, &held[0]).await?;
                    self.wish(&store, held[0].run).await?;
                    let mut ended = held.swap_remove(0);
                    self.recall(&store, &ended).await?;
                    self.settle(&store, &mut ended).await?;
                }
                self.keep(&store, held[0].run, opening * 6 + n).await?;
                let newest = held.len() - 1;
                self.take_over(&store, &mut held[newest]).await?;
            }
            if opening < 2 {
                store.close().await;
            }
        }
        Ok(())
    }

    /// All of it in small, on a disk that fails: what is refused is asked for once more or given up,
    /// and the rest goes on. Gives what was refused.
    pub async fn persist(&mut self, home: &Path) -> Vec<Error> {
        let mut refused = Refused::default();
        let mut ended = Vec::new();
        for opening in 0..2 {
            let Some(store) = refused.note(Store::open(home)) else {
                // Nobody opens it again here when nobody knows what is on the disk.
                if refused.unsynced() {
                    break;
                } else {
                    continue;
                };
            };
            let mut held = Vec::new();
            held.extend(refused.note(self.begin(&store).await));
            held.extend(refused.note(self.begin(&store).await));
            refused.note(self.queue(&store).await);
            refused.note(self.tokens(&store).await);
            for n in 0..2 {
                let n = opening * 2 + n;
                refused.note(self.commit_all(&store, &mut held, n).await);
                if let Some(held) = held.first() {
                    refused.note(self.wish(&store, held.run).await);
                    refused.note(self.keep(&store, held.run, n).await);
                }
            }
            if let Some(held) = held.first() {
                refused.note(self.renew_often(&store, held).await);
            }
            if let Some(mut held) = held.pop() {
                refused.note(self.settle(&store, &mut held).await);
                ended.push(held.run);
            }
            if opening == 1 {
                refused.note(self.back_up(&store, home).await);
                for run in &ended {
                    refused.note(self.purge(&store, *run).await);
                }
            }
            store.close().await;
            if refused.unsynced() {
                break;
            }
        }
        refused.errors
    }
}

/// Commits, and once more if that failed, as a driver does. What can be read then is durable, so a
/// commit that is found to be there is one.
async fn commit(store: &Store, batch: Batch) -> Result<Committed, Error> {
    let (run, head_seq) = (batch.run, batch.first_seq + batch.events.len() as u64 - 1);
    let Err(first) = store.commit(batch.clone()).await else { return Ok(Committed { head_seq }) };
    match store.commit(batch).await {
        Err(Error::Conflict { .. }) => match store.run(run).await? {
            Some(row) if row.head_seq == head_seq => Ok(Committed { head_seq }),
            _ => Err(first),
        },
        again => again,
    }
}

/// What a failing disk made the store refuse.
#[derive(Default)]
struct Refused {
    errors: Vec<Error>,
}

impl Refused {
    fn unsynced(&self) -> bool {
        self.errors.iter().any(|error| matches!(error, Error::Unsynced { .. }))
    }

    fn note<T>(&mut self, answer: Result<T, Error>) -> Option<T> {
        answer.map_err(|error| self.errors.push(error)).ok()
    }
}

fn long(held: &Holder, seq: u64, n: usize) -> SealedEvent {
    let text = format!("{n} long ").repeat(TEXT_BYTES_MAX / 6);
    let body = Body::Log(Log { stream: Stream::Stdout, text, level: None });
    Seal::default().event(&envelope(held, seq), &body, None)
}

fn blob(n: usize) -> SealedBlob {
    let bytes = Seal::default().line(format!("{n} kept ").repeat(1_000).as_bytes());
    SealedBlob { hash: blake3::hash(bytes.bytes()).to_hex().to_string(), bytes }
}

/// What an image does not keep of the first answers; empty when all is well.
pub(super) async fn complaints(home: &Path, told: &Told, answers: usize) -> Vec<String> {
    let store = match Store::open(home) {
        Ok(store) => store,
        Err(error) => return vec![format!("it does not open: {error}")],
    };
    let mut found = check(home).unwrap_or_else(|error| vec![format!("unreadable: {error}")]);
    let seen = match Seen::of(&store, home, told, answers).await {
        Ok(seen) => seen,
        Err(error) => return vec![format!("it cannot be read: {error}")],
    };
    for answer in &told.answers[..answers] {
        if !seen.keeps(&store, told, answer) {
            found.push(format!("{answer:?}"));
        }
    }
    found.extend(seen.left(&store, told));
    if seen.copied {
        let copy = home.with_file_name(COPY);
        let wrong = wrong_with(&copy, told).await.unwrap_or_else(|error| vec![error.to_string()]);
        found.extend(wrong.into_iter().map(|wrong| format!("the copy: {wrong}")));
    }
    found
        .extend(altered(&store, &seen, told).await.unwrap_or_else(|error| vec![error.to_string()]));
    found.extend(unswept(&store, home).await.unwrap_or_else(|error| vec![error.to_string()]));
    store.close().await;
    found
}

/// What has no name when the next host has swept.
async fn unswept(store: &Store, home: &Path) -> Result<Vec<String>, Error> {
    for shelf in store.shelves().await? {
        store.sweep_shelf(&shelf).await?;
    }
    check_swept(home)
}

/// A copy is whole or not there: every run with all its events, blobs and lines, and all of them ended.
async fn wrong_with(copy: &Path, told: &Told) -> Result<Vec<String>, Error> {
    let store = Store::open(copy)?;
    let mut found = check(copy)?;
    for (run, blobs) in &told.copied {
        let row = store.run(*run).await?;
        if row.is_none_or(|row| row.state != RunState::Settled) {
            found.push(format!("{run} is not there, or lives"));
        }
        for hash in blobs {
            if store.blob(hash)?.as_ref() != told.blobs.get(hash) {
                found.push(format!("blob {hash} of {run}"));
            }
        }
        if told.traces.contains_key(run) && !traced(&store, told, *run) {
            found.push(format!("the trace of {run}"));
        }
    }
    store.close().await;
    Ok(found)
}

fn traced(store: &Store, told: &Told, run: RunId) -> bool {
    let mut lines = Vec::new();
    let trace = store.read_trace(run).ok().flatten();
    let read = trace.is_some_and(|mut trace| trace.copy(&mut lines).is_ok());
    read && told.traces.get(&run) == Some(&lines)
}

/// What an image holds, read once.
struct Seen {
    tasks: BTreeMap<TaskId, TaskRow>,
    comments: BTreeSet<CommandId>,
    runs: BTreeMap<RunId, RunRow>,
    waiting: BTreeSet<CommandId>,
    tokens: BTreeSet<TokenId>,
    /// How many answers had been given.
    answers: usize,
    half_deleted: BTreeSet<RunId>,
    /// Runs that are not there any more, and whose deletion had been asked for.
    gone: BTreeSet<RunId>,
    copied: bool,
}

impl Seen {
    async fn of(store: &Store, home: &Path, told: &Told, answers: usize) -> Result<Self, Error> {
        let tasks = store.tasks(TasksPage { limit: ALL, ..TasksPage::default() }).await?;
        let runs = RunsPage { before: None, limit: ALL, unsettled_only: false };
        let runs = store.runs(runs).await?;
        let mut waiting = BTreeSet::new();
        for run in &runs {
            waiting.extend(store.inbox(run.id).await?.iter().map(|wish| wish.id));
        }
        let mut comments = BTreeSet::new();
        for task in told.moves.keys() {
            comments.extend(store.comments_of(*task).await?.iter().map(|comment| comment.id));
        }
        let tasks = tasks.into_iter().map(|task| (task.id, task)).collect();
        let runs: BTreeMap<_, _> = runs.into_iter().map(|run| (run.id, run)).collect();
        let tokens = store.tokens(NOW, None, ALL).await?.into_iter().map(|row| row.id).collect();
        let half_deleted = store.half_deleted(ALL).await?.into_iter().collect();
        let asked = told.deleted.iter().filter(|(_, asked)| **asked <= answers);
        let gone = asked.map(|(run, _)| *run).filter(|run| !runs.contains_key(run)).collect();
        let copied = home.with_file_name(COPY).is_dir();
        Ok(Self { tasks, comments, runs, waiting, tokens, answers, half_deleted, gone, copied })
    }

    /// What is left of runs that were wholly removed: nobody would look for it any more.
    fn left(&self, store: &Store, told: &Told) -> Vec<String> {
        let mut found = Vec::new();
        for run in self.gone.difference(&self.half_deleted) {
            if !matches!(store.read_trace(*run), Ok(None)) {
                found.push(format!("the trace of {run} came back"));
            }
            for hash in told.named.get(run).into_iter().flatten() {
                if !matches!(store.blob(hash), Ok(None)) {
                    found.push(format!("blob {hash} of {run} came back"));
                }
            }
        }
        found
    }

    fn keeps(&self, store: &Store, told: &Told, answer: &Answer) -> bool {
        let row = |run, holds: &dyn Fn(&RunRow) -> bool| {
            self.gone.contains(run) || self.runs.get(run).is_some_and(holds)
        };
        let settled = |row: &RunRow| row.state == RunState::Settled;
        match answer {
            Answer::Queued(task) => self.tasks.contains_key(task),
            Answer::Moved { task, place } => self
                .tasks
                .get(task)
                .is_some_and(|row| told.moves[task][*place..].contains(&row.state)),
            Answer::Commented(id) => self.comments.contains(id),
            Answer::Recalled(task) => self.tasks.get(task).is_some_and(|row| row.recalled),
            Answer::Head { run, head_seq, state } => row(run, &|row| {
                row.head_seq >= *head_seq && (*state != RunState::Settled || settled(row))
            }),
            Answer::Lease { run, until } => {
                row(run, &|row| row.lease_expires_at >= *until || settled(row))
            }
            Answer::Fenced { run, fence } => row(run, &|row| row.fence >= *fence),
            Answer::Given(token) => {
                let revoking = told.revoking.get(token);
                self.tokens.contains(token) || revoking.is_some_and(|asked| *asked <= self.answers)
            }
            Answer::Revoked(token) => !self.tokens.contains(token),
            // Taken with the Batch that took it, and not a moment sooner or later.
            Answer::Wished { run, id } => row(run, &|row| {
                let taken = told.taken.get(id).is_some_and(|head| row.head_seq >= *head);
                self.waiting.contains(id) != taken
            }),
            Answer::Kept { run, hash } => {
                let kept = store.blob(hash).is_ok_and(|blob| blob.as_ref() == told.blobs.get(hash));
                kept || self.gone.contains(run)
            }
            Answer::Traced(run) => self.gone.contains(run) || traced(store, told, *run),
            Answer::Purged(run) => self.gone.contains(run) && !self.half_deleted.contains(run),
            Answer::BackedUp => self.copied,
        }
    }
}

/// Every event that is there, asked for or answered, is byte for byte what was given, in its place.
async fn altered(store: &Store, seen: &Seen, told: &Told) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for row in seen.runs.values() {
        let mut seq = 0;
        while seq < row.head_seq {
            let events = store.events(row.id, seq, ALL).await?;
            if events.is_empty() {
                found.push(format!("{} ends at {seq} before {}", row.id, row.head_seq));
                break;
            }
            for event in events {
                seq += 1;
                let given = told.events.get(&(row.id, seq)).map(Vec::as_slice);
                if event.seq != seq || given != Some(&*event.bytes) {
                    found.push(format!("event {seq} of {} is another", row.id));
                }
            }
        }
    }
    Ok(found)
}
