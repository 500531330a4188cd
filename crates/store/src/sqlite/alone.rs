//! Each condition of a statement refuses by itself. The verbs ask more than once whether they may, so
//! that a store whose other checks hold would never show that one of them is gone; here a row is set
//! as no verb would leave it, and exactly one condition is left to notice. Tests only.
//! `cargo xtask mutate --kind fence` takes the conditions away one by one.

use super::{commit, open_reader, open_writer, queue, reads, removal, schema, verbs};
use crate::batch::{Batch, Claim, InLine, NewTask, Reaped, Reserve, Seen};
use crate::conformance::{Holder, NOW, claim_of, new_task, next_uuid, wish};
use crate::error::Error;
use crate::queue::{Again, CrowdsPage, Errand};
use crate::row::{Order, TasksPage};
use contract::event::Totals;
use contract::state::WaitingFor;
use contract::{Code, NanoUsd, TaskId, TaskState, Wish};
use rusqlite::{Connection, StatementStatus};

/// When the lease of a new run ends.
const EXPIRES_MS: i64 = NOW.0 + 1_000;
const SETTLED: &str = "UPDATE runs SET state = 'settled', outcome = 'failed', ended_at = 1";
const RUN_PASSED_ON: &str = "UPDATE runs SET fence = fence + 1";
const TASK_PASSED_ON: &str = "UPDATE tasks SET fence = fence + 1";

/// A run that was just claimed, after something was done to the rows behind its back.
fn scene(tampered: &str) -> (Connection, Holder) {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    let (holder, _) = claimed(&connection);
    connection.execute_batch(tampered).unwrap();
    (connection, holder)
}

fn claimed(connection: &Connection) -> (Holder, Claim) {
    let task = verbs::enqueue(connection, &new_task()).unwrap().value;
    let claim = claim_of(task, "one");
    let fence = verbs::claim(connection, &claim).unwrap().value.fence;
    (Holder { task, run: claim.run, fence, head_seq: 0 }, claim)
}

/// The row as its holder saw it before.
fn row(connection: &Connection, head_seq: u64) -> verbs::Held {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (num, task) = connection.query_row("SELECT num, task FROM runs", [], read).unwrap();
    verbs::Held { num, task, head_seq, state: "live".to_owned() }
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code())
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_run_is_held_by_its_own_fence_by_its_tasks_and_while_it_lives() {
    for (tampered, expected) in [
        ("", None),
        (RUN_PASSED_ON, Some(Code::FenceStale)),
        (TASK_PASSED_ON, Some(Code::FenceStale)),
        (SETTLED, Some(Code::FenceStale)),
    ] {
        let (connection, holder) = scene(tampered);
        let held = verbs::held(&connection, holder.run, holder.fence);
        assert_eq!(code(held), expected, "{tampered}");
    }
}

#[test]
fn the_head_moves_only_under_the_fence_from_where_it_was_and_while_the_run_lives() {
    for (tampered, head_seq, expected) in [
        ("", 0, None),
        (RUN_PASSED_ON, 0, Some(Code::FenceStale)),
        ("", 3, Some(Code::FenceStale)),
        (SETTLED, 0, Some(Code::FenceStale)),
    ] {
        let (connection, holder) = scene(tampered);
        let held = row(&connection, head_seq);
        let moved = commit::advance(&connection, &holder.batch(&[]), &held, 7);
        assert_eq!(code(moved), expected, "{tampered} from {head_seq}");
    }
}

fn settling(holder: &Holder) -> Batch {
    let totals = Totals { effective_nanousd: Some(NanoUsd(20)), ..Totals::default() };
    holder.settling(TaskState::Done, totals)
}

#[test]
fn run_and_task_end_only_under_the_fence_and_only_once() {
    for (tampered, expected) in [
        ("", None),
        (RUN_PASSED_ON, Some(Code::FenceStale)),
        (SETTLED, Some(Code::FenceStale)),
        (TASK_PASSED_ON, Some(Code::FenceStale)),
        ("UPDATE tasks SET state = 'cancelled'", Some(Code::FenceStale)),
    ] {
        let (connection, holder) = scene(tampered);
        let batch = settling(&holder);
        let end = batch.settle.as_ref().unwrap();
        let ended = commit::settle(&connection, &batch, &row(&connection, 0), end);
        assert_eq!(code(ended), expected, "{tampered}");
    }
}

