//! One node: it claims queued tasks, drives the runs it holds, and takes over those whose lease ran
//! out or whose host is gone. What it remembers is lost when it dies.

use super::breaks::Break;
use super::drive::{Did, Drive, End, Leave, Parts};
use super::env::{Answer, Env, Verb, is_unsure};
use super::ground::Ground;
use super::keeper::Keeper;
use super::options::Sharing;
use super::oracle::Violation;
use super::take_over::{TakeOver, Taken};
use contract::state::WaitingFor;
use contract::{NanoUsd, RunId, TaskId, TaskState, Timestamp};
use engine::rules::lease::Lease;
use engine::rules::overdue::Overdue;
use engine::{Input, Machine, Now, RunBudget, Terms};
use std::collections::BTreeMap;
use store::backend::Backend;
use store::{Claim, Error, Follow, Reaped, Reserve, RunHead, RunRow, RunsPage, Seen, TaskMove};

/// Rows of a page of what is unsettled: the fewest, as from the spiteful store.
const PAGE_ROWS: usize = 1;
/// How long after an unanswered claim it is sent again.
const CLAIM_RETRY_MS: u64 = 500;
/// How long a host that makes room waits for its drivers.
const LET_GO_MS: u64 = 5_000;
/// One task in so many is held back before it is claimed.
const HOLD_RARITY: usize = 6;
/// One step of a node that drives something in so many asks for a share of the budget.
const RESERVE_RARITY: usize = 8;
/// What all runs may set aside together, and one of them at most: less than all of them may want.
const TOKENS_MAX: u64 = 6;
const TOKENS_ASIDE_MAX: usize = 4;
const WALL_MS: u64 = 60_000;
const SILENCE_MS: u64 = 20_000;

/// A task that could be started, as it was seen.
#[derive(Debug, Clone, Copy)]
pub struct Queued {
    pub task: TaskId,
    pub fence: u64,
}

struct Starting {
    claim: Claim,
    asked: Now,
    conn: u64,
    call: Option<u64>,
    again_ms: u64,
}

pub struct Node {
    pub index: usize,
    pub up: bool,
    pub paused_until_ms: u64,
    pub drives: BTreeMap<RunId, Drive>,
    pub leaving_since_ms: Option<u64>,
    starting: Option<Starting>,
    takeovers: Vec<TakeOver>,
    reaping: Option<u64>,
    tend_at_ms: u64,
    overdue: Overdue<RunId, (u64, i64)>,
    /// Runs whose lease this node itself let run out, and under which fence.
    retake: Vec<(RunId, u64)>,
    /// It has looked at what the last host left.
    looked: bool,
}

impl Node {
    pub fn new(index: usize) -> Self {
        Self {
            index,
            up: true,
            paused_until_ms: 0,
            drives: BTreeMap::new(),
            leaving_since_ms: None,
            starting: None,
            takeovers: Vec::new(),
            reaping: None,
            tend_at_ms: 0,
            overdue: Overdue::default(),
            retake: Vec::new(),
            looked: false,
        }
    }

    pub fn awake(&self, boot_ms: u64) -> bool {
        self.up && boot_ms >= self.paused_until_ms
    }

    /// The next moment at which it acts by itself.
    pub fn due_ms(&self, boot_ms: u64) -> Option<u64> {
        if !self.up {
            return None;
        }
        if boot_ms < self.paused_until_ms {
            return Some(self.paused_until_ms);
        }
        let starting = self.starting.as_ref().filter(|starting| starting.call.is_none());
        let drives = self.drives.values().filter_map(Drive::due_ms);
        let tend = self.reaping.is_none().then_some(self.tend_at_ms);
        let leaves = self.leaving_since_ms.map(|since_ms| since_ms + LET_GO_MS);
        drives
            .chain(tend)
            .chain(leaves)
            .chain(starting.map(|starting| starting.again_ms))
            .filter(|due_ms| *due_ms > boot_ms)
            .min()
    }

    /// Dies, or ends: its memory and its connections are gone.
    pub fn end<G: Ground>(&mut self, env: &mut Env<G>) {
        let conns: Vec<(RunId, u64)> = self
            .drives
            .values()
            .filter_map(|drive| Some((drive.run, drive.conn?)))
            .chain(self.starting.iter().map(|starting| (starting.claim.run, starting.conn)))
            .collect();
        for (run, conn) in conns {
            if let Some(keeper) = env.keepers.get_mut(&run) {
                keeper.let_go(conn);
            }
        }
        env.incarnations[self.index] += 1;
        *self = Self { up: false, ..Self::new(self.index) };
    }

