//! What the bookkeeping of a run says to people: sessions, turns, budgets, quotas, leases and phases
//! in a line each, with the sign of the gutter in front, or nothing where there is nothing to say.

use super::clean::one_line;
use super::{Detail, figures, totals};
use contract::event::{
    Body, BudgetLevel, LeaseAction, Phase, Quota, Remaining, StopReason, TurnPhase, unknown_text,
};
use contract::{Timestamp, amount};

/// What a piece of bookkeeping says to people at `now`, with its sign in front; `None` when nothing.
/// `quota_scope` is the name of the run's quota in `ostler quotas`.
pub fn line(
    body: &Body,
    now: Timestamp,
    detail: Detail,
    quota_scope: Option<&str>,
) -> Option<String> {
    let debug = detail == Detail::Debug;
    match body {
        Body::Session(session) => {
            let model = session.model.as_deref().map(|model| format!("model {}", one_line(model)));
            let resumed = session.resumed.then(|| "resumed".to_owned());
            let parts: Vec<String> = [model, resumed].into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("◆ {}", parts.join(" · ")))
        }
        Body::Progress(progress) => Some(format!("▸ {}", one_line(&progress.summary))),
        Body::Comment(comment) => Some(format!("✎ {}", one_line(&comment.text))),
        Body::Turn(turn) => match (turn.phase, turn.stop_reason) {
            (TurnPhase::Ended, Some(reason)) => stopped(reason).map(|why| format!("· {why}")),
            (TurnPhase::Started, _) | (TurnPhase::Ended, None) => None,
        },
        Body::Quota(quota) => quota_line(quota, quota_scope.unwrap_or(&quota.provider), now, debug),
        Body::Budget(budget) => match (budget.level, debug) {
            (BudgetLevel::Ok, false) => None,
            // The last turn may be used to its end: nothing is short yet.
            (BudgetLevel::Soft, false) if is_last_turn(&budget.remaining) => None,
            (BudgetLevel::Ok | BudgetLevel::Soft, _) => {
                let scope = one_line(&budget.scope);
                Some(format!("! budget ({scope}): {} left", remaining(&budget.remaining)))
            }
            // The closing lines say it of the run's own budget.
            (BudgetLevel::Hard, false) if budget.scope == "run" => None,
            (BudgetLevel::Hard, _) => {
                Some(format!("! budget ({}): used up", one_line(&budget.scope)))
            }
        },
        Body::Lease(lease) => match (lease.action, debug) {
            (LeaseAction::Lost, _) => Some("! the lease was lost".to_owned()),
            (LeaseAction::Acquired, true) => Some("· lease acquired".to_owned()),
            (LeaseAction::Renewed, true) => Some("· lease renewed".to_owned()),
            (LeaseAction::Released, true) => Some("· lease released".to_owned()),
            (LeaseAction::Acquired | LeaseAction::Renewed | LeaseAction::Released, false) => None,
        },
        Body::Lifecycle(lifecycle) => {
            // The closing lines say why a run was stopped, and the status line that it is. Another
            // host takes a run over whenever `run -d` or `serve` is started, and nothing changes.
            let telling = lifecycle.phase == Phase::Waiting;
            let why = lifecycle.why.as_deref().map(|why| format!(": {}", one_line(why)));
            let phase = totals::phase(lifecycle.phase);
            (telling || debug).then(|| format!("· {phase}{}", why.unwrap_or_default()))
        }
        Body::Unknown(fields) => Some(format!("! {}", one_line(&unknown_text(fields)))),
        Body::ToolUpdate(_) | Body::Usage(_) => None,
        Body::AssistantText(_)
        | Body::Thinking(_)
        | Body::UserText(_)
        | Body::ToolUse(_)
        | Body::ToolResult(_)
        | Body::Plan(_)
        | Body::Diff(_)
        | Body::Permission(_)
        | Body::Log(_)
        | Body::Error(_)
        | Body::Result(_) => None,
    }
}

fn stopped(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::EndTurn => None,
        StopReason::MaxTokens => Some("the answer was cut: the model's limit of tokens is reached"),
        StopReason::Refusal => Some("the model refused"),
        StopReason::Cancelled => Some("the turn was interrupted"),
        // The error itself is told, and the limit of turns by the closing lines.
        StopReason::Error | StopReason::MaxTurns => None,
    }
}

fn quota_line(quota: &Quota, scope: &str, now: Timestamp, debug: bool) -> Option<String> {
    let exhausted = quota.windows.iter().any(|window| window.exhausted);
    if !quota.rate_limited && !exhausted && !debug {
        return None;
    }
    let windows = quota.windows.iter().filter_map(|window| {
        let label = one_line(window.label.as_deref().unwrap_or(&window.id));
        let label = figures::window(&label);
        window.used_percent.map(|used| format!("{label} {used:.0} %"))
    });
    let state = if quota.rate_limited || exhausted { "limited" } else { "ok" };
    let parts: Vec<String> = std::iter::once(state.to_owned()).chain(windows).collect();
    let until = quota
        .resets_at
        .map(|at| format!(", resets at {}", figures::moment(at, now)))
        .unwrap_or_default();
    Some(format!("! quota of {}: {}{until}", one_line(scope), parts.join(" · ")))
}

fn is_last_turn(left: &Remaining) -> bool {
    *left == Remaining { turns: Some(0), ..Remaining::default() }
}

fn remaining(left: &Remaining) -> String {
    let parts = [
        left.nanousd.map(figures::money),
        left.tokens.map(figures::tokens),
        left.turns.map(|turns| amount::counted(turns.into(), "turn")),
        left.ms.map(figures::duration),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" · ") }
}
