//! Those that wait for something and do not know until when: a directory someone works in, an agent
//! that is paused, a budget without a window. Tasks of one agent in one directory pass the same gates,
//! so of each such crowd the first is asked, and the others stay where they are; a thousand that wait
//! for one directory cost one question. What is a task's own matter, its budget or that of a task
//! above it, makes a crowd apart. What is asked and still held is not written again. A round
//! goes on where it stopped, so that however many crowds there are, each comes up and none keeps
//! the others from being looked at.

use super::{keeps, moved, room, wait};
use crate::Host;
use crate::ops::fit::{self, Taker};
use crate::ops::run::stored;
use contract::Fault;
use contract::state::{TaskState, WaitingFor};
use engine::rules::hold::Hold;
use store::{Crowd, CrowdsPage, Follow, Head};

/// Crowds that are asked in one look, so that whoever comes meanwhile is looked at too.
const CROWDS_MAX: usize = 64;
/// What a task may wait for without a time, and go on by itself.
const REASONS: [WaitingFor; 3] = [WaitingFor::Workspace, WaitingFor::Agent, WaitingFor::Budget];

/// Where the present round of questions stands.
#[derive(Debug)]
pub(super) struct Round {
    at: Option<At>,
    /// Something happened that the crowds before may have waited for.
    once_more: bool,
}

#[derive(Debug)]
struct At {
    /// The place in `REASONS`.
    reason: usize,
    after: Option<Crowd>,
}

impl Round {
    /// Everyone is asked.
    pub fn whole() -> Self {
        Self { at: Some(At { reason: 0, after: None }), once_more: false }
    }

    /// Everyone is asked, after those who are being asked.
    pub fn begin(&mut self) {
        match self.at {
            Some(_) => self.once_more = true,
            None => *self = Self::whole(),
        }
    }

    /// Whether some are still to be asked.
    pub fn goes_on(&self) -> bool {
        self.at.is_some()
    }

    /// Asks the next crowds, and queues the first of those that nothing holds any more.
    pub async fn wake(&mut self, host: &Host) -> Result<(), Fault> {
        let mut left = CROWDS_MAX;
        while let Some(At { reason, after }) = self.at.take() {
            let Some(why) = REASONS.get(reason).copied() else {
                // Where one was let go, the next of its crowd may be able to go as well.
                if self.once_more {
                    *self = Self::whole();
                }
                return Ok(());
            };
            if left == 0 {
                self.at = Some(At { reason, after });
                return Ok(());
            }
            let page = CrowdsPage { why, after: after.clone(), limit: left };
            // Should the store not answer, the round goes on from here.
            self.at = Some(At { reason, after });
            let heads = host.store().crowds(page).await.map_err(stored)?;
            self.at = Some(match heads.last().map(|head| &head.task) {
                None => At { reason: reason + 1, after: None },
                Some(last) => {
                    let (agent, cwd, of) =
                        (last.agent.clone(), last.cwd.clone(), last.pool.clone());
                    At { reason, after: Some(Crowd { why, agent, cwd, of }) }
                }
            });
            left -= heads.len();
            for head in &heads {
                match ask(host, head, why).await? {
                    Asked::Stays => continue,
                    Asked::Apart(hold) => {
                        wait(host, &head.task, hold).await?;
                    }
                    Asked::Goes => {
                        moved(host, &head.task, TaskState::Queued, Follow::default(), None).await?;
                    }
                }
                self.once_more = true;
            }
        }
        Ok(())
    }
}

/// What the first of a crowd says.
enum Asked {
    /// What they wait for is not there.
    Stays,
    /// It is held by what is its own, and those behind it may be held by something else, or nothing.
    Apart(Hold),
    Goes,
}

/// Whether what a crowd waited for is there. One whose agent has its hands full is asked when a run of
/// it has ended.
async fn ask(host: &Host, head: &Head, why: WaitingFor) -> Result<Asked, Fault> {
    if room(host, head).await.is_full() {
        return Ok(Asked::Stays);
    }
    let hold = match head.task.agent.as_str() {
        "" => match fit::taker(host, &head.task).await? {
            Taker::Agent(_) => None,
            Taker::Busy => return Ok(Asked::Stays),
            Taker::Nobody(hold) => Some(hold),
        },
        _ => keeps(host, &head.task).await?,
    };
    let Some(hold) = hold.filter(|hold| hold.why == why && hold.until.is_none()) else {
        return Ok(Asked::Goes);
    };
    let apart = hold.of.is_none_or(|of| head.task.pool == Some(of.to_string()));
    Ok(if apart { Asked::Stays } else { Asked::Apart(hold) })
}
