//! One suite for all backends. `all` is given a way to make an empty backend and panics with the
//! first promise that is not kept. It runs unchanged over a backend that loses answers: `Sure`
//! does what a caller must do then, which is to read again. Time is passed in.

pub mod books;
mod ending;
mod queue;
mod slots;
mod sure;
mod watching;

pub use sure::Sure;

use crate::backend::Backend;
use crate::batch::*;
use crate::error::Error;
use crate::queue::Follow;
use crate::row::RunsPage;
use crate::seal::{Seal, Sealed, SealedEvent};
use contract::event::{
    Body, EndEvidence, Envelope, Evidence, Log, Origin, Outcome, RunResult, Stream, Totals,
};
use contract::limits::INBOX_MAX;
use contract::state::Review;
use contract::{Code, CommandId, NanoUsd, RunId, RunState, TaskId, TaskState, Timestamp, Wish};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// When everything happens, unless a test says later.
pub const NOW: Timestamp = Timestamp(1_800_000_000_000);
const LEASE_MS: u64 = 1_000;

static IDS: AtomicU64 = AtomicU64::new(1);

/// Ids that rise, as those of the product do.
pub fn next_uuid() -> Uuid {
    Uuid::from_u128(u128::from(IDS.fetch_add(1, Ordering::Relaxed)) << 64)
}

/// Runs every promise, each over a fresh backend.
pub async fn all<B: Backend>(make: impl AsyncFn() -> B) {
    a_task_is_there_once_by_id_and_by_key(&Sure(make().await)).await;
    a_task_is_claimed_by_one(&Sure(make().await)).await;
    a_stale_fence_is_refused_by_every_verb(&Sure(make().await)).await;
    events_are_numbered_without_gaps(&Sure(make().await)).await;
    wishes_are_taken_once_in_order(&Sure(make().await)).await;
    a_full_inbox_still_takes_a_stop(&Sure(make().await)).await;
    a_run_goes_on_where_its_last_batch_stopped(&Sure(make().await)).await;
    an_effect_is_asked_for_once(&Sure(make().await)).await;
    a_lease_is_taken_over_only_as_it_was_seen(&Sure(make().await)).await;
    runs_are_listed_newest_first_by_key(&Sure(make().await)).await;
    ending::all(&make).await;
    queue::all(&make).await;
    slots::all(&make).await;
    watching::all(&make).await;
}

/// A task as any.
pub fn new_task() -> NewTask {
    let seal = Seal::default();
    NewTask {
        id: TaskId::new(next_uuid()),
        key: None,
        agent: "fake".into(),
        title: seal.given("a title"),
        body: seal.given("a body"),
        prompt: seal.given("do it"),
        system_prompt: None,
        review: Review::None,
        priority: 0,
        line: None,
        errand: None,
        created_at: NOW,
    }
}

/// A claim of this task by a new run.
pub fn claim_of(task: TaskId, holder: &str) -> Claim {
    let seal = Seal::default();
    Claim {
        task,
        run: RunId::new(next_uuid()),
        holder: holder.into(),
        now: NOW,
        lease_ms: LEASE_MS,
        plan: seal.json(&serde_json::json!({"program": "fake"})),
        places: None,
        head: RunHead {
            agent: "fake".into(),
            adapter: "fake".into(),
            runtime: "fake".into(),
            cwd: "/".into(),
            model: None,
            resumes: None,
            fallback: None,
            prompt_preview: seal.given("do it"),
        },
    }
}

/// A run that has just been claimed, and where its next Batch starts.
#[derive(Debug, Clone, Copy)]
pub struct Holder {
    pub task: TaskId,
    pub run: RunId,
    pub fence: u64,
    pub head_seq: u64,
}

pub async fn holder<B: Backend>(store: &Sure<B>) -> Holder {
    let task = store.enqueue(new_task()).await.expect("a new task is taken");
    let claim = claim_of(task, "one");
    let run = claim.run;
    let fence = store.claim(claim).await.expect("a queued task can be claimed").fence;
    Holder { task, run, fence, head_seq: 0 }
}

impl Holder {
    /// A Batch of log lines with these texts.
    pub fn batch(&self, texts: &[&str]) -> Batch {
        let first_seq = self.head_seq + 1;
        let events = (first_seq..).zip(texts).map(|(seq, text)| self.log(seq, text)).collect();
        Batch {
            run: self.run,
            fence: self.fence,
            first_seq,
            events,
            machine: state("machine", first_seq),
            dialect: state("dialect", first_seq),
            host: state("host", first_seq),
            spool_offset: first_seq * 10,
            taken: Vec::new(),
            effects_todo: Vec::new(),
            effects_done: Vec::new(),
            run_state: RunState::Live,
            pid: Some(42),
            totals: None,
            report: None,
            ledger: Vec::new(),
            session: None,
            session_stale: false,
            settle: None,
        }
    }

