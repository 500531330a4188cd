//! An agent's own conversation over several runs: which of them belong to it, when it began, and what
//! it has cost so far.

use super::sound;
use crate::conformance::{Holder, NOW, Sure, claim_of, new_task};
use crate::*;
use contract::event::Totals;
use contract::{NanoUsd, RunId, Timestamp, Tokens};
use tempfile::TempDir;

/// A run that takes up one conversation, leaves another, and spends on a model.
struct Told {
    agent: &'static str,
    cwd: &'static str,
    at: Timestamp,
    resumes: Option<&'static str>,
    leaves: Option<&'static str>,
    spent: (&'static str, u64, Option<i64>),
}

async fn ran(store: &Store, told: Told) -> RunId {
    let (sure, seal) = (Sure(store.clone()), Seal::default());
    let task = sure.enqueue(new_task()).await.unwrap();
    let mut claim = claim_of(task, "one");
    claim.now = told.at;
    claim.head.agent = told.agent.to_owned();
    claim.head.cwd = told.cwd.to_owned();
    claim.head.resumes = told.resumes.map(|id| seal.given(id));
    let run = claim.run;
    let fence = sure.claim(claim).await.unwrap().fence;
    let held = Holder { task, run, fence, head_seq: 0 };
    let (model, output, nanousd) = told.spent;
    let (tokens, paid) = (Tokens { output, ..Tokens::default() }, nanousd.map(NanoUsd));
    let row = LedgerRow {
        at: NOW,
        provider: seal.given("acme"),
        model: seal.given(model),
        tokens,
        nanousd: paid,
        unpriced: nanousd.is_none(),
        covers: Covers::Nothing,
        approximate: false,
        replaces: Covers::Nothing,
    };
    let session = told.leaves.map(|id| seal.given(id));
    let totals = Some(Totals { tokens, effective_nanousd: paid });
    let batch = Batch { ledger: vec![row], totals, session, ..held.batch(&["spent"]) };
    store.commit(batch).await.unwrap();
    run
}

#[tokio::test]
async fn a_conversation_has_the_runs_that_took_it_up_and_the_one_in_which_it_began() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let told =
        |resumes, leaves, spent| Told { agent: "fake", cwd: "/", at: NOW, resumes, leaves, spent };
    let (s1, s2) = (Some("s1"), Some("s2"));
    let early = NOW.plus_ms(-5_000);
    ran(&store, Told { at: early, ..told(None, s1, ("a", 5, Some(2))) }).await;
    // One that failed spent all the same, and one in another directory goes on with it as well.
    ran(&store, told(s1, None, ("b", 4, Some(3)))).await;
    ran(&store, Told { cwd: "/elsewhere", ..told(s1, s1, ("a", 1, Some(1))) }).await;
    // In between it began another one, which is none of this.
    ran(&store, told(None, Some("s0"), ("g", 60, Some(60)))).await;
    // Others began one that happens to be called the same.
    ran(&store, Told { agent: "another", ..told(None, s1, ("d", 20, Some(20))) }).await;
    ran(&store, Told { cwd: "/elsewhere", ..told(None, s1, ("e", 30, Some(30))) }).await;
    let third = ran(&store, told(s1, s1, ("a", 7, None))).await;
    // And so did a later run of its own.
    ran(&store, told(None, s1, ("f", 40, Some(40)))).await;
    // A run that began another one instead belongs to that.
    ran(&store, told(s1, s2, ("c", 9, Some(9)))).await;
    // And a stranger's run has no part in either.
    ran(&store, told(None, Some("s3"), ("a", 100, Some(100)))).await;

    let found = store.conversation_of(third).await.unwrap().unwrap();
    assert_eq!((found.runs, found.begun_at), (4, early));
    let spent: Vec<_> = found
        .spent
        .iter()
        .map(|row| (row.model.as_str(), row.tokens.total(), row.nanousd.map(|paid| paid.0)))
        .collect();
    assert_eq!(spent, [("a", 13, None), ("b", 4, Some(3))]);

    let newest = store.conversation("fake", "/").await.unwrap().unwrap();
    assert_eq!(
        (newest.native_session.as_deref(), newest.runs, newest.begun_at),
        (Some("s3"), 1, NOW)
    );
    sound(dir.path());
}

#[tokio::test]
async fn a_conversation_has_failed_as_often_as_runs_that_took_it_up_did_since_one_went_well() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let ends = async |resumes: &'static str, well: bool| {
        let (sure, seal) = (Sure(store.clone()), Seal::default());
        let task = sure.enqueue(new_task()).await.unwrap();
        let mut claim = claim_of(task, "one");
        claim.head.resumes = Some(seal.given(resumes));
        let run = claim.run;
        let fence = sure.claim(claim).await.unwrap().fence;
        let held = Holder { task, run, fence, head_seq: 0 };
        let mut batch = held.settling(contract::TaskState::Done, Totals::default());
        batch.session = Some(seal.given(resumes));
        if let (true, Some(settle)) = (well, &mut batch.settle) {
            (settle.outcome, settle.code) = (contract::event::Outcome::Succeeded, None);
        }
        store.commit(batch).await.unwrap();
        run
    };
    ends("s1", false).await;
    ends("s1", true).await;
    ends("s1", false).await;
    ends("s2", true).await;
    let of_first = ends("s1", false).await;
    let of_second = ends("s2", false).await;
    for (run, failures) in [(of_first, 2), (of_second, 1)] {
        assert_eq!(store.conversation_of(run).await.unwrap().unwrap().failures, failures);
    }
}

#[tokio::test]
async fn a_stale_name_is_taken_away_from_every_run_of_its_agent() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let told = |agent, cwd, resumes, leaves| Told {
        agent,
        cwd,
        at: NOW,
        resumes,
        leaves,
        spent: ("a", 1, Some(1)),
    };
    let (s1, s2) = (Some("s1"), Some("s2"));
    let first = ran(&store, told("fake", "/", None, s1)).await;
    let elsewhere = ran(&store, told("fake", "/elsewhere", s1, s1)).await;
    let of_another = ran(&store, told("another", "/", None, s1)).await;
    let other = ran(&store, told("fake", "/", None, s2)).await;

    let (sure, seal) = (Sure(store.clone()), Seal::default());
    let task = sure.enqueue(new_task()).await.unwrap();
    let mut claim = claim_of(task, "one");
    claim.head.agent = "fake".to_owned();
    claim.head.resumes = s1.map(|id| seal.given(id));
    let run = claim.run;
    let fence = sure.claim(claim).await.unwrap().fence;
    let held = Holder { task, run, fence, head_seq: 0 };
    let session = s2.map(|id| seal.given(id));
    let batch = Batch { session_stale: true, session, ..held.batch(&["it is not known"]) };
    store.commit(batch).await.unwrap();

    for (run, expected) in [
        (first, Some(None)),
        (elsewhere, Some(None)),
        (of_another, Some(s1)),
        (other, Some(s2)),
        (run, Some(s2)),
    ] {
        let found = store.conversation_of(run).await.unwrap();
        let name = found.map(|found| found.native_session);
        assert_eq!(name, expected.map(|name| name.map(str::to_owned)), "{run}");
    }
    // The newest run in this directory whose conversation is still known is the one to continue.
    let newest = store.conversation("fake", "/elsewhere").await.unwrap();
    assert_eq!(newest, None);
    sound(dir.path());
}
