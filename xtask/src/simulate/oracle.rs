//! What must hold, kept apart from everything that is simulated: the oracle is told of each thing
//! the store accepted, each thing an agent was told and each answer that a node got, and says which
//! promise was broken. It never asks the store what the store believes, except to compare.

use super::drive::UNREAD_MAX;
use contract::{CommandId, RunId, RunState, TaskId, TaskState};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use store::{Batch, Reserve, RunRow, StoredEvent, TaskMove, TaskRow};

/// A promise of the product, with the numbers that the project's invariants have. `Ends` is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    Gapless,
    Kept,
    Taken,
    Heard,
    FencesRise,
    EndsOnce,
    NoStaleWrite,
    LaunchedOnce,
    SaidOnce,
    DurableFirst,
    Leased,
    ReapedInTime,
    WishesOnce,
    NoneOutlives,
    OneAtATime,
    DoneOnce,
    NotTriedAgain,
    WithinLimit,
    ComesBack,
    Ends,
}

impl Promise {
    /// Each of these has a break that shows it; the tests hold that.
    #[cfg(test)]
    pub const ALL: &'static [Self] = &[
        Self::Gapless,
        Self::Kept,
        Self::Taken,
        Self::Heard,
        Self::FencesRise,
        Self::EndsOnce,
        Self::NoStaleWrite,
        Self::LaunchedOnce,
        Self::SaidOnce,
        Self::DurableFirst,
        Self::Leased,
        Self::ReapedInTime,
        Self::WishesOnce,
        Self::NoneOutlives,
        Self::OneAtATime,
        Self::DoneOnce,
        Self::NotTriedAgain,
        Self::WithinLimit,
        Self::ComesBack,
        Self::Ends,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Gapless => "I1 events are numbered without gaps",
            Self::Kept => "I1 what was answered is stored, byte for byte, once",
            Self::Taken => "a Batch of whoever holds the run is taken",
            Self::Heard => "I1 what an agent said is stored once and in order",
            Self::FencesRise => "I2 fences rise",
            Self::EndsOnce => "I2 a run ends once and never changes after",
            Self::NoStaleWrite => "I3 no write under an old fence",
            Self::LaunchedOnce => "I4 an agent is launched at most once",
            Self::SaidOnce => "I4 nothing is said or called twice",
            Self::DurableFirst => "nothing is done before it is durable",
            Self::Leased => "I5 nobody acts, and no agent runs, on a lease that is over",
            Self::ReapedInTime => "I5 no good lease is reaped",
            Self::WishesOnce => "every wish is taken once, while its run goes on",
            Self::NoneOutlives => "I7 no agent is started for, or outlives, a settled run",
            Self::OneAtATime => "a task is worked on by one run at a time",
            Self::DoneOnce => "a task is done once",
            Self::NotTriedAgain => "a task that nobody wants any more is not tried again",
            Self::WithinLimit => "I6 what is set aside and spent stays within the limit",
            Self::ComesBack => "I6 what a run that has ended had set aside comes back",
            Self::Ends => "I11 without faults every run ends",
        }
    }
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub promise: Promise,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise.word(), self.what)
    }
}

pub fn broken<T>(promise: Promise, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { promise, what: what.into() })
}

/// What is known of one run from what the store accepted.
#[derive(Debug, Default)]
struct Known {
    fence: u64,
    settled: Option<RunRow>,
    events: Vec<Arc<[u8]>>,
    /// On the lease clock: the end that the store has, and the last it granted under this fence.
    lease_ms: u64,
    granted_ms: u64,
    launch_durable: bool,
    launches: u32,
    /// Words and calls that a durable Batch asked for.
    durable: BTreeSet<String>,
    done: BTreeSet<String>,
    taken: BTreeSet<CommandId>,
    /// Wishes that wait, and how many Batches of one holder passed them over.
    waiting: BTreeMap<CommandId, u32>,
}