    /// The Batch that ends the run.
    pub fn settling(&self, task_state: TaskState, totals: Totals) -> Batch {
        let mut batch = self.batch(&["last words"]);
        batch.events.push(self.result(self.head_seq + 2, totals));
        batch.run_state = RunState::Settled;
        batch.totals = Some(totals);
        batch.settle = Some(Settle {
            outcome: Outcome::Failed,
            code: Some(Code::AgentFailed),
            ended_at: NOW.plus_ms(500),
            task_state,
            waiting_for: None,
            follow: Follow::default(),
            message: Seal::default().given("it failed"),
            turns: 3,
            unspent: false,
            is_included: false,
        });
        batch
    }

    pub fn log(&self, seq: u64, text: &str) -> SealedEvent {
        let body = Body::Log(Log { stream: Stream::Stdout, text: text.into(), level: None });
        Seal::default().event(&self.envelope(seq), &body, None)
    }

    pub fn result(&self, seq: u64, totals: Totals) -> SealedEvent {
        let evidence = Evidence {
            end: EndEvidence::Exit,
            salvaged: None,
            stopped_by: None,
            forced: None,
            note: None,
            workspace: None,
            workspace_note: None,
        };
        let body = Body::Result(RunResult {
            outcome: Outcome::Failed,
            code: Some(Code::AgentFailed),
            message: None,
            text: None,
            output: None,
            exit_code: Some(1),
            signal: None,
            duration_ms: 1,
            totals,
            report: Default::default(),
            denials: 0,
            evidence,
        });
        Seal::default().event(&self.envelope(seq), &body, None)
    }

    fn envelope(&self, seq: u64) -> Envelope {
        let (run_id, fence) = (self.run, self.fence);
        Envelope { run_id, seq, ts: NOW, attempt: 1, fence, origin: Origin::Ostler }
    }
}

fn state(of: &str, seq: u64) -> Sealed {
    Seal::default().json(&serde_json::json!({ "of": of, "before": seq }))
}

pub fn wish(run: RunId, wish: Wish) -> NewCommand {
    let wish = Seal::default().json(&wish);
    NewCommand { id: CommandId::new(next_uuid()), run, asked_at: NOW, wish }
}

/// The code of a refusal; panics when there was none.
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> Code {
    answer.expect_err("this must be refused").code()
}

async fn a_task_is_there_once_by_id_and_by_key<B: Backend>(store: &Sure<B>) {
    let first = NewTask { key: Some("k".into()), ..new_task() };
    assert_eq!(store.enqueue(first.clone()).await.unwrap(), first.id);
    assert_eq!(store.enqueue(first.clone()).await.unwrap(), first.id);
    let second = NewTask { key: Some("k".into()), ..new_task() };
    assert_eq!(store.enqueue(second.clone()).await.unwrap(), first.id);
    assert_eq!(store.0.task(second.id).await.unwrap(), None);
    let row = store.0.task(first.id).await.unwrap().unwrap();
    assert_eq!((row.state, row.fence, row.prompt.as_str()), (TaskState::Queued, 0, "do it"));
}

async fn a_task_is_claimed_by_one<B: Backend>(store: &Sure<B>) {
    let task = store.enqueue(new_task()).await.unwrap();
    let (one, two) = (claim_of(task, "one"), claim_of(task, "two"));
    let (first, second) = tokio::join!(store.claim(one.clone()), store.claim(two.clone()));
    assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|won| **won).count(), 1);
    let (won, lost) = if first.is_ok() { (one, two) } else { (two, one) };
    assert_eq!(store.claim(won.clone()).await.unwrap().fence, 1);
    assert_eq!(refused(store.claim(lost).await), Code::Conflict);
    let thief = Claim { holder: "thief".into(), ..won.clone() };
    assert_eq!(refused(store.claim(thief).await), Code::Conflict);
    let run = store.0.run(won.run).await.unwrap().unwrap();
    assert_eq!((run.state, run.fence, run.head_seq), (RunState::Planned, 1, 0));
    assert_eq!(run.lease_expires_at, NOW.plus_ms(LEASE_MS as i64));
    assert_eq!(store.0.task(task).await.unwrap().unwrap().state, TaskState::Running);
    let nothing = claim_of(TaskId::new(next_uuid()), "one");
    assert_eq!(refused(store.claim(nothing).await), Code::NotFound);
}

