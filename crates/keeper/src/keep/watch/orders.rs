//! What the owner of a keeper may ask for, and how somebody becomes its owner.
//!
//! The agent runs under our uid and can dial this socket. What keeps it from renewing its own
//! lease is the secret in the hello, and nothing else is heard from a newcomer.

use super::{Phase, Watch};
use crate::keep::control::{Connection, Heard};
use crate::keep::ladder::Graces;
use crate::limits::ORDERS_PER_TURN_MAX;
use crate::record::{Note, Rung};
use crate::wire::{HelloReply, Order, Refusal, Report, Stage, VERSION, VERSION_OLDEST};

impl Watch {
    /// Carries out what the owner has sent, and sends it what waits. Its end is not ours: the
    /// agent goes on until the lease is over or somebody dials.
    pub(super) fn hear_owner(&mut self) {
        for _ in 0..ORDERS_PER_TURN_MAX {
            let Some(owner) = &mut self.control.owner else { return };
            match owner.hear(&mut self.packet) {
                Heard::Order(order) => self.carry_out(order),
                Heard::Nothing => break,
                Heard::Gone => {
                    self.control.owner = None;
                    return;
                }
            }
        }
        self.control.owner.take_if(|owner| !owner.send_on());
    }

    /// Newcomers are heard in the order in which they came: of several with the same fence all but
    /// the last are servers that died at the door, and must not take the keeper from the living one.
    pub(super) fn hear_newcomers(&mut self) {
        let waiting = std::mem::take(&mut self.control.newcomers);
        for mut newcomer in waiting {
            match newcomer.hear(&mut self.packet) {
                Heard::Order(order) => self.receive(newcomer, order),
                Heard::Nothing => self.control.newcomers.push(newcomer),
                Heard::Gone => {}
            }
        }
    }

    /// A newcomer becomes the owner or is sent away; only its first order counts.
    fn receive(&mut self, mut newcomer: Connection, order: Order) {
        let admitted = match order {
            Order::Hello { secret, fence, version } => self.admit(&secret, fence, version),
            _ => Err(Refusal::Malformed),
        };
        match admitted {
            Ok(()) => {
                let reply = self.hello_reply(self.secrets.clone(), self.luggage.clone());
                self.control.owner = Some(newcomer);
                self.control.report(&Report::Hello(Box::new(reply)));
            }
            Err(why) => {
                newcomer.send(&Report::Refused { n: 0, why });
            }
        }
    }

    pub(super) fn hello_reply(
        &self,
        secrets: Vec<(String, String)>,
        luggage: Option<String>,
    ) -> HelloReply {
        HelloReply {
            version: VERSION,
            fence: self.lease.fence(),
            agent_pid: self.agent.and(self.seen.agent_pid),
            keeper_pid: self.seen.keeper_pid,
            last_said: self.voice.last_said(),
            held: self.voice.held(),
            spool_len: self.spool.len(),
            deadline_ms: self.lease.deadline_ms(),
            stage: self.stage(),
            isolation: self.seen.isolation,
            isolation_note: self.seen.isolation_note.clone(),
            secrets,
            luggage,
            answers_pings: true,
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Say { n, bytes } => self.speak(|voice, spool| voice.say(n, bytes, spool)),
            Order::CloseStdin { n } => self.speak(|voice, spool| voice.close(n, spool)),
            Order::Farewell { bytes } => self.farewell = Some(bytes),
            Order::Renew { fence, deadline_ms } => match self.lease.renew(fence, deadline_ms) {
                Ok(true) => self.spool.note(&Note::Renewed { fence, deadline_ms }),
                // The agent was told to leave; the note of that is in the spool, where the host reads it.
                Ok(false) => {}
                Err(why) => self.control.report(&Report::Refused { n: 0, why }),
            },
            Order::Stop { reason, farewell_ms, term_ms } => {
                self.stop(&reason, Graces { farewell_ms, term_ms });
            }
            Order::Hello { secret, fence, version } => {
                let report = match self.admit(&secret, fence, version) {
                    Ok(()) => {
                        let reply = self.hello_reply(self.secrets.clone(), self.luggage.clone());
                        Report::Hello(Box::new(reply))
                    }
                    Err(why) => Report::Refused { n: 0, why },
                };
                self.control.report(&report);
            }
            Order::Ping { n } => self.control.report(&Report::Pong { n }),
            Order::Plan(_) | Order::Launch => {
                self.control.report(&Report::Refused { n: 0, why: Refusal::Malformed });
            }
        }
    }

    fn admit(&mut self, secret: &str, fence: u64, version: u32) -> Result<(), Refusal> {
        if !same(secret.as_bytes(), self.hello_secret.as_bytes()) {
            return Err(Refusal::Secret);
        }
        if !(VERSION_OLDEST..=VERSION).contains(&version) {
            return Err(Refusal::Version);
        }
        self.lease.pass_fence(fence)?;
        self.spool.note(&Note::Owner { fence });
        Ok(())
    }

    fn stage(&self) -> Stage {
        match (self.phase, self.ladder.rung()) {
            (Phase::Alive, None) => Stage::Running,
            (Phase::Alive, Some(Rung::Farewell)) => Stage::Farewell,
            (Phase::Alive, Some(Rung::Term)) => Stage::Term,
            (Phase::Alive, Some(Rung::Kill)) => Stage::Kill,
            (Phase::Drain(_), _) => Stage::Drain,
            (Phase::Sweep(..), _) => Stage::Sweep,
            (Phase::Last | Phase::Over, _) => Stage::Over,
        }
    }
}

/// Compares in a time that does not depend on where the first difference is. An empty secret is
/// the same as none.
fn same(shown: &[u8], secret: &[u8]) -> bool {
    let differences = shown.iter().zip(secret).fold(0, |all, (a, b)| all | (a ^ b));
    !secret.is_empty() && shown.len() == secret.len() && differences == 0
}