/// Batches that may pass over a wish: the one on its way when it came, and those before the next look
/// into the inbox.
const PASSED_OVER_MAX: u32 = 1 + UNREAD_MAX;

#[derive(Debug, Default)]
pub struct Oracle {
    runs: BTreeMap<RunId, Known>,
    fences: BTreeMap<TaskId, u64>,
    accepted: BTreeMap<CommandId, RunId>,
    /// Which run is at work on which task.
    at_work: BTreeMap<TaskId, RunId>,
    done: BTreeSet<TaskId>,
    recalled: BTreeSet<TaskId>,
    cancelled: BTreeSet<TaskId>,
    /// What each run has set aside of the shared budget, or spent of it when it has ended.
    aside: BTreeMap<RunId, u64>,
}

/// What a Batch asks for, in the oracle's words.
#[derive(Debug, Clone, Default)]
pub struct Asks {
    pub launch: bool,
    /// What is to be said and called, by words that occur once in a run.
    pub words: Vec<String>,
}

impl Oracle {
    fn run(&mut self, run: RunId) -> &mut Known {
        self.runs.entry(run).or_default()
    }

    /// A fence was handed out, by a claim or by reaping, with a lease until then.
    pub fn granted(
        &mut self,
        run: RunId,
        task: TaskId,
        fence: u64,
        until_ms: u64,
    ) -> Result<(), Violation> {
        let before = self.fences.insert(task, fence).unwrap_or(0);
        if fence <= before {
            return broken(
                Promise::FencesRise,
                format!("{run} was granted with fence {fence} after {before}"),
            );
        }
        let other = self.at_work.insert(task, run).filter(|other| *other != run);
        if let Some(other) = other {
            let what = format!("{task} was given to {run} while {other} is at work on it");
            return broken(Promise::OneAtATime, what);
        }
        if self.done.contains(&task) {
            return broken(Promise::DoneOnce, format!("{task} is done and was given to {run}"));
        }
        let known = self.run(run);
        if known.settled.is_some() {
            return broken(Promise::EndsOnce, format!("{run} was granted after its end"));
        }
        (known.fence, known.lease_ms, known.granted_ms) = (fence, until_ms, until_ms);
        Ok(())
    }

    /// Until when the lease of a run is good in the store.
    pub fn lease_ms(&self, run: RunId) -> u64 {
        self.runs.get(&run).map_or(0, |known| known.lease_ms)
    }

    pub fn renewed(&mut self, run: RunId, fence: u64, until_ms: u64) -> Result<(), Violation> {
        let known = self.run(run);
        if known.settled.is_some() {
            return broken(Promise::EndsOnce, format!("{run} was renewed after its end"));
        }
        if known.fence != fence {
            let now = known.fence;
            return broken(
                Promise::NoStaleWrite,
                format!("a renewal of {run} was taken with fence {fence}, and {now} is held"),
            );
        }
        // A renewal that comes late makes a lease shorter, and so does the first after reaping.
        known.lease_ms = until_ms;
        known.granted_ms = known.granted_ms.max(until_ms);
        Ok(())
    }

