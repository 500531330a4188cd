//! The terms a run is held to: fixed when it is made and stored with its machine, so that a host
//! that adopts the run holds it to the same terms. Defaults come from `contract::limits`.

use contract::card::Policy;
use contract::limits;
use contract::plan::{Clocks, Limit};
use contract::{AskId, Billing, NanoUsd, Tokens};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How long a run may take, what it may spend and which tools it is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub fence: u64,
    pub attempt: u32,
    /// Counted from `Input::Begin`; `None` is unlimited, here and in the next two.
    pub wall_ms: Option<u64>,
    /// Counted from the last byte heard, while no call is open.
    pub silence_ms: Option<u64>,
    /// Counted from the launch.
    pub first_output_ms: Option<u64>,
    /// Counted from the launch too, for an agent that answers the first request of its protocol.
    #[serde(default)]
    pub greeting: Option<Greeting>,
    /// How long the agent may take to leave by itself after a shutdown frame.
    pub farewell_ms: u64,
    /// How long it may take after SIGTERM.
    pub term_ms: u64,
    /// How long the process may live on after the agent said that it is done.
    pub linger_ms: u64,
    /// How long it may wait for its model's provider.
    pub patience_ms: u64,
    pub lease_ms: u64,
    pub budget: RunBudget,
    /// How the account is paid for, as far as it was known before the start. The first word of the
    /// runtime counts where nothing was known.
    #[serde(default)]
    pub billing: Option<Billing>,
    /// The dollars of the run's own budget; `budget` may hold what was set aside of shared ones.
    #[serde(default)]
    pub own_nanousd: Option<NanoUsd>,
    /// The user accepts that a budget may not be counted.
    #[serde(default)]
    pub budget_best_effort: bool,
    /// The budgets of the run's own that end it when they cannot be counted. What was set aside of
    /// budgets that runs share is not among them: those are held between runs.
    #[serde(default)]
    pub must_count: MustCount,
    /// Nothing says beforehand whether this agent reports what it spends inside a turn.
    #[serde(default)]
    pub usage_is_uncertain: bool,
    /// The relayed tools listed for this run.
    pub tools: Vec<String>,
    /// Those of them that write: the policy is about these.
    pub writes: Vec<String>,
    /// Those about which a person is asked whatever the policy says.
    #[serde(default)]
    pub asks: Vec<String>,
    /// Those whose answer is the person's own: nothing is carried out.
    #[serde(default)]
    pub answered: Vec<String>,
    pub policy: Policy,
    /// How long a question waits for its answer.
    pub ask_ms: u64,
    /// The ids of questions count up from here: chance is the host's.
    pub ask_base: AskId,
    /// What the conversation that is taken up had spent before this run. An agent may count it in.
    #[serde(default)]
    pub session_spent: Vec<SessionSpent>,
}

/// The first request of a protocol, which a program that speaks it answers soon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    pub limit_ms: u64,
    /// The command that was started, for the error.
    pub command: String,
}

/// What a conversation had spent with one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpent {
    pub provider: String,
    pub model: String,
    pub tokens: Tokens,
    /// `None` when some of it has no price.
    pub nanousd: Option<NanoUsd>,
}

/// What one run may spend; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunBudget {
    pub nanousd: Option<NanoUsd>,
    pub tokens: Option<u64>,
    pub turns: Option<u32>,
    /// Counted from `Input::Begin`, like the wall.
    #[serde(default)]
    pub ms: Option<u64>,
}

/// Budgets that end a run when they cannot be counted; otherwise that is a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MustCount {
    pub dollars: bool,
    pub tokens: bool,
}

impl Terms {
    /// Resolves the clocks of a configuration: what is absent or zero becomes the default, and only
    /// the word "unlimited" lifts a limit. The budget is unlimited and no tool is offered.
    pub fn from(clocks: &Clocks, fence: u64, attempt: u32) -> Self {
        Self {
            fence,
            attempt,
            wall_ms: limit(clocks.wall, limits::WALL_MS),
            silence_ms: limit(clocks.silence, limits::SILENCE_MS),
            first_output_ms: limit(clocks.first_output, limits::FIRST_OUTPUT_MS),
            greeting: None,
            farewell_ms: limits::FAREWELL_MS,
            term_ms: grace(clocks.term_ms, limits::TERM_MS),
            linger_ms: grace(clocks.linger_ms, limits::LINGER_MS),
            patience_ms: grace(clocks.patience_ms, limits::PATIENCE_MS),
            lease_ms: limits::LEASE_MS,
            budget: RunBudget::default(),
            billing: None,
            own_nanousd: None,
            budget_best_effort: false,
            must_count: MustCount::default(),
            usage_is_uncertain: false,
            tools: Vec::new(),
            writes: Vec::new(),
            asks: Vec::new(),
            answered: Vec::new(),
            policy: Policy::Ask,
            ask_ms: grace(clocks.ask_ms, limits::ASK_MS),
            ask_base: AskId::new(Uuid::nil()),
            session_spent: Vec::new(),
        }
    }

    /// The id of the question number `n`.
    pub(super) fn ask_id(&self, n: u64) -> AskId {
        AskId::new(Uuid::from_u128(self.ask_base.uuid().as_u128().wrapping_add(n.into())))
    }
}

fn limit(given: Option<Limit>, default_ms: u64) -> Option<u64> {
    match given {
        None | Some(Limit::Ms(0)) => Some(default_ms),
        Some(Limit::Ms(ms)) => Some(ms),
        Some(Limit::Unlimited) => None,
    }
}

fn grace(given_ms: Option<u64>, default_ms: u64) -> u64 {
    given_ms.filter(|ms| *ms > 0).unwrap_or(default_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_unlimited_lifts_a_limit() {
        let clocks = Clocks {
            wall: Some(Limit::Ms(0)),
            silence: Some(Limit::Unlimited),
            first_output: Some(Limit::Ms(7)),
            term_ms: Some(0),
            linger_ms: Some(9),
            ..Clocks::default()
        };
        let terms = Terms::from(&clocks, 3, 1);
        assert_eq!(terms.wall_ms, Some(limits::WALL_MS));
        assert_eq!(terms.silence_ms, None);
        assert_eq!(terms.first_output_ms, Some(7));
        assert_eq!((terms.term_ms, terms.linger_ms), (limits::TERM_MS, 9));
        assert_eq!((terms.fence, terms.attempt), (3, 1));
    }
}
