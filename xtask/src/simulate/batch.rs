//! From what is pending to a Batch, as `crates/host/src/batch.rs` makes it: numbered, sealed, with
//! all that a successor needs.

use super::drive::{Commit, Drive, HostState, Intent, only_reads};
use super::env::Env;
use super::ground::Ground;
use super::oracle::Asks;
use contract::RunState;
use contract::event::{Body, Envelope, Origin};
use contract::state::Review;
use engine::rules::errand::{Ended, Next, after};
use engine::{Booked, Covers, Effect, Now};
use store::backend::Backend;
use store::{Batch, Follow, LedgerRow, Seal, Settle};

impl Drive {
    pub fn make_batch<G: Ground>(&mut self, env: &Env<G>) -> Commit {
        let now = env.now(self.node);
        let seal = &env.seal;
        let pending = std::mem::take(&mut self.pending);
        let mut settle = None;
        let mut events = Vec::with_capacity(pending.drafts.len());
        for (seq, draft) in (self.next_seq..).zip(&pending.drafts) {
            if let Body::Result(result) = &draft.body {
                let tries = self.tries(env);
                let next = after(&Ended {
                    outcome: result.outcome,
                    code: result.code,
                    launched: self.pid.is_some(),
                    resets_at: None,
                    review: Review::None,
                    tries,
                    tries_max: None,
                    others: false,
                    now: now.wall,
                    jitter01: 0.5,
                });
                let Next { state, waiting_for, until, again, .. } = next;
                settle = Some(Settle {
                    outcome: result.outcome,
                    code: result.code,
                    ended_at: now.wall,
                    task_state: state,
                    waiting_for,
                    follow: Follow {
                        until,
                        tries: again.then_some(tries + 1),
                        ..Follow::default()
                    },
                    message: seal.given(result.message.as_deref().unwrap_or_default()),
                    turns: u64::from(self.machine.turns()),
                    unspent: false,
                    is_included: false,
                });
            }
            let (run_id, fence) = (self.run, self.fence);
            let origin = if draft.origin == Origin::Agent { Origin::Agent } else { Origin::Ostler };
            let stamp = Envelope { run_id, seq, ts: now.wall, attempt: 1, fence, origin };
            events.push(seal.event(&stamp, &draft.body, None));
        }
        let last_seq = self.next_seq + events.len() as u64 - 1;
        let host = HostState {
            heard: self.heard,
            next_effect: self.next_effect,
            next_frame: self.next_frame,
        };
        let stored = |intent: &Intent| store::Effect { n: intent.n, bytes: seal.json(intent) };
        let batch = Batch {
            run: self.run,
            fence: self.fence,
            first_seq: self.next_seq,
            events,
            machine: seal.json(&self.machine),
            dialect: seal.json(&()),
            host: seal.json(&host),
            spool_offset: self.heard as u64,
            taken: pending.taken,
            effects_todo: pending.effects.iter().map(stored).collect(),
            effects_done: pending.done,
            run_state: if settle.is_some() { RunState::Settled } else { self.machine.state() },
            pid: self.pid,
            totals: Some(self.machine.totals()),
            report: None,
            ledger: pending.booked.into_iter().map(|booked| row(seal, now, booked)).collect(),
            session: None,
            session_stale: false,
            settle,
        };
        let mut asks = Asks::default();
        for intent in &pending.effects {
            match &intent.effect {
                Effect::Launch => asks.launch = true,
                Effect::Say(_) => asks.words.push(intent.words.clone()),
                Effect::Relay(call) if !only_reads(call) => asks.words.push(intent.words.clone()),
                Effect::Relaunch
                | Effect::Reply
                | Effect::Relay(_)
                | Effect::CloseStdin
                | Effect::Stop { .. }
                | Effect::Settle => {}
            }
        }
        Commit { batch, asks, effects: pending.effects, last_seq, again: false, stop_told: false }
    }
}

impl Drive {
    /// How often the task of this run was tried again before.
    fn tries<G: Ground>(&self, env: &Env<G>) -> u32 {
        let store = env.ground.store();
        let run = env.ground.wait(store.run(self.run)).ok().flatten();
        let task = run.and_then(|run| env.ground.wait(store.task(run.task)).ok().flatten());
        task.map_or(0, |task| task.tries)
    }
}

fn row(seal: &Seal, now: Now, booked: Booked) -> LedgerRow {
    let reach = |covers| match covers {
        Covers::Nothing => store::Covers::Nothing,
        Covers::Model => store::Covers::Model,
        Covers::Run => store::Covers::Run,
    };
    LedgerRow {
        at: now.wall,
        provider: seal.given(&booked.provider),
        model: seal.given(&booked.model),
        tokens: booked.tokens,
        nanousd: booked.nanousd,
        unpriced: booked.unpriced,
        covers: reach(booked.covers),
        approximate: booked.approximate,
        replaces: reach(booked.replaces),
    }
}
