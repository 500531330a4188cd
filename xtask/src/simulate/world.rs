//! The scheduler: which node, keeper or request goes next, what goes wrong, and when it stops doing
//! so. First come steps with faults (nothing may break), then steps without (everything must end).
//! All of it follows from the options.

use super::breaks::Break;
use super::env::{Answer, Env, RATE, Verb};
use super::ground::Ground;
use super::keeper::{Line, Record, Stage};
use super::node::{Node, Queued};
use super::options::{Fault, Options, Sharing};
use super::oracle::{Promise, Violation, broken};
use contract::event::Body;
use contract::state::Review;
use contract::{Code, CommandId, Event, RunId, RunState, TaskId, TaskState, Wish};
use std::collections::BTreeMap;
use store::backend::Backend;
use store::{Errand, Error, Follow, Head, NewCommand, NewTask, RunsPage, TaskMove, TaskRow};

/// Steps without faults, at most, until every run has ended.
const CALM_STEPS_MAX: u64 = 20_000;
/// Longer than any wait that a rule of the queue asks for: whatever waits longer was put off by a
/// clock that was set.
const PATIENCE_MS: u64 = 4 * 3_600_000;
/// Picks that did nothing before time goes on to the next moment that matters.
const IDLE_PICKS_MAX: u32 = 12;
const STEP_MS_MAX: usize = 16;
const EVENTS_MAX: usize = 10_000;
const WISHES_MAX: u64 = 4;
/// One step of the client in so many takes a task back.
const RECALL_RARITY: usize = 12;
/// A late request that nobody waits for comes to the store at one in so many of its turns.
const LINGER_RARITY: usize = 16;
/// A year, roughly; clocks are set by up to ten of them.
const YEAR_MS: i64 = 31_557_600_000;
const JUMPS_MS: [i64; 6] = [1_000, 60_000, 3_600_000, 86_400_000, YEAR_MS, 10 * YEAR_MS];

/// What a simulation came to.
pub struct Outcome {
    pub steps: u64,
    pub runs: u64,
    pub takeovers: u64,
    pub violation: Option<Violation>,
    pub script: Vec<String>,
}

pub struct World<'a, G> {
    env: Env<'a, G>,
    nodes: Vec<Node>,
    tasks: Vec<TaskId>,
    /// What could be started, as it was read last.
    heads: Vec<Queued>,
    lock: Option<usize>,
    faulty: bool,
    wishes: u64,
    last_wish: Option<NewCommand>,
    steps: u64,
    idle: u32,
    takeovers: u64,
}

/// Runs one simulation to its end.
pub fn simulate<G: Ground>(
    ground: &G,
    options: &Options,
    flaw: Option<Break>,
    tell: bool,
) -> Outcome {
    let mut world = World::new(ground, options.clone(), flaw, tell);
    let violation = world.run().err();
    let runs = world.tasks.len() as u64;
    let (steps, takeovers) = (world.steps, world.takeovers);
    Outcome { steps, runs, takeovers, violation, script: world.env.script.unwrap_or_default() }
}

impl<'a, G: Ground> World<'a, G> {
    fn new(ground: &'a G, options: Options, flaw: Option<Break>, tell: bool) -> Self {
        let nodes = (0..options.nodes).map(Node::new).collect();
        Self {
            env: Env::new(ground, options, flaw, tell),
            nodes,
            tasks: Vec::new(),
            heads: Vec::new(),
            lock: None,
            faulty: true,
            wishes: 0,
            last_wish: None,
            steps: 0,
            idle: 0,
            takeovers: 0,
        }
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.enqueue();
        while self.steps < self.env.options.steps {
            self.step()?;
            self.outlives()?;
        }
        self.calm();
        let last = self.steps + CALM_STEPS_MAX;
        while !self.is_over() {
            if self.steps >= last {
                return broken(Promise::Ends, self.unfinished());
            }
            self.step()?;
            self.outlives()?;
        }
        self.compare()
    }

    /// No agent lives whose run has ended.
    fn outlives(&self) -> Result<(), Violation> {
        let living = self.env.keepers.values().filter(|keeper| keeper.agent.is_some());
        living.map(|keeper| keeper.run).try_for_each(|run| self.env.oracle.lives(run))
    }

