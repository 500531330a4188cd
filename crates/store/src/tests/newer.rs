//! Rows as a version after this one would write them: an unknown word in every column that holds
//! one, an event of an unknown kind, a wish that is not known. They are read and shown, nothing
//! changes them, and they do not hide the rows beside them.

use super::sound;
use crate::conformance::{Holder, Sure, holder, new_task, refused, wish};
use crate::*;
use contract::event::{Body, Event, Outcome, Totals};
use contract::state::{AgentState, Review, WaitingFor};
use contract::{Code, NanoUsd, RunState, Scope, TaskState, Timestamp, TokenId, Wish};
use rusqlite::Connection;
use tempfile::TempDir;

const NOW: Timestamp = Timestamp(5_000_000_000_000);

/// Changes the file behind the store's back, as another version would.
fn newer(dir: &TempDir, sql: &str) {
    let connection = Connection::open(dir.path().join(DATABASE)).unwrap();
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// Every row of these tables as text, to see whether anything was written.
fn dump(dir: &TempDir) -> Vec<String> {
    let connection = Connection::open(dir.path().join(DATABASE)).unwrap();
    let mut rows = Vec::new();
    for table in ["tasks", "runs", "agents", "tokens", "quotas", "events"] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let values = (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap()));
            rows.push(format!("{table}: {}", values.collect::<Vec<_>>().join(" ")));
        }
    }
    rows
}

async fn settled(store: &Store, state: TaskState) -> Holder {
    let held = holder(&Sure(store.clone())).await;
    store.commit(held.settling(state, Totals::default())).await.unwrap();
    held
}

const WORDS: &str = "
    UPDATE runs SET state = 'hibernating' WHERE num = 1;
    UPDATE runs SET outcome = 'forked', code = 'star_misaligned' WHERE num = 2;
    UPDATE tasks SET state = 'delegated' WHERE num = 3;
    UPDATE tasks SET state = 'waiting', waiting_for = 'moonrise', review = 'committee',
        code = 'star_misaligned' WHERE num = 4;
    UPDATE agents SET state = 'sabbatical';
    UPDATE tokens SET scope = 'auditor';
    UPDATE quotas SET breaker = '{\"eclipsed\":{\"moons\":2}}';
    UPDATE events SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"kind\":\"log\"',
        '\"kind\":\"hologram\",\"frames\":[1,2]') AS BLOB) WHERE run = 3 AND seq = 1;";

#[tokio::test]
async fn unknown_words_hide_no_rows_and_are_not_rewritten() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let hibernating = holder(&Sure(store.clone())).await;
    store.commit(hibernating.batch(&["one"])).await.unwrap();
    let forked = settled(&store, TaskState::Done).await;
    let delegated = settled(&store, TaskState::Failed).await;
    let waiting = store.enqueue(new_task()).await.unwrap();
    let agent = NewAgent {
        id: contract::AgentId::new(crate::conformance::next_uuid()),
        name: "scout".to_owned(),
        state: AgentState::Active,
        spec: None,
        by: "owner".to_owned(),
        at: NOW,
    };
    store.put_agent(agent).await.unwrap();
    let row = TokenRow {
        id: TokenId::new(crate::conformance::next_uuid()),
        name: "phone".to_owned(),
        scope: Scope::Viewer,
        browser: false,
        created_at: NOW,
        expires_at: None,
    };
    store.add_token(NewToken { row, hash: [7; 32] }).await.unwrap();
    let step =
        QuotaStep { scope: "claude".into(), seen: 0, breaker: Some("a".into()), opened: None };
    store.step_quota(step).await.unwrap();
    store.close().await;
    newer(&dir, WORDS);
    let before = dump(&dir);

    let store = Store::open(dir.path()).unwrap();
    let runs = store.runs(RunsPage { limit: 9, ..RunsPage::default() }).await.unwrap();
    let shown: Vec<_> = runs.iter().rev().map(|run| (run.state, run.outcome, run.code)).collect();
    assert_eq!(
        shown,
        [
            (RunState::Unknown, None, None),
            (RunState::Settled, Some(Outcome::Unknown), Some(Code::Unknown)),
            (RunState::Settled, Some(Outcome::Failed), Some(Code::AgentFailed)),
        ]
    );
    let open = RunsPage { limit: 9, unsettled_only: true, ..RunsPage::default() };
    assert_eq!(store.runs(open).await.unwrap().len(), 1, "an adopter sees it and leaves it alone");
    let tasks = store.tasks(TasksPage { limit: 9, ..TasksPage::default() }).await.unwrap();
    assert_eq!(tasks.len(), 4);
    assert_eq!(store.task(delegated.task).await.unwrap().unwrap().state, TaskState::Unknown);
    let row = store.task(waiting).await.unwrap().unwrap();
    assert_eq!(
        (row.waiting_for, row.review, row.code),
        (Some(WaitingFor::Unknown), Review::Unknown, Some(Code::Unknown))
    );
    assert_eq!(store.agent("scout").await.unwrap().unwrap().state, AgentState::Unknown);
    let tokens = store.tokens(NOW, None, 9).await.unwrap();
    assert_eq!(tokens[0].scope, Scope::Unknown);
    assert!(tokens[0].scope < Scope::Viewer, "it opens nothing");
    assert_eq!(store.quotas("", 9).await.unwrap().len(), 1);
    assert_eq!(store.costs(CostsQuery { limit: 9, ..CostsQuery::default() }).await.unwrap(), []);

    // A watcher gets the event with its fields as they are.
    let page = store.follow(delegated.run, 0).next(9).await.unwrap();
    let event: Event = serde_json::from_slice(&page.events[0].bytes).unwrap();
    let Body::Unknown(fields) = &event.body else { panic!("{event:?}") };
    assert_eq!((&fields["kind"], &fields["frames"]), (&"hologram".into(), &[1, 2].into()));
    assert!(page.settled);

    // Nobody drives it, and nothing is written.
    assert_eq!(store.reap(NOW.plus_ms(1 << 40)).await.unwrap(), []);
    let row = store.run(hibernating.run).await.unwrap().unwrap();
    let seen = Seen { run: row.id, fence: row.fence, expires_at: row.lease_expires_at };
    assert_eq!(store.reap_seen(NOW.plus_ms(1 << 40), vec![seen]).await.unwrap(), []);
    let next = Holder { head_seq: 1, ..hibernating };
    assert_eq!(refused(store.commit(next.batch(&["two"])).await), Code::Conflict);
    for (task, to) in [(delegated.task, TaskState::Queued), (waiting, TaskState::Unknown)] {
        let from = store.task(task).await.unwrap().unwrap();
        let step = TaskMove {
            task,
            fence: from.fence,
            from: from.state,
            to,
            waiting_for: None,
            pool: None,
            follow: Follow::default(),
        };
        assert_eq!(refused(store.move_task(step).await), Code::Conflict);
    }
    let heads = store.heads().await.unwrap();
    assert!(heads.is_empty(), "{heads:?}");
    assert_eq!(store.again(Again::Whenever(WaitingFor::Unknown)).await.unwrap(), 0);
    assert_eq!(store.find_runs(&forked.run.to_string(), 9).await.unwrap(), [forked.run]);
    store.close().await;
    assert_eq!(dump(&dir), before);
}