#[test]
fn what_was_spent_and_settled_is_not_settled_again() {
    let (connection, holder) = scene(
        "INSERT INTO reservations (scope, run, nanousd, tokens, settled_at) VALUES ('day', 1, 50, 0, NULL), ('month', 1, 60, 0, 99)",
    );
    let batch = settling(&holder);
    let end = batch.settle.as_ref().unwrap();
    commit::settle(&connection, &batch, &row(&connection, 0), end).unwrap();
    let of = |scope: &str| {
        number(&connection, &format!("SELECT nanousd FROM reservations WHERE scope = '{scope}'"))
    };
    assert_eq!((of("day"), of("month")), (20, 60));
}

#[test]
fn only_a_lease_that_stands_as_it_was_seen_is_fenced_off() {
    for (tampered, taken) in [
        ("", true),
        (RUN_PASSED_ON, false),
        (TASK_PASSED_ON, false),
        ("UPDATE tasks SET state = 'queued'", false),
        (SETTLED, false),
        ("UPDATE runs SET lease_expires_at = lease_expires_at + 1", false),
    ] {
        let (connection, holder) = scene(tampered);
        let Holder { task, run, fence, head_seq } = holder;
        let reaped = Reaped { run, task, old_fence: fence, fence: fence + 1, head_seq };
        let (at, later) = (contract::Timestamp(EXPIRES_MS), NOW.plus_ms(5_000));
        let num = row(&connection, 0).num;
        let answer = verbs::fence_off(&connection, num, &reaped, at, later);
        assert_eq!(matches!(answer, Ok(true)), taken, "{tampered}: {answer:?}");
    }
}

#[test]
fn a_wish_that_was_taken_makes_room_and_is_not_read_again() {
    let (connection, holder) = scene("");
    let first = wish(holder.run, Wish::Interrupt);
    verbs::command(&connection, &first).unwrap();
    let mut batch = holder.batch(&[]);
    batch.taken.push(first.id);
    commit::commit(&connection, &batch).unwrap();
    for _ in 0..contract::limits::INBOX_MAX {
        verbs::command(&connection, &wish(holder.run, Wish::Interrupt)).unwrap();
    }
    let one_more = verbs::command(&connection, &wish(holder.run, Wish::Interrupt));
    assert!(matches!(one_more, Err(Error::TooMany { .. })));
}

#[test]
fn a_wish_of_another_run_is_not_taken() {
    let (connection, holder) = scene("");
    let (other, _) = claimed(&connection);
    let theirs = wish(other.run, Wish::Interrupt);
    verbs::command(&connection, &theirs).unwrap();
    let mut batch = holder.batch(&[]);
    batch.taken.push(theirs.id);
    assert_eq!(code(commit::commit(&connection, &batch)), Some(Code::Conflict));
}

#[test]
fn the_same_claim_again_is_granted_only_while_it_stands() {
    for (tampered, expected) in
        [("", None), (TASK_PASSED_ON, Some(Code::Conflict)), (SETTLED, Some(Code::Conflict))]
    {
        let (connection, _) = scene("");
        let (_, claim) = claimed(&connection);
        connection.execute_batch(tampered).unwrap();
        assert_eq!(code(verbs::claim(&connection, &claim)), expected, "{tampered}");
    }
}

#[test]
fn a_run_that_has_ended_has_no_point_to_go_on_from() {
    let (connection, holder) = scene("");
    commit::commit(&connection, &holder.batch(&["said"])).unwrap();
    assert!(reads::resume_point(&connection, holder.run).unwrap().is_some());
    // As if its end had left its state behind.
    connection.execute_batch(SETTLED).unwrap();
    assert_eq!(reads::resume_point(&connection, holder.run).unwrap(), None);
}

#[test]
fn a_run_that_still_goes_on_is_no_failure_of_its_conversation() {
    let (connection, holder) = scene("UPDATE runs SET native_session = 's', resumes = 's'");
    let found = reads::conversation_of(&connection, holder.run).unwrap().unwrap();
    assert_eq!((found.native_session.as_deref(), found.failures), (Some("s"), 0));
}

#[test]
fn a_sum_that_was_settled_is_not_set_aside_again() {
    let (connection, holder) = scene(
        "INSERT INTO reservations (scope, run, nanousd, tokens, settled_at) VALUES ('day', 1, 50, 0, 99)",
    );
    let reserve = Reserve {
        scope: "day".into(),
        run: holder.run,
        fence: holder.fence,
        nanousd: NanoUsd(7),
        tokens: 0,
        turns: 0,
        ms: 0,
        nanousd_max: None,
        tokens_max: None,
        turns_max: None,
        ms_max: None,
        since: NOW,
    };
    verbs::reserve(&connection, &reserve).unwrap();
    assert_eq!(number(&connection, "SELECT nanousd FROM reservations"), 50);
}