    /// The store took a Batch; `row` is the run as it says it is now.
    pub fn committed(
        &mut self,
        batch: &Batch,
        asks: &Asks,
        row: Option<&RunRow>,
    ) -> Result<(), Violation> {
        let accepted = &self.accepted;
        let known = self.runs.entry(batch.run).or_default();
        let run = batch.run;
        if known.settled.is_some() {
            return broken(Promise::EndsOnce, format!("a Batch of {run} was taken after its end"));
        }
        if known.fence != batch.fence {
            let (fence, now) = (batch.fence, known.fence);
            return broken(
                Promise::NoStaleWrite,
                format!("a Batch of {run} was taken with fence {fence}, and {now} is held"),
            );
        }
        let next_seq = known.events.len() as u64 + 1;
        if batch.first_seq != next_seq {
            let first_seq = batch.first_seq;
            return broken(
                Promise::Gapless,
                format!("a Batch of {run} was taken at {first_seq}, and {next_seq} is next"),
            );
        }
        for id in &batch.taken {
            if accepted.get(id) != Some(&run) || !known.taken.insert(*id) {
                return broken(Promise::WishesOnce, format!("{id} was taken twice by {run}"));
            }
            known.waiting.remove(id);
        }
        for (id, passed) in &mut known.waiting {
            *passed += 1;
            // What comes with the end of a run may find nobody any more.
            if *passed > PASSED_OVER_MAX && batch.settle.is_none() {
                let what = format!("{id} waits while {run} goes on for {passed} Batches");
                return broken(Promise::WishesOnce, what);
            }
        }
        known.events.extend(batch.events.iter().map(|event| Arc::from(event.bytes.bytes())));
        known.launch_durable |= asks.launch;
        known.durable.extend(asks.words.iter().cloned());
        if batch.settle.is_some() {
            if let Some(aside) = self.aside.get_mut(&run) {
                *aside = batch.totals.unwrap_or_default().tokens.total();
            }
            match row {
                Some(row) if row.state == RunState::Settled && row.outcome.is_some() => {
                    known.settled = Some(row.clone());
                }
                Some(_) | None => {
                    return broken(Promise::EndsOnce, format!("{run} was settled and is not"));
                }
            }
        }
        Ok(())
    }

    /// The store was asked to set a sum aside, and did it or said that there is no more.
    pub fn reserved(&mut self, reserve: &Reserve, taken: bool) -> Result<(), Violation> {
        let Reserve { run, fence, tokens, .. } = *reserve;
        let others = self.aside.iter().filter(|(other, _)| **other != run);
        let sum = tokens + others.map(|(_, aside)| *aside).sum::<u64>();
        let limit = reserve.tokens_max.unwrap_or(u64::MAX);
        if !taken {
            let what = || format!("{tokens} for {run} were refused: {sum} of {limit} with them");
            return if sum <= limit { broken(Promise::ComesBack, what()) } else { Ok(()) };
        }
        let known = self.run(run);
        if known.settled.is_some() {
            return broken(
                Promise::EndsOnce,
                format!("a sum was set aside for {run} after its end"),
            );
        }
        if known.fence != fence {
            let now = known.fence;
            return broken(
                Promise::NoStaleWrite,
                format!("a sum was set aside for {run} with fence {fence}, and {now} is held"),
            );
        }
        if sum > limit {
            let what = format!("{tokens} were set aside for {run}: {sum} of {limit} with them");
            return broken(Promise::WithinLimit, what);
        }
        self.aside.insert(run, tokens);
        Ok(())
    }

    /// A run of this task has ended, and the task stands so now.
    pub fn ended(&mut self, run: RunId, task: &TaskRow) -> Result<(), Violation> {
        if self.at_work.get(&task.id) == Some(&run) {
            self.at_work.remove(&task.id);
        }
        let id = task.id;
        if task.state == TaskState::Done && !self.done.insert(id) {
            return broken(Promise::DoneOnce, format!("{id} is done again, by {run}"));
        }
        let again = matches!(task.state, TaskState::Queued | TaskState::Waiting);
        match again && self.recalled.contains(&id) {
            true => broken(Promise::NotTriedAgain, format!("{id} is tried again after {run}")),
            false => Ok(()),
        }
    }

    /// The store moved a task that no run should hold.
    pub fn moved(&mut self, step: &TaskMove) -> Result<(), Violation> {
        let TaskMove { task, fence, .. } = step;
        let now = self.fences.get(task).copied().unwrap_or(0);
        if *fence != now {
            let what = format!("{task} was moved under fence {fence}, and {now} is its own");
            return broken(Promise::NoStaleWrite, what);
        }
        if let Some(run) = self.at_work.get(task) {
            let what = format!("{task} was moved while {run} works on it");
            return broken(Promise::OneAtATime, what);
        }
        let over = self.done.contains(task) || self.cancelled.contains(task);
        if step.to == TaskState::Cancelled {
            self.cancelled.insert(*task);
        }
        match over {
            true => broken(Promise::NotTriedAgain, format!("{task} is over and was moved")),
            false => Ok(()),
        }
    }

