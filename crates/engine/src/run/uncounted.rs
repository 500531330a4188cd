//! Budgets that cannot be counted. A run whose budget does not hold ends as soon as that is known,
//! unless the user asked for best effort or the
//! budget is one that runs share: at the first model answer without a price under a budget of
//! dollars, and under a budget of dollars or tokens when too many rounds of tool calls begin without
//! a report of usage. Runtimes that are known not to report in time are refused before the start
//! (`rules::countable`); this file is for agents of which nothing is known beforehand.

use super::end::Graces;
use super::ledger::Booked;
use super::{Machine, Now, Step};
use contract::Code;
use contract::amount::counted;
use contract::event::{self, Body, Stream, Usage};
use contract::speech::Draft;
use serde::{Deserialize, Serialize};

/// Rounds of calls that may begin before the first report of usage.
const ROUNDS_UNTOLD_MAX: u32 = 1;
/// Rounds of calls that may begin after a report. There are more of them, because some agents run the
/// calls of one answer one after the other, and each of those looks like a round.
const ROUNDS_SINCE_REPORT_MAX: u32 = 10;

/// Why a budget cannot be counted, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Uncountable {
    pub why: String,
    pub way: String,
}

/// What was seen and said of a budget that cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Uncounted {
    /// A missing price was said once.
    is_price_told: bool,
    /// Missing usage was said once.
    is_usage_told: bool,
    /// Rounds of calls that began since the last report of usage, or since the start.
    #[serde(default)]
    rounds: u32,
    /// A call ended since the last round began, so the next call begins another.
    #[serde(default)]
    is_round_over: bool,
}

impl Uncounted {
    pub fn close_call(&mut self) {
        self.is_round_over = true;
    }

    fn open_call(&mut self) {
        if self.rounds == 0 || self.is_round_over {
            (self.rounds, self.is_round_over) = (self.rounds.saturating_add(1), false);
        }
    }
}

impl Machine {
    /// Books a usage and holds it against the budget.
    pub(super) fn spend(&mut self, now: Now, usage: &Usage, out: &mut Vec<Step>) {
        if usage.tokens.is_some() || usage.effective_nanousd.is_some() {
            self.uncounted.rounds = 0;
        }
        if let Some(booked) = self.ledger.book(usage) {
            let (unpriced, is_payment) = (booked.unpriced, booked.is_payment);
            let model = name(&booked);
            out.push(Step::Book(booked));
            if is_payment {
                self.hurry_spender(out);
                self.stop_straggler(now, out);
            }
            if unpriced {
                self.demand_price(now, model.as_deref(), out);
            }
        }
        self.weigh(now, out);
    }

    /// Ends a run under a budget of dollars at its first answer without a price.
    fn demand_price(&mut self, now: Now, model: Option<&str>, out: &mut Vec<Step>) {
        if self.terms.budget.nanousd.is_none()
            || std::mem::replace(&mut self.uncounted.is_price_told, true)
        {
            return;
        }
        let (why, prices) = match model {
            Some(model) => (
                format!("the model {model} has no price"),
                format!("\"prices\": {{\"{model}\": {{\"input\": …, \"output\": …}}}} or "),
            ),
            None => {
                ("the agent names no model, so its answer has no price".to_owned(), String::new())
            }
        };
        let way = format!(
            "in ostler.json, set {prices}the adapter's \"costModel\" to a model that `ostler prices \
             list` shows, or add --budget-best-effort"
        );
        let must = self.terms.must_count.dollars;
        self.end_uncounted(now, ("dollars", must), Uncountable { why, way }, out);
    }

    /// Says before the first turn that the budget depends on what the agent will report.
    pub(super) fn announce_uncertain(&self, out: &mut Vec<Step>) {
        if self.terms.budget_best_effort {
            out.push(log("info", "the budget is best effort: it may not be counted".to_owned()));
        }
        if let Some(budget) = self.uncertain_budget() {
            let text = format!(
                "it is not known whether this agent reports usage while it works; the budget of \
                 {budget} can be held only if it does"
            );
            out.push(log("warning", text));
        }
    }

    /// Ends a run whose agent begins a call after too many rounds without a report of usage: from then
    /// on its budget would be void.
    pub(super) fn demand_usage(&mut self, now: Now, out: &mut Vec<Step>) {
        self.uncounted.open_call();
        let (max, rounds) = match self.ledger.was_told() {
            true => (ROUNDS_SINCE_REPORT_MAX, last_rounds(ROUNDS_SINCE_REPORT_MAX)),
            false => (ROUNDS_UNTOLD_MAX, "first round of tool calls".to_owned()),
        };
        if self.uncounted.rounds > max
            && let Some(budget) = self.next_untold()
        {
            let why = format!("the agent reported no usage in its {rounds}");
            let way = Code::BudgetNotCountable.row().hint.to_owned();
            let must = self.terms.must_count;
            let must = must.dollars || must.tokens;
            self.end_uncounted(now, (budget, must), Uncountable { why, way }, out);
        }
    }

    /// Says at the end of a turn what was not counted in it; the work is done by then.
    pub(super) fn warn_untold(&mut self, out: &mut Vec<Step>) {
        let rounds = self.uncounted.rounds;
        let when = match self.ledger.was_told() {
            true if rounds <= ROUNDS_UNTOLD_MAX => return,
            true => format!(" in its {}", last_rounds(rounds)),
            false => String::new(),
        };
        if let Some(budget) = self.next_untold() {
            let text = format!(
                "the agent reported no usage{when}: the budget of {budget} was not checked"
            );
            out.push(log("warning", text));
        }
    }

    /// The budget whose missing usage is to be told now; it is told once.
    fn next_untold(&mut self) -> Option<&'static str> {
        let budget = self.uncertain_budget()?;
        (!std::mem::replace(&mut self.uncounted.is_usage_told, true)).then_some(budget)
    }

    /// The budget that needs reports of an agent that may give none.
    fn uncertain_budget(&self) -> Option<&'static str> {
        let budget = &self.terms.budget;
        match (self.terms.usage_is_uncertain, budget.nanousd, budget.tokens) {
            (false, _, _) | (true, None, None) => None,
            (true, Some(_), _) => Some("dollars"),
            (true, None, Some(_)) => Some("tokens"),
        }
    }

    /// Ends the run because of what cannot be counted; where it need not be counted, that is a warning.
    fn end_uncounted(
        &mut self,
        now: Now,
        (budget, must_count): (&'static str, bool),
        uncountable: Uncountable,
        out: &mut Vec<Step>,
    ) {
        if !must_count || self.is_over() || self.stopped.is_some() {
            let text = format!("{}: the budget of {budget} is not counted", uncountable.why);
            out.push(log("warning", text));
            return;
        }
        self.stop(now, Code::BudgetNotCountable, None, Graces::Full, out);
        if let Some(stopped) = &mut self.stopped {
            stopped.uncounted = Some(uncountable);
        }
    }
}

fn last_rounds(rounds: u32) -> String {
    format!("last {} of tool calls", counted(rounds.into(), "round"))
}

/// The model as a table of prices calls it, if the agent names it.
fn name(booked: &Booked) -> Option<String> {
    match (booked.provider.as_str(), booked.model.as_str()) {
        (_, "") => None,
        ("", model) => Some(model.to_owned()),
        (provider, model) => Some(format!("{provider}/{model}")),
    }
}

fn log(level: &str, text: String) -> Step {
    let log = event::Log { stream: Stream::Ostler, text, level: Some(level.to_owned()) };
    Step::Append(Draft::ostler(Body::Log(log)))
}