#[test]
fn runs_that_have_ended_are_in_nobodys_way_when_leases_are_reaped() {
    let (connection, ended) = scene("");
    commit::commit(&connection, &settling(&ended)).unwrap();
    let (expired, _) = claimed(&connection);
    let reaped = verbs::reap(&connection, NOW.plus_ms(5_000), &[]).unwrap().value;
    assert_eq!(reaped.iter().map(|reaped| reaped.run).collect::<Vec<_>>(), [expired.run]);
}

#[test]
fn a_lease_that_was_renewed_meanwhile_is_left_out_and_the_others_are_taken() {
    let (connection, renewed) = scene("");
    let (expired, _) = claimed(&connection);
    verbs::renew(&connection, renewed.run, renewed.fence, NOW.plus_ms(9_000)).unwrap();
    let expires_at = contract::Timestamp(EXPIRES_MS);
    let seen = [renewed, expired].map(|Holder { run, fence, .. }| Seen { run, fence, expires_at });
    let taken = verbs::reap_seen(&connection, NOW.plus_ms(5_000), &seen).unwrap().value;
    assert_eq!(taken.iter().map(|reaped| reaped.run).collect::<Vec<_>>(), [expired.run]);
}

/// A task in line, and another that came after it.
fn line(connection: &Connection) -> [Claim; 2] {
    [0, 1].map(|_| {
        let run = contract::RunId::new(next_uuid());
        let line = Some(InLine { pool: "fake".into(), run });
        let task = verbs::enqueue(connection, &NewTask { line, ..new_task() }).unwrap().value;
        Claim { run, places: Some(1), ..claim_of(task, "one") }
    })
}

#[test]
fn a_task_is_taken_only_under_its_fence_from_its_line_and_into_a_free_slot() {
    const FIRST: &str = "WHERE num = 2";
    let conflict = Some(Code::Conflict);
    for (tampered, first, expected) in [
        (SETTLED.to_owned(), true, None),
        // The one run there is holds the one slot.
        (String::new(), true, conflict),
        // It counts while it is not settled, and only for its own adapter.
        ("UPDATE runs SET adapter = 'another'".to_owned(), true, None),
        (format!("{SETTLED}; {TASK_PASSED_ON} {FIRST}"), true, conflict),
        (format!("{SETTLED}; UPDATE tasks SET state = 'cancelled' {FIRST}"), true, conflict),
        (format!("{SETTLED}; UPDATE tasks SET waiting_for = 'quota' {FIRST}"), true, conflict),
        (format!("{SETTLED}; UPDATE tasks SET pool = 'another' {FIRST}"), true, conflict),
        (format!("{SETTLED}; UPDATE tasks SET state = 'queued' {FIRST}"), true, None),
        // Whoever comes later waits while the first one waits for the same.
        (SETTLED.to_owned(), false, conflict),
        (format!("{SETTLED}; UPDATE tasks SET state = 'cancelled' {FIRST}"), false, None),
        (format!("{SETTLED}; UPDATE tasks SET waiting_for = 'quota' {FIRST}"), false, None),
        (format!("{SETTLED}; UPDATE tasks SET pool = 'another' {FIRST}"), false, None),
        (format!("{SETTLED}; UPDATE tasks SET priority = -1 {FIRST}"), false, None),
        (format!("{SETTLED}; UPDATE tasks SET priority = 1 {FIRST}"), false, conflict),
        (format!("{SETTLED}; UPDATE tasks SET priority = 1 WHERE num = 3"), true, conflict),
    ] {
        let (connection, _) = scene("");
        let claims = line(&connection);
        connection.execute_batch(&tampered).unwrap();
        let claim = &claims[usize::from(!first)];
        let taken = verbs::take(&connection, claim, 0);
        assert_eq!(code(taken), expected, "{tampered}, the first: {first}");
    }
}

