//! `docs/manners.md`: each table of it stands between two marks and is what a test saw. A page that
//! differs fails that test, so whoever changes what becomes of a manner reads the change.

use super::Row;
use super::stage::Seen;
use std::path::PathBuf;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manners.md");

/// The rows as they came out.
pub fn table(rows: &[Row], seen: &[Seen]) -> String {
    let mut lines = vec![
        "| manner | outcome | code | exit | evidence | the agent's events |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for (row, seen) in rows.iter().zip(seen) {
        let (exit, outcome, code) = &seen.ends;
        let code = code.as_deref().map_or(String::new(), |code| format!("`{code}`"));
        let (evidence, counts) = (evidence(seen), seen.counts());
        lines.push(format!(
            "| {} | {outcome} | {code} | {exit} | {evidence} | {counts} |",
            row.name
        ));
    }
    lines.join("\n")
}

fn evidence(seen: &Seen) -> String {
    let Some(end) = seen.events.last() else { return String::new() };
    let evidence = &end["evidence"];
    let mut words = vec![evidence["end"].as_str().unwrap_or_default().to_owned()];
    if let Some(by) = evidence["stopped_by"].as_str() {
        words.push(format!("stopped by {by}"));
    }
    if evidence["forced"] == true {
        words.push("forced".to_owned());
    }
    words.extend(evidence["note"].as_str().map(str::to_owned));
    words.join(", ")
}

/// Compares a table with the page, or writes it there when that was asked for.
pub fn assert_shown(section: &str, table: &str) {
    let (begin, end) = (format!("<!-- {section} -->\n"), format!("<!-- end of {section} -->"));
    let path = PathBuf::from(PAGE);
    let page = std::fs::read_to_string(&path).expect("docs/manners.md can be read");
    let from = page.find(&begin).expect("the section begins") + begin.len();
    let to = from + page[from..].find(&end).expect("the section ends");
    let wanted = format!("{table}\n");
    if std::env::var_os("MANNERS_PAGE").is_some_and(|word| word == "write") {
        let page = [&page[..from], &wanted, &page[to..]].concat();
        std::fs::write(&path, page).expect("docs/manners.md can be written");
        return;
    }
    for (stands, seen) in page[from..to].lines().zip(wanted.lines()) {
        assert_eq!(stands, seen, "docs/manners.md, {section}: MANNERS_PAGE=write writes it anew");
    }
    assert_eq!(page[from..to], wanted, "docs/manners.md, {section}");
}
