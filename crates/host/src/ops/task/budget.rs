//! What a task may spend, changed afterwards: raised, lowered, set or taken away, unit by unit, wherever
//! the task stands, because those below one that is done spend from its budget too. Whoever waits for a
//! budget is looked at again at once, and live runs ask again (`ops/budgets.rs`). What was spent stays
//! spent: a budget below it lets nothing more start. Who did it is in the audit file.

use super::super::run::{Budget, stored};
use super::super::who::Who;
use super::super::{budgets, limits};
use super::{TaskView, find};
use crate::{Host, clock};
use contract::{Code, Fault, NanoUsd};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use store::{BudgetStep, TaskRow};

/// How often a change is tried that another one was quicker than.
const TRIES: usize = 8;

/// What is changed of a budget: a unit that is absent stays as it is, and one that is null is limited no
/// more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetChange {
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub nanousd: Option<Option<NanoUsd>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub turns: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub ms: Option<Option<u64>>,
}

/// What is there, is said, also where it is null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl BudgetChange {
    fn of(&self, budget: Budget) -> Budget {
        Budget {
            nanousd: self.nanousd.unwrap_or(budget.nanousd),
            tokens: self.tokens.unwrap_or(budget.tokens),
            turns: self.turns.unwrap_or(budget.turns),
            ms: self.ms.unwrap_or(budget.ms),
            best_effort: budget.best_effort,
        }
    }

    fn check(&self) -> Result<(), Fault> {
        if *self == Self::default() {
            return Err(Fault::new(Code::Usage, "no budget is given")
                .with_hint("give one of nanousd, tokens, turns, ms; null removes a limit"));
        }
        match self.nanousd.flatten() {
            Some(NanoUsd(..0)) => Err(Fault::new(Code::Usage, "the budget is negative")),
            Some(NanoUsd(0..)) | None => Ok(()),
        }
    }
}

/// Changes what a task and those below it may spend in all.
pub async fn change(
    host: &Host,
    task: &str,
    change: BudgetChange,
    by: &Who,
) -> Result<TaskView, Fault> {
    change.check()?;
    for _ in 0..TRIES {
        let row = find(host, task).await?;
        if !row.by_queue {
            let message = "it is a single run, not a task of the queue, and has the budget of its \
             run";
            return Err(Fault::new(Code::Conflict, message)
                .with_hint("run it again with another, and with --resume to go on"));
        }
        let (id, before) = (row.id, of(&row));
        let after = change.of(before);
        // Said again, it is what it was.
        if before != after {
            if !take(host, row, after).await? {
                continue;
            }
            let about = serde_json::json!({ "task_id": id, "budget": after, "before": before });
            host.inner.audit.did(clock::now().wall, by, "task_budget_changed", about);
            budgets::changed(host).await?;
        }
        return super::get(host, &id.to_string()).await;
    }
    let message = format!("the budget of '{task}' is being changed by another request");
    Err(Fault::new(Code::Conflict, message).with_hint(
        "see its state with `ostler task show`, then \
     try again",
    ))
}

/// False when another change was quicker.
async fn take(host: &Host, row: TaskRow, budget: Budget) -> Result<bool, Fault> {
    let step = BudgetStep { task: row.id, from: row.budget, to: budgets::kept(budget) };
    match host.inner.heed(host.store().change_budget(step).await) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Code::Conflict => Ok(false),
        Err(error) => Err(stored(error)),
    }
}

/// What a task may spend by its own row.
fn of(row: &TaskRow) -> Budget {
    row.budget.as_deref().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

/// How a task's own budget stands, if it has one.
pub(super) async fn standing(
    host: &Host,
    row: &TaskRow,
) -> Result<Option<limits::BudgetView>, Fault> {
    match budgets::of_task(row.id, of(row)) {
        Some(budget) => limits::view(host, budget).await.map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_stays_and_what_is_null_is_limited_no_more() {
        let before = Budget { nanousd: Some(NanoUsd(5)), tokens: Some(7), ..Budget::default() };
        let rows = [
            (r#"{"nanousd": 9}"#, Some(9), Some(7), None),
            (r#"{"nanousd": null}"#, None, Some(7), None),
            (r#"{"nanousd": 0, "tokens": null, "ms": 3}"#, Some(0), None, Some(3)),
        ];
        for (json, nanousd, tokens, ms) in rows {
            let change: BudgetChange = serde_json::from_str(json).unwrap();
            change.check().unwrap();
            let nanousd = nanousd.map(NanoUsd);
            let after = Budget { nanousd, tokens, ms, ..Budget::default() };
            assert_eq!(change.of(before), after, "{json}");
            let said = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<BudgetChange>(&said).unwrap(), change, "{json}");
        }
    }

    #[test]
    fn a_change_of_nothing_or_to_less_than_nothing_is_refused() {
        for json in ["{}", r#"{"nanousd": -1}"#] {
            let change: BudgetChange = serde_json::from_str(json).unwrap();
            assert_eq!(change.check().unwrap_err().code, Code::Usage, "{json}");
        }
    }
}
