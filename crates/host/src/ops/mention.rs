//! Comments that name someone. A mentioned agent is woken by a task of its own below the one that the
//! comment is about; who is no agent is a person, and people are notified. What agents say to each
//! other ends by two limits: how often one task wakes the same agent, and how many mentions may follow
//! each other. A limit that is reached is said in a comment of Ostler on the task.

use super::agents;
use super::errand::{self, Wake};
use super::run::stored;
use super::task::add::{self, NewErrand};
use crate::notify::Notice;
use crate::supervise;
use crate::{Host, Inner, chance, clock};
use contract::event::{Body, Comment, Event, Origin};
use contract::limits::{
    COMMENT_BYTES_MAX, MENTION_HOPS_MAX, MENTION_TASKS_MAX, MENTIONS_MAX, SUBTASKS_MAX,
};
use contract::state::Review;
use contract::{CommandId, Fault, RunId, TaskId, TaskState};
use std::sync::Arc;
use store::{NewComment, Seal, TaskRow};

/// The author of what Ostler says of a task itself.
pub(super) const OSTLER: &str = "ostler";
/// A longer word is no name of anyone.
const NAME_BYTES_MAX: usize = 128;
/// A notice to people has the beginning of a comment.
const NOTICE_CHARS_MAX: usize = 500;

/// A comment that is being heeded.
pub(crate) struct Said<'a> {
    pub id: CommandId,
    pub author: String,
    pub text: &'a str,
    /// The number of mentions by agents that led to it; 0 for a person's.
    pub hops: u32,
}

/// A comment of an agent that mentions someone, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentComment {
    run: RunId,
    id: CommandId,
    text: String,
    mentions: Vec<String>,
}

impl AgentComment {
    /// `None` when it names nobody. Its id is made of its event, so that it is the same whoever heeds
    /// it.
    pub fn of(run: RunId, seq: u64, comment: &Comment, seal: &Seal) -> Option<Self> {
        let mut text = seal.handed(&comment.text).text();
        let end = text.floor_char_boundary(COMMENT_BYTES_MAX);
        text.truncate(end);
        let given = comment.mentions.iter().map(|name| seal.handed(name).text()).collect();
        let mut mentions = names(&text, given);
        mentions.retain(|name| name.len() <= NAME_BYTES_MAX);
        mentions.truncate(MENTIONS_MAX);
        let id = chance::command_id_of(&format!("comment {run} {seq}"));
        (!mentions.is_empty()).then_some(Self { run, id, text, mentions })
    }
}

/// Heeds durable comments of an agent. The host stays until that is done.
pub(crate) fn heed(house: &Arc<Inner>, task: TaskId, comments: Vec<AgentComment>) {
    if comments.is_empty() {
        return;
    }
    let (host, stay) = (Host { inner: Arc::clone(house) }, house.attach());
    supervise::spawn("wake mentioned agents", async move {
        for comment in comments {
            let run = comment.run;
            if let Err(fault) = heeded(&host, task, comment, true).await {
                not_heeded(run, task, &fault);
            }
        }
        drop(stay);
    });
}

fn not_heeded(run: RunId, task: TaskId, fault: &Fault) {
    tracing::warn!(
        %run,
        %task,
        code = fault.code.word(),
        error = fault.message,
        "the mentions of a comment are not heeded"
    );
}

/// Heeds the comments of a run again whose host may have died before it did. People are not notified
/// again.
pub(crate) fn heed_again(host: Host, task: TaskId, run: RunId) {
    supervise::spawn("wake mentioned agents", async move {
        if let Err(fault) = heeded_again(&host, task, run).await {
            not_heeded(run, task, &fault);
        }
    });
}

async fn heeded_again(host: &Host, task: TaskId, run: RunId) -> Result<(), Fault> {
    for event in host.store().comments(task).await.map_err(stored)? {
        let Ok(Event { run_id, seq, origin: Origin::Agent, body: Body::Comment(said), .. }) =
            serde_json::from_slice(&event.bytes)
        else {
            continue;
        };
        // It was sealed when it was stored.
        let comment = AgentComment::of(run_id, seq, &said, &Seal::default());
        if let Some(comment) = comment.filter(|_| run_id == run) {
            heeded(host, task, comment, false).await?;
        }
    }
    Ok(())
}

async fn heeded(
    host: &Host,
    task: TaskId,
    comment: AgentComment,
    notify: bool,
) -> Result<(), Fault> {
    let AgentComment { run, id, text, mentions } = comment;
    let Some(row) = host.store().task(task).await.map_err(stored)? else { return Ok(()) };
    let Some(by) = host.store().run(run).await.map_err(stored)? else { return Ok(()) };
    let hops = errand::Wake::read(row.wake.as_deref().unwrap_or_default()).hops;
    let said = Said { id, author: run.to_string(), text: &text, hops };
    let mut people = Vec::new();
    for name in mentions.into_iter().filter(|name| *name != by.agent) {
        // A runtime or an adapter is nobody who was hired: an agent that writes of one wakes none.
        match agents::glance(host, &name).await.is_ok() {
            false => people.push(name),
            true if hops >= MENTION_HOPS_MAX => {
                let why = format!("{MENTION_HOPS_MAX} mentions by agents followed each other");
                refuse(host, &said, task, &name, &why).await?;
            }
            true => wake_agent(host, &said, &row, Some(&by.cwd), &name).await?,
        }
    }
    if notify && !people.is_empty() {
        let text = text.chars().take(NOTICE_CHARS_MAX).collect();
        let (run_id, task_id) = (run, task);
        let agent = by.agent;
        host.inner.notice(Notice::Mention { run_id, task_id, agent, mentions: people, text });
    }
    Ok(())
}

