//! Money: what was spent, and what things cost. The books are kept by the store, prices by
//! `prices.rs`; here is what can be asked of both.

use super::run::stored;
use super::who::Who;
use crate::prices::{self, Listed};
use crate::{Host, clock};
use contract::limits::COST_ROWS_MAX;
use contract::{Code, Fault, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{By, CostRow, CostsQuery};

const DAY_MS: i64 = 86_400_000;

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportReport {
    pub version: String,
    pub prices: usize,
}

/// What was spent. `by` is a list of `day`, `agent`, `adapter` and `model` with commas between;
/// `since` a day such as `2026-11-01`, or the last days as `7d`. Days are those of UTC.
pub async fn costs(
    host: &Host,
    by: Option<&str>,
    since: Option<&str>,
) -> Result<Vec<CostRow>, Fault> {
    let query = CostsQuery {
        by: by.map_or(Ok(vec![By::Day]), keys)?,
        since: since.map(|since| moment(since, clock::now().wall)).transpose()?,
        limit: COST_ROWS_MAX + 1,
    };
    let rows = host.store().costs(query).await.map_err(stored)?;
    if rows.len() > COST_ROWS_MAX {
        let message = format!("the answer has more than {COST_ROWS_MAX} rows");
        return Err(Fault::new(Code::TooLarge, message)
            .with_hint("ask for fewer days with since, or by fewer names"));
    }
    Ok(rows)
}

fn keys(given: &str) -> Result<Vec<By>, Fault> {
    given
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| {
            serde_json::from_value(Value::from(word)).map_err(|_| {
                Fault::new(Code::Usage, format!("costs by '{word}' are not known"))
                    .with_hint("one or more of day, agent, adapter, model, with commas between")
            })
        })
        .collect()
}

fn moment(given: &str, now: Timestamp) -> Result<Timestamp, Fault> {
    let last = given.strip_suffix('d').and_then(|days| days.parse::<u16>().ok());
    if let Some(days) = last.filter(|days| *days > 0) {
        // Today is one of them.
        return Ok(now.plus_ms(-DAY_MS * (i64::from(days) - 1)));
    }
    let date = given.parse::<jiff::civil::Date>().ok();
    let midnight = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    midnight.map(|at| Timestamp(at.timestamp().as_millisecond())).ok_or_else(|| {
        Fault::new(Code::Usage, format!("'{given}' is no day"))
            .with_hint("give a day such as 2026-11-01, or the last days such as 7d")
    })
}

/// Every price that counts; `model` is a part of its name.
pub async fn prices(host: &Host, model: Option<&str>) -> Result<Vec<Listed>, Fault> {
    host.inner.prices.list(model, clock::now().wall).await
}

/// Takes a file of prices whole, in the place of the one before, or refuses it whole.
pub async fn import(host: &Host, file: Value, by: &Who) -> Result<ImportReport, Fault> {
    let imported = tokio::task::spawn_blocking(move || prices::read(&file))
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("reading prices: {error}")))??;
    let report =
        ImportReport { version: imported.version.clone(), prices: imported.prices.0.len() };
    host.inner.prices.import(imported).await?;
    let about = serde_json::json!({ "version": report.version, "prices": report.prices });
    host.inner.audit.did(clock::now().wall, by, "prices_imported", about);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_people_write_them() {
        let now = Timestamp(10 * DAY_MS + 5);
        let day = |given: &str| moment(given, now).map(|at| at.ms().div_euclid(DAY_MS)).ok();
        let rows = [("1970-01-03", Some(2)), ("1d", Some(10)), ("7d", Some(4)), ("0d", None)];
        for (given, expected) in rows {
            assert_eq!(day(given), expected, "{given}");
        }
        for nonsense in ["", "yesterday", "2026-13-01", "-3d", "d"] {
            assert_eq!(day(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn the_names_to_tell_apart_by_are_a_closed_list() {
        assert_eq!(keys("day, model").unwrap(), [By::Day, By::Model]);
        assert_eq!(keys("").unwrap(), []);
        assert_eq!(keys("colour").unwrap_err().code, Code::Usage);
    }
}
