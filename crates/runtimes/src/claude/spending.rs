//! What the model's answers cost, counted as soon as each is told. An answer tells its tokens when it
//! begins and once more when it ends; the agent's own figures come only with a `result`. Until then
//! each answer is reported as an approximate increment, so that a budget holds inside a turn. The
//! figures of a `result` are reported as totals of the run, which replace those increments.

use super::state::ID_BYTES_MAX;
use super::wire::AnswerSpent;
use contract::event::Usage;
use contract::money::Basis;
use contract::{NanoUsd, Tokens};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Answers whose figures may still grow.
const ANSWERS_MAX: usize = 32;
/// Models told apart; what further ones spend is counted with the last of them.
const MODELS_MAX: usize = 16;
const PROVIDER: &str = "anthropic";
/// The length of a token of output, where only the text of an answer is known.
const BYTES_PER_TOKEN: u64 = 4;

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Spending {
    /// The latest answers.
    answers: VecDeque<Answer>,
    /// Models with approximate figures since the last `result` that had figures.
    #[serde(default)]
    approximated: Vec<String>,
    /// What the agent itself told of the run so far, by provider and model.
    #[serde(default)]
    totals: BTreeMap<String, Usage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    id: String,
    model: String,
    tokens: Tokens,
    /// How much of it was reported.
    #[serde(default)]
    reported: Tokens,
    /// The length of the blocks that were shown of a sub-agent's answer.
    #[serde(default)]
    written_bytes: u64,
}

impl Spending {
    /// Notes the figures of an answer: the first ones, or larger ones than before. True when the
    /// answer is new.
    pub(super) fn note(&mut self, id: &str, model: Option<&str>, told: &AnswerSpent) -> bool {
        let tokens = told.tokens();
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.id == id) {
            answer.tokens = larger(&answer.tokens, &tokens);
            return false;
        }
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return false;
        }
        let model = model.filter(|model| model.len() <= ID_BYTES_MAX).unwrap_or_default();
        let (id, model, reported) = (id.to_owned(), model.to_owned(), Tokens::default());
        self.answers.push_back(Answer { id, model, tokens, reported, written_bytes: 0 });
        true
    }

    /// Notes a block of a sub-agent's answer. The lines of a sub-agent tell the output that an answer
    /// began with, and never its end, so its output is estimated from its length.
    pub(super) fn note_written(&mut self, id: &str, bytes: usize) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.id == id) {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            answer.written_bytes = answer.written_bytes.saturating_add(bytes);
            let estimated = answer.written_bytes / BYTES_PER_TOKEN;
            answer.tokens.output = answer.tokens.output.max(estimated);
        }
    }

    /// What was noted and not reported, except of the answer that is still being written. Its
    /// output is a lower bound, so it is approximate.
    pub(super) fn report(&mut self, unfinished: Option<&str>) -> Vec<Usage> {
        let mut usages = Vec::new();
        for answer in &mut self.answers {
            let added = answer.tokens.minus(&answer.reported);
            if Some(answer.id.as_str()) == unfinished || added.total() == 0 {
                continue;
            }
            answer.reported = answer.tokens;
            if !self.approximated.contains(&answer.model) {
                if self.approximated.len() == MODELS_MAX {
                    answer.model = self.approximated.last().cloned().unwrap_or_default();
                } else {
                    self.approximated.push(answer.model.clone());
                }
            }
            usages.push(Usage {
                model: Some(answer.model.clone()).filter(|model| !model.is_empty()),
                provider: Some(PROVIDER.to_owned()),
                tokens: Some(added),
                approximate: Some(true),
                ..Usage::default()
            });
        }
        let excess = self.answers.len().saturating_sub(ANSWERS_MAX);
        self.answers.drain(..excess);
        usages
    }

    /// The agent told its own figures: they become totals of the run. A model of which only
    /// approximate figures are known is not in them, so its total is nothing.
    pub(super) fn settle(&mut self, told: Vec<Usage>) -> Vec<Usage> {
        let mut usages = Vec::new();
        for usage in told {
            let key = key(usage.provider.as_deref(), usage.model.as_deref());
            let last = self.totals.keys().next_back().cloned();
            let is_known = self.totals.contains_key(&key);
            let key = last.filter(|_| !is_known && self.totals.len() >= MODELS_MAX).unwrap_or(key);
            let so_far = self.totals.remove(&key);
            let total = match (usage.basis, so_far) {
                (Basis::Increment, Some(so_far)) => plus(so_far, &usage),
                (Basis::Increment, None) | (Basis::RunTotal | Basis::SessionTotal, _) => usage,
            };
            let total = Usage { basis: Basis::RunTotal, ..total };
            usages.push(total.clone());
            self.totals.insert(key, total);
        }
        let totals = &self.totals;
        self.approximated.retain(|model| {
            let model = Some(model.as_str()).filter(|model| !model.is_empty());
            !usages.iter().any(|usage| {
                usage.provider.as_deref() == Some(PROVIDER) && usage.model.as_deref() == model
            })
        });
        for model in std::mem::take(&mut self.approximated) {
            let model = Some(model).filter(|model| !model.is_empty());
            // A model that the agent told of in an earlier turn keeps that total.
            let known = totals.get(&key(Some(PROVIDER), model.as_deref())).cloned();
            usages.push(known.unwrap_or_else(|| Usage {
                model,
                provider: Some(PROVIDER.to_owned()),
                tokens: Some(Tokens::default()),
                basis: Basis::RunTotal,
                ..Usage::default()
            }));
        }
        self.answers.iter_mut().for_each(|answer| answer.reported = answer.tokens);
        usages
    }
}

fn key(provider: Option<&str>, model: Option<&str>) -> String {
    format!("{}/{}", provider.unwrap_or_default(), model.unwrap_or_default())
}

/// A total with what was added since. Dollars are known only where both parts have them.
fn plus(total: Usage, added: &Usage) -> Usage {
    let sum = |a: Option<NanoUsd>, b: Option<NanoUsd>| Some(a?.saturating_add(b?));
    let tokens = total.tokens.unwrap_or_default().plus(&added.tokens.unwrap_or_default());
    let effective = sum(total.effective_nanousd, added.effective_nanousd);
    Usage {
        tokens: Some(tokens),
        reported_nanousd: sum(total.reported_nanousd, added.reported_nanousd),
        effective_nanousd: effective,
        cost_source: if effective.is_some() { added.cost_source } else { Default::default() },
        approximate: total.approximate.or(added.approximate),
        ..total
    }
}

fn larger(before: &Tokens, now: &Tokens) -> Tokens {
    before.plus(&now.minus(before))
}
