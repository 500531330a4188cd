//! Handing a task over to the queue, by a person or by an agent at work on another one. Everything is
//! checked before it is put; whoever puts the same again, by id or by key, gets the task that is there.

use super::super::run::{Budget, stored};
use super::super::{agents, budgets};
use super::TaskView;
use crate::{Host, chance, clock};
use contract::state::Review;
use contract::{Code, Fault, TaskId, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;
use store::{Errand, NewTask, Parent, Seal};

/// What someone wants done.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewTask")]
pub struct NewErrand {
    /// The task's id, when the caller chose it: put again, it is the same task and not another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// A name of the caller's under which it is there once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub title: String,
    /// What is to be done, when the title does not say it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// The name of an agent, an adapter or a runtime of the server's configuration; any agent that
    /// fits, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where it is to be done; where whoever does it works, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Who looks at the result.
    #[serde(default = "person", deserialize_with = "contract::known::word")]
    #[schemars(with = "contract::Known<Review>")]
    pub review: Review,
    /// What is higher goes first.
    #[serde(default)]
    pub priority: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What must be done before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// What all its runs and those of the tasks below it may spend together.
    #[serde(default)]
    pub budget: Budget,
    /// What its runs are handed: `{{context.name}}` in the configuration of their agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
}

fn person() -> Review {
    Review::Person
}

/// Puts a task into the queue.
pub async fn add(host: &Host, new: NewErrand) -> Result<TaskView, Fault> {
    if let Some(trouble) = host.inner.trouble() {
        return Err(trouble.fault());
    }
    check(&new)?;
    if let Some(agent) = &new.agent {
        let named = agents::named(host, agent).await?;
        agents::is_here(host, agent).await?;
        if new.cwd.is_none() && named.cwd.is_none() {
            return Err(Fault::new(Code::BadWorkspace, "no working directory is given")
                .with_hint(format!("give --cwd, or set agents.{agent}.cwd")));
        }
    }
    if let Some(cwd) = new.cwd.as_ref().filter(|cwd| !cwd.is_absolute()) {
        let message = format!("'{}' is not an absolute path", cwd.display());
        return Err(Fault::new(Code::BadWorkspace, message));
    }
    let id = put(host.store(), &Seal::default(), new, None).await;
    let id = host.inner.heed(id).map_err(stored)?;
    super::get(host, &id.to_string()).await
}

/// Puts what was checked; the store counts what is below the parent. The seal is all that stands
/// between a key in a text and whoever reads the task, so the texts an agent gets are sealed too: by
/// what whoever hands it on knows, and by the forms of keys.
pub(crate) async fn put(
    store: &store::Store,
    seal: &Seal,
    new: NewErrand,
    wake: Option<String>,
) -> Result<TaskId, store::Error> {
    let (body, prompt) = match new.body.trim().is_empty() {
        true => (&new.title, new.title.clone()),
        false => (&new.body, with_title(&new.title, &new.body)),
    };
    let parent = new.parent.map(|task| Parent {
        task,
        children_max: limits::SUBTASKS_MAX,
        depth_max: limits::SUBTASK_DEPTH_MAX,
    });
    let task = NewTask {
        id: new.id.unwrap_or_else(chance::task_id),
        key: new.key,
        agent: new.agent.map(|agent| seal.handed(&agent).text()).unwrap_or_default(),
        title: seal.handed(&new.title),
        body: seal.handed(body),
        prompt: seal.handed(&prompt),
        system_prompt: None,
        review: new.review,
        priority: new.priority,
        line: None,
        errand: Some(Errand {
            cwd: new.cwd.map(|cwd| cwd.display().to_string()),
            labels: new.labels.iter().map(|label| seal.handed(label).text()).collect(),
            parent,
            budget: budgets::kept(new.budget),
            not_before: new.not_before,
            after: new.after,
            wake,
            context: new.context.as_ref().map(|context| seal.json(context)),
        }),
        created_at: clock::now().wall,
    };
    store.enqueue(task).await
}

/// The prompt of a task. A body that begins with the title says it already.
fn with_title(title: &str, body: &str) -> String {
    match body.trim_start().starts_with(title.trim()) {
        true => body.to_owned(),
        false => format!("{title}\n\n{body}"),
    }
}

/// Refuses a `context` that is too large.
pub(crate) fn check_context(context: &Map<String, Value>) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(context).map_or(usize::MAX, |json| json.len());
    if bytes > limits::CONTEXT_BYTES_MAX {
        let message =
            format!("the context has {bytes} bytes; the limit is {}", limits::CONTEXT_BYTES_MAX);
        return Err(Fault::new(Code::TooLarge, message)
            .with_hint("hand over the name of a file in the workspace instead"));
    }
    Ok(())
}

