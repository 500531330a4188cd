//! Which process dies where and when: the whole schedule follows from the seed and the number of
//! kills, so that one case of it can be had again by its number. Points are taken in turn, with a
//! kill at a mere instant now and then; how they fit together into cases is decided here, and
//! nothing is killed.

use crate::fuzz::Chance;
use failpoint::Point;

/// Kills of one data directory, each in a life of the server that the one before it began.
const LIVES_MAX: usize = 4;
/// One kill in so many hits at an instant instead of a point.
const INSTANT_EVERY: usize = 8;

/// When a point can be passed at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the first life of a data directory, before anyone can be told anything.
    Bare,
    /// In the first life of a data directory.
    First,
    /// In any life of a server.
    Any,
    /// In a life that finds runs to take over.
    Later,
    /// In a life that finds a run without its keeper.
    Bereft,
    /// In a keeper.
    Keeper,
    /// In a command that makes room for a server.
    Handover,
    /// In a server that slept for longer than its lease.
    Sleeper,
}

/// Where a point is passed, and about how often in one life.
pub fn place(point: Point) -> (Place, u64) {
    use Point::*;
    match point {
        CommitBefore | CommitAfter | Answered => (Place::Any, 30),
        BatchMade | BatchCommitted | EffectsDone => (Place::Any, 20),
        PageRead => (Place::Any, 12),
        CheckpointBefore | CheckpointAfter => (Place::Any, 2),
        RunPut | KeeperSpawned | RunBegun | SpoolMade | PlanSent | LaunchOrdered => (Place::Any, 3),
        StartUnanswered => (Place::Any, 3),
        WishPut | WishUnanswered | FrameOrdered => (Place::Any, 5),
        // The texts of all agents are the same: each blob is written once in a directory.
        BlobWritten => (Place::First, 2),
        BlobSynced | BlobRenamed => (Place::Any, 2),
        BlobDurable => (Place::Any, 3),
        TraceWritten => (Place::Any, 12),
        SegmentsDropped => (Place::Any, 1),
        SettleBefore | Settled | SpoolRemoved => (Place::Any, 2),
        TokenLinked => (Place::Bare, 1),
        Migrated => (Place::Bare, 11),
        TaskPut | TaskUnanswered | HeadsRead => (Place::Any, 2),
        TaskBegun | DecisionUnanswered | TaskHeld | TaskRecalled => (Place::Any, 1),
        TasksDue | TasksReleased => (Place::Any, 1),
        RunHidden | SliceRemoved | BlobsRemoved | TraceRemoved | DeletionUnanswered => {
            (Place::Any, 1)
        }
        AddressWritten | LockTaken | StoreOpened | TraceCut => (Place::Later, 1),
        RenewalStored | KeeperDialed | Adopted => (Place::Later, 2),
        LeftoversEnded => (Place::Bereft, 1),
        PlanTaken | KeeperLocked | AgentLaunched => (Place::Keeper, 1),
        RecordBefore | RecordAfter => (Place::Keeper, 8),
        SegmentTurned | TestimonyBefore | TestimonyAfter => (Place::Keeper, 1),
        FrameSaid => (Place::Keeper, 2),
        AddressCleared | RunsLetGo => (Place::Handover, 1),
        FenceRaised | Reaped => (Place::Sleeper, 1),
    }
}

/// Whether whoever passes a point does so for someone who waits for the answer to a write. What the
/// queue, a recovery or a driver writes nobody waits for, and what they pass too is not here.
pub fn is_awaited(point: Point) -> bool {
    use Point::*;
    matches!(
        point,
        StartUnanswered
            | WishPut
            | WishUnanswered
            | TaskPut
            | TaskUnanswered
            | TaskRecalled
            | DecisionUnanswered
            | RunHidden
            | DeletionUnanswered
    )
}

/// One kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    At {
        point: Point,
        hit: u64,
    },
    /// Whatever it is doing by then.
    Whenever,
}

/// What kind of a beginning a case has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ordinary,
    Handover,
    Sleeper,
}

/// One data directory and its kills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub number: usize,
    pub kind: Kind,
    pub kills: Vec<Kill>,
}

/// All cases of a run of so many kills.
pub fn schedule(seed: u64, kills: usize, only: Option<Point>) -> Vec<Case> {
    let mut chance = Chance::of(seed, "schedule", 0);
    let points: Vec<Point> = match only {
        Some(point) => vec![point],
        None => Point::ALL.to_vec(),
    };
    let mut cases = Vec::new();
    let mut open: Vec<Kill> = Vec::new();
    let mut turn = points.iter().cycle();
    for n in 0..kills {
        if n % INSTANT_EVERY == INSTANT_EVERY - 1 && only.is_none() {
            open.push(Kill::Whenever);
        } else if let Some(point) = turn.next() {
            let (place, often) = place(*point);
            let hit = 1 + chance.number() % often;
            let kill = Kill::At { point: *point, hit };
            match place {
                Place::Handover => cases.push((Kind::Handover, vec![kill])),
                Place::Sleeper => cases.push((Kind::Sleeper, vec![kill])),
                Place::Bare | Place::First => {
                    cases.push((Kind::Ordinary, std::mem::take(&mut open)));
                    open.push(kill);
                }
                // Someone must have left something behind before it can be found.
                Place::Later | Place::Bereft if open.is_empty() => {
                    open.extend([Kill::Whenever, kill]);
                }
                Place::Any | Place::Keeper | Place::Later | Place::Bereft => open.push(kill),
            }
        }
        if open.len() >= LIVES_MAX {
            cases.push((Kind::Ordinary, std::mem::take(&mut open)));
        }
    }
    cases.push((Kind::Ordinary, open));
    cases.retain(|(_, kills)| !kills.is_empty());
    let numbered = cases.into_iter().enumerate();
    numbered.map(|(number, (kind, kills))| Case { number, kind, kills }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_schedule_follows_from_its_seed_and_visits_every_point_alike() {
        let cases = schedule(7, 900, None);
        assert_eq!(cases, schedule(7, 900, None));
        assert_ne!(cases, schedule(8, 900, None));
        let mut visits: BTreeMap<Point, usize> = BTreeMap::new();
        for kill in cases.iter().flat_map(|case| &case.kills) {
            if let Kill::At { point, .. } = kill {
                *visits.entry(*point).or_default() += 1;
            }
        }
        assert_eq!(visits.len(), Point::ALL.len());
        assert!(visits.values().all(|visits| *visits >= 12), "{visits:?}");
    }

    #[test]
    fn nothing_is_looked_for_before_it_can_be_there() {
        for case in schedule(1, 500, None) {
            for (life, kill) in case.kills.iter().enumerate() {
                let Kill::At { point, .. } = kill else { continue };
                let fits = match place(*point).0 {
                    Place::Bare | Place::First => life == 0 && case.kind == Kind::Ordinary,
                    Place::Any | Place::Keeper => case.kind == Kind::Ordinary,
                    Place::Later | Place::Bereft => life > 0,
                    Place::Handover => case.kind == Kind::Handover,
                    Place::Sleeper => case.kind == Kind::Sleeper,
                };
                assert!(fits, "{case:?}");
            }
        }
    }

    #[test]
    fn one_point_alone_can_be_asked_for() {
        let cases = schedule(1, 20, Some(Point::LeftoversEnded));
        let points = cases.iter().flat_map(|case| &case.kills);
        assert_eq!(points.filter(|kill| matches!(kill, Kill::At { .. })).count(), 20);
    }
}
