//! Rules about rooms: who may depend on whom, and where SQL may stand. The table of rooms is the
//! drawing of ARCHITECTURE.md as data. Where a runtime may be called by its name is in `names.rs`.

use super::rust::{Kind, pieces, tests_begin};
use super::{File, Finding};

/// What a room may depend on, and what it may never touch.
struct Room {
    name: &'static str,
    /// Crates of this workspace it may use; `None` for all of them.
    ours: Option<&'static [&'static str]>,
    never: &'static [&'static str],
}

const PURE: &[&str] = &["tokio", "rusqlite", "rustix", "libc", "reqwest", "axum", "tempfile"];

const ROOMS: &[Room] = &[
    Room { name: "contract", ours: Some(&[]), never: PURE },
    Room { name: "runtimes", ours: Some(&["contract"]), never: PURE },
    Room { name: "engine", ours: Some(&["contract"]), never: PURE },
    Room { name: "store", ours: Some(&["contract", "failpoint"]), never: &["axum", "reqwest"] },
    Room {
        name: "keeper",
        ours: Some(&["contract", "failpoint"]),
        never: &["tokio", "rusqlite", "axum", "reqwest"],
    },
    Room {
        name: "host",
        ours: Some(&["contract", "runtimes", "engine", "store", "keeper", "failpoint"]),
        never: &["rusqlite", "axum"],
    },
    Room {
        name: "server",
        ours: Some(&["contract", "store", "host", "failpoint", "remote"]),
        never: &["rusqlite"],
    },
    Room { name: "remote", ours: Some(&["contract"]), never: &["rusqlite", "axum"] },
    Room { name: "cli", ours: None, never: &["rusqlite"] },
    Room { name: "failpoint", ours: Some(&[]), never: &["tokio", "rusqlite", "axum", "reqwest"] },
    Room { name: "testkit", ours: Some(&["contract", "engine", "runtimes"]), never: &["rusqlite"] },
    Room { name: "xtask", ours: None, never: &[] },
    // No members of the workspace, and part of nothing that is shipped.
    Room { name: "coverage", ours: None, never: &["rusqlite", "axum", "reqwest"] },
    Room { name: "stranger", ours: Some(&[]), never: &["rusqlite", "axum", "reqwest"] },
];

/// How SQL looks in a literal. Upper case, as it is written in this tree; English is not.
const SQL: [&str; 8] = [
    "SELECT ",
    "INSERT INTO",
    "INSERT OR",
    "DELETE FROM",
    "CREATE TABLE",
    "CREATE INDEX",
    "PRAGMA ",
    "BEGIN IMMEDIATE",
];

pub fn check(file: &File, findings: &mut Vec<Finding>) {
    if let Some(room) = file.path.strip_suffix("/Cargo.toml") {
        dependencies(room.rsplit('/').next().unwrap_or(room), file, findings);
    }
    if file.path.ends_with(".sql") && !file.path.starts_with("crates/store/") {
        let what = "SQL lives in crates/store alone".to_owned();
        findings.push(Finding { path: file.path.clone(), line: 1, rule: "sql", what });
    }
    if file.is_rust() {
        literals(file, findings);
    }
}

/// Whether a crate of this name is one of this tree.
pub fn is_ours(name: &str) -> bool {
    ROOMS.iter().any(|room| room.name == name)
}

fn dependencies(name: &str, file: &File, findings: &mut Vec<Finding>) {
    let mut find = |line: usize, rule: &'static str, what: String| {
        findings.push(Finding { path: file.path.clone(), line, rule, what });
    };
    let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
        let what = "a new crate needs a decision record and a row in xtask/src/tidy/rooms.rs";
        find(1, "rooms", what.into());
        return;
    };
    for dependency in read_dependencies(&file.text) {
        let Dependency { line, name: wanted, for_tests } = dependency;
        let is_ours = is_ours(&wanted);
        let allowed = room.ours.is_none_or(|ours| ours.contains(&wanted.as_str()));
        if is_ours && !allowed && !(for_tests && wanted == "testkit") {
            find(line, "rooms", format!("{name} may not know {wanted}: see ARCHITECTURE.md"));
        }
        if is_ours
            && !for_tests
            && !matches!(name, "xtask" | "coverage")
            && matches!(wanted.as_str(), "testkit" | "xtask")
        {
            find(line, "rooms", format!("{wanted} is for development: make it a dev-dependency"));
        }
        if room.never.contains(&wanted.as_str()) && !for_tests {
            find(line, "rooms", format!("{name} may not touch {wanted}: see ARCHITECTURE.md"));
        }
    }
}

