//! What every backend must do, so that one suite (`conformance.rs`) holds for all of them and
//! `spiteful.rs` can stand between. Product code uses `Store`, which has the same methods and
//! needs no trait in scope.

use crate::batch::*;
use crate::error::Error;
use crate::feed::Follower;
use crate::queue::*;
use crate::removal::Stale;
use crate::row::*;
use crate::scope::*;
use crate::seal::Sealed;
use contract::{Command, RunId, TaskId, Timestamp};
use std::future::Future;

/// Waits for a wake-up.
pub trait Watch: Send {
    /// Forgets wake-ups so far: the next wait ends only by a later one.
    fn arm(&mut self);

    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// The verbs and the reads they are checked by.
pub trait Backend: Clone + Send + Sync + 'static {
    type Watch: Watch;

    fn enqueue(&self, task: NewTask) -> impl Future<Output = Result<TaskId, Error>> + Send;
    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Claimed, Error>> + Send;
    fn renew(
        &self,
        run: RunId,
        fence: u64,
        expires_at: Timestamp,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    fn commit(&self, batch: Batch) -> impl Future<Output = Result<Committed, Error>> + Send;
    fn command(&self, command: NewCommand) -> impl Future<Output = Result<(), Error>> + Send;
    fn reap_but(
        &self,
        now: Timestamp,
        held: Vec<RunId>,
    ) -> impl Future<Output = Result<Vec<Reaped>, Error>> + Send;
    fn reap_seen(
        &self,
        now: Timestamp,
        seen: Vec<Seen>,
    ) -> impl Future<Output = Result<Vec<Reaped>, Error>> + Send;
    fn reserve(&self, reserve: Reserve) -> impl Future<Output = Result<(), Error>> + Send;

    fn move_task(&self, step: TaskMove) -> impl Future<Output = Result<(), Error>> + Send;

    fn recall(&self, task: TaskId, fence: u64) -> impl Future<Output = Result<(), Error>> + Send;
    fn change_budget(&self, step: BudgetStep) -> impl Future<Output = Result<(), Error>> + Send;
    fn again(&self, which: Again) -> impl Future<Output = Result<u64, Error>> + Send;
    fn comment(&self, comment: NewComment) -> impl Future<Output = Result<(), Error>> + Send;
    fn comments_of(
        &self,
        task: TaskId,
    ) -> impl Future<Output = Result<Vec<CommentRow>, Error>> + Send;
    fn heads(&self) -> impl Future<Output = Result<Vec<Head>, Error>> + Send;
    fn crowds(&self, page: CrowdsPage) -> impl Future<Output = Result<Vec<Head>, Error>> + Send;
    fn next_due(&self) -> impl Future<Output = Result<Option<Timestamp>, Error>> + Send;

    fn standing(
        &self,
        task: TaskId,
    ) -> impl Future<Output = Result<Option<Standing>, Error>> + Send;
    fn run(&self, id: RunId) -> impl Future<Output = Result<Option<RunRow>, Error>> + Send;
    fn runs(&self, page: RunsPage) -> impl Future<Output = Result<Vec<RunRow>, Error>> + Send;
    fn task(&self, id: TaskId) -> impl Future<Output = Result<Option<TaskRow>, Error>> + Send;
    fn inbox(&self, run: RunId) -> impl Future<Output = Result<Vec<Command>, Error>> + Send;
    fn resume_point(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Option<ResumePoint>, Error>> + Send;
    /// Events after a number, and whether the run is settled with the last of them.
    fn page(
        &self,
        run: RunId,
        after_seq: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Page, Error>> + Send;

    fn watch(&self, run: RunId) -> Self::Watch;

    fn reap(&self, now: Timestamp) -> impl Future<Output = Result<Vec<Reaped>, Error>> + Send {
        self.reap_but(now, Vec::new())
    }

    fn follow(&self, run: RunId, after_seq: u64) -> Follower<Self> {
        Follower::new(self.clone(), run, after_seq)
    }
}

/// Says of each verb what it takes and gives, once for the trait and for `Store`, which has it by the
/// same name.
macro_rules! books {
    ($($(#[$what:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)+) => {
        /// What a backend of the product has beside: quotas and budgets, who was hired, what is deleted,
        /// and what is listed. The model of the simulation has no use for these.
        pub trait Books: Backend {
            $($(#[$what])* fn $name(
                &self $(, $arg: $ty)*
            ) -> impl Future<Output = Result<$out, Error>> + Send;)+
        }

        impl Books for crate::Store {
            $(async fn $name(&self $(, $arg: $ty)*) -> Result<$out, Error> {
                crate::Store::$name(self $(, $arg)*).await
            })+
        }
    };
}

books! {
    begin_within(task: NewTask, claim: Claim, batch: Batch, within: Within) -> Committed;
    reserve_all(reserves: Vec<Reserve>) -> ();
    scope_sum(scope: &str, since: Timestamp) -> ScopeSum;
    step_quota(step: QuotaStep) -> ();
    tell_quota(scope: String, windows: Sealed, at: Timestamp) -> ();
    quota(scope: &str) -> Option<QuotaRow>;
    quotas(after: &str, limit: usize) -> Vec<QuotaRow>;
    quota_runs(scope: &str, limit: usize) -> Vec<RunId>;
    quota_of(run: RunId) -> Option<String>;
    surroundings(of: StartLook) -> Surroundings;
    lineage(task: TaskId) -> Vec<TaskRow>;
    put_agent(agent: NewAgent) -> ();
    change_agent(change: AgentChange) -> ();
    agent(name: &str) -> Option<AgentRow>;
    agents(after: &str, limit: usize) -> Vec<AgentRow>;
    running() -> Vec<(String, u64)>;
    delete_run(run: RunId, at: Timestamp) -> ();
    purge(run: RunId) -> ();
    half_deleted(limit: usize) -> Vec<RunId>;
    was_deleted(run: RunId) -> bool;
    stale(stale: Stale) -> Vec<RunId>;
    dependencies(task: TaskId) -> Vec<TaskId>;
    children(task: TaskId) -> Children;
    runs_of(task: TaskId, limit: usize) -> Vec<RunId>;
    task_runs(task: TaskId) -> Vec<RunRow>;
    task_of(run: RunId) -> Option<TaskRow>;
    find_tasks(given: &str, limit: usize) -> Vec<TaskId>;
    tasks(page: TasksPage) -> Vec<TaskRow>;
    lines(limit: usize) -> Vec<(TaskRow, u64)>;
}
