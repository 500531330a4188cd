//! What becomes of a task of the queue when a run of it has ended, or could not be started: done, a
//! person's turn, another try now or later, or the end. The delays are in `retry.rs`; that a task
//! comes to rest after so many tries is decided there too. A run that died without a word has ended
//! like any other, with the code of that, so it counts.

use super::fallback::helps;
use super::retry::{TRIES_MAX, next_retry, until_reset};
use contract::event::Outcome;
use contract::fault::Retry;
use contract::state::{Review, TaskState, WaitingFor};
use contract::{Code, Timestamp};

/// What is known when a run of a task has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    pub outcome: Outcome,
    pub code: Option<Code>,
    /// Whether its agent is known to have begun.
    pub launched: bool,
    /// When what was used up is there again, if someone said so.
    pub resets_at: Option<Timestamp>,
    pub review: Review,
    /// How often the task was tried again before, in this generation.
    pub tries: u32,
    /// How often it may be, when the person says so.
    pub tries_max: Option<u32>,
    /// Whether its agent's chain has another way that is not spent.
    pub others: bool,
    pub now: Timestamp,
    /// From 0 to 1.
    pub jitter01: f64,
}

/// Where the task goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub state: TaskState,
    pub waiting_for: Option<WaitingFor>,
    pub until: Option<Timestamp>,
    /// Whether this is one more try.
    pub again: bool,
    /// Whether the next run goes on with the conversation of the one that ended.
    pub resumes: bool,
    /// Whether another of the agent's chain is to go on with it.
    pub falls_back: bool,
}

impl Next {
    const fn rest(state: TaskState) -> Self {
        Self {
            state,
            waiting_for: None,
            until: None,
            again: false,
            resumes: false,
            falls_back: false,
        }
    }
}

pub fn after(ended: &Ended) -> Next {
    let state = TaskState::after(ended.outcome, ended.review);
    match (state, ended.code) {
        (TaskState::Failed, Some(code)) => again(ended, code),
        (state, _) => Next::rest(state),
    }
}