    pub fn is_cancelled(&self, task: TaskId) -> bool {
        self.cancelled.contains(&task)
    }

    /// Nobody wants a task any more.
    pub fn recalled(&mut self, task: TaskId) {
        self.recalled.insert(task);
    }

    pub fn wished(&mut self, id: CommandId, run: RunId) {
        self.accepted.insert(id, run);
        self.run(run).waiting.insert(id, 0);
    }

    /// Someone goes on with a run, and has not looked into its inbox yet.
    pub fn taken_over(&mut self, run: RunId) {
        self.run(run).waiting.values_mut().for_each(|passed| *passed = 0);
    }

    /// An agent lives at this moment.
    pub fn lives(&self, run: RunId) -> Result<(), Violation> {
        match self.runs.get(&run).is_some_and(|known| known.settled.is_some()) {
            true => broken(Promise::NoneOutlives, format!("{run} is settled and its agent lives")),
            false => Ok(()),
        }
    }

    /// A keeper starts its agent.
    pub fn launched(&mut self, run: RunId, now_ms: u64) -> Result<(), Violation> {
        let known = self.run(run);
        known.launches += 1;
        if now_ms >= known.granted_ms {
            return broken(Promise::Leased, format!("the agent of {run} starts with no lease"));
        }
        if known.launches > 1 {
            return broken(Promise::LaunchedOnce, format!("the agent of {run} is started again"));
        }
        if !known.launch_durable {
            return broken(Promise::DurableFirst, format!("the launch of {run} is not durable"));
        }
        if known.settled.is_some() {
            return broken(Promise::NoneOutlives, format!("{run} is settled and its agent starts"));
        }
        Ok(())
    }

    /// An agent is told something.
    pub fn said(&mut self, run: RunId, words: &str) -> Result<(), Violation> {
        self.did(run, words)
    }

    /// A call is carried out that may not be carried out twice.
    pub fn did(&mut self, run: RunId, words: &str) -> Result<(), Violation> {
        let known = self.run(run);
        if !known.durable.contains(words) {
            return broken(Promise::DurableFirst, format!("'{words}' of {run} is not durable"));
        }
        if !known.done.insert(words.to_owned()) {
            return broken(Promise::SaidOnce, format!("'{words}' of {run} was done before"));
        }
        Ok(())
    }

    /// A keeper is told until when its agent may run.
    pub fn keeper_told(&mut self, run: RunId, deadline_ms: u64) -> Result<(), Violation> {
        let lease_ms = self.run(run).granted_ms;
        match deadline_ms > lease_ms {
            true => broken(
                Promise::Leased,
                format!("the keeper of {run} counts to {deadline_ms}, the lease to {lease_ms}"),
            ),
            false => Ok(()),
        }
    }

    /// At the end: the store has exactly what it took, and rows that ended have not changed.
    pub fn compare(
        &self,
        run: RunId,
        row: Option<&RunRow>,
        stored: &[StoredEvent],
    ) -> Result<(), Violation> {
        let Some(known) = self.runs.get(&run) else { return Ok(()) };
        let same = stored.len() == known.events.len()
            && (1..).zip(stored).all(|(seq, event)| event.seq == seq)
            && stored.iter().zip(&known.events).all(|(there, taken)| there.bytes == *taken);
        if !same {
            let (there, taken) = (stored.len(), known.events.len());
            return broken(Promise::Kept, format!("{run} has {there} events of {taken} taken"));
        }
        match &known.settled {
            Some(settled) if row != Some(settled) => {
                broken(Promise::EndsOnce, format!("{run} changed after its end"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
