//! Places at which a process of the product can be made to die, for `cargo xtask torture` alone.
//!
//! One table names them all; each is passed at exactly one place in the tree, which `cargo xtask
//! tidy` holds. Without the feature `armed` every function here is empty and costs nothing, and
//! the shipped binary has none of it. With it, `OSTLER_FAILPOINT=name:hit:file` kills the process
//! that passes the point for that time (`armed.rs`). Nothing may be decided by what is here.

#[cfg(feature = "armed")]
mod armed;

#[cfg(feature = "armed")]
pub use armed::{hit, passed_on, shrunk};

/// The variable that names the point.
pub const VARIABLE: &str = "OSTLER_FAILPOINT";

macro_rules! points {
    ($($point:ident $name:literal $what:literal;)+) => {
        /// A named place in the code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Point { $(#[doc = $what] $point),+ }

        impl Point {
            pub const ALL: &[Point] = &[$(Point::$point),+];

            /// What it is called on a command line and in a report.
            pub const fn name(self) -> &'static str {
                match self { $(Point::$point => $name),+ }
            }

            /// How it is written in the code.
            pub const fn word(self) -> &'static str {
                match self { $(Point::$point => stringify!($point)),+ }
            }

            /// What has happened when it is passed, and what has not.
            pub const fn what(self) -> &'static str {
                match self { $(Point::$point => $what),+ }
            }
        }
    };
}

points! {
    CommitBefore "commit_before" "a group of jobs is written, and its commit has not begun";
    CommitAfter "commit_after" "a group is durable, and nobody was answered";
    Answered "answered" "a group is durable, everyone was answered and woken";
    CheckpointBefore "checkpoint_before" "a checkpoint is about to be made";
    CheckpointAfter "checkpoint_after" "a checkpoint was made";
    RunPut "run_put" "a task is queued and claimed, and its first Batch is not written";
    WishPut "wish_put" "a wish is in the inbox, and not committed";
    BlobWritten "blob_written" "a blob is written under its temporary name, and not synced";
    BlobSynced "blob_synced" "a blob is synced, and not renamed";
    BlobRenamed "blob_renamed" "a blob has its name, which is not synced";
    BlobDurable "blob_durable" "a blob is durable, and nothing names it";
    TraceWritten "trace_written" "lines are in the trace, and no Batch names them";
    TraceCut "trace_cut" "the trace of a run that is taken over was cut to its mark";
    FenceRaised "fence_raised" "the fence of a run whose lease ran out is raised, and not committed";
    Reaped "reaped" "a run has its next fence, and nobody drives it";
    Migrated "migrated" "a step of the schema is durable, and the next has not begun";
    TaskPut "task_put" "a task is in the queue, and not committed";
    TasksReleased "tasks_released" "those that waited for a task are let go, and not committed";
    TasksDue "tasks_due" "those whose time has come are queued, and not committed";
    RunHidden "run_hidden" "a run is deleted, and nothing of it is removed";
    SliceRemoved "slice_removed" "some of a deleted run's events are gone";
    BlobsRemoved "blobs_removed" "blobs of a deleted run are gone, and the store still names them";
    TraceRemoved "trace_removed" "the trace of a deleted run is gone, and its removal is not finished";

    KeeperSpawned "keeper_spawned" "a keeper waits for its plan, and nothing is durable";
    RunBegun "run_begun" "a run is durable, and its keeper was not told to launch";
    SpoolMade "spool_made" "the spool's folder is there, and its keeper has no plan";
    PlanSent "plan_sent" "the keeper was sent its plan, and was not told to launch";
    LaunchOrdered "launch_ordered" "the keeper was told to launch";
    BatchMade "batch_made" "a Batch is made, and was not given to the store";
    BatchCommitted "batch_committed" "a Batch is durable, and none of its effects is done";
    EffectsDone "effects_done" "the effects of a Batch are done, and the store does not know it";
    FrameOrdered "frame_ordered" "the keeper was told to say a frame";
    RenewalStored "renewal_stored" "a lease is renewed in the store, and the keeper was not told";
    SegmentsDropped "segments_dropped" "segments of the spool that were heard are gone";
    SettleBefore "settle_before" "the last Batch of a run is made, and was not given to the store";
    Settled "settled" "a run is settled, and its spool is still there";
    SpoolRemoved "spool_removed" "the spool of a settled run is gone";
    KeeperDialed "keeper_dialed" "a keeper obeys this host, which has not read the run's state";
    LeftoversEnded "leftovers_ended" "what a dead keeper left was ended, and its run is not settled";
    Adopted "adopted" "a run is taken over, and nothing of that is durable";
    TokenLinked "token_linked" "the directory's token has its name, and the temporary one too";
    AddressWritten "address_written" "the address is written under its temporary name";
    HeadsRead "heads_read" "the next tasks are known, and none of them is begun";
    TaskBegun "task_begun" "a task of the queue has its run, and the next is not looked at";
    TaskHeld "task_held" "a task that cannot be started now was put to wait";
    TaskRecalled "task_recalled" "a task that runs is recalled, and its run was not told";

    LockTaken "lock_taken" "the data directory is locked, and its store is not open";
    StoreOpened "store_opened" "the store is open, and no run was taken over";
    AddressCleared "address_cleared" "a host that leaves has no address any more";
    RunsLetGo "runs_let_go" "a host that leaves has let go of its runs, and holds the lock";
    StartUnanswered "start_unanswered" "a run was started, and whoever asked was not answered";
    WishUnanswered "wish_unanswered" "a wish is durable, and whoever asked was not answered";
    PageRead "page_read" "a page of events is read for a watcher, and not sent";
    TaskUnanswered "task_unanswered" "a task is durable, and whoever handed it over was not answered";
    DecisionUnanswered "decision_unanswered" "what was decided of a task is durable, and not answered";
    DeletionUnanswered "deletion_unanswered" "a run is wholly removed, and whoever asked was not answered";

    PlanTaken "plan_taken" "a keeper has its plan, and no lock";
    KeeperLocked "keeper_locked" "a keeper holds its lock, and was not told to launch";
    AgentLaunched "agent_launched" "the agent runs, and no record says so";
    RecordBefore "record_before" "bytes of the agent are read, and not in the spool";
    RecordAfter "record_after" "a record is in the spool, and the host was not told";
    SegmentTurned "segment_turned" "a new segment of the spool is there, and empty";
    FrameSaid "frame_said" "a frame is in the agent's pipe, and not recorded as said";
    TestimonyBefore "testimony_before" "nobody is left of the family, and there is no testimony";
    TestimonyAfter "testimony_after" "the testimony is written, and the host was not told";
}

/// Passes a point. The process may end here.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub fn hit(_: Point) {}

/// What a child that is given no environment needs of this.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub fn passed_on() -> [(&'static str, &'static str); 0] {
    []
}

/// A limit, made smaller by a divisor where the reaching of it is to be tried often.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn shrunk(limit: u64, _: u64) -> u64 {
    limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_points_share_a_name_and_each_says_what_it_is() {
        let names: BTreeSet<_> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
        assert!(Point::ALL.iter().all(|point| point.what().contains(' ')));
    }

    #[cfg(not(feature = "armed"))]
    #[test]
    fn without_the_feature_a_point_is_nothing() {
        Point::ALL.iter().for_each(|point| hit(*point));
        assert_eq!((passed_on().len(), shrunk(7, 2)), (0, 7));
    }
}
