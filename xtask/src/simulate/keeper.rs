//! The keeper of one run and its agent, simulated: orders come in by the owner's connection alone,
//! frames are said once by their number, every line goes to the spool, and when the lease is over
//! the agent is ended by the keeper itself. The order of checks is that of `crates/keeper`.

use super::oracle::{Oracle, Violation};
use crate::fuzz::mutate::Chance;
use contract::{Code, RunId};
use engine::Testimony;
use std::collections::VecDeque;

/// A connection to a keeper; none is used twice.
pub type Conn = u64;

#[derive(Debug, Clone)]
pub enum Order {
    Plan { fence: u64, deadline_ms: u64 },
    Say { n: u32, words: String },
    Close { n: u32 },
    Renew { fence: u64, deadline_ms: u64 },
    Stop { reason: Code, grace_ms: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    Hello,
    /// Said or dropped: settled in either case.
    Settled(u32),
}

/// What an agent says, as its dialect would hear it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Hello,
    Turn,
    Text(u32),
    Call { id: u32, reads: bool },
    Spent(u64),
    Done,
}

#[derive(Debug, Clone)]
pub enum Record {
    Line(Line),
    Exit(Testimony),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It was spawned and has no plan.
    Waiting,
    Holding,
    Gone,
}

/// Who answers when a successor looks for a keeper.
pub enum Found {
    Lives {
        conn: Conn,
        reached: u32,
    },
    /// Nobody will start the agent any more.
    Dead,
    /// It obeys someone with a higher fence.
    Silent,
}

pub struct Keeper {
    pub run: RunId,
    pub stage: Stage,
    /// The spool directory: made once, removed when the run is settled.
    pub dir: bool,
    pub spool: Vec<Record>,
    pub owner: Option<Conn>,
    pub deadline_ms: u64,
    pub agent: Option<Agent>,
    pub reports: VecDeque<Report>,
    orders: VecDeque<(Conn, Order)>,
    /// A successor holds the lock that a keeper needs to begin.
    locked_out: bool,
    fence: u64,
    last_said: u32,
    stopping: Option<String>,
    kill_at_ms: Option<u64>,
    /// It does not look at the time of its plan; see `Break`.
    careless: bool,
}

pub struct Agent {
    script: VecDeque<Line>,
    exit_code: i32,
    /// It leaves only when it is killed.
    stubborn: bool,
    next_ms: u64,
    /// The answer without which it does not go on.
    awaits: Option<String>,
}

const PAUSE_MS_MAX: usize = 100;
const LINES_MAX: usize = 16;
const CALLS_MAX: u32 = 4;

impl Agent {
    /// An agent whose words follow from chance. It may end without having said so.
    pub fn new(chance: &mut Chance, now_ms: u64) -> Self {
        let mut script = VecDeque::from([Line::Hello, Line::Turn]);
        let (mut texts, mut calls) = (0, 0);
        for _ in 0..chance.below(LINES_MAX) {
            match chance.below(4) {
                0 if calls < CALLS_MAX => {
                    script.push_back(Line::Call { id: calls, reads: chance.one_in(2) });
                    calls += 1;
                }
                1 => script.push_back(Line::Spent(1 + chance.below(50) as u64)),
                _ => {
                    script.push_back(Line::Text(texts));
                    texts += 1;
                }
            }
        }
        if !chance.one_in(4) {
            script.push_back(Line::Done);
        }
        let exit_code = i32::from(chance.one_in(5));
        Self { script, exit_code, stubborn: chance.one_in(4), next_ms: now_ms, awaits: None }
    }
}

impl Keeper {
    pub fn spawned(run: RunId, owner: Conn, careless: bool) -> Self {
        Self {
            run,
            stage: Stage::Waiting,
            dir: false,
            spool: Vec::new(),
            owner: Some(owner),
            deadline_ms: u64::MAX,
            agent: None,
            reports: VecDeque::new(),
            orders: VecDeque::new(),
            locked_out: false,
            fence: 0,
            last_said: 0,
            stopping: None,
            kill_at_ms: None,
            careless,
        }
    }

    pub fn send(&mut self, conn: Conn, order: Order) {
        if self.stage != Stage::Gone {
            self.orders.push_back((conn, order));
        }
    }

    /// What the owner left is read before its end is seen.
    pub fn let_go(&mut self, conn: Conn) {
        if self.owner == Some(conn) && self.stage == Stage::Waiting && self.orders.is_empty() {
            self.stage = Stage::Gone;
        }
    }

    /// A successor's look: takes over a living keeper, locks out one that has not begun.
    pub fn find(&mut self, conn: Conn, fence: u64) -> Found {
        if self.stage != Stage::Holding {
            self.locked_out |= self.dir;
            return Found::Dead;
        }
        if fence < self.fence {
            return Found::Silent;
        }
        self.fence = fence;
        self.owner = Some(conn);
        self.reports.clear();
        Found::Lives { conn, reached: self.last_said }
    }

    /// The run is settled: whoever makes the directory again would not find this lock.
    pub fn remove_dir(&mut self) {
        (self.dir, self.locked_out) = (false, false);
    }

