//! `ostler token` as a table: one line for each token of the API.

use super::clean::one_line;
use super::figures;
use super::money::{left, table};
use super::table::tail;
use super::tone::Colour;
use contract::Timestamp;
use store::TokenRow;

/// The tokens, without a newline at the end.
pub fn tokens_table(rows: &[TokenRow], now: Timestamp, columns: usize, colour: Colour) -> String {
    let heads = vec![left("ID"), left("SCOPE"), left("UNTIL"), left("NAME")];
    let cells = rows.iter().map(|row| {
        // The name of a browser is a number that tells nobody anything.
        let name = if row.browser { "browser".to_owned() } else { one_line(&row.name) };
        vec![
            tail(&row.id.to_string()).to_owned(),
            row.scope.word().to_owned(),
            row.expires_at.map_or_else(|| "–".to_owned(), |until| figures::moment(until, now)),
            name,
        ]
    });
    table(heads, cells.collect(), columns, colour)
}
