//! What the books say of agents: how many of their runs live, and what they spent since the first of
//! the month. Asked once for all of them; whoever is about to run one asks nothing.

use super::{AgentView, Known, Source, own, spec_of};
use crate::ops::run::stored;
use crate::{Host, chance, clock};
use contract::limits::COST_ROWS_MAX;
use contract::state::AgentState;
use contract::{Fault, NanoUsd, Timestamp};
use serde_json::Value;
use store::{AgentRow, By, CostsQuery};

/// What is asked once for all agents.
pub(super) struct Books {
    running: Vec<(String, u64)>,
    /// None when nobody asked.
    spent: Option<Vec<store::CostRow>>,
}

impl Books {
    /// Nothing was asked.
    pub fn closed() -> Self {
        Self { running: Vec::new(), spent: None }
    }

    pub async fn open(host: &Host) -> Result<Self, Fault> {
        let since = month(clock::now().wall);
        let by = vec![By::Agent];
        let query = CostsQuery { by, since, limit: COST_ROWS_MAX, ..CostsQuery::default() };
        Ok(Self {
            running: host.store().running().await.map_err(stored)?,
            spent: Some(host.store().costs(query).await.map_err(stored)?),
        })
    }

    /// What the books say; an agent whose keys nobody has any more is not shown.
    pub fn view(&self, host: &Host, row: &AgentRow) -> Option<AgentView> {
        let Some(spec) = spec_of(row) else {
            return own(host, &row.name).map(|own| self.configured(&own, Some(row)));
        };
        let text = |key: &str| spec.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(AgentView {
            id: row.id,
            name: row.name.clone(),
            source: Source::Hired,
            state: row.state,
            adapter: text("adapter").unwrap_or_default(),
            model: text("model"),
            running: self.running(&row.name),
            month_nanousd: self.spent(&row.name),
            spec: Some(spec),
            version: row.version,
            hired_by: Some(row.hired_by.clone()),
            hired_at: Some(row.hired_at),
        })
    }

    pub fn configured(&self, own: &Known, row: Option<&AgentRow>) -> AgentView {
        AgentView {
            id: chance::agent_id(&own.name),
            name: own.name.clone(),
            source: Source::Configured,
            state: row.map_or(AgentState::Active, |row| row.state),
            adapter: own.adapter.clone(),
            model: own.model.clone(),
            running: self.running(&own.name),
            month_nanousd: self.spent(&own.name),
            spec: None,
            version: row.map_or(0, |row| row.version),
            hired_by: None,
            hired_at: None,
        }
    }

    fn running(&self, name: &str) -> u64 {
        self.running.iter().find(|(agent, _)| agent == name).map_or(0, |(_, runs)| *runs)
    }

    fn spent(&self, name: &str) -> Option<NanoUsd> {
        let spent = self.spent.as_ref()?;
        let row = spent.iter().find(|row| row.agent.as_deref() == Some(name));
        row.map_or(Some(NanoUsd(0)), |row| row.billed_nanousd)
    }
}

/// The first moment of the month, in UTC.
fn month(now: Timestamp) -> Option<Timestamp> {
    let day = jiff::Timestamp::from_millisecond(now.ms()).ok()?.to_zoned(jiff::tz::TimeZone::UTC);
    let first = day.date().first_of_month().to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Timestamp(first.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_with_its_first_day() {
        let ms = |text: &str| Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
        for (now, first) in [
            ("2026-11-16T13:07:31Z", "2026-11-01T00:00:00Z"),
            ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(month(ms(now)), Some(ms(first)), "{now}");
        }
    }
}
