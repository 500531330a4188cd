//! What a run starts within: the quota of its account and the budgets it shares with others. Asked
//! once before anything exists, so that a refusal leaves no trace, and once more in the transaction
//! that begins the run, so that two who asked at the same time do not both pass. What a run may spend
//! is set aside there; a run without a budget of its own asks for more while it goes on (`Fund`).

use super::budgets::{self, GLOBAL, agent_scope, amounts, task_of, task_scope};
use super::gate::Candidate;
use super::quota::{self, Seen};
use super::run::{Budget, RunRequest, stored};
use crate::trace::warning;
use crate::{Host, Inner, clock};
use contract::event::{self, Body, QuotaWindow, Remaining};
use contract::limits::{QUOTA_RESET_MS, RESERVE_MORE_PERCENT};
use contract::plan::Adapter;
use contract::state::WaitingFor;
use contract::{Billing, Card, Code, Draft, Fault, NanoUsd, RunId, TaskId, Timestamp};
use engine::rules::breaker;
use engine::rules::budget::{self, Amounts, Used};
use engine::rules::countable;
use engine::rules::hold::Hold;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::limits::AGAIN_ROWS_MAX;
use store::{
    Again, Batch, Claim, Committed, NewTask, Reserve, ScopeSum, Seal, StartLook, Surroundings,
    Within,
};

pub use engine::rules::budget::{Amounts as SharedAmounts, Budget as SharedBudget, Window};

/// How often a start that others are in the way of is tried again.
const TRIES_MAX: usize = 64;
/// When a budget that live runs hold is looked at again.
const BUDGET_LOOK_MS: u64 = 60_000;

/// A budget as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetView {
    #[serde(flatten)]
    pub budget: SharedBudget,
    pub used: Amounts,
    pub left: Amounts,
    pub level: event::BudgetLevel,
    /// Runs that are live, whose sums are set aside and part of what is used.
    pub live: u64,
    /// When it begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
}

/// What a live run may spend of shared budgets, and how it asks for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fund {
    /// The run's own budget: where it has one, it asks for no more.
    pub own: Amounts,
    aside: Amounts,
    budgets: Vec<SharedBudget>,
    agent: String,
    /// Its task and those above it.
    #[serde(default)]
    tree: Vec<TaskId>,
    /// It was told that nothing more can be had.
    #[serde(default)]
    pub closed: bool,
    /// What it uses is not billed: it spends no dollars of the budgets.
    #[serde(default)]
    is_included: bool,
    /// The version of the house's budgets that it has seen; another host has others.
    #[serde(skip)]
    version: u64,
}

/// Who asks to start.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer {
    pub run: RunId,
    pub task: TaskId,
    pub fence: u64,
}

/// Everything that was found out before a start.
pub(crate) struct Admission {
    /// The run's own budget, and what was set aside for it where it has none.
    pub budget: Budget,
    /// The budget of the run's task, which does not hold what those above it may spend.
    pub of_task: Budget,
    /// How the budgets stand with it.
    pub drafts: Vec<Draft>,
    pub fund: Option<Fund>,
    seen: Seen,
    reserves: Vec<Reserve>,
    run: RunId,
}

/// The budgets of this host, and what is left of them.
pub async fn budgets(host: &Host) -> Result<Vec<BudgetView>, Fault> {
    let mut views = Vec::new();
    for budget in budgets::all(host).await? {
        views.push(view(host, budget).await?);
    }
    Ok(views)
}

/// A budget, and what is left of it now.
pub(super) async fn view(host: &Host, budget: SharedBudget) -> Result<BudgetView, Fault> {
    let now = clock::now().wall;
    let (sum, left) = standing(&host.inner, &budget, now).await?;
    Ok(BudgetView {
        used: Amounts {
            nanousd: Some(sum.nanousd),
            tokens: Some(sum.tokens),
            turns: u32::try_from(sum.turns).ok(),
            ms: Some(sum.ms),
        },
        level: budget::level(&budget.limit, &left),
        left,
        live: sum.live,
        ends_at: budget.window.end(now),
        budget,
    })
}

