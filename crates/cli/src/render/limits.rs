//! `ostler quotas`, and the budgets under `ostler costs`, as tables: one line for each scope, with what
//! keeps runs from starting and until when.

use super::clean::one_line;
use super::figures;
use super::money::{left, right, table};
use super::tone::Colour;
use contract::Timestamp;
use contract::amount::counted;
use contract::event::{BudgetLevel, QuotaWindow};
use host::ops::limits::{BudgetView, SharedAmounts};
use host::ops::quota::{QuotaState, QuotaView, WindowsSource};

const MINUTE_MS: u64 = 60_000;

/// The quotas of accounts, without a newline at the end.
pub fn quotas_table(rows: &[QuotaView], now: Timestamp, columns: usize, colour: Colour) -> String {
    let heads = vec![
        left("SCOPE"),
        left("RUNS"),
        left("UNTIL"),
        right("LIVE"),
        left("WINDOWS"),
        left("AS OF"),
        left("WHY"),
    ];
    let cells = rows.iter().map(|row| {
        let (word, until) = match row.state {
            QuotaState::Open => ("start", None),
            QuotaState::Blocked { until } => ("wait", Some(until)),
            QuotaState::Probing { .. } => ("one asks first", None),
            QuotaState::Resuming { next_at, .. } => ("one by one", Some(next_at)),
        };
        let windows: Vec<String> = row.windows.iter().map(window).collect();
        // The reason of an earlier block is history.
        let why = row.why.as_deref().filter(|_| row.state != QuotaState::Open);
        vec![
            one_line(&row.scope),
            word.to_owned(),
            until.map_or_else(|| "–".to_owned(), |until| figures::moment(until, now)),
            figures::count(row.live as u64),
            if windows.is_empty() { "–".to_owned() } else { windows.join(" · ") },
            as_of(row, now),
            why.map(|why| figures::with_moments(&one_line(why), now)).unwrap_or_default(),
        ]
    });
    table(heads, cells.collect(), columns, colour)
}

/// When the windows were told, and by whom.
fn as_of(row: &QuotaView, now: Timestamp) -> String {
    let source = match row.source {
        Some(WindowsSource::Agent) => ", agent",
        Some(WindowsSource::Provider) => ", provider",
        None => "",
    };
    row.told_at.map_or_else(|| "–".to_owned(), |at| format!("{}{source}", figures::moment(at, now)))
}

fn window(window: &QuotaWindow) -> String {
    let id = figures::window(&one_line(window.label.as_deref().unwrap_or(&window.id)));
    match (window.used_percent, window.exhausted) {
        (Some(percent), _) => format!("{id} {percent:.0} %"),
        (None, true) => format!("{id} used up"),
        (None, false) => id,
    }
}

/// Shared budgets with what is used of them, without a newline at the end.
pub fn budgets_table(rows: &[BudgetView], columns: usize, colour: Colour) -> String {
    let heads = vec![
        left("BUDGET"),
        left("WINDOW"),
        left("USED"),
        left("LEFT"),
        right("LIVE"),
        left("STATE"),
    ];
    let cells = rows.iter().map(|row| {
        let limit = &row.budget.limit;
        vec![
            one_line(&row.budget.scope),
            row.budget.window.word().to_owned(),
            units(&row.used, limit),
            match row.budget.quota_percent {
                Some(percent) if *limit == SharedAmounts::default() => {
                    format!("{percent} % of quota")
                }
                Some(percent) => format!("{} · {percent} % of quota", units(&row.left, limit)),
                None => units(&row.left, limit),
            },
            figures::count(row.live),
            match row.level {
                BudgetLevel::Ok => "ok",
                BudgetLevel::Soft => "nearly used up",
                BudgetLevel::Hard => "used up",
            }
            .to_owned(),
        ]
    });
    table(heads, cells.collect(), columns, colour)
}

/// What was spent of a budget and what is left, in a line.
pub(super) fn spent(row: &BudgetView) -> String {
    let limit = &row.budget.limit;
    format!("{} of {} spent or reserved", units(&row.used, limit), units(limit, limit))
}

/// The amounts of those units that are limited.
fn units(amounts: &SharedAmounts, limit: &SharedAmounts) -> String {
    let money = amounts.nanousd.filter(|_| limit.nanousd.is_some()).map(figures::money);
    let tokens = amounts.tokens.filter(|_| limit.tokens.is_some()).map(figures::tokens);
    let turns = amounts.turns.filter(|_| limit.turns.is_some()).map(|n| counted(n.into(), "turn"));
    let time =
        amounts.ms.filter(|_| limit.ms.is_some()).map(|ms| format!("{} min", ms / MINUTE_MS));
    let parts: Vec<String> = [money, tokens, turns, time].into_iter().flatten().collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(" · ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_door_that_is_closed_says_until_when_and_why_and_an_open_one_says_nothing_old() {
        let rows: Vec<QuotaView> = serde_json::from_value(json!([
            { "scope": "acme/work", "state": "blocked", "until": "2026-11-16T15:00:00.000Z", "live": 2,
              "why": "You've hit your limit", "windows": [
                { "id": "five_hour", "used_percent": 100.0, "exhausted": true },
                { "id": "week", "label": "7 days", "exhausted": false } ] },
            { "scope": "acme/own", "state": "open", "live": 0, "why": "long ago" },
        ]))
        .unwrap();
        let QuotaState::Blocked { until } = rows[0].state else { panic!("it is open") };
        let now = until.plus_ms(-3_600_000);
        let shown = quotas_table(&rows, now, usize::MAX, Colour::Off);
        // The clock of the machine is wherever it is.
        let shown = shown.replace(&figures::moment(until, now), "hh:mm (in 60 min)");
        insta::assert_snapshot!(shown, @r"
        SCOPE      RUNS   UNTIL              LIVE  WINDOWS                   AS OF  WHY
        acme/work  wait   hh:mm (in 60 min)     2  five_hour 100 % · 7 days  –      You've hit your limit
        acme/own   start  –                     0  –                         –
        ");
    }

    #[test]
    fn a_budget_shows_the_units_that_it_limits() {
        let rows: Vec<BudgetView> = serde_json::from_value(json!([
            { "scope": "global", "window": "day", "nanousd": 5_000_000_000_i64, "turns": 40,
              "used": { "nanousd": 4_500_000_000_i64, "tokens": 7, "turns": 3, "ms": 60_000 },
              "left": { "nanousd": 500_000_000, "turns": 37 }, "level": "soft", "live": 1 },
            { "scope": "agent:worker", "window": "lifetime", "quota_percent": 80.0,
              "used": { "nanousd": 0 }, "left": {}, "level": "ok", "live": 0 },
        ]))
        .unwrap();
        insta::assert_snapshot!(budgets_table(&rows, usize::MAX, Colour::Off), @r"
        BUDGET        WINDOW    USED             LEFT              LIVE  STATE
        global        day       $4.50 · 3 turns  $0.50 · 37 turns     1  nearly used up
        agent:worker  lifetime  –                80 % of quota        0  ok
        ");
    }
}
