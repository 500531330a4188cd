//! What all nodes share: the store, the clocks, the keepers, and requests on their way. A request to
//! the store is sent, done and answered in three steps, and each can be late, lost or alone.

use super::breaks::Break;
use super::ground::Ground;
use super::keeper::{Conn, Keeper, Order};
use super::options::{Fault, Options, Sharing};
use super::oracle::{Asks, Oracle, Promise, Violation, broken};
use crate::fuzz::mutate::Chance;
use contract::{Code, RunId, Timestamp};
use engine::Now;
use std::collections::BTreeMap;
use store::backend::Backend;
use store::{Again, Batch, Claim, Error, Reaped, Reserve, RunRow, Seal, Seen, TaskMove};
use uuid::Uuid;

/// When every simulation begins.
const WALL_MS: i64 = 1_800_000_000_000;
const BOOT_MS: u64 = 1_000_000;
/// The usual rate of the wall clock, in percent of the lease clock's.
pub const RATE: u64 = 100;

pub enum Verb {
    Claim(Box<Claim>),
    Commit { batch: Box<Batch>, asks: Asks },
    Renew { run: RunId, fence: u64, expires_at: Timestamp },
    Reap { now: Timestamp, seen: Vec<Seen> },
    Move(Box<TaskMove>),
    Again(Timestamp),
    Reserve(Box<Reserve>),
}

/// What the store answers.
pub enum Answer {
    Claimed(Result<u64, Error>),
    Done(Result<(), Error>),
    Reaped(Result<Vec<Reaped>, Error>),
}

/// A request on its way.
pub struct Call {
    pub id: u64,
    pub node: usize,
    pub incarnation: u32,
    pub asked_ms: u64,
    pub verb: Verb,
    /// Set once the store has done or refused it.
    pub answer: Option<Answer>,
    /// Nobody waits for the answer any more.
    pub orphan: bool,
}

pub struct Env<'a, G> {
    pub ground: &'a G,
    pub options: Options,
    pub flaw: Option<Break>,
    pub chance: Chance,
    pub seal: Seal,
    pub boot_ms: u64,
    pub wall_ms: i64,
    pub rate: u64,
    pub skews_ms: Vec<i64>,
    pub trouble_until_ms: u64,
    /// Faults have ended, and nobody holds a task any more.
    pub calm: bool,
    pub keepers: BTreeMap<RunId, Keeper>,
    pub calls: Vec<Call>,
    pub oracle: Oracle,
    /// On the lease clock: until when a holder can be sure of its lease.
    pub sure: BTreeMap<(usize, RunId, u64), u64>,
    pub incarnations: Vec<u32>,
    pub script: Option<Vec<String>>,
    /// What was read last, for a reader that lags behind.
    pub read_before: Vec<RunRow>,
    ids: u64,
}

impl<'a, G: Ground> Env<'a, G> {
    pub fn new(ground: &'a G, options: Options, flaw: Option<Break>, tell: bool) -> Self {
        let mut chance = Chance::of(options.seed, "world", 0);
        let mut skew = |_| match options.has(Fault::Skew) {
            true => chance.below(4_000) as i64 - 2_000,
            false => 0,
        };
        let skews_ms = (0..options.nodes).map(&mut skew).collect();
        Self {
            ground,
            flaw,
            chance,
            seal: Seal::default(),
            boot_ms: BOOT_MS,
            wall_ms: WALL_MS,
            rate: RATE,
            skews_ms,
            trouble_until_ms: 0,
            calm: false,
            keepers: BTreeMap::new(),
            calls: Vec::new(),
            oracle: Oracle::default(),
            sure: BTreeMap::new(),
            incarnations: vec![0; options.nodes],
            script: tell.then(Vec::new),
            read_before: Vec::new(),
            ids: 0,
            options,
        }
    }

    pub fn now(&self, node: usize) -> Now {
        let skew_ms = self.skews_ms.get(node).copied().unwrap_or(0);
        Now { wall: Timestamp(self.wall_ms + skew_ms), mono_ms: self.boot_ms }
    }

    /// Whether what is read now is as it was when someone read it last. Nobody reads under a lock
    /// where all share one store.
    pub fn lags(&mut self) -> bool {
        let shared = self.options.sharing == Sharing::SharedStore;
        let may = !self.calm && shared && self.options.has(Fault::StaleRead);
        may && self.chance.one_in(3)
    }

    pub fn pass(&mut self, ms: u64) {
        self.boot_ms += ms;
        self.wall_ms += (ms * self.rate / RATE) as i64;
    }

    pub fn number(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Ids that no other simulation has.
    pub fn uuid(&mut self) -> Uuid {
        let low = self.number();
        Uuid::from_u128((u128::from(self.options.seed) << 64) | u128::from(low))
    }

    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        let at_ms = self.boot_ms - BOOT_MS;
        if let Some(script) = &mut self.script {
            script.push(format!("{at_ms:>8} ms  {}", what()));
        }
    }

    pub fn order(&mut self, run: RunId, conn: Option<Conn>, order: Order) {
        if let (Some(conn), Some(keeper)) = (conn, self.keepers.get_mut(&run)) {
            keeper.send(conn, order);
        }
    }