    /// One thing. `queued`: a task that can be claimed.
    pub fn step<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        queued: Option<Queued>,
    ) -> Result<Option<&'static str>, Violation> {
        if let Some(since_ms) = self.leaving_since_ms {
            if self.drives.is_empty() || env.boot_ms >= since_ms + LET_GO_MS {
                self.end(env);
                return Ok(Some("has made room"));
            }
            let runs: Vec<RunId> = self.drives.keys().copied().collect();
            for run in runs {
                let left = self.with(env, run, Drive::leave)?;
                if left.is_some() {
                    return Ok(Some("lets go of a run"));
                }
            }
        } else {
            if !self.looked && env.options.sharing == Sharing::OneHost {
                self.looked = true;
                self.look(env);
                return Ok(Some("looks at what the last host left"));
            }
            if let Some(did) = self.start(env, queued) {
                return Ok(Some(did));
            }
            if let Some(did) = self.take_over(env) {
                return Ok(Some(did));
            }
            if self.reaping.is_none() && !self.retake.is_empty() {
                return Ok(Some(self.retake(env)));
            }
            if self.reaping.is_none() && env.boot_ms >= self.tend_at_ms {
                return Ok(Some(self.tend(env)));
            }
        }
        let runs: Vec<RunId> = self.drives.keys().copied().collect();
        let Some(run) = env.chance.pick(&runs).copied() else { return Ok(None) };
        if !env.calm && env.chance.one_in(RESERVE_RARITY) {
            return Ok(self.reserve(env, run));
        }
        self.with(env, run, Drive::go)
    }

    /// Lets a driver act, and draws the consequences when it leaves.
    fn with<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        run: RunId,
        act: impl FnOnce(&mut Drive, &mut Env<G>) -> Did,
    ) -> Result<Option<&'static str>, Violation> {
        let Some(drive) = self.drives.get_mut(&run) else { return Ok(None) };
        match act(drive, env) {
            Ok(did) => Ok(did),
            Err(End::Broken(violation)) => Err(violation),
            Err(End::Left(leave)) => Ok(Some(self.left(env, run, leave))),
        }
    }

    fn left<G: Ground>(&mut self, env: &mut Env<G>, run: RunId, leave: Leave) -> &'static str {
        let Some(drive) = self.drives.remove(&run) else { return "has no such run" };
        if let (Some(conn), Some(keeper)) = (drive.conn, env.keepers.get_mut(&run)) {
            keeper.let_go(conn);
        }
        match leave {
            Leave::Settled => {
                if let Some(keeper) = env.keepers.get_mut(&run) {
                    keeper.remove_dir();
                }
                "has settled its run"
            }
            Leave::Fenced => "is fenced off",
            Leave::Expired => {
                self.retake.push((run, drive.fence));
                "has let its lease run out"
            }
            Leave::HandedOver => "has handed over a run",
        }
    }

    fn start<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        queued: Option<Queued>,
    ) -> Option<&'static str> {
        let now = env.now(self.index);
        match &mut self.starting {
            Some(starting) if starting.call.is_none() && now.mono_ms >= starting.again_ms => {
                let claim = starting.claim.clone();
                starting.call = Some(env.call(self.index, Verb::Claim(Box::new(claim))));
                Some("claims again")
            }
            Some(_) => None,
            None => {
                let queued = queued?;
                if !env.calm && env.chance.one_in(HOLD_RARITY) {
                    return Some(self.hold(env, queued, now));
                }
                let claim = claim(env, self.index, queued.task, now);
                let conn = env.number();
                let careless = env.flaw == Some(Break::LatePlan);
                env.keepers.insert(claim.run, Keeper::spawned(claim.run, conn, careless));
                let call = Some(env.call(self.index, Verb::Claim(Box::new(claim.clone()))));
                self.starting = Some(Starting { claim, asked: now, conn, call, again_ms: 0 });
                Some("claims a task")
            }
        }
    }

    /// Sets a sum aside for a run, of a budget that all runs share. Nothing is spent on the answer
    /// here: whether it was kept is the store's to say.
    fn reserve<G: Ground>(&self, env: &mut Env<G>, run: RunId) -> Option<&'static str> {
        let fence = self.drives.get(&run)?.fence;
        let reserve = Reserve {
            scope: "all runs".to_owned(),
            run,
            fence,
            nanousd: NanoUsd(0),
            tokens: 1 + env.chance.below(TOKENS_ASIDE_MAX) as u64,
            turns: 0,
            ms: 0,
            since: Timestamp(i64::MIN),
            nanousd_max: None,
            tokens_max: Some(TOKENS_MAX),
            turns_max: None,
            ms_max: None,
        };
        env.call(self.index, Verb::Reserve(Box::new(reserve)));
        Some("asks for a share of the budget")
    }

    /// Something is in the way: the task waits for its time.
    fn hold<G: Ground>(&mut self, env: &mut Env<G>, queued: Queued, now: Now) -> &'static str {
        let until = now.wall.plus_ms(env.options.lease_ms as i64 / 2);
        let step = TaskMove {
            task: queued.task,
            fence: queued.fence,
            from: TaskState::Queued,
            to: TaskState::Waiting,
            waiting_for: Some(WaitingFor::Quota),
            pool: None,
            follow: Follow { until: Some(until), ..Follow::default() },
        };
        env.call(self.index, Verb::Move(Box::new(step)));
        "finds something in the way of a task"
    }

    fn claimed<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        mut starting: Starting,
        answer: Result<u64, Error>,
    ) -> &'static str {
        let lease_ms = env.options.lease_ms;
        let fence = match answer {
            Ok(fence) => fence,
            Err(error) if is_unsure(&error) => {
                starting.call = None;
                starting.again_ms = env.boot_ms + CLAIM_RETRY_MS;
                self.starting = Some(starting);
                return "has no answer to its claim";
            }
            Err(_) => {
                if let Some(keeper) = env.keepers.get_mut(&starting.claim.run) {
                    keeper.let_go(starting.conn);
                }
                return "is too late with its claim";
            }
        };
        let Starting { claim, asked, conn, .. } = starting;
        let run = claim.run;
        let until_ms = asked.mono_ms + lease_ms;
        env.sure.insert((self.index, run, fence), until_ms);
        let mut drive = Drive::new(Parts {
            node: self.index,
            run,
            fence,
            machine: Machine::new(terms(fence, lease_ms), asked),
            next_seq: 1,
            conn: Some(conn),
            lease: Lease::granted(asked.mono_ms, until_ms, lease_ms),
            wall_until_ms: asked.wall.ms() + lease_ms as i64,
        });
        drive.has_plan = true;
        drive.plan_deadline_ms = until_ms;
        drive.step(env.now(self.index), Input::Begin);
        self.drives.insert(run, drive);
        "has a task"
    }

    fn take_over<G: Ground>(&mut self, env: &mut Env<G>) -> Option<&'static str> {
        let mut takeover = self.takeovers.pop()?;
        if self.drives.contains_key(&takeover.run) {
            return Some("drives that run already");
        }
        match takeover.step(self.index, env) {
            Taken::Found(what) => {
                self.takeovers.insert(0, takeover);
                Some(what)
            }
            Taken::Over(drive) => {
                env.oracle.taken_over(takeover.run);
                self.drives.insert(takeover.run, *drive);
                Some("takes over a run")
            }
            Taken::GivenUp => Some("cannot take over a run now"),
        }
    }

    /// What a new host does first. The lock says that nobody else drives these.
    fn look<G: Ground>(&mut self, env: &mut Env<G>) {
        let rows = unsettled(env);
        let lease_ms = env.options.lease_ms;
        for row in rows {
            env.sure.insert((self.index, row.id, row.fence), env.boot_ms + lease_ms);
            self.takeovers.push(TakeOver {
                run: row.id,
                fence: row.fence,
                head_seq: row.head_seq,
                until_ms: env.boot_ms + lease_ms,
                expired: false,
                found: None,
            });
        }
    }

    fn tend<G: Ground>(&mut self, env: &mut Env<G>) -> &'static str {
        self.tend_at_ms = env.boot_ms + env.options.lease_ms / 2;
        let wall = env.now(self.index).wall;
        env.call(self.index, Verb::Again(wall));
        let rows = unsettled(env).into_iter().filter(|row| !self.drives.contains_key(&row.id));
        let leases = rows.map(|row| (row.id, (row.fence, row.lease_expires_at.ms())));
        let over = self.overdue.look(env.boot_ms, env.options.lease_ms, leases);
        let seen: Vec<Seen> = over
            .into_iter()
            .map(|(run, (fence, ms))| Seen { run, fence, expires_at: Timestamp(ms) })
            .collect();
        if seen.is_empty() {
            return "finds no lease run out";
        }
        let now = env.now(self.index).wall;
        self.reaping = Some(env.call(self.index, Verb::Reap { now, seen }));
        "reaps leases that ran out"
    }

    /// Takes over from itself: nobody else had the run under that fence.
    fn retake<G: Ground>(&mut self, env: &mut Env<G>) -> &'static str {
        let mut seen = Vec::new();
        for (run, fence) in std::mem::take(&mut self.retake) {
            let row = env.ground.wait(env.ground.store().run(run)).ok().flatten();
            if let Some(row) = row.filter(|row| row.fence == fence) {
                seen.push(Seen { run, fence, expires_at: row.lease_expires_at });
            }
        }
        let now = env.now(self.index).wall;
        self.reaping = Some(env.call(self.index, Verb::Reap { now, seen }));
        "takes over from itself"
    }

    fn reaped<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        asked_ms: u64,
        answer: Result<Vec<Reaped>, Error>,
    ) -> &'static str {
        let lease_ms = env.options.lease_ms;
        let reaped = answer.unwrap_or_default();
        let what = if reaped.is_empty() { "has reaped nothing" } else { "has reaped" };
        for Reaped { run, fence, head_seq, .. } in reaped {
            let until_ms = asked_ms + lease_ms;
            env.sure.insert((self.index, run, fence), until_ms);
            let expired = true;
            self.takeovers.push(TakeOver { run, fence, head_seq, until_ms, expired, found: None });
        }
        what
    }

    /// An answer of the store comes to this node.
    pub fn answered<G: Ground>(
        &mut self,
        env: &mut Env<G>,
        call: u64,
        asked_ms: u64,
        answer: Answer,
    ) -> Result<Option<&'static str>, Violation> {
        match answer {
            Answer::Claimed(answer) => match self.starting.take() {
                Some(starting) if starting.call == Some(call) => {
                    Ok(Some(self.claimed(env, starting, answer)))
                }
                other => {
                    self.starting = other;
                    Ok(None)
                }
            },
            Answer::Reaped(answer) if self.reaping == Some(call) => {
                self.reaping = None;
                Ok(Some(self.reaped(env, asked_ms, answer)))
            }
            Answer::Reaped(_) => Ok(None),
            Answer::Done(answer) => {
                let runs: Vec<RunId> = self.drives.keys().copied().collect();
                for run in runs {
                    let answer = answer.clone();
                    let act =
                        |drive: &mut Drive, env: &mut Env<G>| drive.answered(env, call, answer);
                    let did = self.with(env, run, act)?;
                    if did.is_some() {
                        return Ok(did);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Whether nothing is left that only this node knows of.
    pub fn is_idle(&self) -> bool {
        self.drives.is_empty() && self.takeovers.is_empty() && self.starting.is_none()
    }
}

fn unsettled<G: Ground>(env: &mut Env<G>) -> Vec<RunRow> {
    if env.lags() {
        env.tell(|| "what is read of runs is old".to_owned());
        return env.read_before.clone();
    }
    let mut rows: Vec<RunRow> = Vec::new();
    loop {
        let before = rows.last().map(|row| row.id);
        let page = RunsPage { before, limit: PAGE_ROWS, unsettled_only: true };
        match env.ground.wait(env.ground.store().runs(page)) {
            Ok(page) if !page.is_empty() => rows.extend(page),
            Ok(_) | Err(_) => break,
        }
    }
    env.read_before.clone_from(&rows);
    rows
}

fn claim<G: Ground>(env: &mut Env<G>, node: usize, task: TaskId, now: Now) -> Claim {
    let run = RunId::new(env.uuid());
    let seal = &env.seal;
    Claim {
        task,
        run,
        holder: format!("node {node}.{}", env.incarnations[node]),
        now: now.wall,
        lease_ms: env.options.lease_ms,
        plan: seal.json(&()),
        places: None,
        head: RunHead {
            agent: "simulated".to_owned(),
            adapter: "simulated".to_owned(),
            runtime: "simulated".to_owned(),
            cwd: "/".to_owned(),
            model: None,
            resumes: None,
            fallback: None,
            prompt_preview: seal.given("simulated"),
        },
    }
}

fn terms(fence: u64, lease_ms: u64) -> Terms {
    Terms {
        wall_ms: Some(WALL_MS),
        silence_ms: Some(SILENCE_MS),
        lease_ms,
        budget: RunBudget::default(),
        tools: vec![super::drive::READS.to_owned(), super::drive::WRITES.to_owned()],
        policy: contract::Policy::AllowAll,
        ..Terms::from(&Default::default(), fence, 1)
    }
}
