//! A backend in memory: the same verbs, the same refusals, no file and no thread. The simulation of
//! nodes runs over it because it needs millions of steps; the conformance suite holds it to what the
//! SQLite backend does. It can be given one `Flaw`, so that whoever looks for broken promises can be
//! shown to find them. Tests only.

mod queue;
mod tables;

pub use tables::Flaw;

use crate::backend::Backend;
use crate::batch::*;
use crate::error::Error;
use crate::feed::{Feed, Topic, Waiter};
use crate::queue::*;
use crate::row::*;
use contract::{Command, RunId, TaskId, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tables::Tables;

/// A handle to one store in memory; clones share it.
#[derive(Clone)]
pub struct Model {
    tables: Arc<Mutex<Tables>>,
    feed: Feed,
}

impl Default for Model {
    fn default() -> Self {
        Self::flawed(None)
    }
}

impl Model {
    /// A store that does one thing wrong.
    pub fn flawed(flaw: Option<Flaw>) -> Self {
        Self { tables: Arc::new(Mutex::new(Tables::flawed(flaw))), feed: Feed::new() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Model {
    type Watch = Waiter;

    async fn enqueue(&self, task: NewTask) -> Result<TaskId, Error> {
        self.tables().enqueue(&task)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        self.tables().claim(&claim)
    }

    async fn renew(&self, run: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        self.tables().renew(run, fence, expires_at)
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, Error> {
        let committed = self.tables().commit(&batch)?;
        self.feed.wake(Topic::Events(batch.run));
        Ok(committed)
    }

    async fn command(&self, command: NewCommand) -> Result<(), Error> {
        self.tables().command(&command)
    }

    async fn reap_but(&self, now: Timestamp, held: Vec<RunId>) -> Result<Vec<Reaped>, Error> {
        Ok(self.tables().reap(now, &held))
    }

    async fn reap_seen(&self, now: Timestamp, seen: Vec<Seen>) -> Result<Vec<Reaped>, Error> {
        Ok(self.tables().reap_seen(now, &seen))
    }

    async fn reserve(&self, reserve: Reserve) -> Result<(), Error> {
        self.tables().reserve(reserve)
    }

    async fn move_task(&self, step: TaskMove) -> Result<(), Error> {
        self.tables().move_task(&step)
    }

    async fn recall(&self, task: TaskId, fence: u64) -> Result<(), Error> {
        self.tables().recall(task, fence)
    }

    async fn change_budget(&self, step: BudgetStep) -> Result<(), Error> {
        self.tables().change_budget(&step)
    }

    async fn again(&self, which: Again) -> Result<u64, Error> {
        Ok(self.tables().again(which))
    }

    async fn comment(&self, comment: NewComment) -> Result<(), Error> {
        self.tables().comment(&comment)
    }

    async fn comments_of(&self, task: TaskId) -> Result<Vec<CommentRow>, Error> {
        Ok(self.tables().comments_of(task))
    }

    async fn heads(&self) -> Result<Vec<Head>, Error> {
        Ok(self.tables().heads())
    }

    async fn crowds(&self, page: CrowdsPage) -> Result<Vec<Head>, Error> {
        Ok(self.tables().crowds(&page))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        Ok(self.tables().next_due())
    }

    async fn standing(&self, task: TaskId) -> Result<Option<Standing>, Error> {
        Ok(self.tables().standing(task))
    }

    async fn run(&self, id: RunId) -> Result<Option<RunRow>, Error> {
        Ok(self.tables().run(id))
    }

    async fn runs(&self, page: RunsPage) -> Result<Vec<RunRow>, Error> {
        Ok(self.tables().runs(page))
    }

    async fn task(&self, id: TaskId) -> Result<Option<TaskRow>, Error> {
        Ok(self.tables().task(id))
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Command>, Error> {
        Ok(self.tables().inbox(run))
    }

    async fn resume_point(&self, run: RunId) -> Result<Option<ResumePoint>, Error> {
        Ok(self.tables().resume_point(run))
    }

    async fn page(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Page, Error> {
        self.tables().page(run, after_seq, limit)
    }

    fn watch(&self, run: RunId) -> Waiter {
        self.feed.watch(Topic::Events(run))
    }
}