    fn enqueue(&mut self) {
        for n in 0..self.env.options.tasks {
            let id = TaskId::new(self.env.uuid());
            let seal = &self.env.seal;
            let task = NewTask {
                id,
                key: None,
                agent: format!("agent {n}"),
                title: seal.given("simulated"),
                body: seal.given(""),
                prompt: seal.given(""),
                system_prompt: None,
                review: Review::None,
                priority: 0,
                line: None,
                errand: Some(Errand::default()),
                created_at: self.env.now(0).wall,
            };
            let _ = self.env.ground.wait(self.env.ground.store().enqueue(task));
            self.tasks.push(id);
        }
    }

    /// Faults end. What they did to the clocks and to memories stays as it is.
    fn calm(&mut self) {
        self.faulty = false;
        self.env.calm = true;
        self.env.rate = RATE;
        self.env.trouble_until_ms = 0;
        for node in &mut self.nodes {
            node.up = true;
            node.paused_until_ms = 0;
        }
        self.env.tell(|| "faults end".to_owned());
    }

    fn step(&mut self) -> Result<(), Violation> {
        let ms = self.env.chance.below(STEP_MS_MAX) as u64;
        self.env.pass(ms);
        if self.faulty && self.env.chance.one_in(self.env.options.rarity) && self.fault()? {
            self.steps += 1;
            return Ok(());
        }
        let actors = self.nodes.len() + self.env.keepers.len() + 2 * self.env.calls.len() + 1;
        let pick = self.env.chance.below(actors);
        if self.let_act(pick)? {
            (self.idle, self.steps) = (0, self.steps + 1);
            return Ok(());
        }
        self.idle += 1;
        if self.idle < IDLE_PICKS_MAX {
            return Ok(());
        }
        (self.idle, self.steps) = (0, self.steps + 1);
        for pick in 0..actors - 1 {
            if self.let_act(pick)? {
                return Ok(());
            }
        }
        self.skip()
    }

    /// Nodes, keepers, requests (each counts twice), and last the client.
    fn let_act(&mut self, pick: usize) -> Result<bool, Violation> {
        let (nodes, keepers) = (self.nodes.len(), self.env.keepers.len());
        if pick < nodes {
            self.step_node(pick)
        } else if pick < nodes + keepers {
            self.step_keeper(pick - nodes)
        } else if pick < nodes + keepers + 2 * self.env.calls.len() {
            self.step_call((pick - nodes - keepers) / 2)
        } else {
            self.step_client()
        }
    }

    /// Nothing happens until something is due.
    fn skip(&mut self) -> Result<(), Violation> {
        if self.env.calm && self.is_at_rest() {
            return self.wait_for_tasks();
        }
        let now_ms = self.env.boot_ms;
        let nodes = self.nodes.iter().filter_map(|node| node.due_ms(now_ms));
        let keepers = self.env.keepers.values().filter_map(|keeper| keeper.due_ms());
        if let Some(due_ms) = nodes.chain(keepers).filter(|due_ms| *due_ms > now_ms).min()
            && due_ms < u64::MAX
        {
            self.env.pass(due_ms - now_ms);
        }
        Ok(())
    }

    /// Only tasks that wait are left. Their time comes, and who tends the queue must see it; nobody
    /// helps but with those that no time brings back.
    fn wait_for_tasks(&mut self) -> Result<(), Violation> {
        let wall = self.env.now(0).wall;
        let mut next_ms: Option<u64> = None;
        for task in self.tasks.clone() {
            let row = self.env.ground.wait(self.env.ground.store().task(task)).ok().flatten();
            let Some(row) = row.filter(|row| row.state == TaskState::Waiting) else { continue };
            match row.until.map(|until| until.since(wall)) {
                Some(due_ms) if due_ms <= PATIENCE_MS => {
                    next_ms = Some(next_ms.map_or(due_ms, |next_ms| next_ms.min(due_ms)));
                }
                Some(_) | None => self.retry(task, &row)?,
            }
        }
        // Long enough for every node to look at the queue.
        self.env.pass(next_ms.unwrap_or(0).max(self.env.options.lease_ms / 2));
        Ok(())
    }

