//! Any order of verbs, by holders that are late, repeat themselves and guess, over a store that
//! loses answers and crashes: what was answered is there, byte for byte, once, and every rule of
//! `check.rs` holds.

use super::{crash_image, sound};
use crate::backend::Backend;
use crate::conformance::{self, Holder, NOW, claim_of, new_task};
use crate::spiteful::Spiteful;
use crate::*;
use contract::event::Totals;
use contract::{TaskState, Wish};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tempfile::TempDir;

#[derive(Debug, Clone)]
enum Op {
    Enqueue,
    Claim {
        task: usize,
    },
    /// By the run's own view of itself, which may be out of date by these amounts.
    Commit {
        run: usize,
        events: usize,
        fence: i8,
        seq: i8,
    },
    Settle {
        run: usize,
        again: bool,
    },
    Wish {
        run: usize,
    },
    Take {
        run: usize,
    },
    Reap {
        adopt: bool,
    },
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let off = || prop_oneof![8 => Just(0i8), 1 => Just(-1i8), 1 => Just(1i8)];
    prop_oneof![
        2 => Just(Op::Enqueue),
        4 => (0usize..4).prop_map(|task| Op::Claim { task }),
        12 => (0usize..6, 1usize..4, off(), off())
            .prop_map(|(run, events, fence, seq)| Op::Commit { run, events, fence, seq }),
        2 => (0usize..6, any::<bool>()).prop_map(|(run, again)| Op::Settle { run, again }),
        2 => (0usize..6).prop_map(|run| Op::Wish { run }),
        2 => (0usize..6).prop_map(|run| Op::Take { run }),
        1 => any::<bool>().prop_map(|adopt| Op::Reap { adopt }),
        1 => Just(Op::Crash),
    ]
}

/// What the callers believe and what they were promised.
struct World {
    dir: TempDir,
    store: Spiteful<Store>,
    seed: u64,
    now: Timestamp,
    tasks: Vec<TaskId>,
    holders: Vec<Holder>,
    promised: BTreeMap<(RunId, u64), Vec<u8>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let dir = TempDir::new().unwrap();
        let store = Spiteful::new(Store::open(dir.path()).unwrap(), seed);
        let (tasks, holders) = (Vec::new(), Vec::new());
        Self { dir, store, seed, now: NOW, tasks, holders, promised: BTreeMap::new() }
    }

    async fn perform(&mut self, op: Op) {
        match op {
            Op::Enqueue => {
                let task = new_task();
                self.tasks.push(task.id);
                let _ = self.store.enqueue(task).await;
            }
            Op::Claim { task } => {
                let Some(task) = self.tasks.get(task).copied() else { return };
                let claim = Claim { now: self.now, ..claim_of(task, "h") };
                let run = claim.run;
                // Whoever gets no answer assumes the first fence, rightly or not.
                let fence = self.store.claim(claim).await.map_or(1, |claimed| claimed.fence);
                self.holders.push(Holder { task, run, fence, head_seq: 0 });
            }
            Op::Commit { run, events, fence, seq } => {
                let Some(held) = self.holders.get(run).copied() else { return };
                let view = Holder {
                    fence: held.fence.saturating_add_signed(fence.into()),
                    head_seq: held.head_seq.saturating_add_signed(seq.into()),
                    ..held
                };
                let texts = ["alpha", "beta", "gamma"];
                self.commit(run, view.batch(&texts[..events])).await;
            }
            Op::Settle { run, again } => {
                let Some(held) = self.holders.get(run).copied() else { return };
                let state = if again { TaskState::Queued } else { TaskState::Done };
                self.commit(run, held.settling(state, Totals::default())).await;
            }
            Op::Wish { run } => {
                let Some(held) = self.holders.get(run) else { return };
                let _ = self.store.command(conformance::wish(held.run, Wish::Interrupt)).await;
            }
            Op::Take { run } => {
                let Some(held) = self.holders.get(run).copied() else { return };
                let mut batch = held.batch(&["taken"]);
                let waiting = self.store.inbox(held.run).await.unwrap();
                batch.taken = waiting.iter().map(|command| command.id).collect();
                self.commit(run, batch).await;
            }
            Op::Reap { adopt } => {
                self.now = self.now.plus_ms(100_000);
                let Ok(reaped) = self.store.reap(self.now).await else { return };
                for reaped in reaped.into_iter().filter(|_| adopt) {
                    let Reaped { run, task, fence, head_seq, .. } = reaped;
                    self.holders.push(Holder { task, run, fence, head_seq });
                }
            }
            Op::Crash => {
                let image = crash_image(self.dir.path());
                self.seed += 1;
                self.store = Spiteful::new(Store::open(image.path()).unwrap(), self.seed);
                self.dir = image;
            }
        }
    }

    /// Commits, and on a lost answer does what the host does: reads the head.
    async fn commit(&mut self, holder: usize, batch: Batch) {
        let run = batch.run;
        let written: Vec<_> = batch
            .events
            .iter()
            .map(|event| ((run, event.seq), event.bytes.bytes().to_vec()))
            .collect();
        let answer = self.store.commit(batch).await;
        if answer.is_ok() {
            self.promised.extend(written);
        }
        if matches!(answer, Ok(_) | Err(Error::Unacknowledged))
            && let Some(row) = self.store.run(run).await.unwrap()
        {
            self.holders[holder].head_seq = row.head_seq;
        }
    }

    async fn holds(&self) {
        sound(self.dir.path());
        for ((run, seq), bytes) in &self.promised {
            let page = self.store.page(*run, seq - 1, 1).await.unwrap();
            assert_eq!((page.events[0].seq, &*page.events[0].bytes), (*seq, bytes.as_slice()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_what_was_answered_is_there_once(
        ops in proptest::collection::vec(op(), 1..60),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed);
            world.perform(Op::Enqueue).await;
            world.perform(Op::Claim { task: 0 }).await;
            for op in ops {
                world.perform(op).await;
            }
            world.holds().await;
        });
    }
}