    /// Killed: it leaves no testimony, and its agent to whoever looks for it.
    pub fn die(&mut self) {
        self.stage = Stage::Gone;
        self.orders.clear();
    }

    /// The agent is killed by someone else; its keeper sees it and testifies.
    pub fn kill_agent(&mut self) {
        if self.agent.is_some() {
            self.end(None);
        }
    }

    /// Ends what a dead keeper left.
    pub fn sweep(&mut self) {
        if self.stage == Stage::Gone {
            self.agent = None;
        }
    }

    /// The next moment at which it acts by itself.
    pub fn due_ms(&self) -> Option<u64> {
        let agent = self.agent.as_ref().filter(|_| self.stage == Stage::Holding)?;
        [Some(agent.next_ms), Some(self.deadline_ms), self.kill_at_ms].into_iter().flatten().min()
    }

    /// One step. Says what it did, if it did anything.
    pub fn step(
        &mut self,
        now_ms: u64,
        chance: &mut Chance,
        oracle: &mut Oracle,
    ) -> Result<Option<&'static str>, Violation> {
        if self.stage == Stage::Gone {
            return Ok(None);
        }
        if let Some((conn, order)) = self.orders.pop_front() {
            if self.owner == Some(conn) {
                return self.carry_out(order, now_ms, chance, oracle).map(Some);
            }
            return Ok(Some("ignores an order of an earlier owner"));
        }
        if self.stage == Stage::Waiting {
            return Ok(None);
        }
        if now_ms >= self.deadline_ms {
            self.stopping.get_or_insert_with(|| "lease".to_owned());
            return Ok(Some(self.end(None)));
        }
        if self.kill_at_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            return Ok(Some(self.end(None)));
        }
        Ok(self.let_agent(now_ms, chance))
    }

    fn let_agent(&mut self, now_ms: u64, chance: &mut Chance) -> Option<&'static str> {
        let agent = self.agent.as_mut()?;
        if now_ms < agent.next_ms {
            return None;
        }
        agent.next_ms = now_ms + 1 + chance.below(PAUSE_MS_MAX) as u64;
        let leaves = self.stopping.is_some() && !agent.stubborn;
        if agent.awaits.is_some() && !leaves {
            return None;
        }
        match agent.script.pop_front().filter(|_| !leaves) {
            Some(line) => {
                if let Line::Call { id, .. } = line {
                    agent.awaits = Some(format!("answer c{id}"));
                }
                self.spool.push(Record::Line(line));
                Some("hears its agent")
            }
            None => {
                let code = agent.exit_code;
                Some(self.end(Some(code)))
            }
        }
    }

    /// The agent is gone: the testimony is the last record.
    fn end(&mut self, exit_code: Option<i32>) -> &'static str {
        self.agent = None;
        let testimony = Testimony {
            exit_code,
            signal: exit_code.is_none().then_some(9),
            asked_by: self.stopping.clone(),
            forced: exit_code.is_none(),
            ..Testimony::default()
        };
        self.spool.push(Record::Exit(testimony));
        self.stage = Stage::Gone;
        "testifies and leaves"
    }

    fn carry_out(
        &mut self,
        order: Order,
        now_ms: u64,
        chance: &mut Chance,
        oracle: &mut Oracle,
    ) -> Result<&'static str, Violation> {
        match order {
            Order::Plan { fence, deadline_ms } => {
                let late = now_ms >= deadline_ms && !self.careless;
                if self.stage != Stage::Waiting || self.locked_out || late {
                    self.stage = Stage::Gone;
                    return Ok("leaves without a launch");
                }
                oracle.launched(self.run, now_ms)?;
                oracle.keeper_told(self.run, deadline_ms)?;
                self.stage = Stage::Holding;
                (self.fence, self.deadline_ms) = (fence, deadline_ms);
                self.agent = Some(Agent::new(chance, now_ms));
                self.reports.push_back(Report::Hello);
                Ok("starts its agent")
            }
            Order::Say { n, words } => {
                let new = n > self.last_said;
                self.last_said = self.last_said.max(n);
                self.reports.push_back(Report::Settled(n));
                if !new || self.stopping.is_some() {
                    return Ok("drops a frame");
                }
                oracle.said(self.run, &words)?;
                if let Some(agent) = &mut self.agent {
                    agent.awaits.take_if(|awaited| *awaited == words);
                }
                Ok("says a frame")
            }
            Order::Close { n } => {
                self.last_said = self.last_said.max(n);
                self.reports.push_back(Report::Settled(n));
                Ok("closes stdin")
            }
            Order::Renew { fence, deadline_ms } => {
                if fence >= self.fence {
                    oracle.keeper_told(self.run, deadline_ms)?;
                    (self.fence, self.deadline_ms) = (fence, deadline_ms);
                }
                Ok("counts a new lease")
            }
            Order::Stop { reason, grace_ms } => {
                self.stopping.get_or_insert_with(|| reason.word().to_owned());
                let at_ms = now_ms + grace_ms;
                self.kill_at_ms = Some(self.kill_at_ms.map_or(at_ms, |old| old.min(at_ms)));
                Ok("begins to stop its agent")
            }
        }
    }
}