    /// A person tries what waits for a person, or for a time that a clock which was set meanwhile
    /// will not see.
    fn retry(&mut self, task: TaskId, row: &TaskRow) -> Result<(), Violation> {
        let step = step(task, row.fence, TaskState::Waiting, TaskState::Queued);
        let moved = self.env.ground.wait(self.env.ground.store().move_task(step.clone()));
        if moved.is_ok() {
            self.env.oracle.moved(&step)?;
        }
        self.env.tell(|| format!("{task} is to be tried now: {}", moved.is_ok()));
        Ok(())
    }

    /// Someone wants a task no more: it is cancelled, or recalled where it runs.
    fn recall(&mut self) -> Result<bool, Violation> {
        let Some(task) = self.env.chance.pick(&self.tasks).copied() else { return Ok(false) };
        let row = self.env.ground.wait(self.env.ground.store().task(task)).ok().flatten();
        let Some(row) = row else { return Ok(false) };
        match row.state {
            TaskState::Running => {}
            TaskState::Queued | TaskState::Waiting => return self.cancel(task, &row),
            TaskState::Review
            | TaskState::Done
            | TaskState::Failed
            | TaskState::Cancelled
            | TaskState::Unknown => return Ok(false),
        }
        let recalled = self.env.ground.wait(self.env.ground.store().recall(task, row.fence));
        if recalled.is_ok() {
            self.env.oracle.recalled(task);
        }
        self.env.tell(|| format!("{task} is recalled: {}", recalled.is_ok()));
        Ok(true)
    }

    fn cancel(&mut self, task: TaskId, row: &TaskRow) -> Result<bool, Violation> {
        let step = step(task, row.fence, row.state, TaskState::Cancelled);
        let cancelled = self.env.ground.wait(self.env.ground.store().move_task(step.clone()));
        if cancelled.is_ok() {
            self.env.oracle.moved(&step)?;
        }
        self.env.tell(|| format!("{task} is cancelled: {}", cancelled.is_ok()));
        Ok(true)
    }

    fn step_node(&mut self, index: usize) -> Result<bool, Violation> {
        if !self.nodes[index].awake(self.env.boot_ms) {
            return Ok(false);
        }
        if self.env.options.sharing == Sharing::OneHost && self.lock != Some(index) {
            if self.lock.is_some() {
                return Ok(false);
            }
            self.lock = Some(index);
            self.env.tell(|| format!("node {index} takes the lock"));
        }
        let queued = self.queued();
        let node = &mut self.nodes[index];
        let Some(did) = node.step(&mut self.env, queued)? else { return Ok(false) };
        self.takeovers += u64::from(did == "takes over a run");
        self.env.tell(|| format!("node {index} {did}"));
        if !self.nodes[index].up && self.lock == Some(index) {
            self.lock = None;
        }
        Ok(true)
    }

    /// One of those that the queue says could be started.
    fn queued(&mut self) -> Option<Queued> {
        if !self.env.lags() {
            let heads = self.env.ground.wait(self.env.ground.store().heads()).ok()?;
            let queued = |head: &Head| Queued { task: head.task.id, fence: head.task.fence };
            self.heads = heads.iter().map(queued).collect();
        }
        self.env.chance.pick(&self.heads).copied()
    }

    fn step_keeper(&mut self, at: usize) -> Result<bool, Violation> {
        let Some((run, keeper)) = self.env.keepers.iter_mut().nth(at) else { return Ok(false) };
        let run = *run;
        let now_ms = self.env.boot_ms;
        let did = keeper.step(now_ms, &mut self.env.chance, &mut self.env.oracle)?;
        if let Some(did) = did {
            self.env.tell(|| format!("the keeper of {run} {did}"));
        }
        Ok(did.is_some())
    }

