//! Budgets that a runtime cannot be held to, because it tells what they limit too late or never. Asked
//! before a run starts. Minutes are counted by the host and can always be held.

use super::budget::Amounts;
use contract::amount::{counted, dollars};
use contract::card::Told;
use contract::money::Budget;
use contract::{Card, Code, Fault};

/// Whether this budget needs everything that the agent spends to be told while it works.
pub fn is_counted(budget: &Budget) -> bool {
    let Budget { nanousd, tokens, turns, ms: _, best_effort } = budget;
    !best_effort && (nanousd.is_some() || tokens.is_some() || turns.is_some())
}

/// Refuses the first budget that could not be counted while the agent works, unless the user asked for
/// best effort.
pub fn check(card: &Card, budget: &Budget) -> Result<(), Fault> {
    if budget.best_effort {
        return Ok(());
    }
    let usd = budget.nanousd.map(dollars);
    let tokens = budget.tokens.map(|tokens| counted(tokens, "token"));
    let turns = budget.turns.map(|turns| counted(turns.into(), "turn"));
    let rows = [
        (usd, card.reports.usage, "what it spends"),
        (tokens, card.reports.usage, "what it spends"),
        (turns, card.reports.answers, "when its model answers"),
    ];
    for (budget, told, what) in rows {
        let Some(budget) = budget else { continue };
        let why = match told {
            Told::PerAnswer | Told::ByAgent => continue,
            Told::AtTurnEnd => format!("it reports {what} only when its turn ends"),
            Told::Never => format!("it does not report {what}"),
        };
        let message = format!("{} cannot be held to a budget of {budget}: {why}", card.label);
        return Err(Fault::new(Code::BudgetNotCountable, message));
    }
    Ok(())
}

/// What the card says against budgets that runs share, which do not end a run that cannot be counted
/// while it works; nothing when it can be, or when only the agent can tell.
pub fn shared_warning(card: &Card, limit: &Amounts) -> Option<String> {
    let spends = limit.nanousd.is_some() || limit.tokens.is_some();
    let rows = [
        (spends, card.reports.usage, "what it spends"),
        (limit.turns.is_some(), card.reports.answers, "when its model answers"),
    ];
    rows.into_iter().filter(|(is_limited, _, _)| *is_limited).find_map(|(_, told, what)| match told
    {
        Told::PerAnswer | Told::ByAgent => None,
        Told::AtTurnEnd => Some(format!(
            "{} reports {what} only when its turn ends, so one run can spend more than is left",
            card.label
        )),
        Told::Never => {
            Some(format!("{} does not report {what}, so its runs are not counted", card.label))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::NanoUsd;
    use serde_json::json;

    fn card(usage: Told, answers: Told) -> Card {
        let reports = json!({ "tokens": true, "usage": usage, "answers": answers,
            "dollars": "none", "quota": false, "activity": true });
        let can = json!({ "resume": false, "interrupt": false, "message": false,
            "permissions": false, "compaction": false, "mcp": "none", "api": true });
        serde_json::from_value(json!({ "id": "x", "label": "X", "evidence": "recorded",
            "lanes": ["native"], "reports": reports, "can": can, "retries": "bounded",
            "closing": "", "policies": [], "use_when": "", "dont_use_when": "" }))
        .unwrap()
    }

    #[test]
    fn a_budget_that_is_told_too_late_is_refused() {
        let usd = Budget { nanousd: Some(NanoUsd(500_000_000)), ..Budget::default() };
        let tokens = Budget { tokens: Some(9), ..Budget::default() };
        let turns = Budget { turns: Some(3), ..Budget::default() };
        let minutes = Budget { ms: Some(60_000), ..Budget::default() };
        let rows = [
            (card(Told::PerAnswer, Told::PerAnswer), [true; 4]),
            (card(Told::ByAgent, Told::ByAgent), [true; 4]),
            (card(Told::AtTurnEnd, Told::PerAnswer), [false, false, true, true]),
            (card(Told::Never, Told::Never), [false, false, false, true]),
        ];
        for (card, expected) in rows {
            for (budget, may) in [usd, tokens, turns, minutes].into_iter().zip(expected) {
                let checked = check(&card, &budget);
                assert_eq!(checked.is_ok(), may, "{:?} {budget:?}", card.reports);
                assert_eq!(
                    checked.err().map(|fault| fault.code),
                    (!may).then_some(Code::BudgetNotCountable)
                );
                let best_effort = Budget { best_effort: true, ..budget };
                assert_eq!(is_counted(&budget), budget.ms.is_none(), "{budget:?}");
                assert!(!is_counted(&best_effort), "{best_effort:?}");
                assert!(check(&card, &best_effort).is_ok(), "{best_effort:?}");
            }
        }
        let late = card(Told::AtTurnEnd, Told::Never);
        let day = |nanousd, turns| Amounts { nanousd, turns, ..Amounts::default() };
        let warning = |nanousd, turns| shared_warning(&late, &day(nanousd, turns));
        let spends = "X reports what it spends only when its turn ends, so one run can spend more than is left";
        assert_eq!(warning(usd.nanousd, None).as_deref(), Some(spends));
        let answers = "X does not report when its model answers, so its runs are not counted";
        assert_eq!(warning(None, Some(1)).as_deref(), Some(answers));
        assert_eq!(warning(None, None), None);
        let in_time = card(Told::PerAnswer, Told::ByAgent);
        assert_eq!(shared_warning(&in_time, &day(usd.nanousd, Some(1))), None);
        let fault = check(&card(Told::AtTurnEnd, Told::Never), &usd).unwrap_err();
        assert_eq!(
            fault.message,
            "X cannot be held to a budget of $0.50: it reports what it spends only when its turn ends"
        );
    }
}