#[test]
fn a_task_without_a_slot_is_taken_only_from_the_queue_under_its_fence() {
    for (tampered, expected) in [
        ("", None),
        (TASK_PASSED_ON, Some(Code::Conflict)),
        ("UPDATE tasks SET state = 'waiting'", Some(Code::Conflict)),
    ] {
        let (connection, _) = scene("");
        let task = verbs::enqueue(&connection, &new_task()).unwrap().value;
        connection.execute_batch(tampered).unwrap();
        let taken = verbs::take(&connection, &claim_of(task, "one"), 0);
        assert_eq!(code(taken), expected, "{tampered}");
    }
}

#[test]
fn only_who_waits_for_a_slot_stands_in_line() {
    for (tampered, stands) in [
        ("", true),
        ("UPDATE tasks SET state = 'cancelled' WHERE num = 2", false),
        ("UPDATE tasks SET waiting_for = 'quota' WHERE num = 2", false),
    ] {
        let (connection, _) = scene("");
        let [claim, next] = line(&connection);
        connection.execute_batch(tampered).unwrap();
        let standing = reads::standing(&connection, claim.task).unwrap();
        assert_eq!(standing.is_some(), stands, "{tampered}");
        assert_eq!(reads::lines(&connection, 9).unwrap().len(), 1 + usize::from(stands));
        let behind = reads::standing(&connection, next.task).unwrap().unwrap();
        assert_eq!((behind.ahead, behind.taken), (u64::from(stands), 1), "{tampered}");
        connection.execute_batch(SETTLED).unwrap();
        let behind = reads::standing(&connection, next.task).unwrap().unwrap();
        assert_eq!(behind.taken, 0, "a run that has ended takes no slot");
    }
}

#[test]
fn a_run_that_has_not_begun_is_found_only_while_it_waits() {
    let (connection, _) = scene("");
    let [claim, _] = line(&connection);
    let found = || reads::find_runs(&connection, &claim.run.to_string(), 9).unwrap();
    assert_eq!(found(), [claim.run]);
    connection.execute_batch("UPDATE tasks SET state = 'cancelled' WHERE num = 2").unwrap();
    assert_eq!(found(), []);
}

#[test]
fn a_run_that_was_deleted_is_not_found_and_its_plan_is_not_given_out() {
    let (connection, holder) = scene("INSERT OR REPLACE INTO plans SELECT num, x'7b7d' FROM runs");
    connection.execute_batch(SETTLED).unwrap();
    let found = || reads::find_runs(&connection, &holder.run.to_string(), 9).unwrap().len();
    let plan = || reads::plan(&connection, holder.run).unwrap();
    assert_eq!((found(), plan()), (1, Some(b"{}".to_vec())));
    connection.execute_batch("UPDATE runs SET deleted_at = 1").unwrap();
    assert_eq!((found(), plan()), (0, None));
}

#[test]
fn only_what_is_of_a_deleted_run_is_removed_with_it() {
    let (connection, holder) = scene(
        "INSERT INTO blob_names (hash, run) SELECT 'a', num FROM runs;
         INSERT INTO events (id, run, seq, bytes) SELECT 1, num, 1, x'00' FROM runs;
         INSERT INTO events (id, run, seq, bytes) SELECT 2, num + 1, 1, x'00' FROM runs;
         INSERT INTO spans (run, first_seq, first_id, count) SELECT num, 1, 1, 2 FROM runs",
    );
    let blobs = || removal::blobs_of(&connection, holder.run, 9).unwrap();
    assert_eq!(blobs(), [], "it is not deleted");
    assert_eq!(code(removal::remove_events(&connection, holder.run, 9)), Some(Code::Conflict));
    connection.execute_batch(SETTLED).unwrap();
    connection.execute_batch("UPDATE runs SET deleted_at = 1").unwrap();
    assert_eq!(blobs(), [("a".to_owned(), false)]);
    while removal::remove_events(&connection, holder.run, 9).unwrap().value {}
    assert_eq!(number(&connection, "SELECT sum(id) FROM events"), 2, "that is another run's");
}

#[test]
fn a_task_that_finds_no_slot_is_told_so_from_the_queue_and_from_the_line() {
    for (tampered, full) in [
        ("", true),
        ("UPDATE tasks SET state = 'queued', waiting_for = NULL WHERE num = 2", true),
        ("UPDATE tasks SET waiting_for = 'quota' WHERE num = 2", false),
        ("UPDATE tasks SET state = 'review', waiting_for = NULL WHERE num = 2", false),
    ] {
        let (connection, _) = scene("");
        let [claim, _] = line(&connection);
        connection.execute_batch(tampered).unwrap();
        let taken = verbs::take(&connection, &claim, 0);
        assert_eq!(matches!(taken, Err(Error::PoolFull { .. })), full, "{tampered}: {taken:?}");
    }
}

