//! `create_subtask`: what an agent hands on. The task is put under a key made of the run and the call,
//! so a call that a dead host left unanswered puts no second one. How many and how deep is counted by
//! the store, and what it may spend by the rule (`engine::rules::subtask`).

use super::run::{Budget, stored};
use super::task::add::{self, NewErrand};
use super::tool::{Bench, Outcome, Standing, understood};
use contract::event::{Body, Log, Stream};
use contract::speech::ToolCall;
use contract::state::Review;
use contract::{Code, Draft, Fault, NanoUsd, TaskId};
use engine::rules::subtask::{Purse, purse};
use serde::Deserialize;
use serde_json::{Value, json};
use store::Seal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    title: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    after: Vec<TaskId>,
    #[serde(default)]
    budget: AskedBudget,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct AskedBudget {
    #[serde(default)]
    usd: Option<f64>,
    #[serde(default)]
    tokens: Option<u64>,
    #[serde(default)]
    minutes: Option<f64>,
}

/// Blocking, like all tools.
pub(super) fn create(
    bench: &Bench,
    standing: &Standing,
    call: &ToolCall,
) -> Result<Outcome, Fault> {
    let Asked { title, body, agent, after, budget } = understood("create_subtask", &call.args)?;
    let task = &bench.task;
    let new = NewErrand {
        id: None,
        key: Some(format!("call {} {}", task.run, blake3::hash(call.tool_call_id.as_bytes()))),
        title,
        body,
        agent: Some(agent.unwrap_or_else(|| task.agent.clone())),
        cwd: Some(bench.workspace.path().to_owned()),
        review: Review::None,
        priority: 0,
        labels: Vec::new(),
        after,
        parent: Some(task.id),
        not_before: None,
        budget: Budget::default(),
        context: None,
    };
    add::check(&new)?;
    let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
        Fault::new(Code::InternalError, format!("creating a sub-task: {error}"))
    })?;
    let children = runtime.block_on(bench.store.children(task.id)).map_err(stored)?;
    let given: Vec<Purse> = children
        .budgets
        .iter()
        .filter_map(|json| serde_json::from_str::<Budget>(json).ok())
        .map(|Budget { nanousd, tokens, ms, .. }| Purse { nanousd, tokens, ms })
        .collect();
    let left = left(standing);
    let asked = Purse {
        nanousd: budget.usd.and_then(NanoUsd::from_usd),
        tokens: budget.tokens,
        ms: budget.minutes.map(|minutes| (minutes * 60_000.0) as u64),
    };
    let Purse { nanousd, tokens, ms } = purse(left, &given, asked).map_err(|empty| {
        let message = format!("no {} are left for a subtask", empty.of);
        Fault::new(Code::BudgetExceeded, message)
    })?;
    let new = NewErrand { budget: Budget { nanousd, tokens, ms, ..Budget::default() }, ..new };
    let (title, agent) = (new.title.clone(), new.agent.clone().unwrap_or_default());
    let put = runtime.block_on(add::put(&bench.store, &bench.seal, new, None)).map_err(stored)?;
    let mut outcome = Outcome::value(json!({ "task_id": put, "agent": agent, "state": "queued" }));
    outcome.drafts.push(Draft::ostler(Body::Log(Log {
        stream: Stream::Ostler,
        text: format!("delegated to '{agent}' as {put}: {title}"),
        level: None,
    })));
    Ok(outcome)
}

/// What an agent says for others to work by, each text by itself.
pub(super) fn handed(seal: &Seal, said: &Value) -> Value {
    match said {
        Value::String(text) => seal.handed(text).text().into(),
        Value::Array(items) => items.iter().map(|item| handed(seal, item)).collect(),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, said)| (name.clone(), handed(seal, said)));
            Value::Object(pairs.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => said.clone(),
    }
}

/// What the run has left of what is its own. What it only set aside of budgets that it shares is no
/// limit for others: the sub-task spends from the same ones, its parent's among them. Nor is the time
/// that its clocks leave it, since the sub-task has its own.
fn left(standing: &Standing) -> Purse {
    let Standing { remaining, own, .. } = standing;
    Purse {
        nanousd: own.nanousd.and(remaining.nanousd),
        tokens: own.tokens.and(remaining.tokens),
        ms: own.ms.and(remaining.ms),
    }
}
