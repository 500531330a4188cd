//! `ostler costs`, `ostler prices list` and `ostler agents` as tables. What has no price is called unpriced, never
//! nothing; a sum with an unpriced part shows both.

use super::clean::one_line;
use super::figures;
use super::measure::{fit, pad, pad_left, width};
use super::tone::{Colour, Tone};
use contract::NanoUsd;
use contract::money::CostSource;
use host::ops::agents::AgentView;
use host::prices::Listed;
use store::CostRow;

const GAP: &str = "  ";
/// No name is cut below this; what is then too wide is cut at its end.
const NAME_COLUMNS_MIN: usize = 16;

/// A column: its head, and whether its texts stand at the right.
pub(super) struct Column {
    head: &'static str,
    right: bool,
}

pub(super) const fn left(head: &'static str) -> Column {
    Column { head, right: false }
}

pub(super) const fn right(head: &'static str) -> Column {
    Column { head, right: true }
}

/// What was spent, one line per row and one for all of them, without a newline at its end.
pub fn costs_table(rows: &[CostRow], columns: usize, colour: Colour) -> String {
    let named = |name: fn(&CostRow) -> &Option<String>| rows.iter().any(|row| name(row).is_some());
    type Name = fn(&CostRow) -> &Option<String>;
    let names: [(Column, Name); 4] = [
        (left("DAY"), |row| &row.day),
        (left("AGENT"), |row| &row.agent),
        (left("ADAPTER"), |row| &row.adapter),
        (left("MODEL"), |row| &row.model),
    ];
    let names: Vec<_> = names.into_iter().filter(|(_, name)| named(*name)).collect();
    // Most people have only one of both.
    let has_included = rows.iter().any(has_included);
    let mut cells = Vec::new();
    for row in rows {
        let mut line: Vec<String> =
            names.iter().map(|(_, name)| shown(name(row).as_deref())).collect();
        line.extend(figures_of(row));
        line.extend(has_included.then(|| included(row)));
        cells.push(line);
    }
    let heads = names.into_iter().map(|(column, _)| column);
    let heads = heads.chain([right("RUNS"), right("TOKENS"), right("COST")]);
    let heads = heads.chain(has_included.then_some(right("INCLUDED"))).collect();
    table(heads, cells, columns, colour)
}

/// Who works here, one line for each, without a newline at its end.
pub fn agents_table(rows: &[AgentView], columns: usize, colour: Colour) -> String {
    let heads = vec![
        left("AGENT"),
        left("STATE"),
        left("ADAPTER"),
        left("MODEL"),
        right("RUNNING"),
        right("THIS MONTH"),
    ];
    let cells = rows.iter().map(|row| {
        let spent = row.month_nanousd.map_or_else(|| "unpriced".to_owned(), figures::money);
        vec![
            shown(Some(&row.name)),
            row.state.word().to_owned(),
            shown(Some(&row.adapter)),
            shown(row.model.as_deref()),
            figures::count(row.running),
            spent,
        ]
    });
    table(heads, cells.collect(), columns, colour)
}

/// All rows as one line; runs are not added up, because one run may stand in several rows.
pub fn costs_total(rows: &[CostRow]) -> String {
    let tokens = rows.iter().map(|row| row.tokens.total()).fold(0, u64::saturating_add);
    let add = |sum: Option<NanoUsd>, amount: NanoUsd| {
        Some(sum.unwrap_or_default().saturating_add(amount))
    };
    let paid = rows.iter().filter_map(billed).fold(None, add);
    let unpriced = rows.iter().any(is_billed_unpriced);
    let included = rows.iter().map(|row| row.included_nanousd).fold(None, add);
    let included = included.filter(|_| rows.iter().any(has_included));
    let included =
        included.map(|amount| format!(" · {} included (list price)", figures::money(amount)));
    let paid = match (paid, unpriced, &included) {
        (None, false, Some(_)) => "nothing billed".to_owned(),
        _ => money(paid, unpriced),
    };
    let tokens = figures::tokens(tokens);
    format!("total {tokens} · {paid}{}", included.unwrap_or_default())
}

/// Whether a part of it is not billed: of a subscription, or free.
fn has_included(row: &CostRow) -> bool {
    row.included_nanousd > NanoUsd(0) || (row.unpriced && !is_billed_unpriced(row))
}