    fn step_call(&mut self, at: usize) -> Result<bool, Violation> {
        let (faulty, now_ms) = (self.faulty, self.env.boot_ms);
        let Some(call) = self.env.calls.get(at) else { return Ok(false) };
        let (id, index, asked_ms, incarnation) =
            (call.id, call.node, call.asked_ms, call.incarnation);
        let (orphan, done) = (call.orphan, call.answer.is_some());
        let waits = !orphan && self.env.incarnations[index] == incarnation;
        let late = faulty
            && self.env.options.has(Fault::LateRequest)
            && self.env.options.sharing == Sharing::SharedStore;
        if !done {
            if waits && late && self.env.chance.one_in(8) && self.nodes[index].awake(now_ms) {
                self.env.calls[at].orphan = true;
                let answer = unsure(&self.env.calls[at].verb);
                self.env.tell(|| format!("node {index} gives up on request {id}"));
                return self.deliver(index, id, asked_ms, answer);
            }
            // Nobody waits for the answer to these.
            let unheeded =
                orphan || matches!(self.env.calls[at].verb, Verb::Move(_) | Verb::Reserve(_));
            if unheeded && late && !self.env.chance.one_in(LINGER_RARITY) {
                return Ok(false);
            }
            let what = self.env.apply(at)?;
            self.env.tell(|| format!("the store {what} (request {id} of node {index})"));
            return Ok(true);
        }
        if !waits {
            self.env.calls.swap_remove(at);
            return Ok(false);
        }
        if !self.nodes[index].awake(now_ms) {
            return Ok(false);
        }
        let call = self.env.calls.swap_remove(at);
        let lost = faulty && self.env.options.has(Fault::LostAnswer) && self.env.chance.one_in(4);
        let answer = match call.answer {
            Some(answer) if !lost => answer,
            _ => unsure(&call.verb),
        };
        self.deliver(index, id, asked_ms, answer)
    }

    fn deliver(
        &mut self,
        index: usize,
        id: u64,
        asked_ms: u64,
        answer: Answer,
    ) -> Result<bool, Violation> {
        let did = self.nodes[index].answered(&mut self.env, id, asked_ms, answer)?;
        if let Some(did) = did {
            self.env.tell(|| format!("node {index} {did} (request {id})"));
        }
        Ok(true)
    }

    /// Someone wishes something of a run, or the same again.
    fn step_client(&mut self) -> Result<bool, Violation> {
        if !self.faulty {
            return Ok(false);
        }
        if self.env.options.has(Fault::RepeatedWish)
            && self.env.chance.one_in(2)
            && let Some(wish) = self.last_wish.clone()
        {
            let _ = self.env.ground.wait(self.env.ground.store().command(wish));
            self.env.tell(|| "a wish is sent again".to_owned());
            return Ok(true);
        }
        if self.env.chance.one_in(RECALL_RARITY) {
            return self.recall();
        }
        let runs: Vec<RunId> = self.env.keepers.keys().copied().collect();
        let Some(run) = self.env.chance.pick(&runs).copied() else { return Ok(false) };
        if self.wishes >= WISHES_MAX || !self.env.chance.one_in(3) {
            return Ok(false);
        }
        self.wishes += 1;
        let id = CommandId::new(self.env.uuid());
        let wish = match self.env.chance.below(5) {
            0 => Wish::Stop { reason: Code::Cancelled, at_once: self.env.chance.one_in(2) },
            _ => Wish::Say { text: format!("say {id}") },
        };
        let asked_at = self.env.now(0).wall;
        let wish = NewCommand { id, run, asked_at, wish: self.env.seal.json(&wish) };
        let accepted = self.env.ground.wait(self.env.ground.store().command(wish.clone()));
        if accepted.is_ok() {
            self.env.oracle.wished(id, run);
            self.last_wish = Some(wish);
        }
        self.env.tell(|| format!("{id} is wished of {run}: {}", accepted.is_ok()));
        Ok(true)
    }