/// Before its time, after it, after a reap and after the end: whoever does not hold the run now
/// changes nothing.
async fn a_stale_fence_is_refused_by_every_verb<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    store.commit(held.batch(&["one"])).await.unwrap();
    let now = Holder { head_seq: 1, ..held };
    for fence in [now.fence - 1, now.fence + 1] {
        nothing_is_done(store, Holder { fence, ..now }).await;
    }
    let [reaped] = store.reap(NOW.plus_ms(5_000)).await.unwrap()[..] else {
        panic!("one is reaped")
    };
    nothing_is_done(store, now).await;
    let reaper = Holder { fence: reaped.fence, ..now };
    store.commit(reaper.settling(TaskState::Failed, Totals::default())).await.unwrap();
    nothing_is_done(store, now).await;
    nothing_is_done(store, Holder { head_seq: 3, ..reaper }).await;
}

async fn nothing_is_done<B: Backend>(store: &Sure<B>, stale: Holder) {
    let before = store.0.run(stale.run).await.unwrap();
    let reserve = reserve(&stale, 1, None);
    assert_eq!(refused(store.renew(stale.run, stale.fence, NOW).await), Code::FenceStale);
    assert_eq!(refused(store.commit(stale.batch(&["late"])).await), Code::FenceStale);
    let settling = stale.settling(TaskState::Done, Totals::default());
    assert_eq!(refused(store.commit(settling).await), Code::FenceStale);
    assert_eq!(refused(store.reserve(reserve).await), Code::FenceStale);
    assert_eq!(store.0.run(stale.run).await.unwrap(), before);
}

fn reserve(held: &Holder, nanousd: i64, nanousd_max: Option<i64>) -> Reserve {
    Reserve {
        scope: "day".into(),
        run: held.run,
        fence: held.fence,
        nanousd: NanoUsd(nanousd),
        tokens: 10,
        turns: 2,
        ms: 100,
        since: NOW,
        nanousd_max: nanousd_max.map(NanoUsd),
        tokens_max: None,
        turns_max: None,
        ms_max: None,
    }
}

async fn events_are_numbered_without_gaps<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let first = held.batch(&["one", "two"]);
    assert_eq!(store.commit(first.clone()).await.unwrap().head_seq, 2);
    assert_eq!(refused(store.0.commit(first.clone()).await), Code::Conflict);
    let gap = Holder { head_seq: 3, ..held };
    assert_eq!(refused(store.commit(gap.batch(&["four"])).await), Code::Conflict);
    let next = Holder { head_seq: 2, ..held };
    let mut crooked = next.batch(&["three", "four"]);
    crooked.events.swap(0, 1);
    assert_eq!(refused(store.commit(crooked).await), Code::Conflict);
    store.commit(next.batch(&["three"])).await.unwrap();
    let mut after = 0;
    let mut texts = Vec::new();
    while let Some(event) = store.0.page(held.run, after, 2).await.unwrap().events.first() {
        assert_eq!(event.seq, after + 1);
        after = event.seq;
        texts.push(event.bytes.to_vec());
    }
    let mut written: Vec<_> =
        first.events.iter().map(|event| event.bytes.bytes().to_vec()).collect();
    written.push(next.log(3, "three").bytes.bytes().to_vec());
    assert_eq!(texts, written, "canonical bytes come back untouched");
}

async fn wishes_are_taken_once_in_order<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let say = |text: &str| wish(held.run, Wish::Say { text: text.into() });
    let (one, two) = (say("one"), say("two"));
    store.command(one.clone()).await.unwrap();
    store.command(two.clone()).await.unwrap();
    store.command(one.clone()).await.unwrap();
    let waiting: Vec<_> =
        store.0.inbox(held.run).await.unwrap().into_iter().map(|command| command.id).collect();
    assert_eq!(waiting, [one.id, two.id]);
    let mut batch = held.batch(&["heard one"]);
    batch.taken = vec![one.id];
    store.commit(batch).await.unwrap();
    let next = Holder { head_seq: 1, ..held };
    let mut again = next.batch(&["heard one again"]);
    again.taken = vec![one.id];
    assert_eq!(refused(store.commit(again).await), Code::Conflict);
    assert_eq!(store.0.run(held.run).await.unwrap().unwrap().head_seq, 1, "all or nothing");
    assert_eq!(store.0.inbox(held.run).await.unwrap().len(), 1);
    let nobody = wish(RunId::new(next_uuid()), Wish::Interrupt);
    assert_eq!(refused(store.command(nobody).await), Code::NotFound);
    store.commit(next.settling(TaskState::Done, Totals::default())).await.unwrap();
    assert_eq!(refused(store.command(say("too late")).await), Code::Conflict);
}

