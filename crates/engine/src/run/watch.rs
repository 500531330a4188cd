//! The clocks of one run: wall, budget, first output, silence and linger, all by monotonic time.
//! Knows when something is due and what it is; what then happens is decided in `mod.rs`.
//! The graces of a stop are not here: only the keeper runs that ladder.

use super::ledger::soft_ms;
use super::{Now, Terms};
use contract::event::BudgetLevel;
use serde::{Deserialize, Serialize};

/// What the clocks count from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Watch {
    begun_ms: u64,
    /// Set by the launch; the wait for the first byte begins here.
    launched_ms: Option<u64>,
    /// Whether any byte or call came since the launch.
    heard: bool,
    /// Whether the first request of the agent's protocol was answered since the launch.
    #[serde(default)]
    greeted: bool,
    /// The last byte or call, or the end of the last open call: silence counts from here.
    quiet_since_ms: u64,
    /// The agent's protocol tells what shows that it goes on: other output does not.
    #[serde(default)]
    tells_progress: bool,
    /// Set when the agent said that it is done, moved to when its input was closed, cleared when a new
    /// turn follows a mere result.
    done_ms: Option<u64>,
}

/// A clock that will run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub at_ms: u64,
    pub limit_ms: u64,
    pub clock: Clock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Linger,
    /// A level of the budget of time is reached.
    Budget,
    Wall,
    FirstOutput,
    /// How long the agent may take to answer the first request of its protocol.
    Greeting,
    Silence,
    /// How long the agent may wait for its provider.
    Patience,
    /// How long a turn may take to end when its budget is used up.
    TurnEnd,
}

impl Clock {
    /// What it is called in evidence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linger => "linger",
            Self::Budget => "budget",
            Self::Wall => "wall",
            Self::FirstOutput => "first output",
            Self::Greeting => "initialize",
            Self::Silence => "silence",
            Self::Patience => "patience",
            Self::TurnEnd => "turn end",
        }
    }
}

impl Watch {
    pub fn new(now: Now) -> Self {
        Self {
            begun_ms: now.mono_ms,
            launched_ms: None,
            heard: false,
            greeted: false,
            quiet_since_ms: now.mono_ms,
            tells_progress: false,
            done_ms: None,
        }
    }

    pub fn begin(&mut self, now: Now) {
        self.begun_ms = now.mono_ms;
    }

    pub fn launch(&mut self, now: Now) {
        // A quick agent is heard before the word of its launch comes; only what an earlier launch
        // said is forgotten.
        self.heard = self.heard && self.launched_ms.is_none();
        self.greeted = self.greeted && self.launched_ms.is_none();
        self.launched_ms = Some(now.mono_ms);
        self.quiet_since_ms = now.mono_ms;
    }

    /// The agent printed something. Where its protocol tells what shows that it goes on, that counts
    /// and not the output: an agent may log its retries without end.
    pub fn hear(&mut self, now: Now) {
        self.heard = true;
        if !self.tells_progress {
            self.quiet_since_ms = now.mono_ms;
        }
    }

    /// The agent said something that shows that it goes on.
    pub fn progress(&mut self, now: Now) {
        self.tells_progress = true;
        self.stir(now);
    }

    /// The agent called a tool beside its own output.
    pub fn called(&mut self, now: Now) {
        self.heard = true;
        self.stir(now);
    }

    /// The first request of the agent's protocol was answered.
    pub fn greet(&mut self) {
        self.greeted = true;
    }

    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    pub fn is_launched(&self) -> bool {
        self.launched_ms.is_some()
    }

    pub fn is_heard(&self) -> bool {
        self.heard
    }

    /// Something that silence did not count against is over: silence counts from now.
    pub fn stir(&mut self, now: Now) {
        self.quiet_since_ms = now.mono_ms;
    }

    /// The agent is done; the first such moment counts.
    pub fn done(&mut self, now: Now) {
        self.done_ms.get_or_insert(now.mono_ms);
    }

    /// The agent that is done knows it now: what it said was stored first, and that may have taken
    /// its time.
    pub fn let_go(&mut self, now: Now) {
        self.done_ms = self.done_ms.map(|_| now.mono_ms);
    }

    /// The agent goes on after all.
    pub fn go_on(&mut self, now: Now) {
        self.done_ms = None;
        self.quiet_since_ms = now.mono_ms;
    }

    pub fn duration_ms(&self, now: Now) -> u64 {
        now.mono_ms.saturating_sub(self.begun_ms)
    }

    /// The clock that runs out first. Once the agent is done only its lingering is watched; `busy`
    /// says that a call or a question is open, and then nobody owes us a sound; `held_ms` is since
    /// when its provider holds it back, and then the patience counts and no silence; `told` is the
    /// level of the budget that was announced already.
    pub fn due(
        &self,
        terms: &Terms,
        busy: bool,
        held_ms: Option<u64>,
        told: BudgetLevel,
    ) -> Option<Due> {
        let due = |clock, from_ms: u64, limit_ms| Due {
            at_ms: from_ms.saturating_add(limit_ms),
            limit_ms,
            clock,
        };
        if let Some(done_ms) = self.done_ms {
            return Some(due(Clock::Linger, done_ms, terms.linger_ms));
        }
        let wall = terms.wall_ms.map(|limit| due(Clock::Wall, self.begun_ms, limit));
        let budget = terms.budget.ms.and_then(|limit| match told {
            BudgetLevel::Ok => Some(due(Clock::Budget, self.begun_ms, soft_ms(limit))),
            BudgetLevel::Soft => Some(due(Clock::Budget, self.begun_ms, limit)),
            BudgetLevel::Hard => None,
        });
        let first_output = match (self.launched_ms, self.heard) {
            (Some(launched_ms), false) => {
                terms.first_output_ms.map(|limit| due(Clock::FirstOutput, launched_ms, limit))
            }
            (None, _) | (_, true) => None,
        };
        let greeting = self.launched_ms.filter(|_| !self.greeted).and_then(|launched_ms| {
            let limit = terms.greeting.as_ref()?.limit_ms;
            Some(due(Clock::Greeting, launched_ms, limit))
        });
        let silence = (self.heard && !busy && held_ms.is_none())
            .then_some(terms.silence_ms)
            .flatten()
            .map(|limit| due(Clock::Silence, self.quiet_since_ms, limit));
        let patience = held_ms.map(|since| due(Clock::Patience, since, terms.patience_ms));
        [budget, wall, greeting, first_output, silence, patience]
            .into_iter()
            .flatten()
            .min_by_key(|due| due.at_ms)
    }
}
