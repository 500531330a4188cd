//! A store to measure with: a run that may be committed to, Batches as a run would make them, and a
//! way to wait for it. The floor of SQLite itself is in `commit.rs`.

use super::adapter::{now, secrets};
use super::agent::LINE_BYTES;
use super::said;
use contract::event::{
    Body, EndEvidence, Envelope, Evidence, Origin, Outcome, RunResult, Text, Totals,
};
use contract::state::Review;
use contract::{RunId, RunState, TaskId, TaskState};
use std::future::Future;
use std::path::Path;
use std::sync::LazyLock;
use store::seal::{Seal, Sealed};
use store::{Batch, Claim, NewTask, RunHead, SealedEvent, Settle, Store};
use tokio::runtime::Runtime;
use uuid::Uuid;

/// The n-th run of a bench.
pub fn run_number(n: u64) -> RunId {
    RunId::new(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(n)))
}

/// Opens a store in a directory.
pub fn open(dir: &Path) -> Result<Store, String> {
    Store::open(dir).map_err(said("opening the store"))
}

/// Queues and claims, so that Batches of the run are taken.
pub fn admit(store: &Store, run: RunId) -> Result<(), String> {
    wait_for(store.enqueue(task(run))).map_err(said("queueing a task"))?;
    wait_for(store.claim(claim(run))).map_err(said("claiming it"))?;
    Ok(())
}

/// Makes events of one run, one like the other but for their numbers.
pub struct Maker {
    seal: Seal,
    body: Body,
    stamp: Envelope,
}

impl Maker {
    pub fn new(run: RunId) -> Self {
        let text = "word ".repeat(LINE_BYTES * 3 / 4 / 5);
        let body = Body::AssistantText(Text { text, ..Text::default() });
        let origin = Origin::Agent;
        let stamp = Envelope { run_id: run, seq: 0, ts: now(), attempt: 1, fence: 1, origin };
        Self { seal: Seal::new(secrets()), body, stamp }
    }

    fn event(&self, seq: u64) -> SealedEvent {
        self.seal.event(&Envelope { seq, ..self.stamp }, &self.body, None)
    }

    /// The Batch of so many events that begins with this number.
    pub fn batch(&self, first_seq: u64, events: u64) -> Batch {
        let sealed = (first_seq..first_seq + events).map(|seq| self.event(seq)).collect();
        let spool_offset = first_seq * LINE_BYTES as u64;
        Batch { events: sealed, spool_offset, ..empty(self.stamp.run_id, first_seq) }
    }
}

impl Maker {
    /// The last Batch of a run that succeeded.
    pub fn settling(&self, first_seq: u64) -> Batch {
        let (at, outcome) = (now(), Outcome::Succeeded);
        let body = Body::Result(RunResult {
            outcome,
            code: None,
            message: None,
            text: None,
            output: None,
            exit_code: Some(0),
            signal: None,
            duration_ms: 1,
            totals: Totals::default(),
            report: Default::default(),
            denials: 0,
            evidence: Evidence {
                end: EndEvidence::Explicit,
                salvaged: None,
                stopped_by: None,
                forced: None,
                note: None,
                workspace: None,
                workspace_note: None,
            },
        });
        let event = self.seal.event(&Envelope { seq: first_seq, ..self.stamp }, &body, None);
        let task_state = TaskState::after(outcome, Review::None);
        let message = Sealed::default();
        Batch {
            events: vec![event],
            run_state: RunState::Settled,
            settle: Some(Settle {
                outcome,
                code: None,
                ended_at: at,
                task_state,
                waiting_for: None,
                follow: Default::default(),
                message,
                turns: 0,
                unspent: false,
                is_included: false,
            }),
            ..empty(self.stamp.run_id, first_seq)
        }
    }
}

/// A Batch without events; states are about as long as those of a real run.
pub fn empty(run: RunId, first_seq: u64) -> Batch {
    let state = Seal::default().json(&"s".repeat(400));
    Batch {
        run,
        fence: 1,
        first_seq,
        events: Vec::new(),
        machine: state.clone(),
        dialect: state.clone(),
        host: state,
        spool_offset: 0,
        taken: Vec::new(),
        effects_todo: Vec::new(),
        effects_done: Vec::new(),
        run_state: RunState::Live,
        pid: None,
        totals: None,
        report: None,
        ledger: Vec::new(),
        session: None,
        session_stale: false,
        settle: None,
    }
}

fn task_id(run: RunId) -> TaskId {
    TaskId::new(run.uuid())
}

pub fn task(run: RunId) -> NewTask {
    let sealed = Seal::default().given("bench");
    NewTask {
        id: task_id(run),
        key: None,
        agent: "bench".to_owned(),
        title: sealed.clone(),
        body: sealed.clone(),
        prompt: sealed,
        system_prompt: None,
        review: Review::None,
        priority: 0,
        line: None,
        errand: None,
        created_at: now(),
    }
}

pub fn claim(run: RunId) -> Claim {
    Claim {
        task: task_id(run),
        run,
        holder: "bench".to_owned(),
        now: now(),
        lease_ms: 600_000,
        plan: Sealed::default(),
        places: None,
        head: RunHead {
            agent: "bench".to_owned(),
            adapter: "bench".to_owned(),
            runtime: "bench".to_owned(),
            cwd: "/".to_owned(),
            model: None,
            resumes: None,
            fallback: None,
            prompt_preview: Sealed::default(),
        },
    }
}

/// The store's writer is a thread of its own and its readers are tokio's, so this thread only waits.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without IO")
});

pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_the_bench_is_stored_read_and_settled() {
        let dir = tempfile::tempdir().unwrap();
        let (store, run) = (open(dir.path()).unwrap(), run_number(7));
        admit(&store, run).unwrap();
        let maker = Maker::new(run);
        wait_for(store.commit(maker.batch(1, 3))).unwrap();
        wait_for(store.commit(maker.settling(4))).unwrap();
        assert_eq!(wait_for(store.events(run, 0, 10)).unwrap().len(), 4);
        let row = wait_for(store.run(run)).unwrap().unwrap();
        assert_eq!(row.state, RunState::Settled);
        wait_for(store.close());
    }
}
