//! Budgets that cannot be counted. A run whose budget does not hold ends as soon as that is known,
//! unless the user asked for best effort or the
//! budget is one that runs share: at the first model answer without a price under a budget of
//! dollars, and at the second round of tool calls without any reported usage under a budget of
//! dollars or tokens. Runtimes that are known not to report in time are refused before the start
//! (`rules::countable`); this file is for agents of which nothing is known beforehand.

use super::end::Graces;
use super::ledger::Booked;
use super::{Machine, Now, Step};
use contract::Code;
use contract::event::{self, Body, Stream, Usage};
use contract::speech::Draft;
use serde::{Deserialize, Serialize};

/// What was seen and said of a budget that cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Uncounted {
    /// A missing price was said once.
    is_price_told: bool,
    /// Missing usage was said once.
    is_usage_told: bool,
    /// A tool call ended, so the model has answered at least once.
    has_answered: bool,
}

impl Uncounted {
    pub fn close_call(&mut self) {
        self.has_answered = true;
    }
}

impl Machine {
    /// Books a usage and holds it against the budget.
    pub(super) fn spend(&mut self, now: Now, usage: &Usage, out: &mut Vec<Step>) {
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
        let (what, prices) = match model {
            Some(model) => (
                format!("the model {model} has no price"),
                format!("\"prices\": {{\"{model}\": {{\"input\": …, \"output\": …}}}} or "),
            ),
            None => {
                ("the agent names no model, so its answer has no price".to_owned(), String::new())
            }
        };
        let why = format!("{what}, and the budget of dollars cannot be counted");
        let way = format!(
            "in ostler.json, set {prices}the adapter's \"costModel\" to a model that `ostler prices \
             list` shows"
        );
        self.end_uncounted(now, self.terms.must_count.dollars, why, &way, out);
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

    /// Ends a run whose agent begins a second round of tool calls without having reported usage:
    /// from then on its budget would be void.
    pub(super) fn demand_usage(&mut self, now: Now, out: &mut Vec<Step>) {
        if !self.uncounted.has_answered {
            return;
        }
        self.say_untold(out, |machine, budget, out| {
            let why = format!(
                "the agent reports no usage while it works, so the budget of {budget} cannot be \
                 counted"
            );
            let must = machine.terms.must_count;
            let must = must.dollars || must.tokens;
            machine.end_uncounted(now, must, why, "use --budget-minutes", out);
        });
    }

    /// Says at the end of a turn that nothing was counted in it; the work is done by then.
    pub(super) fn warn_untold(&mut self, out: &mut Vec<Step>) {
        self.say_untold(out, |_, budget, out| {
            let text =
                format!("the agent reported no usage, so the budget of {budget} was not checked");
            out.push(log("warning", text));
        });
    }

    fn say_untold(
        &mut self,
        out: &mut Vec<Step>,
        say: impl FnOnce(&mut Self, &'static str, &mut Vec<Step>),
    ) {
        let Some(budget) = self.uncertain_budget().filter(|_| !self.ledger.was_told()) else {
            return;
        };
        if !std::mem::replace(&mut self.uncounted.is_usage_told, true) {
            say(self, budget, out);
        }
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

    /// Ends the run because of what cannot be counted, with the way out; where it need not be
    /// counted, that is a warning.
    fn end_uncounted(
        &mut self,
        now: Now,
        must_count: bool,
        why: String,
        way: &str,
        out: &mut Vec<Step>,
    ) {
        if !must_count || self.is_over() || self.stopped.is_some() {
            out.push(log("warning", why));
            return;
        }
        self.stop(now, Code::PolicyNotPossible, None, Graces::Full, out);
        if let Some(stopped) = &mut self.stopped {
            stopped.uncounted = Some(format!("{why}; {way}, or pass --budget-best-effort"));
        }
    }
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
