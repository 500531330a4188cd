//! Reads the table of requirements and checks that everything it refers to exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The table itself: `ID | state | statement | evidence, … | note`, the note being optional.
pub const TEXT: &str = include_str!("table.txt");

/// The number of requirements of the source documents.
const ROWS: usize = 255;

/// The state of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Met,
    /// Met in another way than the source asks for, for the reason in a decision record.
    ByDecision,
    /// Only a page of the dashboard is missing.
    Dashboard,
    /// Waits for the sandbox.
    Sandbox,
    NotApplicable,
}

impl State {
    pub const ALL: [State; 5] =
        [State::Met, State::ByDecision, State::Dashboard, State::Sandbox, State::NotApplicable];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Met => "met",
            State::ByDecision => "by decision",
            State::Dashboard => "dashboard",
            State::Sandbox => "sandbox",
            State::NotApplicable => "not applicable",
        }
    }

    fn read(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// One thing that shows a requirement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// A test, or all tests of a module when the name ends with `::`.
    Test { suite: String, name: String },
    /// A page or a program of the repository.
    File(String),
    /// A decision record by its number.
    Decision(String),
}

impl Evidence {
    fn read(text: &str) -> Result<Evidence, String> {
        let (kind, name) =
            text.split_once(':').ok_or_else(|| format!("evidence without a suite: '{text}'"))?;
        Ok(match kind {
            "file" => Evidence::File(name.to_owned()),
            "decision" => Evidence::Decision(name.to_owned()),
            suite => Evidence::Test { suite: suite.to_owned(), name: name.to_owned() },
        })
    }
}

pub struct Row {
    pub id: String,
    pub state: State,
    pub statement: String,
    pub evidence: Vec<Evidence>,
    pub note: Option<String>,
}

/// Reads every row. Lines that begin with `#` are headings and belong to the page.
pub fn read(text: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let row = row(line).map_err(|error| format!("table.txt: {error} in\n  {line}"))?;
        if !seen.insert(row.id.clone()) {
            return Err(format!("table.txt: {} stands there twice", row.id));
        }
        rows.push(row);
    }
    if rows.len() != ROWS {
        return Err(format!("table.txt has {} requirements, expected {ROWS}", rows.len()));
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row, String> {
    let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
    let (id, state, statement, evidence, note) = match parts.as_slice() {
        [id, state, statement, evidence] => (id, state, statement, evidence, None),
        [id, state, statement, evidence, note] => (id, state, statement, evidence, Some(note)),
        other => return Err(format!("expected 4 or 5 columns, found {}", other.len())),
    };
    let state = State::read(state).ok_or_else(|| format!("unknown state '{state}'"))?;
    let evidence = evidence.split(',').map(|item| Evidence::read(item.trim()));
    Ok(Row {
        id: (*id).to_owned(),
        state,
        statement: (*statement).to_owned(),
        evidence: evidence.collect::<Result<_, _>>()?,
        note: note.map(|note| (*note).to_owned()),
    })
}

/// Checks that every test, file and decision of the table exists, so that a renamed test is noticed.
pub fn check(root: &Path, rows: &[Row]) -> Result<(), String> {
    let mut sources = Sources::default();
    let mut missing = Vec::new();
    for row in rows {
        for evidence in &row.evidence {
            if !exists(root, &mut sources, evidence)? {
                missing.push(format!("{}: {evidence:?}", row.id));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("evidence of requirements that does not exist:\n{}", missing.join("\n")))
}

fn exists(root: &Path, sources: &mut Sources, evidence: &Evidence) -> Result<bool, String> {
    match evidence {
        Evidence::File(path) => Ok(root.join(path).is_file()),
        Evidence::Decision(number) => {
            let dir = root.join("docs/decisions");
            Ok(entries(&dir)?.iter().any(|path| file_name(path).starts_with(&format!("{number}-"))))
        }
        Evidence::Test { suite, name } => {
            let dir = directory(suite)
                .ok_or_else(|| format!("unknown suite '{suite}' of test '{name}'"))?;
            Ok(sources.of(&root.join(dir))?.iter().any(|source| source.has(name)))
        }
    }
}

/// Where the sources of a suite are.
fn directory(suite: &str) -> Option<&'static str> {
    Some(match suite {
        "agents" => "crates/cli/tests/agents",
        "bin" => "crates/cli/src",
        "contract" => "crates/contract",
        "e2e" => "crates/cli/tests/e2e",
        "engine" => "crates/engine",
        "host" => "crates/host",
        "keeper" => "crates/keeper",
        "remote" => "crates/remote",
        "runtimes" => "crates/runtimes",
        "server" => "crates/server",
        "store" => "crates/store",
        "testkit" => "crates/testkit",
        "xtask" => "xtask/src",
        _ => return None,
    })
}

/// The source files of each suite, read once.
#[derive(Default)]
struct Sources(Vec<(PathBuf, Vec<Source>)>);

struct Source {
    path: PathBuf,
    text: String,
}

impl Sources {
    fn of(&mut self, dir: &Path) -> Result<&[Source], String> {
        let place = match self.0.iter().position(|(of, _)| of == dir) {
            Some(place) => place,
            None => {
                let mut sources = Vec::new();
                collect(dir, &mut sources)?;
                self.0.push((dir.to_owned(), sources));
                self.0.len() - 1
            }
        };
        Ok(&self.0[place].1)
    }
}

impl Source {
    /// Whether this file defines the test, or is or defines the module.
    fn has(&self, name: &str) -> bool {
        let last = |text: &str| text.rsplit("::").next().unwrap_or(text).to_owned();
        match name.strip_suffix("::") {
            Some(module) => {
                let module = last(module);
                self.path.iter().any(|part| part == module.as_str())
                    || self.path.file_stem().is_some_and(|stem| stem == module.as_str())
                    || self.text.contains(&format!("mod {module} {{"))
            }
            None => self.text.contains(&format!("fn {}(", last(name))),
        }
    }
}

fn collect(dir: &Path, sources: &mut Vec<Source>) -> Result<(), String> {
    for path in entries(dir)? {
        if path.is_dir() {
            collect(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("read {}: {error}", path.display()))?;
            sources.push(Source { path, text });
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("read {}: {error}", dir.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_has_existing_evidence() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
        let rows = read(TEXT).expect("the table");
        check(root, &rows).expect("the evidence");
    }

    #[test]
    fn wrong_rows_are_refused() {
        assert!(row("S0-1 | met | words").is_err());
        assert!(row("S0-1 | done | words | e2e:a::b").is_err());
        assert!(row("S0-1 | met | words | a test").is_err());
        let row = row("S0-1 | met | words | e2e:a::b, file:x.md | note").expect("a row");
        assert_eq!(row.evidence.len(), 2);
        assert_eq!(row.note.as_deref(), Some("note"));
    }

    #[test]
    fn missing_tests_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
        let rows = [row("S0-1 | met | words | xtask:requirements::no_such_test").expect("a row")];
        assert!(check(root, &rows).is_err());
        // The name is put together so that this file does not define it.
        let rows = [row("S0-1 | met | words | file:README.md").expect("a row")];
        assert!(check(root, &rows).is_ok());
    }
}
