//! The schema and how a store comes to it: numbered migrations, each applied once, whole, and
//! never edited afterwards (its checksum is kept and compared). A store of a newer version is
//! refused, not guessed at.

use crate::error::Error;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Marks a database file as ours.
const APPLICATION_ID: i32 = 0x4f73_746c;

/// Older versions could lose committed data when a write met a checkpoint in WAL mode.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In order; the place in this list, from 1, is the schema's number.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "start", sql: include_str!("migrations/0001_start.sql") },
    Migration { name: "ledger", sql: include_str!("migrations/0002_ledger.sql") },
    Migration { name: "sessions", sql: include_str!("migrations/0003_sessions.sql") },
    Migration { name: "line", sql: include_str!("migrations/0004_line.sql") },
    Migration { name: "queue", sql: include_str!("migrations/0005_queue.sql") },
    Migration { name: "access", sql: include_str!("migrations/0006_access.sql") },
    Migration { name: "limits", sql: include_str!("migrations/0007_limits.sql") },
    Migration { name: "agents", sql: include_str!("migrations/0008_agents.sql") },
    Migration { name: "fallback", sql: include_str!("migrations/0009_fallback.sql") },
    Migration { name: "held", sql: include_str!("migrations/0010_held.sql") },
    Migration { name: "apart", sql: include_str!("migrations/0011_apart.sql") },
    Migration { name: "assets", sql: include_str!("migrations/0012_assets.sql") },
    Migration { name: "approximate", sql: include_str!("migrations/0013_approximate.sql") },
    Migration { name: "context", sql: include_str!("migrations/0014_context.sql") },
    Migration { name: "totals", sql: include_str!("migrations/0015_totals.sql") },
    Migration { name: "results", sql: include_str!("migrations/0016_results.sql") },
];

/// Brings the database to the present schema, or says why it cannot be.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Error> {
    apply(connection, MIGRATIONS)
}

fn apply(connection: &mut Connection, migrations: &[Migration]) -> Result<(), Error> {
    check_sqlite()?;
    check_ours(connection)?;
    let doing = |n: usize| format!("migrating to schema {n}");
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
             n INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL
         ) STRICT;",
    )?;
    let found: u32 =
        connection.query_row("SELECT coalesce(max(n), 0) FROM migrations", [], |row| row.get(0))?;
    if found as usize > migrations.len() {
        return Err(Error::Newer { found, known: migrations.len() as u32 });
    }
    for (place, migration) in migrations.iter().enumerate() {
        let n = place + 1;
        let checksum = blake3::hash(migration.sql.as_bytes()).to_hex();
        let transaction = connection.transaction()?;
        let applied: Option<String> = transaction
            .query_row("SELECT checksum FROM migrations WHERE n = ?1", [n as i64], |row| row.get(0))
            .optional()?;
        match applied {
            Some(applied) if applied == checksum.as_str() => continue,
            Some(_) => {
                return Err(Error::unreadable(
                    doing(n),
                    std::io::Error::other("it was applied with other content"),
                ));
            }
            None => {}
        }
        transaction.execute_batch(migration.sql).map_err(|cause| Error::sqlite(doing(n), cause))?;
        transaction.execute(
            "INSERT INTO migrations (n, name, checksum) VALUES (?1, ?2, ?3)",
            params![n as i64, migration.name, checksum.as_str()],
        )?;
        transaction.commit().map_err(|cause| Error::sqlite(doing(n), cause))?;
        failpoint::hit(failpoint::Point::Migrated);
    }
    Ok(())
}

fn check_sqlite() -> Result<(), Error> {
    if rusqlite::version_number() >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    let version = rusqlite::version();
    Err(Error::unreadable(
        "looking at the version of SQLite",
        std::io::Error::other(format!("{version} is too old to be safe")),
    ))
}