struct Dependency {
    line: usize,
    name: String,
    for_tests: bool,
}

/// The dependencies of a manifest as this tree writes them: one per line, in their tables.
fn read_dependencies(text: &str) -> Vec<Dependency> {
    let mut table = "";
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']');
        } else if table.ends_with("dependencies") && !line.starts_with('#') {
            let name: String =
                line.chars().take_while(|char| !matches!(char, '.' | '=' | ' ')).collect();
            if !name.is_empty() {
                let for_tests = table.ends_with("dev-dependencies");
                found.push(Dependency { line: at + 1, name, for_tests });
            }
        }
    }
    found
}

fn literals(file: &File, findings: &mut Vec<Finding>) {
    let tests = if file.is_test() { 0 } else { tests_begin(&file.text).unwrap_or(usize::MAX) };
    for piece in pieces(&file.text) {
        if piece.kind != Kind::Literal || piece.line >= tests {
            continue;
        }
        let mut find = |rule: &'static str, what: String| {
            findings.push(Finding { path: file.path.clone(), line: piece.line, rule, what });
        };
        if !file.path.starts_with("crates/store/")
            && SQL.iter().any(|word| piece.text.contains(word))
        {
            find("sql", "SQL lives in crates/store alone: give the store a verb or a read".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::found;

    const HEAD: &str = "//! What lives here, in a sentence.\n";

    #[test]
    fn siblings_do_not_know_each_other() {
        let text = "[dependencies]\ncontract.workspace = true\nstore = { path = \"x\" }\n";
        assert_eq!(found("crates/engine/Cargo.toml", text), ["3 rooms"]);
        assert_eq!(found("crates/host/Cargo.toml", text), [""; 0]);
        assert_eq!(found("crates/contract/Cargo.toml", text), ["2 rooms", "3 rooms"]);
    }

    #[test]
    fn pure_rooms_touch_nothing_that_acts() {
        let text = "[dependencies]\ntokio.workspace = true\nlibc.workspace = true\n";
        for (room, findings) in
            [("runtimes", 2), ("engine", 2), ("contract", 2), ("keeper", 1), ("host", 0)]
        {
            assert_eq!(found(&format!("crates/{room}/Cargo.toml"), text).len(), findings, "{room}");
        }
    }

    #[test]
    fn sqlite_is_touched_by_the_store_alone() {
        let text = "[dependencies]\nrusqlite.workspace = true\n";
        for room in ["host", "server", "cli", "keeper", "testkit"] {
            assert_eq!(found(&format!("crates/{room}/Cargo.toml"), text), ["2 rooms"], "{room}");
        }
        assert_eq!(found("crates/store/Cargo.toml", text), [""; 0]);
    }

    #[test]
    fn the_testkit_is_for_tests() {
        let product = "[dependencies]\ntestkit.workspace = true\n";
        let tests = "[dev-dependencies]\ntestkit.workspace = true\n";
        assert_eq!(found("crates/cli/Cargo.toml", product), ["2 rooms"]);
        assert_eq!(found("crates/host/Cargo.toml", tests), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(found("crates/helpers/Cargo.toml", "[package]\n"), ["1 rooms"]);
    }

    #[test]
    fn sql_outside_the_store_is_found_and_english_is_not() {
        let text = format!("{HEAD}const A: &str = \"SELECT id FROM runs\";\n");
        assert_eq!(found("crates/host/src/a.rs", &text), ["2 sql"]);
        assert_eq!(found("crates/store/src/a.rs", &text), [""; 0]);
        assert_eq!(found("web/a.sql", "SELECT 1;\n"), ["1 sql"]);
        let text =
            format!("{HEAD}// SELECT a FROM b\nconst A: &str = \"select one from the list\";\n");
        assert_eq!(found("crates/host/src/a.rs", &text), [""; 0]);
    }
}