/// Why a task is not started now, as far as quotas and budgets go.
pub async fn hold(host: &Host, candidate: &Candidate) -> Result<Option<Hold>, Fault> {
    let now = clock::now().wall;
    let scope = scope_of(candidate);
    // No run has this id, so nobody's probe is taken for it.
    let nobody = RunId::new(uuid::Uuid::nil());
    let seen = quota::look(host.store(), &scope, nobody, now).await?;
    if let (breaker::Passage::Wait { until }, Some(fault)) = (seen.passage, seen.refusal()) {
        let note = fault.message;
        return Ok(Some(Hold { why: WaitingFor::Quota, until: Some(until), note, of: None }));
    }
    let (mut budgets, _) = budgets::charged(host, &candidate.agent, candidate.task).await?;
    if candidate.billing.is_some_and(Billing::is_included) {
        without_dollars(&mut budgets);
    }
    for budget in budgets {
        let stands = standing(&host.inner, &budget, now).await?;
        if let Some(hold) = full(&host.inner, &budget, &stands, &seen, now) {
            return Ok(Some(hold));
        }
    }
    Ok(None)
}

/// Something that tasks wait for is there sooner than they were told: all of them are looked at again.
pub(crate) async fn look_again(host: &Host, why: WaitingFor) -> Result<(), Fault> {
    let slice = async || host.inner.heed(host.store().again(Again::Whenever(why)).await);
    // Those that are held again meanwhile were looked at: a slice that is not full is the last.
    while slice().await.map_err(stored)? >= u64::from(AGAIN_ROWS_MAX) {}
    Ok(())
}

/// Why a start was refused that the gates had let pass: others were quicker. What they hold and do not
/// need is free again when they end.
pub(crate) async fn crowded_out(
    host: &Host,
    candidate: &Candidate,
    fault: &Fault,
) -> Result<Hold, Fault> {
    if let Some(hold) = hold(host, candidate).await? {
        return Ok(hold);
    }
    let why = match fault.code {
        Code::ProviderQuota => WaitingFor::Quota,
        _ => WaitingFor::Budget,
    };
    let until = Some(later(clock::now().wall, BUDGET_LOOK_MS));
    Ok(Hold { why, until, note: fault.message.clone(), of: None })
}

fn scope_of(candidate: &Candidate) -> String {
    let Candidate { provider, runtime, adapter, account, .. } = candidate;
    breaker::scope(provider.as_deref(), runtime, adapter, account.as_deref())
}

async fn standing(
    house: &Inner,
    budget: &SharedBudget,
    now: Timestamp,
) -> Result<(ScopeSum, Amounts), Fault> {
    let sum = house.store.scope_sum(&budget.scope, budget.window.begin(now)).await;
    let sum = sum.map_err(stored)?;
    let ScopeSum { nanousd, tokens, turns, ms, live: _ } = sum;
    Ok((sum, budget::left(&budget.limit, &Used { nanousd, tokens, turns, ms })))
}

/// Why a budget that stands so lets nobody start, if it does not.
fn full(
    house: &Inner,
    budget: &SharedBudget,
    (sum, left): &(ScopeSum, Amounts),
    seen: &Seen,
    now: Timestamp,
) -> Option<Hold> {
    let why = WaitingFor::Budget;
    if let Some(unit) = budget::spent(left) {
        let note = format!("no {unit} are left of the budget {}", budget.name());
        if house.budgets.is_news(&budget.name(), true) {
            house.limit_closed(None, &budget.name(), &note);
        }
        // What live runs hold and do not spend is free again when they end.
        let look = (sum.live > 0).then(|| later(now, BUDGET_LOOK_MS));
        let until = look.into_iter().chain(budget.window.end(now)).min();
        return Some(Hold { why, until, note, of: task_of(&budget.scope) });
    }
    house.budgets.is_news(&budget.name(), false);
    let percent = budget.quota_percent?;
    // What was told without an end is good for as long as a reset usually takes.
    let told_at = seen.row.told_at.unwrap_or(now);
    let end = |window: &QuotaWindow| window.resets_at.unwrap_or(later(told_at, QUOTA_RESET_MS));
    let over = quota::windows(&seen.row).into_iter().find(|window| {
        let used = window.exhausted || window.used_percent.is_some_and(|used| used >= percent);
        used && end(window) > now
    });
    over.map(|window| {
        let (used, until) = (window.used_percent.unwrap_or(100.0), Some(end(&window)));
        let (id, scope, name) = (window.id, &seen.row.scope, budget.name());
        let note = format!(
            "the window {id} of {scope} is used by {used} %, and the budget {name} allows {percent} %"
        );
        Hold { why, until, note, of: None }
    })
}