/// Another try, if the code allows one.
fn again(ended: &Ended, code: Code) -> Next {
    // One that was lost before it started did nothing, so it is no mark against its task.
    let code = match code {
        Code::ProcessLost if !ended.launched => Code::LeaseExpired,
        code => code,
    };
    let spent = ended.tries_max.is_some_and(|max| ended.tries >= max);
    if ended.others && helps(code) && !spent && ended.tries < TRIES_MAX {
        // Who is free, and whether anyone is, is found where the next run is started.
        let again = Next::rest(TaskState::Queued);
        return Next { again: true, falls_back: true, ..again };
    }
    let Some(wait_ms) = next_retry(code, ended.tries, ended.jitter01).filter(|_| !spent) else {
        return Next::rest(TaskState::Failed);
    };
    let retry = code.row().retry;
    let wait_ms = match (retry, ended.resets_at) {
        (Retry::AtReset | Retry::Backoff, Some(at)) => until_reset(at, ended.now, ended.jitter01)
            .max(if retry == Retry::AtReset { 0 } else { wait_ms }),
        (_, _) => wait_ms,
    };
    let waiting_for = match retry {
        Retry::AtReset => WaitingFor::Quota,
        Retry::No
        | Retry::Once
        | Retry::Backoff
        | Retry::Resume
        | Retry::Requeue
        | Retry::AfterFix
        | Retry::Person => WaitingFor::NotBefore,
    };
    let until = ended.now.plus_ms(i64::try_from(wait_ms).unwrap_or(i64::MAX));
    let later = wait_ms > 0;
    Next {
        state: if later { TaskState::Waiting } else { TaskState::Queued },
        waiting_for: later.then_some(waiting_for),
        until: later.then_some(until),
        again: true,
        resumes: retry == Retry::Resume,
        falls_back: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const FAILED: Ended = Ended {
        outcome: Outcome::Failed,
        code: None,
        launched: true,
        resets_at: None,
        review: Review::None,
        tries: 0,
        tries_max: None,
        others: false,
        now: NOW,
        jitter01: 0.5,
    };

    fn ended(code: Code, tries: u32) -> Ended {
        Ended { code: Some(code), tries, ..FAILED }
    }

    /// A state, for what and how long it waits, and whether the conversation goes on.
    fn said(next: Next) -> String {
        let Next { state, waiting_for, until, again, resumes, falls_back } = next;
        let mut text = state.word().to_owned();
        if let (Some(why), Some(until)) = (waiting_for, until) {
            text = format!("{text} {why:?} {} s", until.since(NOW) / 1000);
        }
        text += if resumes { " goes on" } else { "" };
        text += if falls_back { " elsewhere" } else { "" };
        text + if again { " again" } else { "" }
    }

    #[test]
    fn every_way_to_end_has_what_follows() {
        let resets = Some(NOW.plus_ms(90_000));
        let rows: Vec<(Ended, &str)> = vec![
            (Ended { outcome: Outcome::Succeeded, ..FAILED }, "done"),
            (Ended { outcome: Outcome::Succeeded, review: Review::Person, ..FAILED }, "review"),
            (Ended { outcome: Outcome::Cancelled, ..ended(Code::Cancelled, 0) }, "cancelled"),
            (ended(Code::AgentFailed, 0), "failed"),
            (ended(Code::AuthFailed, 0), "failed"),
            (ended(Code::BudgetExceeded, 0), "failed"),
            (ended(Code::NotInstalled, 0), "failed"),
            (ended(Code::ProcessKilled, 0), "failed"),
            (ended(Code::OutputLimit, 0), "failed"),
            (ended(Code::PermissionDenied, 0), "failed"),
            (Ended { outcome: Outcome::TimedOut, ..ended(Code::TimeoutWall, 0) }, "queued again"),
            (Ended { outcome: Outcome::TimedOut, ..ended(Code::TimeoutSilence, 1) }, "failed"),
            (ended(Code::ProcessCrashed, 0), "queued again"),
            (ended(Code::ProcessCrashed, 1), "failed"),
            (Ended { outcome: Outcome::Lost, ..ended(Code::ProcessLost, 0) }, "queued again"),
            (Ended { outcome: Outcome::Lost, ..ended(Code::ProcessLost, 1) }, "failed"),
            (Ended { launched: false, ..ended(Code::ProcessLost, 3) }, "queued again"),
            (Ended { launched: false, ..ended(Code::ProcessLost, 4) }, "failed"),
            (ended(Code::EndedWithoutResult, 0), "queued again"),
            (ended(Code::MaxTurns, 0), "queued goes on again"),
            (ended(Code::MaxTurns, 1), "queued goes on again"),
            (ended(Code::MaxTurns, 2), "failed"),
            (ended(Code::LeaseExpired, 0), "queued again"),
            (ended(Code::LeaseExpired, 3), "queued again"),
            (ended(Code::LeaseExpired, 4), "failed"),
            (ended(Code::RateLimited, 0), "waiting NotBefore 120 s again"),
            (ended(Code::Overloaded, 1), "waiting NotBefore 600 s again"),
            (ended(Code::UpstreamError, 2), "waiting NotBefore 1800 s again"),
            (ended(Code::RemoteLost, 3), "waiting NotBefore 7200 s again"),
            (ended(Code::RemoteUnavailable, 4), "failed"),
            (ended(Code::ProviderQuota, 0), "waiting Quota 2025 s again"),
            (
                Ended { resets_at: resets, ..ended(Code::ProviderQuota, 0) },
                "waiting Quota 120 s again",
            ),
            (
                Ended { resets_at: resets, ..ended(Code::RateLimited, 0) },
                "waiting NotBefore 120 s again",
            ),
            (ended(Code::ProviderQuota, 4), "failed"),
            // Where another could do better, it does, as often as a task is tried at all.
            (Ended { others: true, ..ended(Code::ProviderQuota, 0) }, "queued elsewhere again"),
            (Ended { others: true, ..ended(Code::Overloaded, 3) }, "queued elsewhere again"),
            (Ended { others: true, ..ended(Code::AuthFailed, 0) }, "queued elsewhere again"),
            (Ended { others: true, ..ended(Code::ModelNotFound, 4) }, "failed"),
            (Ended { others: true, tries_max: Some(1), ..ended(Code::AuthFailed, 1) }, "failed"),
            (Ended { others: true, ..ended(Code::AgentFailed, 0) }, "failed"),
            (Ended { others: true, ..ended(Code::ProcessCrashed, 0) }, "queued again"),
            (Ended { others: true, ..ended(Code::BudgetExceeded, 0) }, "failed"),
            (Ended { tries_max: Some(0), ..ended(Code::ProcessLost, 0) }, "failed"),
            (Ended { tries_max: Some(9), ..ended(Code::ProcessLost, 1) }, "failed"),
        ];
        for (ended, expected) in rows {
            assert_eq!(said(after(&ended)), expected, "{ended:?}");
        }
    }

    #[test]
    fn no_code_is_tried_again_without_end() {
        for code in Code::ALL {
            let mut tries = 0;
            while after(&ended(*code, tries)).again {
                tries += 1;
                assert!(tries <= 4, "{code} is tried {tries} times");
            }
        }
    }

    #[test]
    fn nothing_is_tried_before_what_was_used_up_is_there_again() {
        for jitter01 in [0.0, 0.3, 1.0] {
            for code in [Code::ProviderQuota, Code::RateLimited] {
                let resets_at = Some(NOW.plus_ms(3_600_000));
                let next = after(&Ended { resets_at, jitter01, ..ended(code, 0) });
                assert!(next.until >= resets_at, "{code} {jitter01}: {next:?}");
            }
        }
    }
}
