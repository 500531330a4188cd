//! Rules about the points at which torture lets a process die: each name of the one table stands in
//! the code of the product exactly once, and no manifest arms them unasked. A name that stands
//! nowhere would be a row of the report that proves nothing; one that stands twice hides a place.

use super::rust::{Kind, pieces};
use super::{File, Finding};
use failpoint::Point;

const RULE: &str = "failpoint";
const TABLE: &str = "crates/failpoint/src/lib.rs";
/// The one feature that arms them, in the one crate that has a binary.
const ARMED: (&str, &str) = ("crates/cli/Cargo.toml", "failpoints = [\"failpoint/armed\"]");

pub fn check(files: &[File], findings: &mut Vec<Finding>) {
    // Findings about a few files alone would be about all names that stand elsewhere.
    if files.iter().any(|file| file.path == TABLE) {
        for point in Point::ALL {
            uses(point.word(), files, findings);
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        manifest(file, findings);
    }
}

fn uses(word: &str, files: &[File], findings: &mut Vec<Finding>) {
    let wanted = format!("Point::{word}");
    let mut count = 0;
    for file in files {
        let product =
            file.path.starts_with("crates/") && !file.path.starts_with("crates/failpoint/");
        if product && file.is_rust() && !file.is_test() {
            count += pieces(&file.text)
                .iter()
                .filter(|piece| piece.kind == Kind::Code)
                .map(|piece| named(&piece.text, &wanted))
                .sum::<usize>();
        }
    }
    if count != 1 {
        let what = format!("{wanted} is passed at {count} places: it must be at one");
        findings.push(Finding { path: TABLE.to_owned(), line: 1, rule: RULE, what });
    }
}

/// How often a name stands in a text, not counting longer names that begin like it.
fn named(text: &str, wanted: &str) -> usize {
    text.match_indices(wanted)
        .filter(|(at, found)| {
            let after = text[at + found.len()..].chars().next();
            !after.is_some_and(|char| char.is_alphanumeric() || char == '_')
        })
        .count()
}

fn manifest(file: &File, findings: &mut Vec<Finding>) {
    for (at, line) in file.text.lines().enumerate() {
        let (path, feature) = ARMED;
        let allowed = file.path == path && line == feature;
        let arms = line.contains("failpoint/armed")
            || (line.starts_with("failpoint") && line.contains("armed"))
            || (line.starts_with("default") && line.contains("failpoint"));
        if arms && !allowed {
            let what = "only torture may arm the points, by the feature of the cli".to_owned();
            findings.push(Finding { path: file.path.clone(), line: at + 1, rule: RULE, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::found;

    fn tree(uses: &str) -> Vec<Finding> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let mut findings = Vec::new();
        check(&[file(TABLE, ""), file("crates/host/src/a.rs", uses)], &mut findings);
        findings
    }

    #[test]
    fn a_point_that_is_passed_nowhere_or_twice_is_found() {
        let once: String =
            Point::ALL.iter().map(|point| format!("hit(Point::{});\n", point.word())).collect();
        assert_eq!(tree(&once), []);
        assert_eq!(tree("").len(), Point::ALL.len());
        assert_eq!(tree(&format!("{once}hit(Point::Adopted);\n")).len(), 1);
        assert_eq!(tree(&format!("{once}// hit(Point::Adopted);\n")), []);
    }

    #[test]
    fn nobody_else_arms_them() {
        let one = "[features]\nfailpoints = [\"failpoint/armed\"]\n";
        assert_eq!(found("crates/cli/Cargo.toml", one), [""; 0]);
        assert_eq!(found("crates/host/Cargo.toml", one), ["2 failpoint"]);
        let default = "[features]\ndefault = [\"failpoints\"]\n";
        assert_eq!(found("crates/cli/Cargo.toml", default), ["2 failpoint"]);
        let direct = "[dependencies]\nfailpoint = { path = \"x\", features = [\"armed\"] }\n";
        assert_eq!(found("crates/host/Cargo.toml", direct), ["2 failpoint"]);
    }
}