fn later(at: Timestamp, ms: u64) -> Timestamp {
    at.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// What a start has to know of others.
pub(crate) struct Around {
    pub rows: Surroundings,
    /// Of the budgets, before they were read: whoever changes one meanwhile is heard of.
    version: u64,
}

/// Looks around, in one visit to the store. `task` is the one in line.
pub(crate) async fn look(
    host: &Host,
    agent: &str,
    adapter: &Adapter,
    task: Option<TaskId>,
) -> Result<Around, Fault> {
    let version = host.inner.budgets.version();
    let look = StartLook { agent: agent.to_owned(), quota_scope: scope(adapter), task };
    let rows = host.store().surroundings(look).await.map_err(stored)?;
    Ok(Around { rows, version })
}

/// Refuses the start of an adapter whose provider answered just now that nothing is left.
pub(crate) async fn heed_report(
    host: &Host,
    adapter: &Adapter,
    report: Option<event::Quota>,
    seal: &Seal,
) -> Result<(), Fault> {
    let Some(report) = report else { return Ok(()) };
    quota::heed_report(host, &scope(adapter), &report, seal).await?.map_or(Ok(()), Err)
}

/// The quota that a run of this adapter spends.
pub(super) fn scope(adapter: &Adapter) -> String {
    breaker::scope(None, &adapter.runtime, &adapter.name, adapter.account.as_deref())
}

/// Whether a run may start, and within what. A refusal is the fault that its asker sees.
pub(crate) async fn admit(
    host: &Host,
    request: &RunRequest,
    adapter: &Adapter,
    Newcomer { run, task, fence }: Newcomer,
    around: &Around,
) -> Result<Admission, Fault> {
    let now = clock::now().wall;
    let Around { rows, version } = around;
    let (scope, quota) = (scope(adapter), rows.quota.clone());
    let seen = quota::seen(host.store(), &scope, quota, run, now).await?;
    if let Some(refused) = seen.refusal() {
        return Err(refused);
    }
    let tree = budgets::tree(task, request.task_budget, &rows.lineage);
    let mut budgets = budgets::spent_from(host, &request.agent, rows.agent.as_ref(), &tree);
    let is_included = adapter.billing.is_some_and(Billing::is_included);
    let uncounted = if is_included { without_dollars(&mut budgets) } else { Vec::new() };
    let mut own = amounts(request.budget);
    let mut lefts = Vec::with_capacity(budgets.len());
    for budget in &budgets {
        // One look: between two of them others may take what is left, and it would start with nothing.
        let stands = standing(&host.inner, budget, now).await?;
        if let Some(hold) = full(&host.inner, budget, &stands, &seen, now) {
            return Err(exceeded(hold.note, hold.until));
        }
        let (sum, left) = stands;
        // While others hold a part of it, it may be worth the wait for what they leave.
        if task_of(&budget.scope).is_some() && sum.live == 0 {
            own = budget::within(&own, &left);
        }
        lefts.push(left);
    }
    let aside = budget::set_aside(&own, &lefts);
    let limited = budgets.iter().any(|budget| budget.limit != Amounts::default());
    let drafts =
        budgets.iter().zip(&lefts).filter(|(budget, _)| budget.limit != Amounts::default());
    let drafts = drafts.map(|(budget, left)| told(budget, left));
    let drafts = drafts.chain(not_billed(&uncounted)).collect();
    let agent = request.agent.clone();
    let mut of_task = tree.first().map(|(_, own)| *own).unwrap_or_default();
    if is_included {
        of_task.nanousd = None;
    }
    let tree = tree.into_iter().map(|(task, _)| task).collect();
    let (closed, version) = (false, *version);
    let fund = Fund { own, aside, budgets, agent, tree, closed, is_included, version };
    Ok(Admission {
        budget: capped(&own, &aside),
        of_task,
        drafts,
        reserves: fund.reserves(&aside, run, fence, now),
        fund: limited.then_some(fund),
        seen,
        run,
    })
}

fn capped(own: &Amounts, aside: &Amounts) -> Budget {
    let Amounts { nanousd, tokens, turns, ms } = budget::cap(own, aside);
    Budget { nanousd, tokens, turns, ms, best_effort: false }
}

fn exceeded(note: String, until: Option<Timestamp>) -> Fault {
    let message = match until {
        Some(until) => format!("{note}; it resets at {until}"),
        None => note,
    };
    let hint = "raise it in ostler.json, by `ostler agents edit` or by `ostler task budget`; \
                `ostler costs` shows what is left";
    Fault::new(Code::BudgetExceeded, message).with_hint(hint)
}

/// How a shared budget stands, as an event of the run that spends from it. One of which nothing more
/// can be set aside stops nobody: the run has what it has.
fn told(budget: &SharedBudget, left: &Amounts) -> Draft {
    let Amounts { nanousd, tokens, turns, ms } = *left;
    let level = match budget::level(&budget.limit, left) {
        event::BudgetLevel::Ok => event::BudgetLevel::Ok,
        event::BudgetLevel::Soft | event::BudgetLevel::Hard => event::BudgetLevel::Soft,
    };
    Draft::ostler(Body::Budget(event::Budget {
        scope: budget.name(),
        level,
        remaining: Remaining { nanousd, tokens, turns, ms },
    }))
}

/// Begins a run within what it was admitted to. Where a quota changed meanwhile, it is asked again.
pub(crate) async fn begin(
    host: &Host,
    admission: Admission,
    task: NewTask,
    claim: Claim,
    batch: Batch,
) -> Result<Result<Committed, store::Error>, Fault> {
    let Admission { mut seen, reserves, run, .. } = admission;
    let scope = seen.row.scope.clone();
    for _ in 0..TRIES_MAX {
        let within = Within {
            quota_scope: Some(scope.clone()),
            quota: seen.step(),
            reserves: reserves.clone(),
        };
        let begun = host.store().begin_within(task.clone(), claim.clone(), batch.clone(), within);
        match host.inner.heed(begun.await) {
            Err(store::Error::Conflict { what }) => {
                let version = seen.row.version;
                seen = quota::look(host.store(), &scope, run, clock::now().wall).await?;
                if seen.row.version == version {
                    return Ok(Err(store::Error::Conflict { what }));
                }
                if let Some(refused) = seen.refusal() {
                    return Err(refused);
                }
            }
            Err(store::Error::BudgetExceeded { scope }) => {
                let note = format!("the rest of the budget of {scope} is reserved for other runs");
                return Err(exceeded(note, None));
            }
            begun => return Ok(begun),
        }
    }
    Err(quota::busy(&scope))
}

impl Fund {
    /// The budgets of a window that this runtime reports too late to be held to, each with the reason.
    pub(crate) fn held_late(&self, card: &Card) -> Vec<Draft> {
        let windows = self.budgets.iter().filter(|budget| task_of(&budget.scope).is_none());
        let told = windows.filter_map(|budget| {
            let why = countable::shared_warning(card, &budget.limit)?;
            Some(warning(format!("budget ({}): {why}", budget.name())))
        });
        told.collect()
    }

    /// What is set aside in every scope that the run spends from. Scopes without a limit are kept
    /// too, so that a budget that is made tomorrow knows of today.
    fn reserves(&self, aside: &Amounts, run: RunId, fence: u64, now: Timestamp) -> Vec<Reserve> {
        let of = |scope: String, since: Timestamp, limit: Amounts| Reserve {
            scope,
            run,
            fence,
            nanousd: aside.nanousd.unwrap_or_default().max(NanoUsd(0)),
            tokens: aside.tokens.unwrap_or(0),
            turns: aside.turns.map_or(0, u64::from),
            ms: aside.ms.unwrap_or(0),
            since,
            nanousd_max: limit.nanousd,
            tokens_max: limit.tokens,
            turns_max: limit.turns.map(u64::from),
            ms_max: limit.ms,
        };
        let scopes = [GLOBAL.to_owned(), agent_scope(&self.agent)].into_iter();
        let scopes = scopes.chain(self.tree.iter().map(|task| task_scope(*task)));
        let unlimited = scopes.map(|scope| of(scope, now, Amounts::default()));
        let limited = self
            .budgets
            .iter()
            .map(|budget| of(budget.scope.clone(), budget.window.begin(now), budget.limit));
        unlimited.chain(limited).collect()
    }

    /// What a run that spends asks for, when little is left of what was set aside.
    pub fn wants(&self, remaining: &Remaining) -> Option<Amounts> {
        match self.closed {
            true => None,
            false => budget::more(&self.own, &self.aside, remaining, RESERVE_MORE_PERCENT),
        }
    }

    /// Takes the budgets as they are now, if they were changed: what gave no more may give again.
    pub async fn refresh(&mut self, host: &Host) -> Result<(), Fault> {
        let version = host.inner.budgets.version();
        let Some(task) = self.tree.first().filter(|_| self.version != version) else {
            return Ok(());
        };
        (self.budgets, _) = budgets::charged(host, &self.agent, *task).await?;
        if self.is_included {
            without_dollars(&mut self.budgets);
        }
        (self.closed, self.version) = (false, version);
        Ok(())
    }

    /// Gives back the dollars that were set aside for a run whose use turned out not to be billed. Says
    /// which budgets do not count it.
    pub async fn release_dollars(
        &mut self,
        house: &Inner,
        (run, fence): (RunId, u64),
    ) -> Result<Vec<Draft>, store::Error> {
        if self.is_included {
            return Ok(Vec::new());
        }
        let mut freed = self.clone();
        freed.is_included = true;
        freed.aside.nanousd = None;
        let uncounted = without_dollars(&mut freed.budgets);
        let reserves = freed.reserves(&freed.aside, run, fence, clock::now().wall);
        house.store.reserve_all(reserves).await?;
        *self = freed;
        Ok(not_billed(&uncounted).collect())
    }

    /// Sets aside that much in all. What is left for the run then, or how the budget stands that
    /// gives no more.
    pub async fn grow(
        &mut self,
        house: &Inner,
        whose: (RunId, u64),
        more: Amounts,
        remaining: Remaining,
    ) -> Result<Result<Remaining, Vec<Draft>>, store::Error> {
        let now = clock::now().wall;
        let (run, fence) = whose;
        let reserves = self.reserves(&more, run, fence, now);
        match house.store.reserve_all(reserves).await {
            Ok(()) => {
                let grown = grown(&self.aside, &more, remaining);
                self.aside = more;
                Ok(Ok(grown))
            }
            Err(store::Error::BudgetExceeded { scope }) => {
                self.closed = true;
                let mut drafts = Vec::new();
                for budget in self.budgets.iter().filter(|budget| budget.scope == scope) {
                    if let Ok((_, left)) = standing(house, budget, now).await {
                        drafts.push(told(budget, &left));
                    }
                }
                Ok(Err(drafts))
            }
            Err(error) => Err(error),
        }
    }
}

/// Takes the dollars out of budgets, for a run of which nothing is billed. The names of those that had
/// some.
fn without_dollars(budgets: &mut [SharedBudget]) -> Vec<String> {
    let limited = budgets.iter_mut().filter(|budget| budget.limit.nanousd.is_some());
    limited
        .map(|budget| {
            budget.limit.nanousd = None;
            budget.name()
        })
        .collect()
}

/// Says which budgets of dollars do not count a run.
fn not_billed(budgets: &[String]) -> impl Iterator<Item = Draft> {
    let text = (!budgets.is_empty()).then(|| {
        format!(
            "this account is not billed by use: the dollars of the budget {} do not count this run; \
             limit it by tokens, turns, minutes or quotaPercent",
            budgets.join(" and ")
        )
    });
    text.into_iter().map(|text| {
        let log =
            event::Log { stream: event::Stream::Ostler, text, level: Some("info".to_owned()) };
        Draft::ostler(Body::Log(log))
    })
}

/// What is left after more was set aside, of each unit that is limited for this run alone.
fn grown(before: &Amounts, after: &Amounts, left: Remaining) -> Remaining {
    let nanousd = left.nanousd.zip(before.nanousd).zip(after.nanousd);
    let nanousd = nanousd.map(|((left, before), after)| {
        NanoUsd(left.0.saturating_add(after.0.saturating_sub(before.0)))
    });
    let unit = |left: Option<u64>, before: Option<u64>, after: Option<u64>| {
        let ((left, before), after) = left.zip(before).zip(after)?;
        Some(left.saturating_add(after.saturating_sub(before)))
    };
    let wide = |n: Option<u32>| n.map(u64::from);
    let turns = unit(wide(left.turns), wide(before.turns), wide(after.turns));
    Remaining {
        nanousd,
        tokens: unit(left.tokens, before.tokens, after.tokens),
        turns: turns.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        ms: unit(left.ms, before.ms, after.ms),
    }
}

#[cfg(test)]
mod tests;
