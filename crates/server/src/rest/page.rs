//! Pages of lists, as every list that can grow is asked for and answered: at most so many rows behind a
//! key, and the key of the last one when there are more. What a row's key is, its own handler says; the
//! store has it in the predicate, so that the last page costs what the first one does.

use contract::limits::PAGE_ROWS_MAX;
use schemars::JsonSchema;
use serde::Deserialize;

/// Rows of a page whose size nobody says.
const PAGE_ROWS: u32 = 50;

/// How many rows a page has.
pub(super) fn page_of(limit: Option<u32>) -> usize {
    limit.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX as u32) as usize
}

/// Which page of a list by name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByName {
    /// How many, at most 500.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default)]
    pub after: String,
}

/// Which page of a list by id.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ById<Id> {
    /// How many, at most 500.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub after: Option<Id>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_least_one_row_and_no_more_than_the_limit() {
        let rows = [(None, 50), (Some(0), 1), (Some(7), 7), (Some(500), 500), (Some(501), 500)];
        for (given, expected) in rows {
            assert_eq!(page_of(given), expected, "{given:?}");
        }
    }
}
