//! A backend that keeps every promise in the least helpful way. By seed it loses the answer of a
//! verb that was done, wakes watchers late, twice or for nothing, and hands out pages of one row.
//! What works on top of it does not lean on luck. Tests only.

use crate::backend::{Backend, Watch};
use crate::batch::*;
use crate::error::Error;
use crate::queue::*;
use crate::row::*;
use contract::{Command, RunId, TaskId, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The decorator. Clones share one sequence of mischief.
#[derive(Clone)]
pub struct Spiteful<B> {
    inner: B,
    mischief: Mischief,
}

impl<B> Spiteful<B> {
    pub fn new(inner: B, seed: u64) -> Self {
        Self { inner, mischief: Mischief(Arc::new(AtomicU64::new(seed))) }
    }

    /// Every third answer of something done is lost.
    fn answer<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        match done {
            Ok(_) if self.mischief.one_in(3) => Err(Error::Unacknowledged),
            done => done,
        }
    }
}

/// A small generator of numbers that look random and follow from the seed.
#[derive(Clone)]
struct Mischief(Arc<AtomicU64>);

impl Mischief {
    fn next(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_in(&self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// Wakes late, or for nothing.
pub struct SpitefulWatch<W> {
    inner: W,
    mischief: Mischief,
}

impl<W: Watch> Watch for SpitefulWatch<W> {
    fn arm(&mut self) {
        self.inner.arm();
    }

    async fn changed(&mut self) {
        if self.mischief.one_in(4) {
            return tokio::task::yield_now().await;
        }
        self.inner.changed().await;
        if self.mischief.one_in(2) {
            tokio::time::sleep(Duration::from_millis(self.mischief.next() % 4)).await;
        }
    }
}

impl<B: Backend> Backend for Spiteful<B> {
    type Watch = SpitefulWatch<B::Watch>;

    async fn enqueue(&self, task: NewTask) -> Result<TaskId, Error> {
        self.answer(self.inner.enqueue(task).await)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        self.answer(self.inner.claim(claim).await)
    }

    async fn renew(&self, run: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        self.answer(self.inner.renew(run, fence, expires_at).await)
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, Error> {
        self.answer(self.inner.commit(batch).await)
    }

    async fn command(&self, command: NewCommand) -> Result<(), Error> {
        self.answer(self.inner.command(command).await)
    }

    async fn reap_but(&self, now: Timestamp, held: Vec<RunId>) -> Result<Vec<Reaped>, Error> {
        self.answer(self.inner.reap_but(now, held).await)
    }

    async fn reap_seen(&self, now: Timestamp, seen: Vec<Seen>) -> Result<Vec<Reaped>, Error> {
        self.answer(self.inner.reap_seen(now, seen).await)
    }

    async fn reserve(&self, reserve: Reserve) -> Result<(), Error> {
        self.answer(self.inner.reserve(reserve).await)
    }

    async fn move_task(&self, step: TaskMove) -> Result<(), Error> {
        self.answer(self.inner.move_task(step).await)
    }

    async fn recall(&self, task: TaskId, fence: u64) -> Result<(), Error> {
        self.answer(self.inner.recall(task, fence).await)
    }

    async fn change_budget(&self, step: BudgetStep) -> Result<(), Error> {
        self.answer(self.inner.change_budget(step).await)
    }

    async fn again(&self, which: Again) -> Result<u64, Error> {
        self.answer(self.inner.again(which).await)
    }

    async fn comment(&self, comment: NewComment) -> Result<(), Error> {
        self.answer(self.inner.comment(comment).await)
    }

    async fn comments_of(&self, task: TaskId) -> Result<Vec<CommentRow>, Error> {
        self.inner.comments_of(task).await
    }

    async fn heads(&self) -> Result<Vec<Head>, Error> {
        self.inner.heads().await
    }

    async fn crowds(&self, page: CrowdsPage) -> Result<Vec<Head>, Error> {
        self.inner.crowds(CrowdsPage { limit: page.limit.min(1), ..page }).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.inner.next_due().await
    }

    async fn standing(&self, task: TaskId) -> Result<Option<Standing>, Error> {
        self.inner.standing(task).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunRow>, Error> {
        self.inner.run(id).await
    }

    async fn runs(&self, page: RunsPage) -> Result<Vec<RunRow>, Error> {
        self.inner.runs(RunsPage { limit: 1, ..page }).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<TaskRow>, Error> {
        self.inner.task(id).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Command>, Error> {
        self.inner.inbox(run).await
    }

    async fn resume_point(&self, run: RunId) -> Result<Option<ResumePoint>, Error> {
        self.inner.resume_point(run).await
    }

    async fn page(&self, run: RunId, after_seq: u64, _limit: usize) -> Result<Page, Error> {
        self.inner.page(run, after_seq, 1).await
    }

    fn watch(&self, run: RunId) -> Self::Watch {
        SpitefulWatch { inner: self.inner.watch(run), mischief: self.mischief.clone() }
    }
}