/// Wakes an agent that is mentioned: with a task of its own below this one. What is said while that
/// one has not begun is added to it, so that many comments wake an agent once.
pub(super) async fn wake_agent(
    host: &Host,
    said: &Said<'_>,
    task: &TaskRow,
    run_cwd: Option<&str>,
    agent: &str,
) -> Result<(), Fault> {
    let by_agent = run_cwd.is_some();
    let tasks_max = if by_agent { MENTION_TASKS_MAX } else { SUBTASKS_MAX };
    let own_cwd = agents::named(host, agent).await.ok().and_then(|named| named.cwd);
    // A run that a person asked for has no directory in its task's row.
    let cwd = task.cwd.as_deref().or(run_cwd.filter(|_| own_cwd.is_none()));
    // A comment on one of these tasks has the id of the comment that it tells.
    let told = chance::command_id_of(&format!("told {} {agent}", said.id));
    for n in 0..tasks_max {
        let new = NewErrand {
            id: None,
            key: Some(format!("mention {} {agent} {n}", task.id)),
            title: format!("Mentioned in: {}", task.title).chars().take(200).collect(),
            body: format!(
                "A comment on the task '{}' ({}) mentions you:\n\n{}",
                task.title, task.id, said.text
            ),
            agent: Some(agent.to_owned()),
            cwd: cwd.map(Into::into),
            review: Review::None,
            priority: task.priority,
            labels: Vec::new(),
            after: Vec::new(),
            parent: Some(task.id),
            not_before: None,
            budget: Default::default(),
            context: None,
        };
        let hops = if by_agent { said.hops + 1 } else { 0 };
        let wake = Wake::comment(said.id, hops);
        let put = add::put(host.store(), &Seal::default(), new, Some(wake.text())).await;
        let put = match host.inner.heed(put) {
            Err(store::Error::Conflict { .. }) if by_agent => {
                let why = "the task has as many tasks below it as it may have";
                return refuse(host, said, task.id, agent, why).await;
            }
            put => put.map_err(stored)?,
        };
        let Some(woken) = host.store().task(put).await.map_err(stored)? else { return Ok(()) };
        let by_this = woken.wake.as_deref().map(Wake::read).unwrap_or_default().comment;
        if by_this == wake.comment {
            return Ok(());
        }
        let comments = host.store().comments_of(woken.id).await.map_err(stored)?;
        if comments.iter().any(|comment| comment.id == told) {
            return Ok(());
        }
        match woken.state {
            TaskState::Queued | TaskState::Waiting => {
                let added = Said { id: told, author: said.author.clone(), ..*said };
                return keep(host, &added, woken.id, &[]).await;
            }
            // It has begun, or is over: the next one is woken.
            TaskState::Running
            | TaskState::Review
            | TaskState::Done
            | TaskState::Failed
            | TaskState::Cancelled
            | TaskState::Unknown => {}
        }
    }
    match by_agent {
        true => {
            let why = format!("comments on this task woke it {tasks_max} times");
            refuse(host, said, task.id, agent, &why).await
        }
        false => Ok(()),
    }
}

/// Says on the task that an agent was not woken.
async fn refuse(
    host: &Host,
    said: &Said<'_>,
    task: TaskId,
    agent: &str,
    why: &str,
) -> Result<(), Fault> {
    tracing::info!(%task, agent, why, "a mentioned agent is not woken");
    let id = chance::command_id_of(&format!("refused {} {agent}", said.id));
    let text = format!("'{agent}' is mentioned and was not woken: {why}");
    let refusal = Said { id, author: OSTLER.to_owned(), text: &text, hops: 0 };
    keep(host, &refusal, task, &[]).await
}

/// Keeps a comment with its task. The same id again is the same comment.
pub(super) async fn keep(
    host: &Host,
    said: &Said<'_>,
    task: TaskId,
    mentions: &[String],
) -> Result<(), Fault> {
    let comment = NewComment {
        id: said.id,
        task,
        at: clock::now().wall,
        author: said.author.clone(),
        text: Seal::default().handed(said.text),
        mentions: mentions.to_vec(),
    };
    host.inner.heed(host.store().comment(comment).await).map_err(stored)
}

/// Names after an @, and those that were given.
pub(super) fn names(text: &str, given: Vec<String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '(' | ')'));
    let named = words.filter_map(|word| word.strip_prefix('@'));
    let named = named.map(|name| name.trim_end_matches(['.', '!', '?']).to_owned());
    for name in given.into_iter().map(|name| name.trim_start_matches('@').to_owned()).chain(named) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_mentioned_is_read_off_the_text() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("nobody", &[], &[]),
            ("@a look", &[], &["a"]),
            ("see @a, @b. And @a!", &[], &["a", "b"]),
            ("mail me at x@y", &[], &[]),
            ("@", &[], &[]),
            ("look", &["@a", "b", "a"], &["a", "b"]),
        ];
        for (text, given, expected) in rows {
            let given = given.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(names(text, given), *expected, "{text}");
        }
    }
}