/// The part that is not billed, at list price.
fn included(row: &CostRow) -> String {
    match has_included(row) {
        false => "–".to_owned(),
        true => money(
            Some(row.included_nanousd).filter(|amount| *amount > NanoUsd(0)),
            row.unpriced && !is_billed_unpriced(row),
        ),
    }
}

/// The part that is billed and has a price.
fn billed(row: &CostRow) -> Option<NanoUsd> {
    let billed = row.priced_nanousd?.saturating_sub(row.included_nanousd);
    (billed > NanoUsd(0) || !has_included(row)).then_some(billed)
}

/// Whether a part is billed and has no price.
fn is_billed_unpriced(row: &CostRow) -> bool {
    row.unpriced && row.billed_nanousd.is_none()
}

fn figures_of(row: &CostRow) -> [String; 3] {
    [
        figures::count(row.runs),
        figures::count(row.tokens.total()),
        money(billed(row), is_billed_unpriced(row)),
    ]
}

fn money(priced: Option<NanoUsd>, unpriced: bool) -> String {
    match (priced, unpriced) {
        (Some(amount), false) => figures::money(amount),
        (Some(amount), true) => format!("{} + unpriced", figures::money(amount)),
        (None, true) => "unpriced".to_owned(),
        // Its price is part of a total that was booked on another line.
        (None, false) => "–".to_owned(),
    }
}

fn shown(name: Option<&str>) -> String {
    match name {
        None | Some("") => "–".to_owned(),
        Some(name) => one_line(name),
    }
}

/// A price is not rounded: cents, and whatever is below them.
fn exact(amount: NanoUsd) -> String {
    let nano = amount.0.max(0);
    let below = format!("{:09}", nano % 1_000_000_000);
    let (cents, less) = below.split_at(2);
    let dollars = figures::count((nano / 1_000_000_000).unsigned_abs());
    format!("${dollars}.{cents}{}", less.trim_end_matches('0'))
}

/// The prices that count, in dollars per million tokens.
pub fn prices_table(rows: &[Listed], columns: usize, colour: Colour) -> String {
    let heads = vec![
        left("MODEL"),
        right("INPUT"),
        right("CACHE READ"),
        right("CACHE WRITE"),
        right("OUTPUT"),
        left("FROM"),
    ];
    let cells = rows.iter().map(|row| {
        let price = &row.price;
        vec![
            shown(Some(&row.model)),
            exact(price.input),
            exact(price.cache_read),
            exact(price.cache_write),
            exact(price.output),
            match (row.source, &row.version) {
                (CostSource::UserTable, None) => "your configuration".to_owned(),
                (_, Some(version)) => one_line(version),
                (_, None) => String::new(),
            },
        ]
    });
    table(heads, cells.collect(), columns, colour)
}

