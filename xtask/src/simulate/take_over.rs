//! Taking over a run, in the steps of `crates/host/src/adopt.rs`: find its keeper, read where its
//! last Batch stopped, go on from there. Between any two steps the node may stand still.

use super::breaks::Break;
use super::drive::{Drive, Ending, HostState, Intent, Parts, only_reads};
use super::env::Env;
use super::ground::Ground;
use super::keeper::{Found, Keeper, Stage};
use contract::event::{Body, Lifecycle, Phase};
use contract::speech::ToolAnswer;
use contract::{Code, Draft, RunId};
use engine::rules::lease::Lease;
use engine::rules::resume::{self, Again};
use engine::{Effect, Input, Machine, Terms};
use store::backend::Backend;

/// A run that a node is taking over.
pub struct TakeOver {
    pub run: RunId,
    pub fence: u64,
    pub head_seq: u64,
    /// On the lease clock, as far as whoever takes over can know.
    pub until_ms: u64,
    /// Its keeper's lease is over: one that does not answer is ended.
    pub expired: bool,
    pub found: Option<Found>,
}

/// What came of a step.
pub enum Taken {
    Found(&'static str),
    Over(Box<Drive>),
    GivenUp,
}

impl TakeOver {
    pub fn step<G: Ground>(&mut self, node: usize, env: &mut Env<G>) -> Taken {
        match self.found.take() {
            None => self.find(env),
            Some(found) => self.go_on(node, env, found),
        }
    }

    fn find<G: Ground>(&mut self, env: &mut Env<G>) -> Taken {
        if env.flaw == Some(Break::FenceFromRow)
            && let Ok(Some(row)) = env.ground.wait(env.ground.store().run(self.run))
        {
            (self.fence, self.head_seq) = (row.fence, row.head_seq);
        }
        let conn = env.number();
        let keeper = env.keepers.get_mut(&self.run);
        let found = match keeper.map(|keeper| (keeper.find(conn, self.fence), keeper)) {
            None => Found::Dead,
            Some((Found::Silent, keeper)) if self.expired => {
                keeper.die();
                keeper.sweep();
                Found::Dead
            }
            Some((found, _)) => found,
        };
        let what = match &found {
            Found::Lives { .. } => "finds a living keeper",
            Found::Dead => "finds a dead keeper",
            Found::Silent => return Taken::GivenUp,
        };
        self.found = Some(found);
        Taken::Found(what)
    }

    fn go_on<G: Ground>(&mut self, node: usize, env: &mut Env<G>, found: Found) -> Taken {
        let Ok(point) = env.ground.wait(env.ground.store().resume_point(self.run)) else {
            return Taken::GivenUp;
        };
        let now = env.now(node);
        let read = point.as_ref().and_then(|point| {
            let machine: Machine = serde_json::from_slice(&point.machine).ok()?;
            let host: HostState = serde_json::from_slice(&point.host).ok()?;
            Some((machine, host))
        });
        let is_readable = read.is_some();
        let (machine, host) = read.unwrap_or_else(|| {
            let terms = Terms::from(&Default::default(), self.fence, 1);
            (Machine::new(terms, now), HostState { heard: 0, next_effect: 0, next_frame: 0 })
        });
        let lease_ms = env.options.lease_ms;
        let (conn, reached) = match &found {
            Found::Lives { conn, reached } => (Some(*conn), *reached),
            Found::Dead | Found::Silent => (None, 0),
        };
        let mut drive = Drive::new(Parts {
            node,
            run: self.run,
            fence: self.fence,
            machine,
            next_seq: self.head_seq + 1,
            conn,
            lease: Lease::taken_over(now.mono_ms, self.until_ms, lease_ms),
            wall_until_ms: now.wall.ms() + lease_ms as i64,
        });
        drive.heard = if env.flaw == Some(Break::HearAgain) { 0 } else { host.heard };
        (drive.next_effect, drive.next_frame) = (host.next_effect, host.next_frame);
        if env.flaw == Some(Break::EffectsRenumbered) {
            drive.next_effect = 0;
        }
        let keeper = env.keepers.get_mut(&self.run);
        drive.intake = keeper.as_ref().is_some_and(|keeper| keeper.dir);
        if conn.is_none() {
            drive.ending = Ending::KeeperGone;
            keeper.into_iter().for_each(Keeper::sweep);
        }
        if !is_readable || !drive.intake {
            drive.ending = Ending::Told;
            if let Some(keeper) = env.keepers.get_mut(&self.run) {
                keeper.die();
                keeper.sweep();
            }
            drive.step(now, Input::Lost { why: "its state cannot be read".to_owned() });
            return Taken::Over(Box::new(drive));
        }
        let adopted = Lifecycle { phase: Phase::Adopted, why: None, pid: None, isolation: None };
        drive.pending.drafts.push(Draft::ostler(Body::Lifecycle(adopted)));
        if conn.is_some() {
            // The last holder may have died between the launch and hearing of it.
            let row = env.ground.wait(env.ground.store().run(self.run)).ok().flatten();
            if row.is_some_and(|row| row.pid.is_none()) {
                drive.pid = Some(1);
                drive.step(now, Input::Launched { pid: 1, isolation: "none".to_owned() });
            }
            for effect in point.into_iter().flat_map(|point| point.effects) {
                let Ok(intent) = serde_json::from_slice::<Intent>(&effect.bytes) else { continue };
                drive.pending.done.push(effect.n);
                self.repeat(env, &mut drive, intent, reached);
            }
        }
        Taken::Over(Box::new(drive))
    }

    /// An effect that was decided and is not known to be done.
    fn repeat<G: Ground>(&self, env: &mut Env<G>, drive: &mut Drive, intent: Intent, reached: u32) {
        let said = intent.frame.is_some_and(|n| n <= reached) && env.flaw != Some(Break::SayAgain);
        let may_repeat = match &intent.effect {
            Effect::Relay(call) => only_reads(call) || env.flaw == Some(Break::CallAgain),
            _ => false,
        };
        if env.flaw == Some(Break::LaunchAgain) && intent.effect == Effect::Launch {
            if let Some(keeper) = env.keepers.get_mut(&self.run) {
                keeper.remove_dir();
                keeper.stage = Stage::Waiting;
            }
            drive.has_plan = true;
            drive.plan_deadline_ms = self.until_ms;
            return drive.intend(Effect::Launch);
        }
        match resume::again(&intent.effect, said, may_repeat) {
            Again::Nothing => {}
            Again::SayTheRest | Again::Repeat => drive.intend(intent.effect),
            Again::AnswerUnknown => {
                let Effect::Relay(call) = intent.effect else { return };
                let message = "whether it was carried out is not known".to_owned();
                let answer = ToolAnswer::Error { code: Code::ProcessLost, message };
                let tool_call_id = call.tool_call_id;
                let now = env.now(drive.node);
                drive.step(now, Input::Answered { tool_call_id, answer, duration_ms: 0 });
            }
        }
    }
}