/// An empty file becomes ours; a database of something else is left alone.
fn check_ours(connection: &Connection) -> Result<(), Error> {
    let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (id, tables) {
        (APPLICATION_ID, _) => Ok(()),
        (0, 0) => {
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
            Ok(())
        }
        (_, _) => Err(Error::unreadable(
            "opening the database",
            std::io::Error::other("the file belongs to another program"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Migration = Migration { name: "one", sql: "CREATE TABLE a (x INTEGER) STRICT;" };
    const TWO: Migration = Migration { name: "two", sql: "ALTER TABLE a ADD COLUMN y INTEGER;" };
    const BROKEN: Migration = Migration { name: "broken", sql: "CREATE TABLE b (x); nonsense" };

    fn tables(connection: &Connection) -> i64 {
        connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name IN ('a', 'b')", [], |row| {
                row.get(0)
            })
            .unwrap()
    }

    #[test]
    fn migrations_are_applied_once_and_later_ones_follow() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &[ONE]).unwrap();
        apply(&mut connection, &[ONE, TWO]).unwrap();
        apply(&mut connection, &[ONE, TWO]).unwrap();
        connection.execute("INSERT INTO a (x, y) VALUES (1, 2)", []).unwrap();
    }

    #[test]
    fn runs_from_before_the_books_are_in_them() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &MIGRATIONS[..1]).unwrap();
        let tokens =
            r#"{"input_uncached":3,"cache_read":0,"cache_write":0,"output":4,"reasoning":1}"#;
        let none = r#"{"input_uncached":0,"cache_read":0,"cache_write":0,"output":0}"#;
        for (num, tokens, paid) in
            [(1, tokens, "7"), (2, tokens, "null"), (3, none, "null"), (4, none, "0")]
        {
            let totals = format!(r#"{{"tokens":{tokens},"effective_nanousd":{paid}}}"#);
            connection
                .execute_batch(&format!(
                    "INSERT INTO tasks (num, id, agent, title, body, prompt, state, review,
                         created_at) VALUES ({num}, x'0{num}', '', '', '', '', 'done', 'none', 0);
                     INSERT INTO runs (num, id, task, fence, state, holder, lease_expires_at, agent,
                         adapter, runtime, cwd, prompt_preview, started_at, totals, outcome,
                         ended_at)
                     VALUES ({num}, x'0{num}', x'0{num}', 1, 'settled', '', 0, '', '', '', '', '',
                         86400001, '{totals}', 'succeeded', 0);"
                ))
                .unwrap();
        }
        migrate(&mut connection).unwrap();
        let mut rows = connection
            .prepare(
                "SELECT run, day, input_uncached + output, nanousd, priced, unpriced FROM ledger",
            )
            .unwrap();
        let rows: Vec<[i64; 6]> = rows
            .query_map([], |row| {
                Ok([0, 1, 2, 3, 4, 5].map(|column| row.get(column).expect("a number")))
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows, [[1, 1, 7, 7, 1, 0], [2, 1, 7, 0, 0, 1], [4, 1, 0, 0, 1, 0]]);
    }

    #[test]
    fn assets_from_before_names_were_counted_are_named() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &MIGRATIONS[..11]).unwrap();
        let hash = "5e".repeat(32);
        let texts = [
            format!("asset report (text/plain, 3 bytes) is kept as blob {hash}"),
            format!("asset report (text/plain, 3 bytes) is kept as blob {}", "zz".repeat(32)),
            "nothing is kept as blob here".to_owned(),
        ];
        connection
            .execute_batch(
                "INSERT INTO tasks (num, id, agent, title, body, prompt, state, review, created_at)
                     VALUES (1, x'01', '', '', '', '', 'done', 'none', 0);
                 INSERT INTO runs (num, id, task, fence, state, holder, lease_expires_at, agent,
                     adapter, runtime, cwd, prompt_preview, started_at)
                     VALUES (1, x'01', x'01', 1, 'live', '', 0, '', '', '', '', '', 0);",
            )
            .unwrap();
        for (seq, text) in (1..).zip(texts) {
            let event = format!(r#"{{"kind":"log","text":"{text}"}}"#);
            connection
                .execute(
                    "INSERT INTO events (run, seq, bytes) VALUES (1, ?1, ?2)",
                    params![seq, event.as_bytes()],
                )
                .unwrap();
        }
        migrate(&mut connection).unwrap();
        let mut named = connection.prepare("SELECT hash FROM blob_names WHERE run = 1").unwrap();
        let named = named.query_map([], |row| row.get(0)).unwrap();
        assert_eq!(named.map(Result::unwrap).collect::<Vec<String>>(), [hash]);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &[ONE, TWO]).unwrap();
        let refused = apply(&mut connection, &[ONE]).unwrap_err();
        assert!(matches!(refused, Error::Newer { found: 2, known: 1 }), "{refused}");
        assert_eq!(refused.code(), contract::Code::StoreNewer);
    }

    #[test]
    fn a_migration_that_was_edited_afterwards_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &[ONE]).unwrap();
        let edited = Migration { name: "one", sql: "CREATE TABLE a (x TEXT) STRICT;" };
        let refused = apply(&mut connection, &[edited]).unwrap_err();
        assert_eq!(refused.code(), contract::Code::StoreUnreadable);
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing_behind() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &[ONE, BROKEN]).unwrap_err();
        assert_eq!(tables(&connection), 1);
        apply(&mut connection, &[ONE, TWO]).unwrap();
    }

    #[test]
    fn a_database_of_another_program_is_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (x);").unwrap();
        apply(&mut connection, &[ONE]).unwrap_err();
        assert_eq!(tables(&connection), 0);
    }
}