#[test]
fn those_in_line_are_found_by_an_index() {
    let (connection, _) = scene("");
    for sql in [
        "SELECT id FROM tasks WHERE id = ?1 OR key = ?2 OR run = ?3",
        "SELECT count(*) FROM runs WHERE adapter = ?1 AND state <> 'settled'",
        "SELECT 1 FROM tasks t WHERE num = ?1 AND EXISTS (SELECT 1 FROM tasks w WHERE w.pool = ?2
             AND w.state = 'waiting' AND w.waiting_for = 'pool'
             AND (w.priority > t.priority OR (w.priority = t.priority AND w.num < t.num)))",
    ] {
        let steps = steps(&connection, sql);
        assert!(!steps.iter().any(|step| step.starts_with("SCAN tasks")), "{sql}: {steps:?}");
        assert!(!steps.iter().any(|step| step.starts_with("SCAN runs")), "{sql}: {steps:?}");
    }
}

/// Two tasks of the queue, the second after the first.
fn chain(connection: &Connection) -> [TaskId; 2] {
    let put = |after: Vec<TaskId>| {
        let errand = Some(Errand { after, ..Errand::default() });
        verbs::enqueue(connection, &NewTask { errand, ..new_task() }).unwrap().value
    };
    let first = put(Vec::new());
    [first, put(vec![first])]
}

#[test]
fn a_task_is_recalled_only_under_its_fence_and_while_it_runs() {
    for (tampered, expected) in [
        ("", None),
        (TASK_PASSED_ON, Some(Code::Conflict)),
        ("UPDATE tasks SET state = 'queued'", Some(Code::Conflict)),
    ] {
        let (connection, holder) = scene(tampered);
        let recalled = queue::recall(&connection, holder.task, holder.fence);
        assert_eq!(code(recalled), expected, "{tampered}");
    }
}

#[test]
fn only_who_waits_for_other_tasks_is_let_go_on_and_only_after_the_last() {
    for (tampered, state) in [
        ("", "queued"),
        ("UPDATE tasks SET waiting_for = 'budget' WHERE num = 2", "waiting"),
        ("UPDATE tasks SET state = 'cancelled' WHERE num = 2", "cancelled"),
        ("DELETE FROM dependencies", "waiting"),
        (
            "INSERT INTO tasks (id, agent, title, body, prompt, state, review, created_at)
                 VALUES (x'07', '', '', '', '', 'review', 'none', 0);
             INSERT INTO dependencies SELECT id, x'07' FROM tasks WHERE num = 2",
            "waiting",
        ),
    ] {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let [first, _] = chain(&connection);
        connection.execute_batch("UPDATE tasks SET state = 'done' WHERE num = 1").unwrap();
        connection.execute_batch(tampered).unwrap();
        queue::tell_dependents(&connection, first, TaskState::Done).unwrap();
        let sql = format!("SELECT state = '{state}' FROM tasks WHERE num = 2");
        assert_eq!(number(&connection, &sql), 1, "{tampered}");
    }
}

#[test]
fn only_who_waits_for_other_tasks_is_told_that_one_of_them_failed() {
    for (tampered, told) in [
        ("", 1),
        ("UPDATE tasks SET waiting_for = 'budget' WHERE num = 2", 0),
        ("UPDATE tasks SET state = 'cancelled' WHERE num = 2", 0),
    ] {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let [first, _] = chain(&connection);
        connection.execute_batch("UPDATE tasks SET state = 'failed' WHERE num = 1").unwrap();
        connection.execute_batch(tampered).unwrap();
        queue::tell_dependents(&connection, first, TaskState::Failed).unwrap();
        let noted = number(&connection, "SELECT count(note) FROM tasks WHERE num = 2");
        assert_eq!(noted, told, "{tampered}");
    }
}

#[test]
fn an_agent_is_as_busy_as_it_has_runs_that_live() {
    for (tampered, busy) in [("", 1), (SETTLED, 0), ("UPDATE runs SET agent = 'another'", 0)] {
        let (connection, _) = scene(tampered);
        let waits = "state = 'waiting', waiting_for = 'budget'";
        for _ in 0..2 {
            verbs::enqueue(&connection, &new_task()).unwrap();
        }
        connection.execute_batch(&format!("UPDATE tasks SET {waits} WHERE num = 3")).unwrap();
        let page = CrowdsPage { why: WaitingFor::Budget, after: None, limit: 9 };
        let heads = [queue::heads(&connection), queue::crowds(&connection, &page)];
        for (heads, num) in heads.into_iter().zip([2, 3]) {
            let heads: Vec<_> = heads.unwrap().iter().map(|head| (head.num, head.busy)).collect();
            assert_eq!(heads, [(num, busy)], "{tampered}");
        }
    }
}

