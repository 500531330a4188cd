//! Going on with what another one began: what becomes of an effect that a Batch asked for and no
//! later one reports done, when someone else goes on with the run; of a Batch whose answer was lost;
//! and of a conversation of the agent's own that has become long. Launch and say are never repeated
//! blindly: the keeper knows what it said, and the store knows what it has.

use crate::Effect;
use contract::limits::{ROTATION_MS, ROTATION_RUNS};
use contract::plan::Rotation;

/// What a successor does about one effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It was done, or its time is over.
    Nothing,
    /// The words that are not in the pipe yet are said under new numbers.
    SayTheRest,
    /// It is done once more: doing it twice is doing it once.
    Repeat,
    /// Whether it was done is not known, so it is not done again and its caller is told so.
    AnswerUnknown,
}

/// `said`: all of its frames are in the pipe or about to be. `may_repeat`: its tool only reads.
pub fn again(effect: &Effect, said: bool, may_repeat: bool) -> Again {
    match effect {
        Effect::Launch | Effect::Relaunch | Effect::Settle => Again::Nothing,
        Effect::Say(_) | Effect::Reply | Effect::CloseStdin if said => Again::Nothing,
        Effect::Say(_) | Effect::Reply => Again::SayTheRest,
        Effect::CloseStdin | Effect::Stop { .. } => Again::Repeat,
        Effect::Relay(_) if may_repeat => Again::Repeat,
        Effect::Relay(_) => Again::AnswerUnknown,
    }
}

/// A Batch by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub fence: u64,
    pub first_seq: u64,
    /// One less than `first_seq` when it has no event.
    pub last_seq: u64,
}

/// What a refusal for conflict says of a Batch that may have been sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is in the store: the answer to an earlier try was lost.
    IsThere,
    /// The run belongs to someone else.
    Fenced,
    /// The store stands where it begins and refuses it all the same: the fault is ours.
    Wrong,
}

/// Judges by what the store has now: the run's fence and head, if there is such a run. `before`
/// says that it was sent before and not answered.
pub fn after_conflict(sent: Sent, stored: Option<(u64, u64)>, before: bool) -> Refused {
    match stored {
        Some((_, head_seq)) if head_seq >= sent.last_seq && before => Refused::IsThere,
        Some((fence, head_seq)) if fence == sent.fence && head_seq + 1 == sent.first_seq => {
            Refused::Wrong
        }
        Some(_) | None => Refused::Fenced,
    }
}

/// Which limit a conversation has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WornOut {
    Runs(u64),
    Hours(u64),
}

const HOUR_MS: u64 = 3_600_000;

/// Whether a conversation that had so many runs and began so long ago is left for a fresh one. An
/// agent that compacts its conversations keeps them, unless it is configured otherwise.
pub fn worn_out(
    rotation: Option<Rotation>,
    compacts: bool,
    runs: u64,
    age_ms: u64,
) -> Option<WornOut> {
    let default = |limit: u64| (!compacts).then_some(limit);
    let given = |limit: Option<u32>| limit.filter(|limit| *limit > 0).map(u64::from);
    let (runs_max, age_ms_max) = match rotation {
        Some(Rotation::Off) => return None,
        Some(Rotation::After { runs, hours }) => (
            given(runs).or(default(ROTATION_RUNS)),
            given(hours).map(|hours| hours * HOUR_MS).or(default(ROTATION_MS)),
        ),
        None => (default(ROTATION_RUNS), default(ROTATION_MS)),
    };
    let by_runs = runs_max.filter(|limit| runs >= *limit).map(WornOut::Runs);
    let by_age = age_ms_max.filter(|limit| age_ms >= *limit);
    by_runs.or(by_age.map(|limit_ms| WornOut::Hours(limit_ms / HOUR_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_gone_on_with_until_its_limit() {
        let after = |runs, hours| Some(Rotation::After { runs, hours });
        let rows = [
            (None, false, 199, ROTATION_MS - 1, None),
            (None, false, 200, 0, Some(WornOut::Runs(200))),
            (None, false, 1, ROTATION_MS, Some(WornOut::Hours(72))),
            (None, true, 100_000, u64::MAX, None),
            (Some(Rotation::Off), false, 100_000, u64::MAX, None),
            (after(Some(3), None), false, 2, 0, None),
            (after(Some(3), None), false, 3, 0, Some(WornOut::Runs(3))),
            (after(Some(3), None), false, 1, ROTATION_MS, Some(WornOut::Hours(72))),
            (after(Some(3), None), true, 3, 0, Some(WornOut::Runs(3))),
            (after(Some(3), None), true, 1, u64::MAX, None),
            (after(None, Some(1)), false, 1, HOUR_MS, Some(WornOut::Hours(1))),
            (after(Some(0), Some(0)), false, 199, ROTATION_MS - 1, None),
            (after(Some(0), Some(0)), false, 200, 0, Some(WornOut::Runs(200))),
        ];
        for (rotation, compacts, runs, age_ms, expected) in rows {
            let found = worn_out(rotation, compacts, runs, age_ms);
            assert_eq!(found, expected, "{rotation:?} {compacts} {runs} {age_ms}");
        }
    }
    use contract::speech::{ToolCall, Utterance};
    use contract::{Code, event::Remaining};

    #[test]
    fn nothing_that_shows_is_done_twice() {
        let say = || Effect::Say(Utterance::BudgetUpdate { remaining: Remaining::default() });
        let stop = || Effect::Stop { reason: Code::Cancelled, farewell_ms: 0, term_ms: 0 };
        let args = serde_json::Value::Null;
        let relay = || {
            let (tool_call_id, tool) = ("c".to_owned(), "t".to_owned());
            Effect::Relay(ToolCall { tool_call_id, tool, args: args.clone() })
        };
        let rows = [
            (Effect::Launch, false, false, Again::Nothing),
            (Effect::Settle, false, false, Again::Nothing),
            (say(), true, false, Again::Nothing),
            (say(), false, false, Again::SayTheRest),
            (Effect::CloseStdin, true, false, Again::Nothing),
            (Effect::CloseStdin, false, false, Again::Repeat),
            (stop(), false, false, Again::Repeat),
            (relay(), false, true, Again::Repeat),
            (relay(), false, false, Again::AnswerUnknown),
        ];
        for (effect, said, may_repeat, expected) in rows {
            assert_eq!(again(&effect, said, may_repeat), expected, "{effect:?} said {said}");
        }
    }

    #[test]
    fn a_batch_is_there_only_when_it_was_sent_before() {
        let sent = Sent { fence: 2, first_seq: 5, last_seq: 7 };
        let silent = Sent { fence: 2, first_seq: 5, last_seq: 4 };
        let rows = [
            (sent, Some((2, 7)), true, Refused::IsThere),
            (sent, Some((3, 9)), true, Refused::IsThere),
            (sent, Some((2, 4)), true, Refused::Wrong),
            (sent, Some((3, 4)), true, Refused::Fenced),
            (sent, None, true, Refused::Fenced),
            (silent, Some((2, 4)), true, Refused::IsThere),
            (silent, Some((2, 4)), false, Refused::Wrong),
        ];
        for (sent, stored, before, expected) in rows {
            assert_eq!(after_conflict(sent, stored, before), expected, "{sent:?} {stored:?}");
        }
    }
}