async fn a_full_inbox_still_takes_a_stop<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    for _ in 0..INBOX_MAX {
        store.command(wish(held.run, Wish::Interrupt)).await.unwrap();
    }
    let refusal = store.command(wish(held.run, Wish::Interrupt)).await.unwrap_err();
    assert!(matches!(refusal, Error::TooMany { .. }), "{refusal}");
    let stop = Wish::Stop { reason: Code::Cancelled, at_once: false };
    store.command(wish(held.run, stop)).await.unwrap();
}

async fn a_run_goes_on_where_its_last_batch_stopped<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    assert_eq!(store.0.resume_point(held.run).await.unwrap(), None);
    let effect = |n| Effect { n, bytes: state("effect", n) };
    let mut batch = held.batch(&["one"]);
    batch.effects_todo = vec![effect(1), effect(2)];
    store.commit(batch).await.unwrap();
    let next = Holder { head_seq: 1, ..held };
    let mut batch = next.batch(&["two"]);
    batch.effects_done = vec![1];
    batch.effects_todo = vec![effect(3)];
    store.commit(batch.clone()).await.unwrap();
    let point = store.0.resume_point(held.run).await.unwrap().unwrap();
    assert_eq!(point.machine, batch.machine.bytes());
    assert_eq!(point.dialect, batch.dialect.bytes());
    assert_eq!(point.host, batch.host.bytes());
    assert_eq!((point.spool_offset, point.head_seq, point.fence), (20, 2, held.fence));
    assert_eq!(point.effects.iter().map(|effect| effect.n).collect::<Vec<_>>(), [2, 3]);
}

/// A Batch without events leaves the head where it is, so its effects say whether it is there:
/// whoever lost the answer and sends it again hears of a conflict, and not of a broken store.
async fn an_effect_is_asked_for_once<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    store.commit(held.batch(&["one"])).await.unwrap();
    let mut silent = Holder { head_seq: 1, ..held }.batch(&[]);
    silent.effects_todo = vec![Effect { n: 1, bytes: state("effect", 1) }];
    let first = store.0.commit(silent.clone()).await;
    assert!(matches!(first, Ok(_) | Err(Error::Unacknowledged)), "{first:?}");
    assert_eq!(refused(store.0.commit(silent).await), Code::Conflict);
    let point = store.0.resume_point(held.run).await.unwrap().unwrap();
    assert_eq!(point.effects.len(), 1);
}

/// Whatever the time: what counts is that nobody has touched the lease since.
async fn a_lease_is_taken_over_only_as_it_was_seen<B: Backend>(store: &Sure<B>) {
    let held = holder(store).await;
    let (run, fence, expires_at) = (held.run, held.fence, NOW.plus_ms(LEASE_MS as i64));
    let seen = Seen { run, fence, expires_at };
    store.renew(run, fence, NOW.plus_ms(2_000)).await.unwrap();
    for stale in
        [seen, Seen { fence: fence + 1, ..seen }, Seen { run: RunId::new(next_uuid()), ..seen }]
    {
        assert_eq!(store.0.reap_seen(NOW, vec![stale]).await.unwrap_or_default(), []);
    }
    store.commit(held.batch(&["still held"])).await.unwrap();
    let seen = Seen { expires_at: NOW.plus_ms(2_000), ..seen };
    let long_ago = Timestamp(1);
    let first = store.0.reap_seen(long_ago, vec![seen]).await;
    if let Ok(reaped) = &first {
        let [reaped] = reaped[..] else { panic!("one is taken over") };
        assert_eq!((reaped.old_fence, reaped.fence, reaped.head_seq), (fence, fence + 1, 1));
    }
    assert_eq!(store.0.reap_seen(NOW, vec![seen]).await.unwrap_or_default(), [], "once");
    let stale = Holder { head_seq: 1, ..held };
    assert_eq!(refused(store.commit(stale.batch(&["late"])).await), Code::FenceStale);
    let next = Holder { fence: fence + 1, ..stale };
    store.commit(next.settling(TaskState::Done, Totals::default())).await.unwrap();
}

async fn runs_are_listed_newest_first_by_key<B: Backend>(store: &Sure<B>) {
    let mut made = Vec::new();
    for n in 0..5 {
        let held = holder(store).await;
        if n % 2 == 0 {
            store.commit(held.settling(TaskState::Done, Totals::default())).await.unwrap();
        }
        made.push(held.run);
    }
    made.reverse();
    for (unsettled_only, expected) in [(false, made.clone()), (true, vec![made[1], made[3]])] {
        let mut listed = Vec::new();
        let mut page = RunsPage { before: None, limit: 2, unsettled_only };
        loop {
            let rows = store.0.runs(page).await.unwrap();
            let Some(last) = rows.last() else { break };
            page.before = Some(last.id);
            listed.extend(rows.iter().map(|row| row.id));
        }
        assert_eq!(listed, expected);
    }
}