    /// Something goes wrong. False when the chosen thing cannot.
    fn fault(&mut self) -> Result<bool, Violation> {
        let Some(fault) = self.env.chance.pick(&self.env.options.faults.clone()).copied() else {
            return Ok(false);
        };
        let any = self.env.chance.below(self.nodes.len());
        // Where one node hosts, what happens to the others matters less.
        let index = self.lock.filter(|_| any.is_multiple_of(2)).unwrap_or(any);
        let lease_ms = self.env.options.lease_ms as usize;
        match fault {
            Fault::Pause => {
                let ms = self.env.chance.below(3 * lease_ms) as u64;
                self.nodes[index].paused_until_ms = self.env.boot_ms + ms;
                self.env.tell(|| format!("node {index} stands still for {ms} ms"));
            }
            Fault::Freeze => {
                let ms = self.env.chance.below(3 * lease_ms) as u64;
                self.env.pass(ms);
                self.env.tell(|| format!("everything stands still for {ms} ms"));
            }
            Fault::Crash => self.crash(index)?,
            Fault::Trouble => {
                let ms = self.env.chance.below(2 * lease_ms) as u64;
                self.env.trouble_until_ms = self.env.boot_ms + ms;
                self.env.tell(|| format!("the store is in trouble for {ms} ms"));
            }
            Fault::WallJump => {
                let by_ms = *self.env.chance.pick(&JUMPS_MS).unwrap_or(&1);
                let by_ms = if self.env.chance.one_in(2) { by_ms } else { -by_ms };
                self.env.wall_ms += by_ms;
                self.env.tell(|| format!("the wall clock is set by {by_ms} ms"));
            }
            Fault::WallRate => {
                self.env.rate = *self.env.chance.pick(&[50, 100, 200]).unwrap_or(&RATE);
                let rate = self.env.rate;
                self.env.tell(|| format!("the wall clock runs at {rate} percent"));
            }
            Fault::KeeperDeath | Fault::AgentDeath => return Ok(self.kill(fault)),
            Fault::HandOver => {
                let host = self.lock.filter(|host| self.nodes[*host].awake(self.env.boot_ms));
                let Some(host) = host else { return Ok(false) };
                self.nodes[host].leaving_since_ms.get_or_insert(self.env.boot_ms);
                self.env.tell(|| format!("node {host} is asked to make room"));
            }
            // These happen to requests and wishes on their way.
            Fault::LostAnswer
            | Fault::LateRequest
            | Fault::RepeatedWish
            | Fault::Skew
            | Fault::StaleRead => return Ok(false),
        }
        Ok(true)
    }

    /// A dead process of one host leaves no request behind: each was done or never will be.
    fn crash(&mut self, index: usize) -> Result<(), Violation> {
        if !self.nodes[index].up {
            self.nodes[index].up = true;
            self.env.tell(|| format!("node {index} comes back"));
            return Ok(());
        }
        self.env.tell(|| format!("node {index} dies"));
        if self.env.options.sharing == Sharing::OneHost {
            for at in (0..self.env.calls.len()).rev() {
                if self.env.calls[at].node != index {
                    continue;
                }
                if self.env.calls[at].answer.is_none() && self.env.chance.one_in(2) {
                    self.env.apply(at)?;
                }
                self.env.calls.swap_remove(at);
            }
        }
        self.nodes[index].end(&mut self.env);
        if self.lock == Some(index) {
            self.lock = None;
        }
        Ok(())
    }

    fn kill(&mut self, fault: Fault) -> bool {
        let lives = |keeper: &&mut super::keeper::Keeper| keeper.stage == Stage::Holding;
        let mut living: Vec<_> = self.env.keepers.values_mut().filter(lives).collect();
        let pick = self.env.chance.below(living.len());
        let Some(keeper) = living.get_mut(pick) else { return false };
        let run = keeper.run;
        let what = match fault {
            Fault::KeeperDeath => {
                keeper.die();
                "the keeper"
            }
            _ => {
                keeper.kill_agent();
                "the agent"
            }
        };
        self.env.tell(|| format!("{what} of {run} is killed"));
        true
    }

    fn unsettled(&self) -> Vec<RunId> {
        let page = RunsPage { before: None, limit: EVENTS_MAX, unsettled_only: true };
        let rows = self.env.ground.wait(self.env.ground.store().runs(page)).unwrap_or_default();
        rows.into_iter().map(|row| row.id).collect()
    }

    /// Tasks that someone still wants, and where they stand.
    fn open(&self) -> Vec<(TaskId, TaskState)> {
        let open = |task: &TaskId| {
            let row = self.env.ground.wait(self.env.ground.store().task(*task)).ok().flatten()?;
            match row.state {
                TaskState::Queued | TaskState::Waiting | TaskState::Running => {
                    Some((*task, row.state))
                }
                TaskState::Review
                | TaskState::Done
                | TaskState::Failed
                | TaskState::Cancelled
                | TaskState::Unknown => None,
            }
        };
        self.tasks.iter().filter_map(open).collect()
    }

