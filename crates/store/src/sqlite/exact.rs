//! Sums of whole numbers that are exact and end at the largest number instead of overflowing. SQLite's
//! `total` is a floating-point number, which is exact only up to 2^53, and its `sum` fails on overflow;
//! so the upper and the lower halves are added apart and joined here.

use rusqlite::Row;

const HALF_BITS: u32 = 32;

/// The two columns of one sum, for a `SELECT`. Neither overflows below 2^31 rows.
pub(super) fn sum(column: &str) -> String {
    format!("sum({column} >> {HALF_BITS}), sum({column} & 4294967295)")
}

/// The sum whose first column is the given one; no rows are 0.
pub(super) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    let half = |at: usize| row.get::<_, Option<i64>>(at).map(|half| i128::from(half.unwrap_or(0)));
    let sum = (half(column)? << HALF_BITS) + half(column + 1)?;
    Ok(sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn sum_of(values: &[i64]) -> i64 {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x INTEGER NOT NULL) STRICT").unwrap();
        for value in values {
            connection.execute("INSERT INTO t VALUES (?1)", [value]).unwrap();
        }
        let sql = format!("SELECT {} FROM t", sum("x"));
        connection.query_row(&sql, [], |row| read(row, 0)).unwrap()
    }

    #[test]
    fn sums_are_exact_beyond_floating_point_and_end_at_the_largest_number() {
        let exact = 1_i64 << 53;
        for (values, expected) in [
            (&[][..], 0),
            (&[exact, 1], exact + 1),
            (&[exact + 1, exact + 2, 3], 2 * exact + 6),
            (&[-5, 3, exact], exact - 2),
            (&[i64::MAX, 0], i64::MAX),
            (&[i64::MAX, 1], i64::MAX),
            (&[i64::MAX, i64::MAX, i64::MAX], i64::MAX),
            (&[i64::MIN, -1], i64::MIN),
            (&[i64::MAX, i64::MAX, i64::MIN, i64::MIN, 7], 5),
        ] {
            assert_eq!(sum_of(values), expected, "{values:?}");
        }
    }
}