#[tokio::test]
async fn a_wish_that_is_not_known_does_not_hide_the_others() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held = holder(&Sure(store.clone())).await;
    let stop = Wish::Stop { reason: Code::Cancelled, at_once: false };
    store.command(wish(held.run, Wish::Say { text: "hi".into() })).await.unwrap();
    store.command(wish(held.run, Wish::Interrupt)).await.unwrap();
    store.command(wish(held.run, stop.clone())).await.unwrap();
    store.close().await;
    newer(
        &dir,
        "UPDATE commands SET wish = CAST('{\"wish\":\"fork\",\"at\":7}' AS BLOB) WHERE num = 1;
         UPDATE commands SET wish = CAST('{\"wish\":\"stop\",\"reason\":[1]}' AS BLOB) WHERE num = 2;",
    );
    let store = Store::open(dir.path()).unwrap();
    let inbox = store.inbox(held.run).await.unwrap();
    let wishes: Vec<_> = inbox.into_iter().map(|command| command.wish).collect();
    assert_eq!(wishes, [Wish::Unknown, Wish::Unknown, stop]);
}

#[tokio::test]
async fn a_column_of_a_newer_version_is_no_trouble_and_a_newer_schema_is_refused() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let held = settled(&store, TaskState::Done).await;
    store.close().await;
    newer(&dir, "ALTER TABLE runs ADD COLUMN mood TEXT; ALTER TABLE tasks ADD COLUMN mood TEXT;");
    let store = Store::open(dir.path()).unwrap();
    assert!(store.run(held.run).await.unwrap().is_some());
    settled(&store, TaskState::Done).await;
    store.close().await;
    sound(dir.path());
    newer(&dir, "INSERT INTO migrations SELECT max(n) + 1, 'later', 'x' FROM migrations");
    let refused = Store::open(dir.path()).err().unwrap();
    assert_eq!(refused.code(), Code::StoreNewer);
}

#[tokio::test]
async fn money_is_exact_beyond_floating_point_and_ends_at_the_largest_number() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let odd = (1_i64 << 53) + 1;
    let reserve = |held: &Holder, nanousd: i64, max: Option<i64>| Reserve {
        scope: "global".to_owned(),
        run: held.run,
        fence: held.fence,
        nanousd: NanoUsd(nanousd),
        tokens: 0,
        turns: 0,
        ms: 0,
        since: Timestamp(i64::MIN),
        nanousd_max: max.map(NanoUsd),
        tokens_max: None,
        turns_max: None,
        ms_max: None,
    };
    let ever =
        async |since: i64| store.scope_sum("global", Timestamp(since)).await.unwrap().nanousd;
    let mut spent = 0;
    for nanousd in [odd, odd, 1] {
        let held = holder(&Sure(store.clone())).await;
        let max = spent + nanousd;
        assert_eq!(
            refused(store.reserve(reserve(&held, nanousd, Some(max - 1))).await),
            Code::BudgetExceeded
        );
        store.reserve(reserve(&held, nanousd, Some(max))).await.unwrap();
        // Again for the same run: what it had set aside is replaced.
        store.reserve(reserve(&held, nanousd, Some(max))).await.unwrap();
        let totals = Totals { effective_nanousd: Some(NanoUsd(nanousd)), ..Totals::default() };
        store.commit(held.settling(TaskState::Done, totals)).await.unwrap();
        spent += nanousd;
        for since in [i64::MIN, 0, 1] {
            assert_eq!(ever(since).await, NanoUsd(spent));
        }
    }
    for _ in 0..2 {
        let held = holder(&Sure(store.clone())).await;
        store.reserve(reserve(&held, i64::MAX, None)).await.unwrap();
        assert_eq!(ever(i64::MIN).await, NanoUsd(i64::MAX), "a sum does not overflow");
        let totals = Totals { effective_nanousd: Some(NanoUsd(i64::MAX)), ..Totals::default() };
        store.commit(held.settling(TaskState::Done, totals)).await.unwrap();
        for since in [i64::MIN, 1] {
            assert_eq!(ever(since).await, NanoUsd(i64::MAX));
        }
        sound(dir.path());
    }
}
