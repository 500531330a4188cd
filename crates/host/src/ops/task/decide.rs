//! What people decide about a task: cancel, retry, reopen, approve, reject; and what they say of it.
//! Each names where it saw the task, so of two people who decide at once one is told that it moved.
//! What a run is doing is ended by its own inbox: a task that runs is recalled, and its run stopped.

use super::super::agents;
use super::super::errand::{Wake, wake};
use super::super::mention;
use super::super::relay::Asked;
use super::super::run::{self, stored};
use super::super::who::Who;
use super::{TaskView, find};
use crate::{Host, chance, clock};
use contract::event::{Body, Comment};
use contract::state::WaitingFor;
use contract::{Code, CommandId, Draft, Fault, RunId, TaskState, Wish, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Follow, Seal, TaskMove, TaskRow};

/// What is decided about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Cancel,
    /// A task that waits, now.
    Retry,
    /// A failed one again.
    Reopen,
    Approve,
    Reject,
    Comment,
}

impl Verb {
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("cancel", Self::Cancel),
        ("retry", Self::Retry),
        ("reopen", Self::Reopen),
        ("approve", Self::Approve),
        ("reject", Self::Reject),
        ("comment", Self::Comment),
    ];

    /// What the audit file calls it when it was done.
    const fn deed(self) -> &'static str {
        match self {
            Self::Cancel => "task_cancelled",
            Self::Retry => "task_retried",
            Self::Reopen => "task_reopened",
            Self::Approve => "task_approved",
            Self::Reject => "task_rejected",
            Self::Comment => "task_commented",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, verb)| *verb)
    }
}

/// The words that go with a decision.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TaskDecision")]
pub struct Words {
    /// The id of a comment, when whoever says it may have to say it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommandId>,
    /// A comment, or the reason of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Agents who are to hear of a comment, beside those whom it names with an @.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
}

pub async fn decide(
    host: &Host,
    given: &str,
    verb: Verb,
    words: Words,
    by: &Who,
) -> Result<TaskView, Fault> {
    let task = find(host, given).await?;
    let id = task.id.to_string();
    match verb {
        Verb::Cancel => cancel(host, &task, by).await?,
        Verb::Retry => retry(host, &task, by).await?,
        Verb::Reopen => reopen(host, &task, by).await?,
        Verb::Approve => approve(host, &task, by).await?,
        Verb::Reject => reject(host, &task, words.text.as_deref(), by).await?,
        Verb::Comment => comment(host, &task, words, by).await?,
    }
    let about = serde_json::json!({ "task_id": task.id });
    host.inner.audit.did(clock::now().wall, by, verb.deed(), about);
    super::get(host, &id).await
}

/// Where a task stands because a person said so, with who it was.
fn noted(did: &str, by: &Who) -> Follow {
    Follow { note: Some(Seal::default().given(&format!("{did} by {by}"))), ..Follow::default() }
}

async fn cancel(host: &Host, task: &TaskRow, by: &Who) -> Result<(), Fault> {
    match task.state {
        // Said again, it is what it was.
        TaskState::Cancelled => Ok(()),
        TaskState::Queued | TaskState::Waiting | TaskState::Review => {
            step(host, task, TaskState::Cancelled, noted("cancelled", by)).await
        }
        TaskState::Running => {
            let recalled = host.store().recall(task.id, task.fence).await;
            host.inner.heed(recalled).map_err(|error| moved_on(task, &stored(error)))?;
            failpoint::hit(failpoint::Point::TaskRecalled);
            let runs = host.store().runs_of(task.id, 1).await.map_err(stored)?;
            let Some(run) = runs.first() else { return Ok(()) };
            let stop = Wish::Stop { reason: Code::Cancelled, at_once: false };
            match run::wish(host, *run, None, stop, by).await {
                // It has ended meanwhile, and is not tried again.
                Err(fault) if fault.code == Code::Conflict => Ok(()),
                wished => wished,
            }
        }
        TaskState::Done | TaskState::Failed => Err(cannot(task, "cancelled", "it has ended")),
        TaskState::Unknown => {
            Err(cannot(task, "cancelled", "a newer version of Ostler gave it its state"))
        }
    }
}

async fn retry(host: &Host, task: &TaskRow, by: &Who) -> Result<(), Fault> {
    match (task.state, task.waiting_for) {
        (TaskState::Waiting, Some(WaitingFor::Pool)) => {
            Err(cannot(task, "tried now", "it waits for a slot"))
        }
        (TaskState::Waiting, _) => {
            step(host, task, TaskState::Queued, noted("tried now", by)).await
        }
        (TaskState::Failed, _) => Err(cannot(task, "retried", "it has failed")
            .with_hint(format!("`ostler task reopen {}` does that", short(task)))),
        (_, _) => Err(cannot(task, "retried", "it is not waiting")),
    }
}