/// What can be said of it before anyone is asked.
pub(crate) fn check(new: &NewErrand) -> Result<(), Fault> {
    let usage = |message: String| Err(Fault::new(Code::Usage, message));
    let large = |what: &str, max: usize| {
        Err(Fault::new(Code::TooLarge, format!("{what} has more than {max} bytes")))
    };
    if new.agent.as_deref().is_some_and(|agent| agent.trim().is_empty()) {
        return usage(
            "the name of the agent is empty; leave it out to use any suitable agent".to_owned(),
        );
    }
    if new.title.trim().is_empty() || new.title.contains(char::is_control) {
        return usage("the title is empty or longer than one line".to_owned());
    }
    if new.title.len() > limits::TASK_TITLE_BYTES_MAX {
        return large("the title", limits::TASK_TITLE_BYTES_MAX);
    }
    if new.body.len() > limits::PROMPT_BYTES_MAX {
        return large("the body", limits::PROMPT_BYTES_MAX);
    }
    if new.key.as_ref().is_some_and(|key| key.is_empty() || key.len() > limits::TASK_KEY_BYTES_MAX)
    {
        return usage(format!("a key has 1 to {} bytes", limits::TASK_KEY_BYTES_MAX));
    }
    let plain = |label: &String| {
        !label.trim().is_empty()
            && label.chars().count() <= limits::LABEL_CHARS_MAX
            && !label.contains(char::is_control)
    };
    if new.labels.len() > limits::LABELS_MAX || !new.labels.iter().all(plain) {
        let (labels, chars) = (limits::LABELS_MAX, limits::LABEL_CHARS_MAX);
        return usage(format!("at most {labels} labels of 1 to {chars} characters are allowed"));
    }
    if new.after.len() > limits::DEPENDENCIES_MAX {
        return usage(format!("a task can wait for at most {}", limits::DEPENDENCIES_MAX));
    }
    new.context.as_ref().map_or(Ok(()), check_context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Store;

    #[tokio::test]
    async fn a_task_is_put_without_what_its_seal_knows_and_without_keys() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let key = format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
        let known = "ruby-4f9a77-otter-lake";
        let seal = Seal::new([("SHIP_TOKEN".to_owned(), known.to_owned())]);
        for secret in [known, key.as_str()] {
            let with = |text: &str| format!("{text} {secret}");
            let new = serde_json::json!({
                "title": with("a title"), "body": with("a body"), "agent": with("an agent"),
                "labels": [with("a label")], "context": { "note": with("a note") },
            });
            let new = serde_json::from_value(new).unwrap();
            let id = put(&store, &seal, new, None).await.unwrap();
            let row = store.task(id).await.unwrap().unwrap();
            for (text, words) in [
                (&row.title, "a title"),
                (&row.body, "a body"),
                (&row.prompt, "a title"),
                (&row.agent, "an agent"),
                (&row.labels[0], "a label"),
                (row.context.as_ref().unwrap(), "{\"note\":\"a note"),
            ] {
                assert!(text.starts_with(words) && !text.contains(secret), "{text}");
            }
            assert!(row.prompt.contains("a body"), "{}", row.prompt);
        }
    }
}
