//! What a caller does when an answer is lost: say it again where that is harmless, read again
//! where it is not.

use crate::backend::Backend;
use crate::batch::*;
use crate::error::Error;
use crate::queue::{Again, BudgetStep, NewComment};
use contract::{RunId, TaskId, Timestamp};

/// Answers are lost one time in three; this many in a row means that something else is wrong.
const TRIES: usize = 100;
/// Longer than a reaped run is left alone.
const REAP_AGAIN_MS: i64 = 120_000;

/// A backend whose verbs always say what became of them.
#[derive(Clone)]
pub struct Sure<B>(pub B);

async fn insist<T>(mut verb: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..TRIES {
        match verb().await {
            Err(Error::Unacknowledged) => {}
            answer => return answer,
        }
    }
    Err(Error::Unacknowledged)
}

impl<B: Backend> Sure<B> {
    pub async fn enqueue(&self, task: NewTask) -> Result<TaskId, Error> {
        insist(async || self.0.enqueue(task.clone()).await).await
    }

    pub async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        insist(async || self.0.claim(claim.clone()).await).await
    }

    pub async fn renew(&self, run: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        insist(async || self.0.renew(run, fence, expires_at).await).await
    }

    pub async fn command(&self, command: NewCommand) -> Result<(), Error> {
        insist(async || self.0.command(command.clone()).await).await
    }

    pub async fn reserve(&self, reserve: Reserve) -> Result<(), Error> {
        insist(async || self.0.reserve(reserve.clone()).await).await
    }

    pub async fn recall(&self, task: TaskId, fence: u64) -> Result<(), Error> {
        insist(async || self.0.recall(task, fence).await).await
    }

    /// Asked again, those that were queued by the question before are not counted.
    pub async fn again(&self, which: Again) -> Result<(), Error> {
        insist(async || self.0.again(which).await).await.map(drop)
    }

    pub async fn comment(&self, comment: NewComment) -> Result<(), Error> {
        insist(async || self.0.comment(comment.clone()).await).await
    }

    /// The task says whether it was moved.
    pub async fn move_task(&self, step: TaskMove) -> Result<(), Error> {
        match self.0.move_task(step.clone()).await {
            Err(Error::Unacknowledged) => {
                let task = self.0.task(step.task).await?;
                assert!(task.is_some_and(|task| task.state == step.to), "what was done is there");
                Ok(())
            }
            answer => answer,
        }
    }

    /// The task says what it may spend now.
    pub async fn change_budget(&self, step: BudgetStep) -> Result<(), Error> {
        match self.0.change_budget(step.clone()).await {
            Err(Error::Unacknowledged) => {
                let task = self.0.task(step.task).await?;
                assert!(task.is_some_and(|task| task.budget == step.to), "what was done is there");
                Ok(())
            }
            answer => answer,
        }
    }

    /// Runs whose reaping was not answered are reaped again when their new lease has run out.
    pub async fn reap(&self, now: Timestamp) -> Result<Vec<Reaped>, Error> {
        let mut now = now;
        insist(async || {
            let answer = self.0.reap(now).await;
            now = now.plus_ms(REAP_AGAIN_MS);
            answer
        })
        .await
    }

    /// The head says whether a Batch with events is there; the fence says whether it is ours.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, Error> {
        assert!(!batch.events.is_empty(), "an empty batch cannot be told from its absence");
        let head_seq = batch.first_seq + batch.events.len() as u64 - 1;
        match self.0.commit(batch.clone()).await {
            Err(Error::Unacknowledged) => {
                let run = self.0.run(batch.run).await?;
                let there =
                    run.is_some_and(|run| run.fence == batch.fence && run.head_seq == head_seq);
                assert!(there, "the answer of a commit that did not happen cannot be lost");
                Ok(Committed { head_seq })
            }
            answer => answer,
        }
    }
}