async fn reopen(host: &Host, task: &TaskRow, by: &Who) -> Result<(), Fault> {
    match task.state {
        TaskState::Failed if !task.by_queue => {
            Err(cannot(task, "reopened", "it is a single run, not a task of the queue")
                .with_hint("run it again, with --resume to continue its conversation"))
        }
        TaskState::Failed if task.prompt.is_empty() => {
            Err(cannot(task, "reopened", "its prompt was deleted with its run")
                .with_hint("add it again: `ostler task add`"))
        }
        TaskState::Failed => {
            let wake = Some(wake::REOPENED.to_owned());
            let follow = Follow { tries: Some(0), wake, ..noted("reopened", by) };
            step(host, task, TaskState::Queued, follow).await
        }
        _ => Err(cannot(task, "reopened", "only a failed task can be reopened")),
    }
}

async fn approve(host: &Host, task: &TaskRow, by: &Who) -> Result<(), Fault> {
    match task.state {
        TaskState::Done => Ok(()),
        TaskState::Review => step(host, task, TaskState::Done, noted("approved", by)).await,
        _ => Err(cannot(task, "approved", "only a task in review can be")),
    }
}

/// The reason is what its next run is asked, in the conversation of the last one.
async fn reject(host: &Host, task: &TaskRow, reason: Option<&str>, by: &Who) -> Result<(), Fault> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty()).ok_or_else(|| {
        Fault::new(Code::Usage, "a rejection needs a reason: it is the agent's next prompt")
    })?;
    if reason.len() > limits::COMMENT_BYTES_MAX {
        let message = format!("the reason has more than {} bytes", limits::COMMENT_BYTES_MAX);
        return Err(Fault::new(Code::TooLarge, message));
    }
    if task.state != TaskState::Review {
        return Err(cannot(task, "rejected", "only a task in review can be"));
    }
    let runs = host.store().runs_of(task.id, 1).await.map_err(stored)?;
    let follow = Follow {
        prompt: Some(Seal::default().handed(reason)),
        resumes: runs.first().copied(),
        wake: Some(decided_about(&runs, "rejected", None)),
        tries: Some(0),
        ..noted("sent back", by)
    };
    step(host, task, TaskState::Queued, follow).await
}

async fn comment(host: &Host, task: &TaskRow, words: Words, by: &Who) -> Result<(), Fault> {
    let text = words.text.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| Fault::new(Code::Usage, "the comment is empty"))?;
    if text.len() > limits::COMMENT_BYTES_MAX {
        let message = format!("the comment has more than {} bytes", limits::COMMENT_BYTES_MAX);
        return Err(Fault::new(Code::TooLarge, message));
    }
    let mentions = mention::names(&text, words.mentions);
    if mentions.len() > limits::MENTIONS_MAX {
        let message = format!("a comment mentions at most {} agents", limits::MENTIONS_MAX);
        return Err(Fault::new(Code::Usage, message));
    }
    let id = words.id.unwrap_or_else(chance::command_id);
    let said = mention::Said { id, author: by.to_string(), text: &text, hops: 0 };
    mention::keep(host, &said, task.id, &mentions).await?;
    if task.waiting_for == Some(WaitingFor::Answer) {
        return answered(host, task, id, &text, by).await;
    }
    say(host, task, &text, &mentions).await?;
    let mut others = false;
    for agent in mentions.iter().filter(|agent| **agent != task.agent) {
        // Not every word after an @ is a name.
        if agents::named(host, agent).await.is_ok() {
            others = true;
            mention::wake_agent(host, &said, task, None, agent).await?;
        }
    }
    // What is said to others alone is not for the task's own agent.
    match others && !mentions.contains(&task.agent) {
        true => Ok(()),
        false => wake_own(host, task, id, &text, by).await,
    }
}

/// Wakes the agent of a task that waits for a look at its result, or has failed: it goes on with the
/// comment, in its conversation. Further comments until then go with it.
async fn wake_own(
    host: &Host,
    task: &TaskRow,
    id: CommandId,
    text: &str,
    by: &Who,
) -> Result<(), Fault> {
    let rests = matches!(task.state, TaskState::Review | TaskState::Failed);
    let woken = Wake::comment(id, 0).text();
    // Said again by a client that lost its answer, it is the same comment.
    if !rests || !task.by_queue || task.prompt.is_empty() || task.wake.as_ref() == Some(&woken) {
        return Ok(());
    }
    let follow = Follow {
        prompt: Some(Seal::default().handed(text)),
        tries: Some(0),
        wake: Some(woken),
        ..noted("commented", by)
    };
    match step(host, task, TaskState::Queued, follow).await {
        // Someone decided about it meanwhile; the comment is kept with it.
        Err(fault) if fault.code == Code::Conflict => Ok(()),
        stepped => stepped,
    }
}