pub(super) fn table(
    heads: Vec<Column>,
    cells: Vec<Vec<String>>,
    columns: usize,
    colour: Colour,
) -> String {
    let mut widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let widest = cells.iter().map(|row| width(&row[i])).max().unwrap_or(0);
            widest.max(width(column.head))
        })
        .collect();
    // Figures are worth more than the end of a long name.
    let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    let names = heads.iter().zip(&mut widths).filter(|(column, _)| !column.right);
    if let Some((_, widest)) = names.max_by_key(|(_, width)| **width) {
        *widest =
            widest.saturating_sub(total.saturating_sub(columns)).max(NAME_COLUMNS_MIN.min(*widest));
    }
    let line = |row: &[String]| {
        let padded: Vec<String> = row
            .iter()
            .zip(&heads)
            .zip(&widths)
            .map(|((cell, column), width)| match column.right {
                true => pad_left(cell, *width),
                false => pad(cell, *width),
            })
            .collect();
        fit(padded.join(GAP).trim_end(), columns)
    };
    let head: Vec<String> = heads.iter().map(|column| column.head.to_owned()).collect();
    let mut lines = vec![colour.paint(Tone::Gray, &line(&head))];
    lines.extend(cells.iter().map(|row| line(row)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Tokens;
    use engine::rules::price::Price;

    fn row(day: &str, model: &str, output: u64, paid: Option<i64>, unpriced: bool) -> CostRow {
        let paid = paid.map(NanoUsd);
        CostRow {
            day: Some(day.to_owned()),
            agent: None,
            adapter: None,
            model: Some(model.to_owned()),
            runs: 2,
            tokens: Tokens { output, ..Tokens::default() },
            effective_nanousd: paid.filter(|_| !unpriced),
            priced_nanousd: paid,
            unpriced,
            included_nanousd: NanoUsd(0),
            billed_nanousd: paid.filter(|_| !unpriced),
        }
    }

    #[test]
    fn included_use_is_shown_apart() {
        let included = |row: CostRow, nano: i64, billed: Option<i64>| CostRow {
            included_nanousd: NanoUsd(nano),
            billed_nanousd: billed.map(NanoUsd),
            ..row
        };
        let day = "2026-11-15";
        let rows = [
            row(day, "billed", 10, Some(2_000_000_000), false),
            included(row(day, "plan", 10, Some(3_000_000_000), false), 3_000_000_000, Some(0)),
            included(
                row(day, "both", 10, Some(5_000_000_000), false),
                1_000_000_000,
                Some(4_000_000_000),
            ),
            included(row(day, "no-price", 10, None, true), 0, Some(0)),
        ];
        let table = costs_table(&rows, 80, Colour::Off);
        insta::assert_snapshot!(format!("{table}\n{}", costs_total(&rows)), @"
        DAY         MODEL     RUNS  TOKENS   COST  INCLUDED
        2026-11-15  billed       2      10  $2.00         –
        2026-11-15  plan         2      10      –     $3.00
        2026-11-15  both         2      10  $4.00     $1.00
        2026-11-15  no-price     2      10      –  unpriced
        total 40 tokens · $6.00 · $4.00 included (list price)
        ");
        let total = costs_total(&rows[1..2]);
        assert_eq!(total, "total 10 tokens · nothing billed · $3.00 included (list price)");
    }

    #[test]
    fn what_has_no_price_is_never_shown_as_nothing() {
        let rows = [
            row("2026-11-15", "acme/large", 1_234_567, Some(12_340_000_000), false),
            row("2026-11-15", "", 10, None, true),
            row("2026-11-14", "acme/\u{1b}[31msmall", 300, Some(4_200_000), true),
            row("2026-11-14", "gift", 1, Some(0), false),
        ];
        let table = costs_table(&rows, 80, Colour::Off);
        insta::assert_snapshot!(format!("{table}\n{}", costs_total(&rows)), @"
        DAY         MODEL       RUNS     TOKENS                COST
        2026-11-15  acme/large     2  1,234,567              $12.34
        2026-11-15  –              2         10            unpriced
        2026-11-14  acme/small     2        300  $0.0042 + unpriced
        2026-11-14  gift           2          1               $0.00
        total 1,234,878 tokens · $12.34 + unpriced
        ");
    }

    #[test]
    fn prices_are_in_dollars_for_a_million() {
        let price = Price {
            input: NanoUsd(3_000_000_000),
            cache_read: NanoUsd(300_000_000),
            cache_write: NanoUsd(3_750_000_000),
            output: NanoUsd(15_000_000_000),
        };
        let listed = |model: &str, source, version: Option<&str>| Listed {
            model: model.to_owned(),
            price,
            source,
            version: version.map(str::to_owned),
        };
        let rows = [
            listed("acme/large", CostSource::UserTable, None),
            listed("acme/other", CostSource::UserTable, Some("litellm 0123456789ab")),
            listed("acme/known", CostSource::BuiltIn, Some("genai-prices 0.2.1")),
        ];
        let narrow = prices_table(&rows, 60, Colour::Off);
        assert!(narrow.lines().all(|line| width(line) <= 60), "{narrow}");
        assert!(narrow.lines().skip(1).all(|line| line.contains("$15.00")), "{narrow}");
        assert_eq!(
            [625_000_000, 0, 75_000].map(|nano| exact(NanoUsd(nano))),
            ["$0.625", "$0.00", "$0.000075"]
        );
        insta::assert_snapshot!(prices_table(&rows, 90, Colour::Off), @"
        MODEL       INPUT  CACHE READ  CACHE WRITE  OUTPUT  FROM
        acme/large  $3.00       $0.30        $3.75  $15.00  your configuration
        acme/other  $3.00       $0.30        $3.75  $15.00  litellm 0123456789ab
        acme/known  $3.00       $0.30        $3.75  $15.00  genai-prices 0.2.1
        ");
    }
}