#[test]
fn whoever_asked_for_a_run_starts_it_from_the_line_and_the_queue_does_not() {
    let (connection, _) = scene("");
    line(&connection);
    let heads =
        || -> Vec<u64> { queue::heads(&connection).unwrap().iter().map(|head| head.num).collect() };
    assert_eq!(heads(), Vec::<u64>::new());
    connection.execute_batch("UPDATE tasks SET run = NULL WHERE num = 3").unwrap();
    assert_eq!(heads(), [3]);
}

#[test]
fn a_conversation_is_taken_up_by_its_own_agent_in_its_own_directory() {
    const SPOKEN: &str = "UPDATE runs SET native_session = 's'";
    for (tampered, found) in [
        (SPOKEN, true),
        ("", false),
        ("UPDATE runs SET native_session = 's', agent = 'another'", false),
        ("UPDATE runs SET native_session = 's', cwd = '/elsewhere'", false),
    ] {
        let (connection, holder) = scene("");
        let of = "SELECT agent || char(10) || cwd FROM runs";
        let of: String = connection.query_row(of, [], |row| row.get(0)).unwrap();
        let (agent, cwd) = of.split_once('\n').unwrap();
        connection.execute_batch(tampered).unwrap();
        // One that came later and has none is passed over.
        let (later, _) = claimed(&connection);
        let conversation = reads::conversation(&connection, agent, cwd).unwrap();
        assert_eq!(conversation.is_some(), found, "{tampered}");
        let runs = reads::task_runs(&connection, holder.task).unwrap();
        assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [holder.run]);
        assert_eq!(queue::runs_of(&connection, holder.task, 9).unwrap(), [holder.run]);
        assert_ne!(later.run, holder.run);
    }
}

#[test]
fn a_task_is_found_by_either_end_of_its_id_and_by_nothing_else() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    let put = |id: &str| {
        let task = NewTask { id: id.parse().unwrap(), ..new_task() };
        verbs::enqueue(&connection, &task).unwrap().value
    };
    let one = put("task_0123456789abcdef0123456789abcdef");
    let other = put("task_fedcba9876543210fedcba9876543210");
    for (given, expected) in [
        ("task_0123456789abcdef0123456789abcdef", vec![one]),
        ("0123", vec![one]),
        ("bcdef", vec![one]),
        // As people see it: the first letters of the last eight.
        ("89ab", vec![one]),
        ("fedc", vec![other]),
        ("3210", vec![other]),
        ("4567", vec![]),
        ("no", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(reads::find_tasks(&connection, given, 9).unwrap(), expected, "{given}");
    }
}

#[test]
fn who_stands_in_front_waits_for_the_same_and_comes_first() {
    for (tampered, ahead) in [
        ("", 1),
        ("pool = 'another'", 0),
        ("priority = -1", 0),
        ("state = 'cancelled', waiting_for = NULL", 0),
    ] {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let waits = || {
            let line = Some(InLine { pool: "fake".into(), run: claim_of(new_task().id, "x").run });
            verbs::enqueue(&connection, &NewTask { line, ..new_task() }).unwrap().value
        };
        let (_, second, _) = (waits(), waits(), waits());
        if !tampered.is_empty() {
            let sql = format!("UPDATE tasks SET {tampered} WHERE num = 1");
            connection.execute_batch(&sql).unwrap();
        }
        let standing = reads::standing(&connection, second).unwrap().expect("it waits");
        assert_eq!((standing.ahead, standing.taken), (ahead, 0), "{tampered}");
        // Who is more urgent comes first, whenever it came.
        connection.execute_batch("UPDATE tasks SET priority = 5 WHERE num = 3").unwrap();
        let standing = reads::standing(&connection, second).unwrap().expect("it waits");
        assert_eq!(standing.ahead, ahead + 1, "{tampered}");
    }
}