/// The reason to wake an agent that a person decided about its last run.
fn decided_about(runs: &[RunId], status: &str, comment: Option<CommandId>) -> String {
    let reason = if comment.is_some() { wake::ANSWERED } else { wake::REJECTED };
    let approval = runs.first().map(|run| (*run, status.to_owned()));
    let comment = comment.map(|id| id.to_string());
    Wake { comment, approval, ..Wake::of(reason) }.text()
}

/// What was handed over to a person goes on with their words, in the conversation that asked.
async fn answered(
    host: &Host,
    task: &TaskRow,
    comment: CommandId,
    text: &str,
    by: &Who,
) -> Result<(), Fault> {
    let runs = host.store().runs_of(task.id, 1).await.map_err(stored)?;
    let follow = Follow {
        prompt: Some(Seal::default().handed(text)),
        resumes: runs.first().copied(),
        wake: Some(decided_about(&runs, "answered", Some(comment))),
        ..noted("answered", by)
    };
    step(host, task, TaskState::Queued, follow).await
}

/// A run that is at work on the task hears of it: it is an event of the run, and `read_task` has it.
async fn say(host: &Host, task: &TaskRow, text: &str, mentions: &[String]) -> Result<(), Fault> {
    if task.state != TaskState::Running {
        return Ok(());
    }
    let runs = host.store().runs_of(task.id, 1).await.map_err(stored)?;
    let live = host.inner.live();
    if let Some(live) = runs.first().and_then(|run| live.get(run)) {
        let comment = Comment { text: text.to_owned(), mentions: mentions.to_vec() };
        let note = Asked::Note(Box::new(Draft::operator(Body::Comment(comment))));
        // One that has no room for it, or is about to end, finds it with the task.
        let _ = live.asking.try_send(note);
    }
    Ok(())
}

async fn step(host: &Host, task: &TaskRow, to: TaskState, follow: Follow) -> Result<(), Fault> {
    let (from, fence) = (task.state, task.fence);
    let step = TaskMove { task: task.id, fence, from, to, waiting_for: None, pool: None, follow };
    let moved = host.inner.heed(host.store().move_task(step).await);
    moved.map_err(|error| moved_on(task, &stored(error)))
}

/// The task moved between the look and the decision.
fn moved_on(task: &TaskRow, fault: &Fault) -> Fault {
    match fault.code {
        Code::Conflict => {
            let message = format!("{} is no longer {}", short(task), task.state.word());
            Fault::new(Code::Conflict, message).with_hint(
                "see its state with `ostler task show`, \
             then try again",
            )
        }
        _ => fault.clone(),
    }
}

fn cannot(task: &TaskRow, what: &str, why: &str) -> Fault {
    let (id, state) = (short(task), task.state.word());
    Fault::new(Code::Conflict, format!("{id} is {state} and cannot be {what}: {why}"))
        .with_hint(format!("see it with `ostler task show {id}`"))
}

/// The last eight digits, as lists show them.
fn short(task: &TaskRow) -> String {
    let id = task.id.to_string();
    id[id.len().saturating_sub(8)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use contract::event::Totals;
    use store::conformance::{Holder, claim_of, new_task};

    #[tokio::test]
    async fn what_a_person_says_of_a_task_is_kept_without_keys() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let store = host.store();
        let key = format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
        for (verb, state, waiting_for) in [
            (Verb::Reject, TaskState::Review, None),
            (Verb::Comment, TaskState::Waiting, Some(WaitingFor::Answer)),
        ] {
            let task = store.enqueue(new_task()).await.unwrap();
            let claim = claim_of(task, "one");
            let run = claim.run;
            let fence = store.claim(claim).await.unwrap().fence;
            let mut batch =
                Holder { task, run, fence, head_seq: 0 }.settling(state, Totals::default());
            batch.settle.as_mut().unwrap().waiting_for = waiting_for;
            store.commit(batch).await.unwrap();

            let text = Some(format!("push it with {key}, please"));
            let words = Words { text, ..Words::default() };
            decide(&host, &task.to_string(), verb, words, &Who::Owner).await.unwrap();
            let row = store.task(task).await.unwrap().unwrap();
            let comments = store.comments_of(task).await.unwrap();
            assert_eq!((row.state, row.resumes), (TaskState::Queued, Some(run)));
            assert_eq!(comments.len(), usize::from(verb == Verb::Comment));
            let kept = comments.into_iter().map(|comment| comment.text);
            for text in kept.chain([row.next_prompt.unwrap()]) {
                let whole = text.starts_with("push it with ") && text.ends_with(", please");
                assert!(whole && !text.contains(&key), "{text}");
            }
        }
    }
}
