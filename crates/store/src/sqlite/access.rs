//! Tokens of the API, and answers that are given again. A token is stored as its hash and found by it
//! alone; one that has expired is no row to anyone and is swept when the next one is made. An answer
//! belongs to its caller and key; what the key was first used for decides, and the id of what is made
//! under it is durable before it is made.

use super::reads::word_at;
use super::writer::Did;
use super::{blob_id, int};
use crate::access::{AnswerKey, Kept, NewToken, TokenRow};
use crate::error::Error;
use crate::seal::Sealed;
use contract::limits::{ANSWERS_MAX, ANSWERS_MS, PAGE_ROWS_MAX, TOKENS_MAX};
use contract::{Scope, Timestamp, TokenId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

/// Old answers that one request sweeps away: small slices, so that none waits for another's past.
const SWEPT_AT_ONCE: i64 = 64;

const TOKEN: &str = "SELECT id, name, scope, browser, created_at, expires_at FROM tokens
    WHERE (expires_at IS NULL OR expires_at > ?1)";

pub(super) fn add_token(connection: &Connection, new: &NewToken) -> Result<Did<()>, Error> {
    connection
        .prepare_cached("DELETE FROM tokens WHERE expires_at <= ?1")?
        .execute([new.row.created_at.ms()])?;
    let (there, same): (i64, i64) = connection
        .prepare_cached("SELECT count(*), coalesce(sum(name = ?1), 0) FROM tokens")?
        .query_row([&new.row.name], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if same > 0 {
        return Err(Error::conflict("a token of this name is there already"));
    }
    if there >= int(TOKENS_MAX as u64) {
        return Err(Error::conflict(format!("there are {TOKENS_MAX} tokens already")));
    }
    let row = &new.row;
    connection
        .prepare_cached(
            "INSERT INTO tokens (id, name, hash, scope, browser, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            blob_id(row.id.uuid()),
            row.name,
            new.hash,
            row.scope.word(),
            row.browser,
            row.created_at.ms(),
            row.expires_at.map(Timestamp::ms),
        ])?;
    Ok(Did::quietly(()))
}

/// Takes a token away, by its id; false when it is not there.
pub(super) fn revoke_token(connection: &Connection, id: TokenId) -> Result<Did<bool>, Error> {
    let gone = connection
        .prepare_cached("DELETE FROM tokens WHERE id = ?1")?
        .execute([blob_id(id.uuid())])?;
    Ok(Did::quietly(gone > 0))
}

pub(super) fn tokens(
    connection: &Connection,
    now: Timestamp,
    after: Option<TokenId>,
    limit: usize,
) -> Result<Vec<TokenRow>, Error> {
    let sql = format!("{TOKEN} AND id > ?2 ORDER BY id LIMIT ?3");
    // No token has the id nought, which is before every other.
    let after = blob_id(after.map_or(Uuid::nil(), TokenId::uuid));
    let limit = limit.clamp(1, PAGE_ROWS_MAX + 1) as i64;
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![now.ms(), after, limit], token_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn token(
    connection: &Connection,
    now: Timestamp,
    hash: [u8; 32],
) -> Result<Option<TokenRow>, Error> {
    let sql = format!("{TOKEN} AND hash = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(params![now.ms(), hash], token_row).optional()?)
}

fn token_row(row: &Row<'_>) -> Result<TokenRow, rusqlite::Error> {
    Ok(TokenRow {
        id: TokenId::new(Uuid::from_bytes(row.get(0)?)),
        name: row.get(1)?,
        scope: word_at(row, 2, Scope::read)?,
        browser: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

/// Finds what was answered under a key, or sets it aside for this request.
pub(super) fn answer_for(connection: &Connection, key: &AnswerKey) -> Result<Did<Kept>, Error> {
    connection
        .prepare_cached(
            "DELETE FROM answers WHERE (caller, key) IN
                 (SELECT caller, key FROM answers WHERE created_at <= ?1 LIMIT ?2)",
        )?
        .execute(params![key.now.plus_ms(-int(ANSWERS_MS)).ms(), SWEPT_AT_ONCE])?;
    if let Some(kept) = kept(connection, key)? {
        return Ok(Did::quietly(kept));
    }
    let there: i64 = connection
        .prepare_cached("SELECT count(*) FROM answers")?
        .query_row([], |row| row.get(0))?;
    if there >= int(ANSWERS_MAX as u64) {
        return Ok(Did::quietly(Kept::Full));
    }
    connection
        .prepare_cached(
            "INSERT INTO answers (caller, key, request, chosen, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (caller, key) DO UPDATE SET request = excluded.request,
                 chosen = excluded.chosen, created_at = excluded.created_at,
                 status = NULL, body = NULL",
        )?
        .execute(params![key.caller, key.key, key.request, blob_id(key.chosen), key.now.ms(),])?;
    Ok(Did::quietly(Kept::Open { chosen: key.chosen }))
}

fn kept(connection: &Connection, key: &AnswerKey) -> Result<Option<Kept>, Error> {
    let row = connection
        .prepare_cached(
            "SELECT request, chosen, status, body FROM answers
             WHERE caller = ?1 AND key = ?2 AND created_at > ?3",
        )?
        .query_row(params![key.caller, key.key, key.now.plus_ms(-int(ANSWERS_MS)).ms()], |row| {
            let same = row.get::<_, [u8; 32]>(0)? == key.request;
            let chosen = Uuid::from_bytes(row.get(1)?);
            let status: Option<u16> = row.get(2)?;
            Ok(match (same, status) {
                (false, _) => Kept::OtherRequest,
                (true, None) => Kept::Open { chosen },
                (true, Some(status)) => Kept::Answered { status, body: row.get(3)? },
            })
        })
        .optional()?;
    Ok(row)
}

/// Keeps what was answered, where this very request was set aside and has no answer yet.
pub(super) fn keep_answer(
    connection: &Connection,
    key: &AnswerKey,
    status: u16,
    body: &Sealed,
) -> Result<Did<()>, Error> {
    connection
        .prepare_cached(
            "UPDATE answers SET status = ?4, body = ?5
             WHERE caller = ?1 AND key = ?2 AND request = ?3 AND status IS NULL",
        )?
        .execute(params![key.caller, key.key, key.request, status, body.bytes()])?;
    Ok(Did::quietly(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Seal;

    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    fn database() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate(&mut connection).unwrap();
        connection
    }

    fn new_token(n: u8, expires_at: Option<Timestamp>) -> NewToken {
        let row = TokenRow {
            id: TokenId::new(Uuid::from_u128(u128::from(n))),
            name: format!("name {n}"),
            scope: Scope::Viewer,
            browser: false,
            created_at: NOW,
            expires_at,
        };
        NewToken { row, hash: [n; 32] }
    }

    #[test]
    fn a_token_is_found_by_its_hash_until_it_expires_or_is_taken_away() {
        let connection = database();
        let new = new_token(1, Some(NOW.plus_ms(10)));
        add_token(&connection, &new).unwrap();
        let found = |now, hash| token(&connection, now, hash).unwrap();
        assert_eq!(found(NOW, [1; 32]), Some(new.row.clone()));
        assert_eq!(found(NOW, [2; 32]), None);
        assert_eq!(found(NOW.plus_ms(10), [1; 32]), None);
        assert_eq!(tokens(&connection, NOW, None, 9).unwrap().len(), 1);
        assert_eq!(tokens(&connection, NOW.plus_ms(10), None, 9).unwrap(), []);
        assert!(revoke_token(&connection, new.row.id).unwrap().value);
        assert!(!revoke_token(&connection, new.row.id).unwrap().value);
        assert_eq!(found(NOW, [1; 32]), None);
    }

    #[test]
    fn a_name_is_given_once_until_its_token_has_expired() {
        let connection = database();
        add_token(&connection, &new_token(1, Some(NOW.plus_ms(10)))).unwrap();
        let mut same = new_token(2, None);
        same.row.name = "name 1".to_owned();
        assert!(matches!(add_token(&connection, &same), Err(Error::Conflict { .. })));
        same.row.created_at = NOW.plus_ms(10);
        add_token(&connection, &same).unwrap();
    }

    #[test]
    fn tokens_are_listed_by_pages_and_those_that_expired_are_on_none() {
        let connection = database();
        for n in 1..=5 {
            let expires_at = (n == 3).then(|| NOW.plus_ms(10));
            add_token(&connection, &new_token(n, expires_at)).unwrap();
        }
        for limit in [1, 2, 3, 9] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = tokens(&connection, NOW.plus_ms(10), after, limit).unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some(last.id);
                seen.extend(page.into_iter().map(|row| row.name));
                assert!(seen.len() <= 4, "the pages have no end: {seen:?}");
            }
            assert_eq!(seen, ["name 1", "name 2", "name 4", "name 5"], "pages of {limit}");
        }
    }

    #[test]
    fn there_are_no_more_tokens_than_the_limit() {
        let connection = database();
        for n in 0..TOKENS_MAX {
            connection
                .execute(
                    "INSERT INTO tokens VALUES (?1, ?2, ?1, 'viewer', 0, 0, NULL)",
                    params![n.to_le_bytes(), n.to_string()],
                )
                .unwrap();
        }
        assert!(matches!(add_token(&connection, &new_token(1, None)), Err(Error::Conflict { .. })));
    }

    fn key(request: u8, chosen: u128, now: Timestamp) -> AnswerKey {
        AnswerKey {
            caller: "owner".to_owned(),
            key: "k".to_owned(),
            request: [request; 32],
            chosen: Uuid::from_u128(chosen),
            now,
        }
    }

    #[test]
    fn the_same_request_finds_its_id_and_then_its_answer_and_another_finds_neither() {
        let connection = database();
        let ask = |key: &AnswerKey| answer_for(&connection, key).unwrap().value;
        let first = Kept::Open { chosen: Uuid::from_u128(7) };
        assert_eq!(ask(&key(1, 7, NOW)), first);
        // Asked again before there is an answer, as after a crash: the id that was chosen first.
        assert_eq!(ask(&key(1, 8, NOW)), first);
        assert_eq!(ask(&key(2, 9, NOW)), Kept::OtherRequest);
        let body = Seal::default().json(&serde_json::json!({ "a": 1 }));
        // An answer to another request is nobody's.
        keep_answer(&connection, &key(2, 9, NOW), 500, &body).unwrap();
        assert_eq!(ask(&key(1, 8, NOW)), first);
        keep_answer(&connection, &key(1, 8, NOW), 201, &body).unwrap();
        let answered = Kept::Answered { status: 201, body: body.bytes().to_vec() };
        assert_eq!(ask(&key(1, 8, NOW)), answered);
        // What was answered once stays so.
        keep_answer(&connection, &key(1, 8, NOW), 500, &body).unwrap();
        assert_eq!(ask(&key(1, 8, NOW)), answered);
        let mut other = key(1, 8, NOW);
        other.caller = "token_1".to_owned();
        assert_eq!(ask(&other), Kept::Open { chosen: Uuid::from_u128(8) });
        let later = NOW.plus_ms(int(ANSWERS_MS));
        assert_eq!(ask(&key(2, 9, later)), Kept::Open { chosen: Uuid::from_u128(9) });
    }

    #[test]
    fn an_answer_is_kept_under_its_own_caller_and_key_and_for_its_time() {
        let connection = database();
        let of = |caller: &str, word: &str| AnswerKey {
            caller: caller.to_owned(),
            key: word.to_owned(),
            ..key(1, 7, NOW)
        };
        let all = [of("owner", "k"), of("owner", "other"), of("token_1", "k")];
        for key in &all {
            answer_for(&connection, key).unwrap();
        }
        let body = Seal::default().json(&serde_json::json!({}));
        keep_answer(&connection, &all[0], 201, &body).unwrap();
        let open = Kept::Open { chosen: Uuid::from_u128(7) };
        let answered = Kept::Answered { status: 201, body: body.bytes().to_vec() };
        for (key, expected) in all.iter().zip([answered, open.clone(), open]) {
            assert_eq!(kept(&connection, key).unwrap(), Some(expected), "{key:?}");
        }
        // Whether it was swept or not.
        let late = AnswerKey { now: NOW.plus_ms(int(ANSWERS_MS)), ..all[0].clone() };
        assert_eq!(kept(&connection, &late).unwrap(), None);
    }

    #[test]
    fn there_are_no_more_answers_than_the_limit_and_old_ones_make_room() {
        let connection = database();
        connection
            .execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO answers SELECT 'owner', 'k' || i, x'00', x'00', ?2, NULL, NULL FROM n",
                params![ANSWERS_MAX as i64, NOW.ms()],
            )
            .unwrap();
        assert_eq!(answer_for(&connection, &key(1, 7, NOW)).unwrap().value, Kept::Full);
        let later = NOW.plus_ms(int(ANSWERS_MS));
        let open = Kept::Open { chosen: Uuid::from_u128(7) };
        assert_eq!(answer_for(&connection, &key(1, 7, later)).unwrap().value, open);
    }
}