#[test]
fn of_the_blobs_of_a_deleted_run_each_is_asked_for_by_itself() {
    let (connection, holder) = scene("");
    claimed(&connection);
    connection
        .execute_batch(
            "UPDATE runs SET state = 'settled', outcome = 'failed', ended_at = 1, deleted_at = 1
                 WHERE num = 1;
             INSERT INTO blob_names (hash, run) VALUES ('aa1', 1), ('ab2', 1), ('ab3', 1), ('aa1', 2)",
        )
        .unwrap();
    let left = || {
        let mut blobs = removal::blobs_of(&connection, holder.run, 9).unwrap();
        blobs.sort();
        blobs
    };
    let of = |hash: &str, shared: bool| (hash.to_owned(), shared);
    assert_eq!(left(), [of("aa1", true), of("ab2", false), of("ab3", false)]);
    let on = |shelf: &str| Vec::from_iter(removal::named_on(&connection, shelf).unwrap());
    assert_eq!((on("aa"), on("ab")), (vec!["aa1".to_owned()], vec!["ab2".into(), "ab3".into()]));
    assert_eq!((on("a0"), on("ac")), (Vec::new(), Vec::new()));
    removal::forget_blobs(&connection, holder.run, &["ab2".to_owned()]).unwrap();
    assert_eq!(left(), [of("aa1", true), of("ab3", false)]);
}

#[test]
fn the_words_of_a_task_go_with_its_last_run_and_when_it_is_over() {
    for (tampered, gone) in [
        ("UPDATE tasks SET state = 'done'", true),
        ("UPDATE tasks SET state = 'waiting', waiting_for = 'quota'", false),
        ("UPDATE tasks SET state = 'done'; UPDATE runs SET task = 1 WHERE num = 2", false),
    ] {
        let (connection, holder) = scene("");
        claimed(&connection);
        let task = "UPDATE runs SET task = (SELECT task FROM runs WHERE num = 1) WHERE num = 2";
        let tampered = tampered.replace("UPDATE runs SET task = 1 WHERE num = 2", task);
        connection.execute_batch(&tampered).unwrap();
        let deleted = "UPDATE runs SET state = 'settled', outcome = 'failed', ended_at = 1,
             deleted_at = 1 WHERE num = 1";
        connection.execute_batch(deleted).unwrap();
        removal::finish(&connection, holder.run).unwrap();
        let words = "SELECT title = '' FROM tasks WHERE num = 1";
        assert_eq!(number(&connection, words) == 1, gone, "{tampered}");
    }
}

#[test]
fn what_must_be_done_before_a_task_is_its_own() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    let [first, second] = chain(&connection);
    chain(&connection);
    assert_eq!(queue::dependencies(&connection, second).unwrap(), [first]);
    assert_eq!(queue::dependencies(&connection, first).unwrap(), []);
}

#[test]
fn who_waits_for_another_task_hears_nothing_of_this_one() {
    for (state, of_second) in [(TaskState::Done, "waiting "), (TaskState::Failed, "waiting failed")]
    {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let [first, _] = chain(&connection);
        // The second waits for one that was cancelled, too; a third for one that is done and has not said so.
        connection
            .execute_batch(
                "INSERT INTO tasks (id, agent, title, body, prompt, state, review, created_at)
                     VALUES (x'00', '', '', '', '', 'cancelled', 'none', 0),
                            (x'07', '', '', '', '', 'done', 'none', 0);
                 INSERT INTO tasks (id, agent, title, body, prompt, state, waiting_for, note, review,
                                    created_at)
                     VALUES (x'08', '', '', '', '', 'waiting', 'dependency', 'its own', 'none', 0);
                 INSERT INTO dependencies SELECT id, x'00' FROM tasks WHERE num = 2;
                 INSERT INTO dependencies VALUES (x'08', x'07')",
            )
            .unwrap();
        let word = if state == TaskState::Done { "done" } else { "failed" };
        connection
            .execute_batch(&format!("UPDATE tasks SET state = '{word}' WHERE num = 1"))
            .unwrap();
        queue::tell_dependents(&connection, first, state).unwrap();
        let told = |row: &str| {
            let sql = format!("SELECT state || ' ' || ifnull(note, '') FROM tasks WHERE {row}");
            connection.query_row(&sql, [], |row| row.get::<_, String>(0)).unwrap()
        };
        assert_eq!(told("id = x'08'"), "waiting its own");
        let second = told("num = 2").replace(&format!("{first} is "), "");
        assert_eq!(second, of_second, "{state:?}");
    }
}

