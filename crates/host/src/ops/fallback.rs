//! Who goes on with a task whose run could not: the next link of its agent's chain that was not tried,
//! with what is known of the work so far as words for whoever takes over. The chain is opt-in and the
//! choice is a rule (`engine::rules::fallback`); starting the run is the dispatcher's.

use super::agents;
use super::resume;
use super::run::stored;
use crate::Host;
use contract::{Code, Fault, TaskId};
use engine::rules::fallback::{self, Link};
use engine::rules::handover::handover;
use store::RunRow;

/// Another who may go on with a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    pub link: Link,
    /// What it is told: the task, how far it came, the last answer, changed files, open questions.
    pub prompt: String,
    /// What the run says of itself, for `RunRequest::fallback`.
    pub note: String,
}

/// The next who may go on with this task after its last run ended with this code; `None` where the
/// agent has no chain, none of it is left, or nobody else could do better.
pub async fn fallback(host: &Host, task: TaskId, code: Code) -> Result<Option<Fallback>, Fault> {
    let row = host
        .store()
        .task(task)
        .await
        .map_err(stored)?
        .ok_or_else(|| Fault::new(Code::NotFound, format!("there is no task {task}")))?;
    // An agent that is not configured any more has no chain either.
    let Ok(named) = agents::named(host, &row.agent).await else { return Ok(None) };
    let runs = host.store().task_runs(task).await.map_err(stored)?;
    let is_tried = |link: &&Link| runs.iter().any(|run| ran_on(run, link));
    let tried: Vec<String> = named.fallback.iter().filter(is_tried).map(Link::name).collect();
    let Some((_, link)) = fallback::next(code, &named.fallback, &tried) else { return Ok(None) };
    let Some(last) = runs.last() else { return Ok(None) };
    let past = resume::past(host, last.id).await?;
    let note = format!(
        "this run is a fallback: {} of agent {} could not go on ({code}), so {} does",
        last.adapter,
        row.agent,
        link.name()
    );
    Ok(Some(Fallback { link: link.clone(), prompt: handover(&past, &row.prompt), note }))
}

/// Whether a run was made by this link.
fn ran_on(run: &RunRow, link: &Link) -> bool {
    match link {
        Link::Agent(agent) => run.agent == *agent,
        Link::Adapter { adapter, model } => {
            run.adapter == *adapter && (model.is_none() || run.model == *model)
        }
    }
}