    pub fn call(&mut self, node: usize, verb: Verb) -> u64 {
        let id = self.number();
        let (asked_ms, incarnation) = (self.boot_ms, self.incarnations[node]);
        let call = Call { id, node, incarnation, asked_ms, verb, answer: None, orphan: false };
        self.calls.push(call);
        id
    }

    /// The store does what it is asked, and the oracle hears of it.
    pub fn apply(&mut self, at: usize) -> Result<&'static str, Violation> {
        let call = &self.calls[at];
        let (asked_ms, node) = (call.asked_ms, call.node);
        let store = self.ground.store();
        if self.boot_ms < self.trouble_until_ms {
            let full = || Error::DiskFull { doing: "simulating".to_owned() };
            let answer = match &call.verb {
                Verb::Claim(_) => Answer::Claimed(Err(full())),
                Verb::Commit { .. }
                | Verb::Renew { .. }
                | Verb::Move(_)
                | Verb::Again(_)
                | Verb::Reserve(_) => Answer::Done(Err(full())),
                Verb::Reap { .. } => Answer::Reaped(Err(full())),
            };
            self.calls[at].answer = Some(answer);
            return Ok("is in trouble");
        }
        let lease_ms = self.options.lease_ms;
        let (answer, what) = match &call.verb {
            Verb::Claim(claim) => {
                let before = self.ground.wait(store.run(claim.run)).ok().flatten();
                let claimed = self.ground.wait(store.claim((**claim).clone()));
                if let (Ok(claimed), None) = (&claimed, before) {
                    let (run, task) = (claim.run, claim.task);
                    self.oracle.granted(run, task, claimed.fence, asked_ms + lease_ms)?;
                }
                (Answer::Claimed(claimed.map(|claimed| claimed.fence)), "takes a claim")
            }
            Verb::Commit { batch, asks } => {
                let committed = self.ground.wait(store.commit((**batch).clone()));
                if committed.is_ok() && !batch.events.is_empty() {
                    let row = self.ground.wait(store.run(batch.run)).ok().flatten();
                    self.oracle.committed(batch, asks, row.as_ref())?;
                    if let (Some(row), Some(_)) = (row, &batch.settle) {
                        let task = self.ground.wait(store.task(row.task)).ok().flatten();
                        task.map_or(Ok(()), |task| self.oracle.ended(batch.run, &task))?;
                    }
                } else if committed.is_ok() {
                    self.oracle.committed(batch, asks, None)?;
                }
                let what = if committed.is_ok() { "takes a Batch" } else { "refuses a Batch" };
                (Answer::Done(committed.map(|_| ())), what)
            }
            Verb::Renew { run, fence, expires_at } => {
                let renewed = self.ground.wait(store.renew(*run, *fence, *expires_at));
                if renewed.is_ok() {
                    self.oracle.renewed(*run, *fence, asked_ms + lease_ms)?;
                }
                let what = if renewed.is_ok() { "renews a lease" } else { "refuses a renewal" };
                (Answer::Done(renewed), what)
            }
            Verb::Reap { now, seen } => {
                let reaped = self.ground.wait(store.reap_seen(*now, seen.clone()));
                for reaped in reaped.as_ref().map(Vec::as_slice).unwrap_or_default() {
                    self.reaped(node, reaped, asked_ms)?;
                }
                (Answer::Reaped(reaped), "reaps")
            }
            Verb::Move(step) => {
                let moved = self.ground.wait(store.move_task((**step).clone()));
                if moved.is_ok() {
                    self.oracle.moved(step)?;
                }
                let what = if moved.is_ok() { "holds a task" } else { "refuses to hold a task" };
                (Answer::Done(moved), what)
            }
            Verb::Again(now) => {
                let again = self.ground.wait(store.again(Again::Due(*now)));
                (Answer::Done(again.map(drop)), "queues those whose time has come")
            }
            Verb::Reserve(reserve) => {
                let reserved = self.ground.wait(store.reserve((**reserve).clone()));
                let what = match &reserved {
                    Ok(()) => "sets a sum aside",
                    Err(Error::BudgetExceeded { .. }) => "has no more to set aside",
                    Err(_) => "refuses to set a sum aside",
                };
                if matches!(reserved, Ok(()) | Err(Error::BudgetExceeded { .. })) {
                    self.oracle.reserved(reserve, reserved.is_ok())?;
                }
                (Answer::Done(reserved), what)
            }
        };
        self.calls[at].answer = Some(answer);
        Ok(what)
    }

    fn reaped(&mut self, node: usize, reaped: &Reaped, asked_ms: u64) -> Result<(), Violation> {
        let &Reaped { run, task, old_fence, fence, .. } = reaped;
        let own = self.sure.contains_key(&(node, run, old_fence));
        let lease_ms = self.oracle.lease_ms(run);
        if !own && self.boot_ms < lease_ms {
            let now_ms = self.boot_ms;
            return broken(
                Promise::ReapedInTime,
                format!("{run} was reaped at {now_ms}, and its lease lasts to {lease_ms}"),
            );
        }
        self.oracle.granted(run, task, fence, asked_ms + self.options.lease_ms)
    }
}

/// Whether an answer says that the store could not, rather than that it would not.
pub fn is_unsure(error: &Error) -> bool {
    !matches!(error.code(), Code::FenceStale | Code::Conflict | Code::NotFound)
}
