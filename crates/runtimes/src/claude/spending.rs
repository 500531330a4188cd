//! What the model's answers are known to have cost before the agent says so itself. Each answer tells
//! its tokens when it begins and once more when it ends; the agent's own figures come only with a
//! `result`, and a run that is ended in the middle has none. Until then this is remembered, and told
//! only when no figures of the agent's come: so nothing is counted twice.

use super::state::ID_BYTES_MAX;
use super::wire::AnswerSpent;
use contract::Tokens;
use contract::event::Usage;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Answers whose figures may still grow.
const ANSWERS_MAX: usize = 32;
/// Models told apart; what further ones spend is counted with the last of them.
const MODELS_MAX: usize = 16;

/// The figures since the last `result`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Spending {
    answers: VecDeque<Answer>,
    /// Of answers that are done, by model.
    models: BTreeMap<String, Tokens>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    id: String,
    model: String,
    tokens: Tokens,
}

impl Spending {
    /// An answer told its figures: the first time, or larger ones than before.
    pub(super) fn note(&mut self, id: &str, model: Option<&str>, told: &AnswerSpent) {
        let tokens = told.tokens();
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.id == id) {
            answer.tokens = larger(&answer.tokens, &tokens);
            return;
        }
        let model = model.filter(|model| model.len() <= ID_BYTES_MAX).unwrap_or_default();
        if id.is_empty() || id.len() > ID_BYTES_MAX || tokens.total() == 0 {
            return;
        }
        if self.answers.len() == ANSWERS_MAX
            && let Some(done) = self.answers.pop_front()
        {
            add(&mut self.models, done);
        }
        let (id, model) = (id.to_owned(), model.to_owned());
        self.answers.push_back(Answer { id, model, tokens });
    }

    /// The agent told its own figures, which count.
    pub(super) fn settle(&mut self) {
        *self = Self::default();
    }

    /// What nobody else will tell, model by model. The output of an answer that was cut is a lower
    /// bound, so all of it is approximate.
    pub(super) fn take(&mut self) -> Vec<Usage> {
        let Self { answers, mut models } = std::mem::take(self);
        answers.into_iter().for_each(|answer| add(&mut models, answer));
        let usage = |(model, tokens): (String, Tokens)| Usage {
            model: Some(model).filter(|model| !model.is_empty()),
            provider: Some("anthropic".to_owned()),
            tokens: Some(tokens),
            approximate: Some(true),
            ..Usage::default()
        };
        models.into_iter().map(usage).collect()
    }
}

fn add(models: &mut BTreeMap<String, Tokens>, answer: Answer) {
    let room = models.len() < MODELS_MAX || models.contains_key(&answer.model);
    let last = models.keys().next_back().filter(|_| !room).cloned();
    let sum = models.entry(last.unwrap_or(answer.model)).or_default();
    *sum = sum.plus(&answer.tokens);
}

fn larger(before: &Tokens, now: &Tokens) -> Tokens {
    before.plus(&now.minus(before))
}
