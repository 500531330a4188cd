//! The statements of hired agents. The version stands in the predicate of every change, as the
//! fence does elsewhere: who changes what has changed meanwhile is refused and reads again.

use super::reads::word_at;
use super::writer::{Did, Wake};
use super::{Sqlite, blob_id, count, int};
use crate::batch::{AgentChange, NewAgent};
use crate::error::Error;
use crate::feed::Hint;
use crate::row::AgentRow;
use crate::seal::Sealed;
use contract::limits::PAGE_ROWS_MAX;
use contract::state::AgentState;
use contract::{AgentId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

const AGENT: &str =
    "SELECT id, name, state, spec, version, hired_by, hired_at, changed_at FROM agents";

impl Sqlite {
    pub async fn put_agent(&self, agent: NewAgent) -> Result<(), Error> {
        self.writer.submit(0, move |connection| put(connection, &agent)).await
    }

    pub async fn change_agent(&self, change: AgentChange) -> Result<(), Error> {
        self.writer.submit(0, move |connection| edit(connection, &change)).await
    }

    pub async fn agent(&self, name: &str) -> Result<Option<AgentRow>, Error> {
        let name = name.to_owned();
        self.readers.read(move |connection| agent(connection, &name)).await
    }

    pub async fn agents(&self, after: &str, limit: usize) -> Result<Vec<AgentRow>, Error> {
        let after = after.to_owned();
        self.readers.read(move |connection| agents(connection, &after, limit)).await
    }

    pub async fn running(&self) -> Result<Vec<(String, u64)>, Error> {
        self.readers.read(running).await
    }
}

fn put(connection: &Connection, agent: &NewAgent) -> Result<Did<()>, Error> {
    let put = connection
        .prepare_cached(
            "INSERT INTO agents (id, name, state, spec, hired_by, hired_at, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            blob_id(agent.id.uuid()),
            agent.name,
            agent.state.word(),
            agent.spec.as_ref().map(Sealed::text),
            agent.by,
            agent.at.ms(),
        ])?;
    match put {
        1 => Ok(changed(agent.id)),
        _ => Err(Error::conflict(format!("there is an agent called '{}'", agent.name))),
    }
}

fn edit(connection: &Connection, change: &AgentChange) -> Result<Did<()>, Error> {
    let agent = connection
        .prepare_cached(
            "UPDATE agents SET state = ?3, spec = ?4, version = version + 1, changed_at = ?5
             WHERE name = ?1 AND version = ?2 AND state IN ('active', 'paused')
             RETURNING id",
        )?
        .query_row(
            params![
                change.name,
                int(change.version),
                change.state.word(),
                change.spec.as_ref().map(Sealed::text),
                change.at.ms(),
            ],
            |row| Ok(AgentId::new(Uuid::from_bytes(row.get(0)?))),
        )
        .optional()?;
    match agent {
        Some(agent) => Ok(changed(agent)),
        None => Err(Error::conflict(format!("'{}' is not as it was any more", change.name))),
    }
}

fn changed(agent: AgentId) -> Did<()> {
    Did { value: (), wakes: vec![Wake::Events(Hint::Agent { agent })] }
}

pub(super) fn agent(connection: &Connection, name: &str) -> Result<Option<AgentRow>, Error> {
    let sql = format!("{AGENT} WHERE name = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([name], agent_row).optional()?)
}

fn agents(connection: &Connection, after: &str, limit: usize) -> Result<Vec<AgentRow>, Error> {
    let sql = format!("{AGENT} WHERE name > ?1 ORDER BY name LIMIT ?2");
    let limit = limit.clamp(1, PAGE_ROWS_MAX + 1) as i64;
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![after, limit], agent_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn running(connection: &Connection) -> Result<Vec<(String, u64)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT agent, count(*) FROM runs WHERE state <> 'settled' GROUP BY agent",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, count(row.get(1)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn agent_row(row: &Row<'_>) -> rusqlite::Result<AgentRow> {
    Ok(AgentRow {
        id: AgentId::new(Uuid::from_bytes(row.get(0)?)),
        name: row.get(1)?,
        state: word_at(row, 2, AgentState::read)?,
        spec: row.get(3)?,
        version: count(row.get(4)?),
        hired_by: row.get(5)?,
        hired_at: Timestamp(row.get(6)?),
        changed_at: Timestamp(row.get(7)?),
    })
}