    fn is_over(&self) -> bool {
        self.open().is_empty() && self.is_at_rest()
    }

    /// Whether no run is under way, and no agent.
    fn is_at_rest(&self) -> bool {
        let living = self.env.keepers.values().any(|keeper| keeper.agent.is_some());
        !living && self.nodes.iter().all(Node::is_idle) && self.unsettled().is_empty()
    }

    fn unfinished(&self) -> String {
        let living = self.env.keepers.values().filter(|keeper| keeper.agent.is_some());
        let living: Vec<RunId> = living.map(|keeper| keeper.run).collect();
        let unsettled = self.unsettled();
        format!("unsettled {unsettled:?}, agents alive {living:?}, tasks {:?}", self.open())
    }

    /// Everything has ended: the store has what it took, and what the agents said, once.
    fn compare(&mut self) -> Result<(), Violation> {
        // Of each task how many runs have ended, and how many of them well.
        let mut ended: BTreeMap<TaskId, (u32, u32)> = BTreeMap::new();
        let runs: Vec<RunId> = self.env.keepers.keys().copied().collect();
        for run in runs {
            let row = self.env.ground.wait(self.env.ground.store().run(run)).ok().flatten();
            let page = self.env.ground.store().page(run, 0, EVENTS_MAX);
            let stored = match self.env.ground.wait(page) {
                Ok(page) => page.events,
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return broken(Promise::Kept, error.to_string()),
            };
            self.env.oracle.compare(run, row.as_ref(), &stored)?;
            if let Some(row) = row.filter(|row| row.state == RunState::Settled) {
                let (all, well) = ended.entry(row.task).or_default();
                *all += 1;
                *well += u32::from(row.outcome == Some(contract::Outcome::Succeeded));
            }
            self.compare_words(run, &stored)?;
        }
        for task in &self.tasks {
            match ended.get(task) {
                None if self.env.oracle.is_cancelled(*task) => {}
                None => return broken(Promise::EndsOnce, format!("no run of {task} has ended")),
                Some((_, 0 | 1)) => {}
                Some((_, well)) => {
                    return broken(Promise::DoneOnce, format!("{task} was done {well} times"));
                }
            }
        }
        Ok(())
    }

    fn compare_words(&self, run: RunId, stored: &[store::StoredEvent]) -> Result<(), Violation> {
        let mut texts = Vec::new();
        let mut results = 0;
        let mut lost = false;
        for event in stored {
            let Ok(event) = serde_json::from_slice::<Event>(&event.bytes) else { continue };
            match event.body {
                Body::AssistantText(text) => texts.push(text.text),
                Body::Result(result) => {
                    results += 1;
                    lost = result.outcome == contract::event::Outcome::Lost;
                }
                _ => {}
            }
        }
        if results != 1 {
            return broken(Promise::EndsOnce, format!("{run} has {results} results"));
        }
        let Some(keeper) = self.env.keepers.get(&run) else { return Ok(()) };
        let said: Vec<String> = keeper
            .spool
            .iter()
            .filter_map(|record| match record {
                Record::Line(Line::Text(n)) => Some(format!("text {n}")),
                Record::Line(_) | Record::Exit(_) => None,
            })
            .collect();
        let whole = texts == said || (lost && said.starts_with(&texts));
        match whole {
            true => Ok(()),
            false => broken(Promise::Heard, format!("{run} said {said:?}, stored {texts:?}")),
        }
    }
}

fn step(task: TaskId, fence: u64, from: TaskState, to: TaskState) -> TaskMove {
    TaskMove { task, fence, from, to, waiting_for: None, pool: None, follow: Follow::default() }
}

fn unsure(verb: &Verb) -> Answer {
    match verb {
        Verb::Claim(_) => Answer::Claimed(Err(Error::Unacknowledged)),
        Verb::Commit { .. }
        | Verb::Renew { .. }
        | Verb::Move(_)
        | Verb::Again(_)
        | Verb::Reserve(_) => Answer::Done(Err(Error::Unacknowledged)),
        Verb::Reap { .. } => Answer::Reaped(Err(Error::Unacknowledged)),
    }
}
