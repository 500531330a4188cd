//! What the tools of `ostler mcp` answer with: the part of a row that a model needs to decide what to do
//! next, with ids under the names that the tools take and dollars instead of nano-dollars.

use contract::card::Dollars;
use contract::view::RunView;
use contract::{Card, NanoUsd};
use host::ops::agents::AgentView;
use host::ops::ask::OpenAsk;
use host::ops::task::{TaskSheet, TaskView};
use serde_json::{Map, Value, json};
use store::CostRow;

/// The longest text that an answer holds of one thing.
const TEXT_CHARS_MAX: usize = 4_000;

/// A text within the limit; what was cut is said.
pub fn text(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… (cut after {TEXT_CHARS_MAX} characters)", &text[..end]),
    }
}

/// Dollars; null when any part has no price.
fn usd(amount: Option<NanoUsd>) -> Value {
    amount.map_or(Value::Null, |amount| json!(amount.0 as f64 / 1e9))
}

/// An object without the members that say nothing.
fn told(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let says = |value: &Value| !value.is_null() && *value != json!([]) && *value != "";
    Value::Object(fields.into_iter().filter(|(name, value)| name == "usd" || says(value)).collect())
}

pub fn run(run: &RunView) -> Value {
    told(json!({
        "run_id": run.id,
        "task_id": run.task,
        "agent": run.agent,
        "model": run.model,
        "cwd": run.cwd,
        "prompt": run.prompt_preview,
        "state": run.state,
        "outcome": run.outcome,
        "code": run.code,
        "message": run.message.as_deref().map(text),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "provider": run.provider,
        "tokens": run.usage.as_ref().map(|usage| usage.total_tokens),
        "usd": run.cost_usd,
        "billing": run.billing,
    }))
}

pub fn task(task: &TaskView) -> Value {
    told(json!({
        "task_id": task.id,
        "title": task.title,
        "state": task.state,
        "agent": task.agent,
        "waiting_for": task.waiting_for,
        "until": task.until,
        "note": task.note,
        "code": task.code,
        "labels": task.labels,
        "review": task.review,
        "parent_task_id": task.parent,
        "created_at": task.created_at,
    }))
}

pub fn task_details(sheet: &TaskSheet) -> Value {
    let mut details = task(&sheet.task);
    let comments: Vec<_> = sheet
        .comments
        .iter()
        .map(|said| json!({ "at": said.at, "author": said.author, "text": text(&said.text) }))
        .collect();
    let more = told(json!({
        "body": text(&sheet.body),
        "cwd": sheet.cwd,
        "after_task_ids": sheet.after,
        "comments": comments,
        "progress": sheet.last_progress.as_ref().map(|progress| &progress.summary),
        "answer": sheet.answer.as_deref().map(text),
        "unapplied_run_id": sheet.worktree_of,
        "runs": sheet.runs.iter().map(run).collect::<Vec<_>>(),
    }));
    if let (Value::Object(details), Value::Object(more)) = (&mut details, more) {
        details.extend(more);
    }
    details
}

pub fn approval(ask: &OpenAsk) -> Value {
    // Whatever is known of the request is shown, under the name that `answer` takes.
    let mut fields = match serde_json::to_value(ask) {
        Ok(Value::Object(fields)) => fields,
        // A question is always an object that can be written.
        Ok(_) | Err(_) => Map::new(),
    };
    if let Some(id) = fields.remove("ask_id") {
        fields.insert("approval_id".to_owned(), id);
    }
    Value::Object(fields)
}

pub fn agent(agent: &AgentView) -> Value {
    told(json!({
        "name": agent.name,
        "adapter": agent.adapter,
        "model": agent.model,
        "state": agent.state,
        "running": agent.running,
        "usd_this_month": usd(agent.month_nanousd),
    }))
}

pub fn cost(row: &CostRow) -> Value {
    told(json!({
        "day": row.day,
        "agent": row.agent,
        "adapter": row.adapter,
        "model": row.model,
        "runs": row.runs,
        "tokens": row.tokens.total(),
        "usd": usd(row.effective_nanousd),
        // The part that is known, where not every token has a price.
        "usd_of_priced_part": row.unpriced.then(|| usd(row.priced_nanousd)),
        // The part that is included in a subscription or free, at list price.
        "included_usd": (row.included_nanousd.0 > 0).then(|| row.included_nanousd.usd()),
    }))
}

pub fn runtime(card: &Card) -> Value {
    json!({
        "name": card.id,
        "use_when": card.use_when_short(),
        "dont_use_when": card.dont_use_when_short(),
        "asks": card.can.permissions,
        "resumes": card.can.resume,
        "tells_dollars": card.reports.dollars != Dollars::None,
    })
}

/// An adapter of the configuration; `ready` is absent where only a run can tell.
pub fn adapter(name: &str, kind: &str, ready: Option<bool>) -> Value {
    told(json!({ "name": name, "type": kind, "ready": ready }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_tell_dollars() {
        let row: CostRow = serde_json::from_value(json!({
            "day": "2026-11-19", "runs": 2, "tokens": contract::Tokens::default(),
            "effective_nanousd": 1_300_000, "priced_nanousd": 1_300_000, "unpriced": false,
        }))
        .unwrap();
        assert_eq!(
            cost(&row),
            json!({ "day": "2026-11-19", "runs": 2, "tokens": 0, "usd": 0.0013 })
        );
        let unpriced = CostRow { effective_nanousd: None, unpriced: true, ..row };
        let told = cost(&unpriced);
        assert_eq!((&told["usd"], &told["usd_of_priced_part"]), (&Value::Null, &json!(0.0013)));
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!(text("short"), "short");
        let long = "é".repeat(TEXT_CHARS_MAX + 1);
        assert!(text(&long).ends_with("… (cut after 4000 characters)"));
    }

    #[test]
    fn described_runtimes_fit_a_prompt() {
        let cards: Vec<_> = runtimes::registry::all().iter().map(|one| one.card()).collect();
        for card in &cards {
            let size = runtime(card).to_string().len();
            assert!(size < 600, "{}: {size} bytes", card.id);
        }
    }
}