#[test]
fn only_what_waits_for_its_time_or_for_that_is_looked_at_again() {
    for (tampered, due, held, whenever) in [
        ("until = 1", 1, 0, 0),
        ("until = NULL", 0, 0, 0),
        ("until = 9223372036854775807", 0, 0, 0),
        ("until = 1, state = 'review'", 0, 0, 0),
        ("until = 1, run = x'05'", 0, 0, 0),
        ("waiting_for = 'budget'", 0, 1, 1),
        ("waiting_for = 'budget', until = 1", 1, 0, 1),
        ("waiting_for = 'budget', until = 9223372036854775807", 0, 0, 1),
        ("waiting_for = 'quota'", 0, 0, 0),
        ("waiting_for = 'quota', until = 9223372036854775807", 0, 0, 0),
        ("waiting_for = 'budget', state = 'failed'", 0, 0, 0),
        ("waiting_for = 'budget', run = x'05'", 0, 0, 0),
    ] {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        chain(&connection);
        let tampered = format!("UPDATE tasks SET {tampered} WHERE num = 2");
        connection.execute_batch(&tampered).unwrap();
        let page = CrowdsPage { why: WaitingFor::Budget, after: None, limit: 9 };
        assert_eq!(queue::crowds(&connection, &page).unwrap().len(), held, "{tampered}");
        for (which, expected) in
            [(Again::Due(NOW), due), (Again::Whenever(WaitingFor::Budget), whenever)]
        {
            let undone = connection.unchecked_transaction().unwrap();
            let found = queue::again(&connection, which).unwrap().value;
            assert_eq!(found, expected, "{tampered}: {which:?}");
            undone.rollback().unwrap();
        }
    }
}

#[test]
fn the_next_task_and_every_page_are_found_by_an_index() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    for (sql, index) in [
        (
            "SELECT min(agent) FROM tasks WHERE run IS NULL AND (state = 'queued' OR waiting_for = 'pool')
                 AND agent > 'a'",
            "tasks_ready",
        ),
        (
            "SELECT num FROM tasks WHERE run IS NULL AND (state = 'queued' OR waiting_for = 'pool')
                 AND agent = 'a' ORDER BY priority DESC, num LIMIT 1",
            "tasks_ready",
        ),
        ("SELECT count(*) FROM runs r WHERE r.agent = 'a' AND r.state <> 'settled'", "runs_of_agent"),
        (queue::NEXT_DUE, "tasks_due"),
        (queue::DUE, "tasks_due"),
        (queue::HELD, "tasks_held"),
        (queue::WHENEVER, "tasks_by_state"),
        (&reads::lines_sql(), "tasks_in_line"),
    ] {
        found_by(&connection, sql, index);
    }
    for order in [Order::Oldest, Order::Newest] {
        for (state, label, index) in [
            (None, None, "tasks_1"),
            (Some(TaskState::Done), None, "tasks_by_state"),
            (None, Some("x"), "PRIMARY KEY (label=? AND task"),
            (Some(TaskState::Done), Some("x"), "PRIMARY KEY (label=? AND task"),
        ] {
            let label = label.map(str::to_owned);
            let page = TasksPage { order, state, label, ..TasksPage::default() };
            found_by(&connection, &reads::tasks_sql(&page), index);
        }
    }
}

/// That a statement goes by this index, and sorts nothing.
fn found_by(connection: &Connection, sql: &str, index: &str) {
    let steps = steps(connection, sql);
    let found = steps.iter().any(|step| step.contains(index));
    let sorted = steps.iter().any(|step| step.contains("TEMP B-TREE"));
    assert!(found && !sorted, "{sql}: {steps:?}");
}

/// What a statement does. Without values: the plan is the same for all of them.
fn steps(connection: &Connection, sql: &str) -> Vec<String> {
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let (mut rows, mut steps) = (plan.raw_query(), Vec::new());
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}

#[test]
fn a_statement_is_made_once_whatever_is_bound_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut writer = open_writer(&path).unwrap();
    schema::migrate(&mut writer).unwrap();
    let reader = open_reader(&path).unwrap();
    let sql =
        "SELECT r.num FROM runs r JOIN tasks t ON t.id = r.task WHERE r.id = ?1 AND t.fence = ?2";
    for connection in [writer, reader] {
        let mut statement = connection.prepare(sql).unwrap();
        for n in 0..5_u8 {
            assert!(!statement.exists((vec![n; 16], n)).unwrap());
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
